"""The comparison's runs: the commands of Atoll and of every peer, and what they answer."""

import json
import os
import pathlib
import shlex
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
# Peer -> its script and what it is told besides the task.
SCRIPTS = {
    "pyg-edge-index": ("pyg_epoch.py", ["--adjacency", "edge_index"]),
    "pyg-csr": ("pyg_epoch.py", ["--adjacency", "csr"]),
    "pyg-kept": ("pyg_epoch.py", ["--adjacency", "kept"]),
    "dgl": ("dgl_epoch.py", []),
    "torch": ("torch_epoch.py", []),
}
# With glibc's own settings every large tensor is mapped, zeroed page by page and given back in
# every operation, which took up to a third of an epoch. Both of these use large pages; "kept" gives
# nothing back.
PEER_MEMORY = {
    "kept": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
            "glibc.malloc.trim_threshold=1099511627776",
    "returned": "glibc.malloc.hugetlb=1"}


def model_words(arguments, model):
    return ["--model", model, "--layers", str(arguments.layers), "--hidden",
            str(arguments.hidden), "--norm", arguments.norm, "--dropout", str(arguments.dropout),
            "--lr", str(arguments.lr), "--seed", str(arguments.seed)]


def environment(threads, **more):
    values = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                  OPENBLAS_NUM_THREADS=str(threads), **more)
    return values


class Peer:
    """A script of this folder."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments
        self.script, self.options = SCRIPTS[name]

    def command(self, model, dtype, threads, _folder):
        arguments = self.arguments
        python = arguments.python_dgl if self.name == "dgl" else arguments.python
        words = [python or arguments.python, str(HERE / self.script), arguments.dataset]
        words += model_words(arguments, model) + ["--precision", dtype, "--device", "cpu"]
        words += ["--threads", str(threads), "--warmup", str(arguments.warmup)]
        words += ["--epochs", str(arguments.epochs), *self.options]
        if self.script == "pyg_epoch.py":
            words += ["--memory-gb", str(arguments.memory_gb)]
        return words, environment(threads, GLIBC_TUNABLES=PEER_MEMORY[arguments.peer_memory])

    @staticmethod
    def result(output, _folder):
        """The JSON object in the last line; packages print what they like before."""
        result = json.loads(output.strip().splitlines()[-1])
        result["description"] = result["peer"]
        return result


class Atoll:
    """`atoll bench`, and `atoll train` once for the accuracy."""

    name = "atoll"

    def __init__(self, arguments):
        self.arguments = arguments

    def words(self, subcommand, model, dtype, threads):
        arguments = self.arguments
        ranks = arguments.atoll_ranks
        launcher = []
        if ranks > 1:
            launcher = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", str(ranks)]
        return [*launcher, arguments.program, subcommand, arguments.dataset,
                *model_words(arguments, model), "--dtype", dtype, "--backend", "cpu", "--threads",
                str(threads // ranks), *shlex.split(arguments.atoll_options)]

    def environment(self, threads):
        return environment(threads // self.arguments.atoll_ranks)

    def command(self, model, dtype, threads, folder):
        words = self.words("bench", model, dtype, threads)
        words += ["--warmup", str(self.arguments.warmup), "--epochs", str(self.arguments.epochs)]
        return words + ["--out", str(folder / "bench.json")], self.environment(threads)

    @staticmethod
    def result(_output, folder):
        result = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
        result["description"] = f"commit {result['commit']}"
        return result

    def training_command(self, model, dtype, threads, folder):
        words = self.words("train", model, dtype, threads)
        words += ["--epochs", str(self.arguments.warmup + self.arguments.epochs)]
        return (words + ["--eval-every", "0", "--run-dir", str(folder / "run")],
                self.environment(threads))

    @staticmethod
    def accuracies(folder):
        summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
        return {name: summary.get(name) for name in ("train", "valid", "test", "loss")}


def processor():
    """Name of the processor, as far as the system tells."""
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return next((line.partition(":")[2].strip() for line in text.splitlines()
                 if line.startswith("Model name")), "unknown")
