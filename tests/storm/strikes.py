"""Blows: which signal a job gets, which of its processes, and when."""

import os
import re
import signal
from dataclasses import dataclass

from trainings import RANKS

SIGNALS = [signal.SIGKILL] * 3 + [signal.SIGTERM, signal.SIGINT]


@dataclass
class Blow:
    number: int
    target: str
    twice: bool
    epochs: int  # that this job had told of shortly before

    @property
    def polite(self):
        return self.number != signal.SIGKILL


def strike(case, job, seconds, ranks, watched="run"):
    """Kills the job at a random moment of its `seconds`, or while it writes into the case's folder
    `watched`. None if the job ended before that."""
    number = case.random.choice(SIGNALS)
    target = case.random.choice(["rank", "launcher", "all"]) if ranks else "launcher"
    rank = case.random.randrange(ranks or RANKS)
    again = case.random.random() < 0.2
    moment = case.random.uniform(0, seconds)
    changes = case.random.randint(1, 30)
    if case.random.random() < 0.7:
        alive = job.sleep_until(moment)
    else:
        alive = watch_changes(job, case.path(watched), changes)
    blow = Blow(number, target, again and number != signal.SIGKILL, epochs_of(job))
    if not alive or not job.running():
        return None
    job.send(number, target, rank)
    if blow.twice:
        job.send(number, target, rank)
    case.count("kills")
    case.count("polite", int(blow.polite))
    return blow


def watch_changes(job, folder, changes):
    """Waits until names in the folder, beside it, or in its checkpoints have changed that often:
    when something is being written. False if the job ends before."""
    places = (os.path.dirname(folder), folder, os.path.join(folder, "checkpoint"))
    seen = {}
    left = changes

    def changed():
        nonlocal left
        for place in places:
            try:
                now = os.stat(place).st_mtime_ns
            except OSError:
                continue
            if seen.get(place) != now:
                seen[place] = now
                left -= 1
        return left <= 0

    return job.watch(changed)


def epochs_of(job):
    """The epoch of a job's last line about one; 0 if its training had not begun."""
    return int((re.findall(r"^epoch (\d+)/", job.errors(), re.MULTILINE) or [0])[-1])


def lines_of(run):
    """Epochs that metrics.jsonl has whole lines of."""
    path = os.path.join(run, "metrics.jsonl")
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        return file.read().count(b"\n")
