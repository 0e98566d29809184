"""Runs commands of Atoll: in a thread of this process, or as a program, perhaps under a launcher."""

import atexit
import contextlib
import functools
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import weakref

from atoll._errors import AtollError, InputError, failure, in_python

try:
    from atoll import _engine
except ImportError:  # a source tree without the compiled part: the program does everything
    _engine = None

log = logging.getLogger("atoll")

POLL = 0.1  # seconds between looks at a command that runs
LAST_WAIT = 60  # seconds that the end of Python waits for the epoch of a training that still runs


def program_path():
    """Path of the program `atoll`: $ATOLL_PROGRAM, the one in this package, or the one in PATH."""
    named = os.environ.get("ATOLL_PROGRAM")
    carried = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "atoll")
    if named:
        found = shutil.which(named)
    elif os.path.exists(carried):
        found = carried
    else:
        found = shutil.which("atoll")
    if found is None:
        raise InputError(f"the program atoll was not found ({named or carried}); set ATOLL_PROGRAM "
                         "to its path")
    return found


def main():
    """The program that the package carries, as the script `atoll`."""
    try:
        program = program_path()
    except AtollError as error:
        sys.exit(f"atoll: error: {error}")
    os.execv(program, ["atoll", *sys.argv[1:]])


def environment():
    """Variables for the program. They let Open MPI start as root, which containers need, and with
    more ranks than cores."""
    variables = dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1")
    if os.geteuid() == 0:
        variables.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return variables


_RENAMED = []  # of each renamed() its pairs


@contextlib.contextmanager
def renamed(*pairs):
    """Within it, what commands say has the second of each pair for the first, a pattern: names of
    arguments instead of temporary files."""
    _RENAMED.append(pairs)
    try:
        yield
    finally:
        _RENAMED.remove(pairs)


def _shown(text):
    for pattern, replacement in (pair for pairs in list(_RENAMED) for pair in pairs):
        text = re.sub(pattern, replacement, text)
    return text


def tell(is_warning, line):
    """One line of the engine's log."""
    line = in_python(_shown(line))
    if is_warning:
        warnings.warn(line, stacklevel=2)
    else:
        log.info("%s", line)


_RUNNING = weakref.WeakSet()  # commands in threads of this process


@atexit.register
def _end_running():
    """Python ends while a thread trains: as after Ctrl-C, its epoch is the last one and is kept."""
    waiting = [command for command in list(_RUNNING) if not command.wait(0)]
    if not waiting:
        return
    log.warning("Python ends while a training runs: stopping after this epoch; Ctrl-C to stop now")
    end = time.monotonic() + LAST_WAIT
    try:
        for command in waiting:
            command.stop()
            while not command.wait(POLL) and time.monotonic() < end:
                pass
    except KeyboardInterrupt:
        pass
    # The engine leaves alone what still runs then: see engine.cpp.


class InProcess:
    """A command in a thread of this process."""

    def __init__(self, words, variables=None, functions=None):
        for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
            if os.environ.get(variable, "").isdigit() and int(os.environ[variable]) > 1:
                raise InputError(f"a launcher has started several copies of this process "
                                 f"({variable} is {os.environ[variable]}); start a single process, "
                                 "and let it start the ranks: train(..., launcher='mpirun')")
        # One command runs at a time, so these are its own.
        self._variables = list(variables or {})
        os.environ.update(variables or {})
        self._command = _engine.Command(list(words), *(functions.for_engine() if functions else ()))
        _RUNNING.add(self)

    def wait(self, seconds):
        done = self._command.wait(seconds)
        for is_warning, line in _engine.take_log():
            tell(is_warning, line)
        return done

    def stop(self):
        _engine.stop()

    def result(self):
        for name in self._variables:
            os.environ.pop(name, None)
        return self._command.outcome()


class Process:
    """A program as a process of its own."""

    def __init__(self, words, variables=None):
        self._words = list(words)
        # A file, not a pipe: nothing has to be read while it runs.
        self._output = tempfile.TemporaryFile()
        self._errors = tempfile.TemporaryFile()
        try:
            # A group of its own: Ctrl-C in a terminal is handed on in the way that the launcher
            # understands.
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors,
                env={**environment(), **(variables or {})}, start_new_session=True)
        except OSError as error:
            raise InputError(f"{self._words[0]} can't be started: {error.strerror}") from error

    def wait(self, seconds):
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        # mpirun hands SIGUSR1 on at once and kills nobody, unlike SIGINT.
        self._process.send_signal(signal.SIGUSR1)

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self, file):
        file.seek(0)
        return file.read().decode(errors="replace")

    def result(self):
        code = self._process.wait()
        code = 128 - code if code < 0 else code
        message = ""
        errors = self._read(self._errors)
        for line in errors.splitlines():
            head, found, text = line.partition("error: ")
            if found and head.startswith(("atoll", "[")) and not message:
                message = text
            elif "] warning " in line:
                tell(True, line.split("] warning ", 1)[1])
            elif "] info " in line:
                tell(False, line.split("] info ", 1)[1])
        if code != 0 and not message:
            message = f"{shlex.join(self._words)} ended with exit code {code}: {errors.strip()[-2000:]}"
        output = self._read(self._output)
        self._output.close()
        self._errors.close()
        return code, output, message


