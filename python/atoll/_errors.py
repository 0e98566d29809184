"""Errors of the engine as exceptions."""


class AtollError(RuntimeError):
    """A command failed: `exit_code` as that of the program, 1 for a failure of device, network or
    another rank."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


class InputError(AtollError, ValueError):
    """What was asked for can't be done: an option, a file or an array is wrong, or memory is too
    small. The message names place, value and what is allowed."""

    def __init__(self, message, exit_code=2):
        super().__init__(message, exit_code)


def failure(message, exit_code):
    """The exception for a command that ended with `exit_code`, which is not 0."""
    return InputError(message) if exit_code == 2 else AtollError(message, exit_code)
