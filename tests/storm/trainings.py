"""The trainings that are killed and stopped: their datasets, their options, the result of each
without interruption, and the comparison of a folder with that result."""

import json
import os
import time

from storm_case import (Violation, copy, differences, last_lines, read, read_json, tree)

RANKS = 2
NODES = 2000
EPOCHS = 300
# So long that halving the width of a message is worth it: what a link of about 8 Mbit/s takes.
SECONDS_PER_BYTE = 1e-6

MODELS = {
    "gcn": ["--model", "gcn", "--norm", "batch", "--dropout", "0.5"],
    "sage": ["--model", "sage", "--norm", "layer", "--dropout", "0.3", "--lr-schedule", "cosine",
             "--eval-every", "3", "--weight-decay", "1e-4"],
}
EXCHANGES = {"exact": [], "adaptive": ["--exchange", "quantized", "--bits", "adaptive"]}
# Modes that keep rows from epoch to epoch, draw messages or cut anew; ranks that hold one part.
KEEPING = {
    "stale": ["--exchange", "stale", "--shift", "on"],
    "sampled": ["--exchange", "sampled"],
    "periodic": ["--exchange", "periodic", "--every", "7"],
    "staggered": ["--exchange", "periodic", "--stagger", "on", "--shift", "on"],
    "skip": ["--exchange", "skip", "--bits", "8"],
    "compensated": ["--exchange", "compensated"],
    "unified": ["--exchange", "unified", "--drift-limit", "1000"],
    "one-bit": ["--exchange", "one-bit", "--schedule", "pipelined", "--synchronous-every", "10"],
    "repartitioned": ["--exchange", "none", "--repartition-every", "3", "--coverage-weights", "on"],
    "blocks": ["--blocks", "3", "--blocks-until", "150", "--bits", "8"],
    "local": ["--exchange", "compensated", "--local-until", "150", "--repartition-every", "30"],
    "together": ["--group-ranks", "all", "--average-weights", "0.9"],
    "groups": ["--group-ranks", "2", "--exchange", "compensated"],
    "slices": ["--group-ranks", "2", "--exchange", "skip"],
}
RANKS_OF = {"groups": 4, "slices": 4}  # else RANKS
TRANSPORTS = ("mpi", "local")
NAMES = [(model, exchange, transport) for model in MODELS for exchange in EXCHANGES
         for transport in TRANSPORTS]
