"""The storm of contradictions: two ranks of one job are given options that differ. Every such pair
must end with exit code 2 on both ranks, and name the option and both values."""

import os
import re
import subprocess

from fixtures import MODEL, Fixture, make_pair_files
from storm_case import ERROR, Shared, Violation, last_lines

SECONDS = 20
# Runs the program and keeps its exit code: the launcher tells only the first one that is not 0.
KEEP_CODE = "\"$@\"; code=$?; echo $code > code.$OMPI_COMM_WORLD_RANK; exit $code"
OPTION = re.compile(r"^  (?:-\w,)?--([a-z][a-z0-9-]*)(?:,--[a-z-]+)*(?: (.*?))?(?: Excludes.*|   .*)?$")

QUANTIZED = ["--exchange", "quantized"]
# Options that an option needs beside it on both ranks.
COMPANY = {
    "bits": QUANTIZED, "lambda": QUANTIZED, "reassign-every": QUANTIZED, "sensitivity": QUANTIZED,
    "rate": ["--exchange", "sampled"], "every": ["--exchange", "periodic"],
    "stagger": ["--exchange", "periodic"], "shift": ["--exchange", "periodic"],
    "bound": ["--exchange", "skip"], "oldest": ["--exchange", "skip"],
    "schedule": ["--exchange", "one-bit"], "synchronous-every": ["--exchange", "stale"],
    "lr-step-epochs": ["--lr-schedule", "step"], "lr-step-factor": ["--lr-schedule", "step"],
    "weight-decay-layers": ["--weight-decay", "0.01"],
    "offload-folder": ["--memory", "1GiB"], "parts-file": ["--method", "file"], "snapshot-dir": ["--snapshot-every", "1"],
    "replay": ["--replay-from", "200"], "replay-select": ["--replay", "50", "--replay-from", "200"],
    "replay-from": ["--replay", "50"], "replay-weights": ["--replay", "50", "--warm-start", "run"],
    "stages": ["--stale", "on"], "chunks": ["--stages", "2", "--stale", "on"],
    "stale": ["--stages", "2"], "stale-from": ["--stages", "2", "--stale", "on"],
    "trace": ["--run-dir", "new"], "checkpoint-every": ["--run-dir", "new"],
    "overwrite": ["--run-dir", "run"], "profile": [],
    # As the run was started: its config.toml is read by the one that resumes.
    "resume": ["--run-dir", "run", *QUANTIZED, "--reassign-every", "2", "--checkpoint-every", "3",
               "--calibration", "run/calibration.json"],
}
# Values of options whose help doesn't list them: one for each rank; None: not given.
VALUES = {
    "backend": ("cpu", "reference"), "bits": ("4", "8"), "weights": ("1,1", "2,1"),
    "islands": ("1,1", "2"), "part-order": ("0,1", "1,0"), "run-dir": ("one", "two"),
    "calibration": ("run/calibration.json", "other.json"), "plan": ("plan.json", "plan-2.json"),
    "checkpoint-every": ("2", "3"), "max-time": ("1h", "2h"), "cuda-graph": ("auto", "off"),
    "compare": ("exact", "4"), "parts-dir": ("one", "two"),
    "transport": ("mpi", "auto"), "out": ("one.npy", "two.npy"), "warmup": ("1", "2"),
    "tf32": ("off", "on"), "imbalance": ("0.03", "0.25"), "timeout": ("50", "60"),
    "features": ("trained:4", "trained:8"), "model-file": ("model.toml", "model-2.toml"),
    "warm-start": ("run", "run-2"), "replay": ("50", "all"), "replay-from": ("100", "200"),
    "sequence": ("100,200", "100"), "target": ("0.98", "0.99"),
    "init": ("run/model.safetensors", "run-2/model.safetensors"),
    "parameter-groups": ("weight: lr=0.1", "weight: lr=0.2"), "hits-at": ("10", "20"),
    "class-weights": (None, "balanced"), "memory": ("1GiB", "2GiB"),
    "parts-file": ("parts.npy", "parts-2.npy"), "metric": ("accuracy", "mcc"), "loss": ("cross-entropy", "focal"),
    "snapshot-dir": ("/dev/shm", "/tmp"), "blocks": ("4", "auto"), "blocks-until": ("3", "accuracy"),
    "local-until": ("3", "accuracy"), "group-ranks": ("1", "2"), "offload-folder": ("/tmp", "/var/tmp"),
    "nodes": ("1", "2"), "stages": ("2", "all"),
}
# Options that belong to one rank: they may differ, and change nothing that ranks share.
OWN = {"threads", "backend"}
SKIPPED = {"help", "help-all", "quiet", "verbose", "ranks", "version", "config"}
BASE = {
    "train": ["train", "data", *MODEL, "--epochs", "3"],
    "predict": ["predict", "run", "data", "--threads", "1", "--out", "out.npy"],
    "bench": ["bench", "data", *MODEL, "--epochs", "2", "--warmup", "1"],
}


