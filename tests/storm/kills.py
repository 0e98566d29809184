"""The storm of kills: trainings, cuts and commands that make datasets are killed at random moments and done
again; stops.py has the jobs that are stopped, continued and doubled."""

import os
import re
import signal

from stops import SPECIAL
from storm_case import Shared, Violation, last_lines
from strikes import lines_of, strike
from trainings import NAMES, Training, make_base
from writers import WRITERS, Writer

# The storm that each of 28 cases in a row belongs to.
TURNS = ["train"] * 11 + [*WRITERS, *WRITERS] + ["special"] * 3
CHECKPOINTS = ["1", "5", "23", "0.05s", None]  # None: the default, ten minutes
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


class Kills:
    name = "kills"
    counted = "kills"

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.shared = Shared()

    @staticmethod
    def most(count):
        return count

    def training(self, *name):
        base = os.path.join(self.folder, "base")
        self.shared.get("base", lambda: make_base(self.program, base))
        return self.shared.get(name, lambda: Training(self.program, base, *name))

    def run(self, case):
        turn = TURNS[case.number * 7 % len(TURNS)]  # 7: all kinds among the first few cases
        if turn == "train":
            kill_training(case, self.training(*case.random.choice(NAMES)))
        elif turn == "special":
            kinds = list(SPECIAL)
            SPECIAL[kinds[case.number // 2 % len(kinds)]](self, case)
        else:
            self.shared.get(turn, lambda: Writer(self.program, self.folder, turn)).kill(case)

    @staticmethod
    def summary(counts):
        def number(name):
            return counts.get(name, 0)
        return (f"{number('kills')} kills ({number('polite')} by SIGTERM or SIGINT), "
                f"{number('stops')} stops, {number('resumed')} resumed, "
                f"{number('redone')} cuts and datasets made again, "
                f"{number('differing models')} differing models, {number('orphans')} orphans after "
                f"5 s, {number('temporary files')} folders with temporary files")


def kill_training(case, training):
    """Started, killed, resumed, perhaps killed again: in the end all is as if never killed."""
    training.prepare(case, cut=case.random.random() < 0.6)
    every = case.random.choice(CHECKPOINTS)
    arguments = training.arguments("run", every)
    kills = case.random.choice([1, 1, 2, 3])
    least = None  # epochs that a checkpoint must hold
    for attempt in range(kills + 1):
        job = case.start(arguments + (["--resume"] if attempt else []), training.ranks)
        blow = strike(case, job, training.seconds, training.ranks) if attempt < kills else None
        code = case.finish(job)
        if attempt:
            case.count("resumed")
            check_start(job, least)
        if blow is None:
            if code != 0:
                raise Violation("refused", f"exit code {code}: {last_lines(job.output())}")
            break
        least = saved_epochs(case, every)
        if blow.polite and check_farewell(case, job, code, blow):
            least = lines_of(case.path("run"))
    training.compare(case)


def saved_epochs(case, every):
    """How many epochs the newest checkpoint holds at least, by what metrics.jsonl says was done."""
    if every is None or not every.isdigit():
        return 0
    return max(0, lines_of(case.path("run")) - 1) // int(every) * int(every)


def check_farewell(case, job, code, blow):
    """A polite signal in mid-training keeps the work and says how to go on. True if it was told
    one, and the training had begun."""
    if blow.epochs == 0 or blow.twice or os.path.exists(case.path("run/summary.json")):
        return False  # not begun, told to end at once, or done before it noticed
    output = job.output()
    name = signal.Signals(blow.number).name
    if "--resume" not in output:
        if blow.target == "launcher" and not job.alone:
            return False  # Open MPI leaves its ranks a second, which a busy machine may need
        raise Violation("signal", f"{name} to {blow.target} after epoch {blow.epochs}: exit code "
                        f"{code}, and no word of --resume: {last_lines(output)}")
    # The launcher has exit codes of its own.
    if job.alone and code != EXIT_CODES[blow.number]:
        raise Violation("signal", f"{name}: exit code {code}, not {EXIT_CODES[blow.number]}")
    case.count("farewells")
    return True


def check_start(job, least):
    """A resumed run starts from the newest checkpoint that there can be."""
    found = re.search(r"(?:resum\w+|going on) after epoch (\d+)", job.output())
    if found and int(found.group(1)) < (least or 0):
        raise Violation("lost epochs", f"{found.group(0)}, but {least} were kept")
