"""Jobs of the program under test: started with a mark in their environment by which every process
of theirs can be found again in /proc, killed at a chosen moment, and waited for with a deadline."""

import os
import shlex
import signal
import subprocess
import time
import uuid

MARK = "ATOLL_STORM_JOB"
LONGEST = 60   # seconds that any command may take; all of them need a second or two
ORPHANS = 5    # seconds after which no process of an ended job may be left
TICK = 0.0005  # seconds between two looks at a folder that is being watched


class Program:
    """The program, the launcher, and the environment that jobs run in."""

    def __init__(self, atoll, mpiexec="mpirun"):
        self.atoll = os.path.abspath(atoll)
        self.mpiexec = mpiexec
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("OMPI_COMM_WORLD", "PMIX_", "PMI_"))}
        self.environment.update(
            OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")

    def command(self, arguments, ranks=0):
        """The words of a command line, under the launcher if ranks > 0."""
        launcher = [self.mpiexec, "--bind-to", "none", "-n", str(ranks)] if ranks else []
        return launcher + [self.atoll] + [str(argument) for argument in arguments]


class Job:
    """A started command. Its output goes to files, so that a process which outlives its parent
    blocks nobody."""

    def __init__(self, program, command, folder, log, prefix=()):
        self.mark = uuid.uuid4().hex
        self.alone = command[0] == program.atoll  # no launcher above it
        self.log = log
        self.begin = time.monotonic()
        self.outputs = [os.path.join(folder, f".storm-{self.mark}.{name}") for name in "oe"]
        log.say("$ " + shlex.join(command))
        with open(self.outputs[0], "wb") as out, open(self.outputs[1], "wb") as err:
            self.process = subprocess.Popen(
                [*prefix, *command], cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                env=dict(program.environment, **{MARK: self.mark}), start_new_session=True)

    def elapsed(self):
        return time.monotonic() - self.begin

    def processes(self):
        """{pid: rank} of what is alive of this job; rank is None for the launcher and for a
        program that runs alone."""
        found = {}
        wanted = f"{MARK}={self.mark}".encode()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            if wanted in variables:
                rank = [value for value in variables if value.startswith(b"OMPI_COMM_WORLD_RANK=")]
                found[int(name)] = int(rank[0].split(b"=")[1]) if rank else None
        return found

    def send(self, number, target, rank=0):
        """Sends a signal to `target`: "launcher" (the process that was started), "rank" (that one;
        the launcher where there are no ranks) or "all"."""
        processes = self.processes()
        pids = list(processes)
        if target == "launcher":
            pids = [self.process.pid]
        elif target == "rank":
            pids = [pid for pid, found in processes.items() if found == rank] or [self.process.pid]
        self.log.say(f"# {self.elapsed():.3f} s: {signal.Signals(number).name} to {target}"
                     f"{f' {rank}' if target == 'rank' else ''}, {len(pids)} of "
                     f"{len(processes)} processes")
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return len(pids)

    def running(self):
        return self.process.poll() is None

    def sleep_until(self, moment):
        """Waits until `moment` seconds after the start; False if the job ended before."""
        try:
            self.process.wait(max(0.0, moment - self.elapsed()))
            return False
        except subprocess.TimeoutExpired:
            return True

    def watch(self, ready, seconds=LONGEST):
        """Waits until ready() is true; False if the job ended, or the time, before that."""
        end = time.monotonic() + seconds
        while self.running() and time.monotonic() < end:
            if ready():
                return True
            time.sleep(TICK)
        return False

    def wait(self, seconds=LONGEST):
        """The exit code (negative: the signal that ended it), or None if it hangs."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self.log.say(f"# {self.elapsed():.3f} s: exit code {code}")
        return code

    def orphans(self, seconds=ORPHANS):
        """Processes left of the job after so many seconds, as lines; they are killed then."""
        end = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.01)
        lines = []
        for pid, rank in left.items():
            lines.append(f"process {pid} (rank {rank}) {state_of(pid)}")
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return lines

    def output(self):
        """Standard output and standard error, as text."""
        return self._text(0) + self.errors()

    def errors(self):
        return self._text(1)

    def _text(self, index):
        with open(self.outputs[index], "rb") as file:
            return file.read().decode(errors="replace")

    def forget(self):
        for path in self.outputs:
            if os.path.exists(path):
                os.remove(path)


def state_of(pid):
    """A process's state, as far as the kernel tells."""
    words = []
    for name in ("stat", "wchan", "syscall"):
        try:
            with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
                words.append(file.read().strip()[:80])
        except OSError:
            pass
    return ", ".join(words) or "has gone"