def options_of(text):
    """{option: specification} of what --help-all prints."""
    return {match.group(1): match.group(2) or ""
            for match in map(OPTION.match, text.split("\n")) if match}


def values_of(option, specification):
    """Two values that may be given for an option, or (None, "") for a flag; None if unknown."""
    if option in VALUES:
        return VALUES[option]
    kind, _, default = specification.partition("=")
    default = default.split()[0] if default else ""
    choices = re.search(r"\{(.*)\}", kind)
    if choices:
        return tuple(choices.group(1).split(",")[:2])
    if not kind:
        return (None, "")
    if kind.startswith(("INT", "UINT")):
        number = int(default or 0)
        return (str(number), str(number + 1))
    if kind.startswith("FLOAT"):
        number = float(default or 0)
        return (default, "0.25") if number != 0.25 else ("0.25", "0.5")
    return None


class Pair:
    """Two command lines for the two ranks of a job, and the words that its error must have."""

    def __init__(self, first, second, words, may_differ=False):
        self.commands = (first, second)
        self.words = words
        self.may_differ = may_differ


def pairs_of(help_of):
    """All pairs: every option of train, then those of predict and bench that train does not have,
    then what is no option. help_of: subcommand -> text of its --help-all."""
    pairs = []
    seen = set()
    for command, base in BASE.items():
        for option, specification in options_of(help_of(command)).items():
            if option in SKIPPED or option in seen:
                continue
            seen.add(option)
            values = values_of(option, specification)
            if values is None:
                raise RuntimeError(f"{command} --{option} {specification}: no values known; add two "
                                   "to VALUES in tests/storm/pairs.py")
            pairs.append(pair_of(base, option, values))
    train = BASE["train"]
    pairs += [
        Pair(train, BASE["bench"], ["train", "bench"]),
        Pair(BASE["predict"], train, ["predict", "train"]),
        Pair(train, ["train", "other", *train[2:]], ["dataset"]),
        Pair(BASE["predict"], ["predict", "run", "other", *BASE["predict"][3:]], ["dataset"]),
        Pair(BASE["predict"], ["predict", "run-2", *BASE["predict"][2:]], ["run", "run-2"]),
        Pair([*train, "--config", "one.toml"], [*train, "--config", "two.toml"],
             ["lr", "0.1", "0.2"]),
    ]
    return pairs


def pair_of(base, option, values):
    base = without(base, option)
    lines = []
    for value in values:
        given = [] if value is None else [f"--{option}"] + ([value] if value else [])
        lines.append([*base, *COMPANY.get(option, []), *given])
    words = [option, *(value for value in values if value)]
    return Pair(*lines, words, option in OWN)


def without(words, option):
    """A command line without an option and its value."""
    if f"--{option}" not in words:
        return words
    place = words.index(f"--{option}")
    return words[:place] + words[place + 2:]


class Pairs:
    name = "pairs"
    counted = "pairs"

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.shared = Shared()
        self.pairs = pairs_of(self._help)

    def most(self, count):
        return min(count, len(self.pairs)) if count else len(self.pairs)

    @staticmethod
    def summary(counts):
        def number(name):
            return counts.get(name, 0)
        return (f"{number('pairs')} pairs of options: {number('named')} refused on both ranks and "
                f"named, {number('own')} that ranks may choose for themselves")

    def _help(self, command):
        return subprocess.run([self.program.atoll, command, "--help-all"], capture_output=True,
                              text=True, check=True).stdout

    def run(self, case):
        fixture = self.shared.get("fixture", self._make)
        pair = self.pairs[case.number % len(self.pairs)]
        subprocess.run(["cp", "-a", fixture.folder + "/.", case.folder], check=True)
        order = case.random.choice([1, -1])
        words = [self.program.mpiexec, "--bind-to", "none"]
        for rank, arguments in enumerate(pair.commands[::order]):
            words += ([":"] if rank else []) + ["-n", "1", "sh", "-c", KEEP_CODE, "sh",
                                                self.program.atoll, *arguments]
        case.count("pairs")
        job = case.start_command(words)
        code = case.finish(job, SECONDS)
        codes = {rank: int(open(case.path(f"code.{rank}"), encoding="utf-8").read() or -1)
                 for rank in range(2) if os.path.exists(case.path(f"code.{rank}"))}
        if pair.may_differ and code == 0:
            return case.count("own")
        # The launcher ends the other rank when the first has ended: it may have no code of its own.
        if code != 2 or not codes or any(found != 2 for found in codes.values()):
            raise Violation("accepted" if code == 0 else "crash",
                            f"exit code {code}, of the ranks {codes}: {last_lines(job.output())}")
        errors = " ".join(line for line in job.errors().split("\n") if ERROR in line)
        missing = [word for word in pair.words
                   if not re.search(rf"(?<![\w.]){re.escape(word)}(?![\w]|\.\d)", errors)]
        if missing:
            raise Violation("unnamed", f"{', '.join(missing)} not named: {errors}")
        return case.count("named")

    def _make(self):
        fixture = Fixture(self.program, self.folder, weighted=False)
        make_pair_files(self.program, fixture.folder)
        return fixture