class MeasuredProcess(Process):
    """One that says what it took: `seconds`, `cpu_seconds` and `peak_bytes` of memory."""

    def __init__(self, words, variables=None):
        self._begin = time.monotonic()
        super().__init__(words, variables)

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while self._process.returncode is None:
            # The kernel tells usage only to the one who waits for the process: not by Popen.
            process, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if process != 0:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.seconds = time.monotonic() - self._begin
                self.cpu_seconds = used.ru_utime + used.ru_stime
                self.peak_bytes = used.ru_maxrss * 1024
            elif time.monotonic() >= end:
                return False
            else:
                time.sleep(0.005)
        return True


_refusal = None


def refuse_commands(why):
    """From now on this process starts none."""
    global _refusal
    _refusal = why


def start(words, launcher=None, variables=None, functions=None):
    """A running command. launcher: None for this process, [] for one of its own, or its words.
    variables: of its environment, beside those of this process. functions: a Functions of the
    caller's, or None."""
    if _refusal is not None:
        raise InputError(_refusal)
    if functions:
        if _engine is None:
            raise InputError("loss, metric: functions need the compiled part of the package, which is "
                             "not here; build it (pip install .)")
        if words[0] == "launch":
            raise InputError("loss, metric: functions can't be taken to the ranks of `atoll launch`; "
                             "allowed are the launchers 'threads', 'mpirun' and a list of words")
    if launcher is None and _engine is not None:
        return InProcess(words, variables, functions)
    program, more = functions.program() if functions else ([program_path()], {})
    return Process([*(launcher or []), *program, *words], {**more, **(variables or {})})


def run(words, launcher=None, variables=None):
    """Runs a command to its end and returns its output. Arguments are those of start(). Raises
    AtollError if it fails."""
    return output_of(start([str(word) for word in words], launcher, variables))


def output_of(command):
    """The output of a command that runs, when it has ended. Raises AtollError if it has failed."""
    interrupted = False
    while True:
        try:
            while not command.wait(POLL):
                pass
            break
        except KeyboardInterrupt:
            if interrupted and hasattr(command, "kill"):
                command.kill()
            else:
                command.stop()
            interrupted = True
    code, output, error = command.result()
    if interrupted:
        raise KeyboardInterrupt
    if code != 0:
        raise failure(_shown(error), code)
    return output


@functools.lru_cache(maxsize=None)
def reference():
    """The output of `atoll reference --json` on commands, options and metrics. It is asked for when it is
    first needed, and once: importing the package takes no longer for it, and it fits the program that
    is there, which a list made while the package is built may not."""
    return json.loads(run(["reference", "--json"], []) if _engine is None else _engine.reference())


def option_rows(command):
    """name, group, help, default, is_flag, ... of every option of a command, by name."""
    commands = {row["name"]: row for row in reference()["commands"]}
    if command not in commands:
        raise InputError(f"there is no command {command!r}; allowed are {', '.join(commands)}")
    return {row["name"]: row for row in commands[command]["options"]}


def options(command="train"):
    """The options of a command as a table: name (as a keyword of atoll.train), default, group and
    help."""
    from atoll._table import Table
    rows = option_rows(command).values()
    return Table({"option": [row["name"].replace("-", "_") for row in rows],
                  "default": [row["default"] for row in rows],
                  "group": [row["group"] for row in rows],
                  "help": [row["help"] for row in rows]})


def option_words(command, values):
    """Keywords as words of a command line: hidden=64 is --hidden 64, trace=True --trace."""
    words = []
    known = option_rows(command) if any(isinstance(value, bool) for value in values.values()) else {}
    for keyword, value in values.items():
        name = keyword.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            # Flags have no value, words may stand for one, switches are on or off.
            row = known.get(name, {})
            if row.get("is_flag"):
                words += [f"--{name}"] if value else []
                continue
            if "alone" in row:
                value = row["alone"] if value else row["default"]
            else:
                value = "on" if value else "off"
        elif isinstance(value, (list, tuple, range)) or hasattr(value, "tolist"):
            if hasattr(value, "tolist"):  # arrays, tensors and their numbers
                value = value.tolist()
            value = value if isinstance(value, (list, tuple, range)) else [value]
            value = ",".join(str(item) for item in value)
        elif isinstance(value, float):
            value = repr(value)
        words.append(f"--{name}={os.fspath(value) if hasattr(value, '__fspath__') else value}")
    return words
