"""Small folders with every file that the program writes and reads again, and the commands that read
each of them, with their results."""

import json
import os
import random
import struct
import subprocess

from storm_case import Shared, differences, read, tree
from trainings import run_plainly
from writers import without_times, write_npy

NODES = 240
EPOCHS = 6
MODEL = ["--layers", "2", "--hidden", "8", "--threads", "1"]
LOCAL = ["--transport", "local", "--ranks", "2"]
ADAPTIVE = ["--exchange", "quantized", "--bits", "adaptive", "--reassign-every", "2"]
TRAIN = ["train", "data", *MODEL, *LOCAL, *ADAPTIVE]
SECONDS_PER_BYTE = 1e-6


class Reader:
    """A command that reads files of `reads` (prefixes of paths), and what it writes or prints.
    `records`: the file of its result that must show where a file of options was changed."""

    def __init__(self, name, reads, arguments, output=None, records=None):
        self.name = name
        self.reads = reads
        self.arguments = arguments
        self.output = output
        self.records = records

    def result(self, folder, printed):
        """The output that must not change."""
        if self.output is None:
            return printed
        path = os.path.join(folder, self.output)
        if os.path.isdir(path):
            return differences(tree(path, without_times), {})
        return read(path) if os.path.exists(path) else None


SHORT = ["--epochs", "2", "--run-dir", "new"]
DATASET = ("data/",)
READERS = [
    Reader("info", DATASET, ["info", "data", "--validate"]),
    Reader("cut", DATASET, ["partition", "data", "--parts", "3"], "data/parts"),
    Reader("train on one rank", DATASET, ["train", "data", *MODEL, *SHORT], "new/model.safetensors"),
    Reader("predict on one rank", DATASET, ["predict", "run", "data", "--what", "logits", "--out",
                                            "out.npy"], "out.npy"),
    Reader("train on shards", ("data/parts/",), ["train", "data", *MODEL, *LOCAL, *SHORT],
           "new/model.safetensors"),
    Reader("predict on shards", ("data/parts/", "run/model.safetensors"),
           ["predict", "run", "data", *LOCAL, "--what", "logits", "--out", "out.npy"], "out.npy"),
    Reader("predict", ("run/model.safetensors",), ["predict", "run", "data", "--out", "out.npy"],
           "out.npy"),
    Reader("resume", ("run/checkpoint/", "run/calibration.json", "run/metrics.jsonl"),
           [*TRAIN, "--run-dir", "run", "--epochs", str(EPOCHS + 4), "--resume"],
           "run/model.safetensors"),
    Reader("report", ("run/metrics.jsonl", "run/summary.json"),
           ["report", "run", "--out", "report.html"], "report.html"),
    Reader("train by configuration", ("run/config.toml",),
           ["train", "--config", "run/config.toml", "--run-dir", "new"], "new/model.safetensors",
           "new/config.toml"),
    Reader("resume by configuration", ("run/config.toml",),
           ["train", "--config", "run/config.toml", "--resume", "--epochs", str(EPOCHS + 4)],
           "run/model.safetensors", "run/config.toml"),
    Reader("train by calibration", ("run/calibration.json",),
           [*TRAIN, *SHORT, "--calibration", "run/calibration.json"], "new/model.safetensors"),
    Reader("train by plan", ("plan.json",),
           ["train", "data", *MODEL, *LOCAL, *SHORT, "--plan", "plan.json", "--plan-trial", "0"],
           "new/model.safetensors"),
]


