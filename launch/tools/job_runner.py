"""Runs the jobs of a list in run folders of their own, and finds out what an earlier, interrupted
run has left of them."""

import collections
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

from job_list import UserError, as_text, train_words

POLL_SECONDS = 0.02
SECONDS_TO_END = 10  # after SIGTERM, before SIGKILL
RECORD = "job.json"  # the job's identity and, once it is done, what it took
UNFINISHED_RECORD = ".job.json"
LOG = "log.txt"


def read_object(path):
    """The JSON object in `path`; None if it is not there or no object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write_record(folder, record):
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / UNFINISHED_RECORD
    unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder / RECORD)


def identity_of(record):
    return {key: record.get(key) for key in ("launcher", "dataset", "options", "seed")}


def summary_of(job, out):
    """The measurements of a finished job; None if it has not finished."""
    return read_object(job.folder(out) / "summary.json")


def changed_jobs(jobs, out):
    """The jobs whose folder holds a run of another command, with that command as text."""
    changed = []
    for job in jobs:
        folder = job.folder(out)
        record = read_object(folder / RECORD)
        if record is None:
            if folder.is_dir() and set(os.listdir(folder)) - {UNFINISHED_RECORD}:
                raise UserError(f"{folder}: holds files but no {RECORD}, so no list of jobs has "
                                "made it; remove it or choose another --out")
            continue
        try:
            if identity_of(record) != job.identity():
                changed.append((job, as_text(identity_of(record))))
        except (TypeError, AttributeError) as error:
            raise UserError(f"{folder / RECORD}: is damaged; remove the folder") from error
    return changed


def require_unchanged(jobs, out):
    for job, old in changed_jobs(jobs, out):
        raise UserError(f"{job.folder(out)}: holds a run of\n  {old}\nbut the list says now\n"
                        f"  {as_text(job.identity())}\nUse run --replace to run what has changed "
                        "again, or choose another --out")


def command_of(job, out, program):
    """The words to run; goes on from a checkpoint if there is one. The folder of a new run holds
    the job's record, which --overwrite leaves alone."""
    folder = job.folder(out)
    words = list(job.launcher) + [program] + train_words(job.identity())
    resumes = any((folder / "checkpoint").glob("epoch-*.safetensors"))
    return words + ["--run-dir", str(folder), "--resume" if resumes else "--overwrite"]


def prepare_folder(job, out, resumes):
    """Without a checkpoint nothing of a broken run is kept but its output."""
    folder = job.folder(out)
    if folder.exists() and not resumes:
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in (RECORD, LOG):
                entry.unlink()
    write_record(folder, job.identity())


def format_seconds(seconds):
    seconds = round(seconds)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


