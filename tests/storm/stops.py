"""Jobs that are stopped and continued, run folders that two jobs want at once, and run folders that
vanish: what no kill shows."""

import os
import shutil
import signal
import time

from storm_case import Violation, last_lines
from strikes import lines_of
from trainings import MODELS, RANKS

TIMEOUT = 2  # of --timeout
SLACK = 6    # seconds until all have ended after that


def some_training(storm, case, transports=("mpi",)):
    return storm.training(case.random.choice(list(MODELS)),
                          case.random.choice(["exact", "adaptive"]), case.random.choice(transports))


def stop_rank(storm, case):
    """A rank that stops is named within --timeout, all ranks end, and the run can be resumed."""
    training = some_training(storm, case)
    training.prepare(case, cut=case.random.random() < 0.5)
    arguments = training.arguments("run", "5", "--timeout", TIMEOUT)
    rank = case.random.randrange(RANKS)
    job = case.start(arguments, training.ranks)
    # From the first line on that it prints: a rank that stops before the ranks have met is the
    # launcher's matter.
    if not job.watch(job.errors):
        return
    if not job.sleep_until(job.elapsed() + case.random.uniform(0, 0.6) * training.seconds):
        return
    begin = time.monotonic()
    job.send(signal.SIGSTOP, "rank", rank)
    if lines_of(case.path("run")) == len(training.metrics):
        job.send(signal.SIGCONT, "rank", rank)  # all is done: nobody waits for it any more
    case.count("stops")
    code = case.finish(job, TIMEOUT + SLACK)
    if code == 0 and lines_of(case.path("run")) == len(training.metrics):
        return training.compare(case)
    if code == 0 or f"rank {rank}" not in job.output():
        raise Violation("unnamed", f"rank {rank} was stopped; exit code {code} after "
                        f"{time.monotonic() - begin:.1f} s: {last_lines(job.output())}")
    case.run(training.arguments("run", "5", "--resume"), training.ranks)
    case.count("resumed")
    return training.compare(case)


def pause(storm, case):
    """A job that stops for less than --timeout and goes on ends as if it never had."""
    training = some_training(storm, case, ("mpi", "local"))
    training.prepare(case, cut=True)
    job = case.start(training.arguments("run", "5", "--timeout", 20), training.ranks)
    target = case.random.choice(["rank", "all"])
    rank = case.random.randrange(RANKS)
    if job.sleep_until(case.random.uniform(0.1, 0.9) * training.seconds):
        job.send(signal.SIGSTOP, target, rank)
        case.count("stops")
        time.sleep(case.random.uniform(0.1, 1.5))
        job.send(signal.SIGCONT, target, rank)
    code = case.finish(job)
    if code != 0:
        raise Violation("refused", f"exit code {code}: {last_lines(job.output())}")
    training.compare(case)


def thaw(storm, case):
    """A job is stopped as a whole, another one takes its run over and ends it, the first one wakes
    up: it must not touch the folder. Without --take-over it is the second one that is refused."""
    training = some_training(storm, case, ("mpi", "local"))
    training.prepare(case, cut=True)
    old = case.start(training.arguments("run", "5"), training.ranks)
    least = case.random.randint(6, len(training.metrics) * 2 // 3)
    if not old.watch(lambda: lines_of(case.path("run")) >= least):
        return
    old.send(signal.SIGSTOP, "all")
    case.count("stops")
    takes_over = case.random.random() < 0.7
    new = case.start(training.arguments("run", "5", "--resume",
                                        *(["--take-over"] if takes_over else [])), training.ranks)
    codes = {"the other": case.finish(new)}
    old.send(signal.SIGCONT, "all")
    codes["the stopped one"] = case.finish(old)
    winner, loser = ("the other", "the stopped one")[::1 if takes_over else -1]
    if codes[winner] != 0 or codes[loser] == 0:
        raise Violation("two writers", f"exit codes {codes}; {winner} should have ended the run: "
                        f"{last_lines(new.output())}; {last_lines(old.output())}")
    case.count("resumed", int(takes_over))
    training.compare(case)


def twins(storm, case):
    """Two jobs resume one run at once: one of them does it, the other is refused."""
    training = some_training(storm, case, ("mpi", "local"))
    training.prepare(case, cut=True)
    first = case.start(training.arguments("run", "5"), training.ranks)
    if first.watch(lambda: lines_of(case.path("run")) >= 20):
        first.send(signal.SIGKILL, "all")
        case.count("kills")
    case.finish(first)
    resume = training.arguments("run", "5", "--resume")
    jobs = [case.start(resume, training.ranks) for _ in range(2)]
    codes = sorted(case.finish(job) for job in jobs)
    if codes[0] != 0 or codes[1] not in (0, 2):
        raise Violation("refused", f"exit codes {codes}: {last_lines(jobs[0].output())} and "
                        f"{last_lines(jobs[1].output())}")
    case.count("resumed")
    training.compare(case)


def vanish(storm, case):
    """The run folder is deleted in mid-run: that is an error, not a run without results."""
    training = some_training(storm, case, ("mpi", "local"))
    training.prepare(case, cut=True)
    job = case.start(training.arguments("run", "5"), training.ranks)
    least = case.random.randint(2, len(training.metrics) * 2 // 3)
    if not job.watch(lambda: lines_of(case.path("run")) >= least):
        return
    gone = case.path("run-that-was")
    os.rename(case.path("run"), gone)
    shutil.rmtree(gone)
    case.log.say(f"# {job.elapsed():.3f} s: run/ was deleted")
    case.count("deleted run folders")
    code = case.finish(job)
    if code == 0:
        raise Violation("silent", "the run folder was deleted in mid-run; exit code 0")
    if "run" not in job.errors():
        raise Violation("unnamed", last_lines(job.output()))


SPECIAL = {"stop": stop_rank, "thaw": thaw, "pause": pause, "twins": twins, "vanish": vanish}
