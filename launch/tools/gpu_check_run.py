"""Runs programs for gpu-check.sh: under limits, beside each other, and none that outlives the call."""

import contextlib
import os
import signal
import subprocess
import threading
import time

from gpu_check_list import DATASETS

SECONDS_TO_END = 3  # after SIGTERM, before SIGKILL


class Deadline:
    """When this call must be over; seconds_at_end are kept for writing the results."""

    def __init__(self, started, minutes, seconds_at_end):
        self.started = started
        self.end = started + 60 * minutes - seconds_at_end if minutes else None

    def left(self):
        """Seconds for checks; None: no end."""
        return None if self.end is None else max(0.0, self.end - time.time())

    def allows(self, seconds):
        left = self.left()
        return left is None or seconds <= left

    def limit(self, seconds):
        left = self.left()
        return seconds if left is None else min(seconds, left)


class Processes:
    """Programs at work, each in a process group of its own, so that its children end with it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.ended = False

    def run(self, words, log, limit, environment=None, kindly=False, errors=None):
        """Exit code and seconds; the code is None if the limit ended it. kindly: behind others.
        errors: a file for what goes to standard error, else the log."""
        start = time.time()
        with open(log, "wb") as output, \
                (open(errors, "wb") if errors else contextlib.nullcontext()) as error, self.lock:
            if self.ended:
                return None, 0.0
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=error or subprocess.STDOUT,
                start_new_session=True, env={**os.environ, **(environment or {})},
                preexec_fn=(lambda: os.nice(10)) if kindly else None)
            self.running.add(process)
        try:
            code = process.wait(timeout=max(0.0, limit))
        except subprocess.TimeoutExpired:
            end_group(process)
            code = None
        finally:
            end_group(process)  # what it has left behind
            with self.lock:
                self.running.discard(process)
        return code, time.time() - start

    def end_all(self):
        with self.lock:
            self.ended = True
            running = list(self.running)
        for process in running:
            end_group(process)


def end_group(process):
    """Ends the process and all of its group; waits no longer than it must."""
    for number, seconds in ((signal.SIGTERM, SECONDS_TO_END), (signal.SIGKILL, 1)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            continue


def words_of_code(code, limit):
    """Why a program failed; nothing for 0."""
    if code is None:
        return f"ended after {limit:.0f} s, its limit or all that was left"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}" if code else ""


class Preparation:
    """Makes data sets beside the checks, in the order in which checks need them. Each item is
    (dataset, parts); a folder that is there already is used."""

    def __init__(self, items, build, scale, folder_of, logs, processes, deadline):
        self.items, self.build, self.scale, self.folder_of = items, build, scale, folder_of
        self.logs, self.processes, self.deadline = logs, processes, deadline
        self.changed = threading.Condition()
        self.state = {}  # item -> "" once it is ready, else why it can't be
        self.working_on = ""
        self.thread = threading.Thread(target=self._work, daemon=True)

    def start(self):
        self.thread.start()

    def wait(self, seconds):
        """Until anything has changed."""
        with self.changed:
            self.changed.wait(seconds)

    def finished(self):
        return not self.thread.is_alive()

    def _work(self):
        try:
            for item in self.items:
                self._set(item, self._make(*item))
        except OSError as error:
            self._set_rest(str(error))
        finally:
            self._set_rest("its preparation ended early")

    def _set(self, item, problem):
        with self.changed:
            self.state[item] = problem
            self.working_on = ""
            self.changed.notify_all()

    def _set_rest(self, problem):
        for item in self.items:
            if item not in self.state:
                self._set(item, problem)

    def _make(self, dataset, parts):
        """Why it can't be made, or nothing."""
        folder = self.folder_of(dataset)
        if not os.path.exists(os.path.join(folder, "dataset.json")):
            problem = self._step(f"generate_{dataset}", [
                "generate", *DATASETS[dataset], "--scale", str(self.scale), "--out", folder])
            if problem:
                return problem
        return self._step(f"partition_{dataset}_{parts}",
                          ["partition", folder, "--parts", str(parts)])

    def _step(self, name, words):
        self.working_on = name
        start = time.time()
        limit = self.deadline.limit(3600)
        log = os.path.join(self.logs, f"{name}.txt")
        code, seconds = self.processes.run([f"{self.build}/atoll", *words], log, limit,
                                           {"OMP_NUM_THREADS": str(threads_beside())}, kindly=True)
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"\n{seconds:.1f} s\n")
        return "" if code == 0 else f"{name}: {words_of_code(code, time.time() - start)}; see {log}"


def threads_beside():
    """Preparation leaves a few cores to what drives the device."""
    return max(1, len(os.sched_getaffinity(0)) - 4)
