"""Errors of the engine as exceptions."""


class AtollError(RuntimeError):
    """A command failed. `exit_code` is that of the program: 1 if a device, the network or another
    rank failed."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


class InputError(AtollError, ValueError):
    """The request can't be carried out: an option, a file or an array is wrong, or there is too
    little memory. The message names the place, the value found and the values allowed."""

    def __init__(self, message, exit_code=2):
        super().__init__(message, exit_code)


def failure(message, exit_code):
    """The exception for a command that ended with `exit_code`, which is not 0."""
    return InputError(message) if exit_code == 2 else AtollError(message, exit_code)
