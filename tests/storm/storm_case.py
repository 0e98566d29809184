"""One case of a storm: its folder, the log of what was done in it, its random numbers, and what
counts as a violation."""

import hashlib
import json
import os
import random
import shutil
import threading

from jobs import Job

# Where a program names itself in what it prints.
ERROR = "atoll: error:"


class Violation(Exception):
    """The engine broke a promise. `kind` is the word under which the summary counts it."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Log:
    """The commands and signals of a case, in order."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


class Case:
    """The folder of a case and what it may do there. Everything random comes from `random`, which
    depends on the seed and the number of the case alone."""

    def __init__(self, program, storm, seed, number, folder):
        self.program = program
        self.number = number
        self.random = random.Random(f"{seed} {storm} {number}")
        self.folder = folder
        self.log = Log()
        self.counts = {}
        self.jobs = []
        os.makedirs(folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def count(self, name, number=1):
        self.counts[name] = self.counts.get(name, 0) + number

    def start(self, arguments, ranks=0, prefix=()):
        return self.start_command(self.program.command(arguments, ranks), prefix)

    def start_command(self, command, prefix=()):
        job = Job(self.program, command, self.folder, self.log, prefix)
        self.jobs.append(job)
        return job

    def finish(self, job, seconds=None):
        """Waits for a job's end and returns its exit code. That it hangs or leaves processes is a
        violation."""
        code = job.wait(*([seconds] if seconds else []))
        if code is None:
            job.orphans(0)
            job.wait(10)
            raise Violation("hang", f"no end after {job.elapsed():.0f} s")
        left = job.orphans()
        if left:
            self.count("orphans", len(left))
            raise Violation("orphan", "; ".join(left))
        return code

    def run(self, arguments, ranks=0, expected=0):
        """Runs a command to its end; any other exit code than expected is a violation."""
        job = self.start(arguments, ranks)
        code = self.finish(job)
        if code != expected:
            raise Violation("refused", f"exit code {code}, expected {expected}: "
                            f"{last_lines(job.output())}")
        return job

    def clean(self):
        """Kills what is left, however the case ended."""
        for job in self.jobs:
            job.orphans(0)
            if job.running():
                job.wait(10)

    def keep(self, text):
        with open(self.path("storm-log.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join([*self.log.lines, "", text, ""]))


class StormFailure(Exception):
    """The run that a storm compares with could not be made: there is nothing to judge by."""


class Shared:
    """Values that many cases need and one of them makes."""

    def __init__(self):
        self._lock = threading.Lock()
        self._values = {}

    def get(self, name, make):
        with self._lock:
            if name not in self._values:
                try:
                    self._values[name] = make()
                except Exception as error:
                    raise StormFailure(f"{error}") from error
            return self._values[name]


def last_lines(text, count=4):
    """A command's last words: its errors if it named any."""
    lines = text.strip().split("\n")
    errors = [line for line in lines if ERROR in line]
    return " | ".join((errors or lines)[-count:])[:1500]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_json(path):
    return json.loads(read(path))


def tree(folder, change=None):
    """{relative path: digest} of every file below folder, None for folders. `change` may replace
    a file's content first: (path, content) -> content. The harness's own files don't count."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(place, name), folder)] = None
        for name in files:
            if name.startswith(".storm-"):
                continue
            path = os.path.join(place, name)
            content = read(path)
            key = os.path.relpath(path, folder)
            found[key] = hashlib.sha256(change(key, content) if change else content).hexdigest()
    return found


def differences(found, expected):
    """The differences between two trees, in words; empty if nothing does."""
    lines = [f"{path} is missing" for path in sorted(set(expected) - set(found))]
    lines += [f"{path} is left over" for path in sorted(set(found) - set(expected))]
    lines += [f"{path} differs" for path in sorted(set(found) & set(expected))
              if found[path] != expected[path]]
    return "; ".join(lines)


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