NAMES += [(("gcn", "sage")[place % 2], exchange, TRANSPORTS[place // 2 % 2])
          for place, exchange in enumerate(KEEPING)]
EXCHANGES |= KEEPING
# Modes whose choices follow from measured times: given, so that runs can be compared.
MEASURING = ("adaptive", "unified")
MEASURING_EPOCHS = 5  # at widths that are the same for all messages
# Figures of a line of metrics.jsonl about the computation. Times vary, and bytes do too: the first
# epoch after a resume fetches once more what is constant.
NUMBERS = ("epoch", "loss", "train", "valid", "test")
SUMMARY = ("epochs", "best_epoch", "loss", "train", "valid", "test", "ranks", "mean_bits")


class Training:
    """A model, an exchange mode and a transport, with the result of an uninterrupted run."""

    def __init__(self, program, folder, model, exchange, transport):
        self.name = f"{model}-{exchange}-{transport}"
        self.folder = folder
        self.data = "data-directed" if model == "sage" else "data"
        ranks = RANKS_OF.get(exchange, RANKS)
        self.ranks = ranks if transport == "mpi" else 0
        self.options = ["train", self.data, "--layers", "2", "--hidden", "16", "--threads", "1",
                        "--epochs", str(EPOCHS), *MODELS[model], *EXCHANGES[exchange]]
        if exchange in MEASURING:
            self.options += ["--calibration", f"../base/calibration-{model}.json"]
        self.transport = [] if self.ranks else ["--transport", "local", "--ranks", str(ranks)]
        # An uninterrupted run, from a dataset folder that has not been cut.
        self.reference = os.path.join(os.path.dirname(folder), f"reference-{self.name}")
        os.makedirs(self.reference)
        copy(os.path.join(folder, self.data), os.path.join(self.reference, self.data))
        begin = time.monotonic()
        run_plainly(program, self.arguments("run", "7"), self.reference, self.ranks)
        self.seconds = time.monotonic() - begin
        self.model = read(os.path.join(self.reference, "run/model.safetensors"))
        self.metrics = numbers_of(os.path.join(self.reference, "run"))
        self.summary = summary_of(os.path.join(self.reference, "run"))
        if exchange in MEASURING and not self.narrowest() < 32:
            raise RuntimeError(f"{self.name}: all messages are 32 bits wide: nothing is tested")

    def narrowest(self):
        """The fewest bits per value of an assignment after the epochs that measure."""
        lines = read(os.path.join(self.reference, "run/metrics.jsonl")).splitlines()[MEASURING_EPOCHS:]
        assignments = [json.loads(line).get("assignment") for line in lines]
        return min((found["mean_bits"] for found in assignments if found), default=32)

    def arguments(self, run, checkpoint_every, *more):
        every = [] if checkpoint_every is None else ["--checkpoint-every", checkpoint_every]
        return [*self.options, *self.transport, "--run-dir", run, *every, *more]

    def prepare(self, case, cut):
        """The dataset in the case's folder; already cut if so asked."""
        source = self.reference if cut else self.folder
        copy(os.path.join(source, self.data), case.path(self.data))

    def compare(self, case, run="run"):
        """Everything that a finished run leaves must be as if it had never been interrupted."""
        folder = case.path(run)
        if read_or_none(os.path.join(folder, "model.safetensors")) != self.model:
            case.count("differing models")
            raise Violation("model", f"{run}/model.safetensors differs from {self.reference}/run")
        found = numbers_of(folder)
        if found != self.metrics:
            raise Violation("metrics", f"{run}/metrics.jsonl: {first_difference(found, self.metrics)}")
        if summary_of(folder) != self.summary:
            raise Violation("summary", f"{run}/summary.json: {summary_of(folder)} "
                            f"instead of {self.summary}")
        self.compare_names(case, run)

    def compare_names(self, case, run):
        """Nothing temporary may be left, neither in the run folder nor in the dataset's."""
        for mine, reference in ((run, "run"), (self.data, self.data)):
            found = dict.fromkeys(tree(case.path(mine)))
            wanted = dict.fromkeys(tree(os.path.join(self.reference, reference)))
            if found != wanted:
                case.count("temporary files")
                raise Violation("left over", f"{mine}: {differences(found, wanted)}")


def run_plainly(program, arguments, folder, ranks=0):
    """Runs a command that is no test, which must succeed."""
    from jobs import Job
    from storm_case import Log
    log = Log()
    job = Job(program, program.command(arguments, ranks), folder, log)
    code = job.wait()
    output = job.output()
    job.orphans(0)
    job.forget()
    if code != 0:
        raise RuntimeError(f"{log.lines[0][2:]} (in {folder}) ended with {code}: "
                           f"{last_lines(output)}")
    return output


def make_base(program, folder):
    """The datasets and the calibrations of all trainings."""
    os.makedirs(folder)
    for name, more in (("data", []), ("data-directed", ["--directed"])):
        run_plainly(program, ["generate", "sbm", "--nodes", str(NODES), "--features", "32",
                              "--classes", "8", "--out", name, *more], folder)
    for model, options in MODELS.items():
        data = "data-directed" if model == "sage" else "data"
        scratch = os.path.join(folder, "measured")
        os.makedirs(scratch)
        copy(os.path.join(folder, data), os.path.join(scratch, data))
        run_plainly(program, ["train", data, "--layers", "2", "--hidden", "16", "--threads", "1",
                              "--epochs", "8", *options, *EXCHANGES["adaptive"], "--transport",
                              "local", "--ranks", str(RANKS), "--run-dir", "run"], scratch)
        calibration = read_json(os.path.join(scratch, "run/calibration.json"))
        for link in calibration["exchange"]["links"]:
            link["theta_s_per_byte"] = SECONDS_PER_BYTE
        calibration.pop("seal", None)  # edited by hand
        with open(os.path.join(folder, f"calibration-{model}.json"), "w", encoding="utf-8") as file:
            json.dump(calibration, file)
        os.rename(scratch, os.path.join(folder, f"measured-{model}"))


def read_or_none(path):
    return read(path) if os.path.exists(path) else None


def numbers_of(run):
    """The computation's figures in the lines of metrics.jsonl; a broken line is a violation."""
    lines = []
    path = os.path.join(run, "metrics.jsonl")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise Violation("metrics", f"{path}:{number}: {error}") from error
            lines.append({name: entry.get(name) for name in NUMBERS})
    return lines


def summary_of(run):
    path = os.path.join(run, "summary.json")
    if not os.path.exists(path):
        raise Violation("summary", f"{path} is missing")
    summary = read_json(path)
    return {name: summary.get(name) for name in SUMMARY}


def first_difference(found, expected):
    epochs = [line["epoch"] for line in found]
    if epochs != list(range(1, len(expected) + 1)):
        return f"epochs {epochs[:3]} ... {epochs[-3:]}, {len(epochs)} lines for {len(expected)}"
    return next(f"line {place + 1}: {mine} instead of {theirs}"
                for place, (mine, theirs) in enumerate(zip(found, expected)) if mine != theirs)