class Running:
    """A job at work, with its output in its log."""

    def __init__(self, job, out, program, lock):
        self.job = job
        self.folder = job.folder(out)
        words = command_of(job, out, program)
        self.resumed = words[-1] == "--resume"
        prepare_folder(job, out, self.resumed)
        self.start = time.monotonic()
        with open(self.folder / LOG, "ab") as log:
            log.write(f"$ {shlex.join(words)}\n".encode())
            log.flush()
            # A session of its own: Ctrl-C reaches this program only, which then ends the job. The
            # lock is handed on, so that a job that outlives this program keeps others away.
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, pass_fds=(lock,))

    def seconds(self):
        return time.monotonic() - self.start

    def finish(self):
        """Summary and None of a job that has ended well, otherwise None and what went wrong."""
        code = self.process.returncode
        summary = read_object(self.folder / "summary.json")
        if code == 0 and summary is not None:
            record = self.job.identity()
            if not self.resumed:
                record["seconds"] = self.seconds()
            write_record(self.folder, record)
            return summary, None
        # A summary left by a job that says it failed must not make it count as done.
        (self.folder / "summary.json").unlink(missing_ok=True)
        lines = (self.folder / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")
        return None, (f"exit code {code}" if code else "no summary.json") + f": {last}"

    def end(self, signal_number):
        try:
            os.killpg(self.process.pid, signal_number)
        except ProcessLookupError:
            pass


class Runner:
    """Runs jobs, several at once if asked to, until all are done, a signal comes or time is up."""

    def __init__(self, out, program, at_once, limit_minutes):
        self.out = pathlib.Path(out)
        self.program = program
        self.at_once = at_once
        self.deadline = time.monotonic() + 60 * limit_minutes if limit_minutes else float("inf")
        self.running = []
        self.failed = []  # (job, what went wrong)
        self.done = 0
        self.total = 0
        self.seconds = collections.defaultdict(list)  # group -> what its finished jobs took
        self.stopped_by = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.stop)

    def stop(self, number, _frame):
        self.stopped_by = signal.Signals(number)

    def must_stop(self):
        return self.stopped_by is not None or time.monotonic() >= self.deadline

    def take_lock(self):
        """Only one list runs in a folder. Jobs that a killed list has left hold its lock: they are
        waited for. Returns None if it must stop before that."""
        self.out.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.out / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        told = False
        while not self.must_stop():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                if not told:
                    print(f"{self.out}: another list, or a job that a killed one has left, is at "
                          "work there; waiting for its end", flush=True)
                told = True
                time.sleep(POLL_SECONDS)
        os.close(lock)
        return None

    def run(self, jobs, lock):
        """Runs the jobs that are not done. The lock is one of take_lock."""
        self.total = len(jobs)
        waiting = collections.deque()
        for job in jobs:
            if summary_of(job, self.out) is None:
                waiting.append(job)
                continue
            self.done += 1
            seconds = (read_object(job.folder(self.out) / RECORD) or {}).get("seconds")
            if isinstance(seconds, (int, float)):
                self.seconds[job.group].append(seconds)
        if self.done:
            print(f"{self.done} of {self.total} jobs were done before", flush=True)
        try:
            while (waiting or self.running) and not self.must_stop():
                while waiting and len(self.running) < self.at_once:
                    self.running.append(Running(waiting.popleft(), self.out, self.program, lock))
                time.sleep(POLL_SECONDS)
                for job in [job for job in self.running if job.process.poll() is not None]:
                    self.running.remove(job)
                    self.collect(job, waiting)
        finally:
            self.end_running()

    def collect(self, running, waiting):
        seconds = running.seconds()
        summary, problem = running.finish()
        if problem is not None:
            self.failed.append((running.job, problem))
            self.say(f"FAILED {running.job.title}: {problem}", keep=True)
            return
        self.done += 1
        if not running.resumed:
            self.seconds[running.job.group].append(seconds)
        test = summary.get("test")
        result = f"test {test:.4f}" if isinstance(test, (int, float)) else "no test score"
        self.say(f"{self.done}/{self.total} {running.job.title}: {result} in {seconds:.1f} s"
                 f"{self.time_left(waiting)}")

    def time_left(self, waiting):
        known = [seconds for group in self.seconds.values() for seconds in group]
        if not known:
            return ""
        expected = {group: statistics.fmean(seconds) for group, seconds in self.seconds.items()
                    if seconds}
        left = 0
        for job in [*waiting, *(running.job for running in self.running)]:
            left += expected.get(job.group, statistics.fmean(known))
        return f"; about {format_seconds(left / self.at_once)} left"

    @staticmethod
    def say(text, keep=False):
        """On a terminal one line that changes, but for what must be kept."""
        if sys.stdout.isatty():
            print(f"\r\033[K{text}", end="\n" if keep else "", flush=True)
        else:
            print(text, flush=True)

    def end_running(self):
        for job in self.running:
            job.end(signal.SIGTERM)
        for job in self.running:
            try:
                job.process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                job.end(signal.SIGKILL)
                job.process.wait()
        if sys.stdout.isatty():
            print()