class Fixture:
    """One folder, and what every reader makes of it while it is undamaged."""

    def __init__(self, program, folder, weighted):
        self.folder = os.path.join(folder, "weighted" if weighted else "plain")
        os.makedirs(self.folder)
        self._make(program, weighted)
        self.files = sorted(path for path, digest in tree(self.folder).items() if digest)
        self._program = program
        self._results = Shared()

    def expected(self, reader):
        """The result of a reader here, and what it recorded of its options."""
        return self._results.get(reader.name, lambda: self._read(reader))

    def _read(self, reader):
        copy = self.folder + "-" + reader.name.replace(" ", "-")
        subprocess.run(["cp", "-a", self.folder, copy], check=True)
        result = reader.result(copy, run_plainly(self._program, reader.arguments, copy))
        assert result, f"{reader.name}: no result"
        return result, read(os.path.join(copy, reader.records)) if reader.records else None

    def readers(self, path):
        return [reader for reader in READERS if path.startswith(reader.reads)
                and not (path.startswith("data/parts/") and reader.reads == DATASET)]

    def _make(self, program, weighted):
        def atoll(*arguments):
            run_plainly(program, [str(word) for word in arguments], self.folder)

        if weighted:
            make_source(os.path.join(self.folder, "source"))
            atoll("import", "edges", "source", "--directed", "--split", "0.5,0.25,0.25", "--out",
                  "data")
            subprocess.run(["rm", "-r", os.path.join(self.folder, "source")], check=True)
        else:
            atoll("generate", "sbm", "--nodes", NODES, "--features", 8, "--classes", 4, "--out",
                  "data")
        self._write("machine.json", machine())
        atoll("plan", "data", "--topology", "machine.json", *MODEL, "--allow-bits", "32,4",
              "--out", "plan.json")
        atoll(*TRAIN, "--epochs", 5, "--run-dir", "run")
        with open(os.path.join(self.folder, "run/calibration.json"), encoding="utf-8") as file:
            calibration = json.load(file)
        for link in calibration["exchange"]["links"]:
            link["theta_s_per_byte"] = SECONDS_PER_BYTE
        calibration.pop("seal", None)  # edited by hand
        self._write("slow.json", calibration)
        subprocess.run(["rm", "-r", os.path.join(self.folder, "run")], check=True)
        atoll(*TRAIN, "--epochs", EPOCHS, "--checkpoint-every", 3, "--calibration", "slow.json",
              "--run-dir", "run")
        for name in ("machine.json", "slow.json"):
            os.remove(os.path.join(self.folder, name))
        # The run's own options name a file that was only needed once.
        path = os.path.join(self.folder, "run/config.toml")
        text = read(path).decode().replace(f"'{self.folder}/slow.json'", "'run/calibration.json'")
        text = text.replace(f"'{self.folder}/", "'")  # it is copied to other places
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _write(self, name, document):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            json.dump(document, file)


def make_pair_files(program, folder):
    """Files for two ranks to contradict each other: another dataset, run, calibration, plan, model,
    cut and configuration."""
    run_plainly(program, ["generate", "sbm", "--nodes", str(NODES), "--features", "8", "--classes",
                          "4", "--seed", "5", "--out", "other"], folder)
    run_plainly(program, [*TRAIN, "--epochs", "2", "--seed", "3", "--run-dir", "run-2"], folder)
    for source, target in (("run/calibration.json", "other.json"), ("plan.json", "plan-2.json")):
        with open(os.path.join(folder, source), encoding="utf-8") as file:
            document = json.load(file)
        if source == "run/calibration.json":
            document["exchange"]["links"][0]["gamma_s"] *= 2
        else:
            document["predicted_ms"] += 1
        document.pop("seal", None)
        with open(os.path.join(folder, target), "w", encoding="utf-8") as file:
            json.dump(document, file)
    for name, lr in (("one.toml", 0.1), ("two.toml", 0.2)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"lr = {lr}\n")
    for name, hidden in (("model.toml", 8), ("model-2.toml", 16)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f'[[layer]]\nconvolution = "gcn"\ncolumns = {hidden}\n[[layer]]\n')
    for name, first in (("parts.npy", 0), ("parts-2.npy", 1)):
        write_npy(os.path.join(folder, name), "<i4", f"{NODES},",
                  b"".join(struct.pack("<i", (first + node) % 2) for node in range(NODES)))


def make_source(folder):
    """A directed graph with weights, as `import edges` takes it."""
    os.makedirs(folder)
    numbers = random.Random(2)
    with open(os.path.join(folder, "edges.txt"), "w", encoding="utf-8") as file:
        for _ in range(8 * NODES):
            file.write(f"{numbers.randrange(NODES)} {numbers.randrange(NODES)} "
                       f"{numbers.randint(1, 9)}\n")
    write_npy(os.path.join(folder, "labels.npy"), "<i4", f"{NODES},",
              b"".join(struct.pack("<i", numbers.randrange(4)) for _ in range(NODES)))
    write_npy(os.path.join(folder, "features.npy"), "<f4", f"{NODES}, 8",
              b"".join(struct.pack("<f", numbers.gauss(0, 1)) for _ in range(8 * NODES)))


def machine():
    """Two hosts, the second of them at half the speed, with a slow network between them."""
    def rank(host, factor):
        return {"host": host, "kind": "cpu", "memory_gib": 4, "elementwise_gb_per_s": 8 * factor,
                "spmm_gb_per_s": {"16": 4 * factor}, "gemm_gflop_per_s": {"16": 30 * factor},
                "quantize_gb_per_s": 1}
    return {"format": 1,
            "hosts": [{"name": name, "send_mbit_per_s": 100, "receive_mbit_per_s": 100}
                      for name in "ab"],
            "ranks": [rank("a", 1), rank("b", 0.5)],
            "links": {"between_hosts": {"latency_us": 50, "gbit_per_s": 0.1}}}
