"""Shared by the cases: a folder of its own for each test, the program `atoll`, arrays and text as
people have them, and the Python package on the same data. Exits with 77 (skipped) where NumPy is
missing.

A case is a test in a file cases_TOPIC.py of this folder. ctest runs all of them as `public_cases`:
public_cases_test.py [TOPIC or unittest name...] runs some. Inputs are generated and small."""

import contextlib
import json
import logging
import os
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in ("tests/launch", "python", "python/tests"):
    sys.path.insert(0, str(ROOT / folder))
os.environ.setdefault("ATOLL", str(ROOT / "build" / "atoll"))
os.environ["ATOLL"] = os.path.abspath(os.environ["ATOLL"])
os.environ.setdefault("ATOLL_PROGRAM", os.environ["ATOLL"])
os.environ.setdefault("OMP_NUM_THREADS", "1")

from work_folder import WorkFolder  # exits with 77 without NumPy

import atoll
import cli_support
import numpy as np

# Options of the quickest training that is one.
QUICK = ["--model", "gcn", "--layers", "2", "--hidden", "8", "--epochs", "2", "--threads", "1"]


def graph(nodes=12, classes=3, features=4, seed=0, splits=1):
    """A connected small graph as arrays by PyTorch Geometric's names: edge_index, x, y (int64) and
    masks, of which every node is in one ([N], or [N, splits])."""
    random = np.random.default_rng(seed)
    first = np.arange(nodes)
    chords = random.integers(0, nodes, (2, nodes))
    edge_index = np.concatenate([[first, np.roll(first, 1)], chords], axis=1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    x = random.normal(size=(nodes, features)).astype(np.float32)
    sets = np.stack([np.roll(first % 3, k) for k in range(splits)], axis=1)
    sets = sets[:, 0] if splits == 1 else sets
    return {"edge_index": np.ascontiguousarray(edge_index, np.int64), "x": x, "y": first % classes,
            "train_mask": sets == 0, "val_mask": sets == 1, "test_mask": sets == 2}


class Folder:
    """A dataset folder: its arrays by name (None where there is none), and dataset.json."""

    def __init__(self, path):
        self.path = str(path)
        self.fields = json.loads(pathlib.Path(path, "dataset.json").read_text(encoding="utf-8"))

    def __getattr__(self, name):
        file = pathlib.Path(self.path, f"{name}.npy")
        return np.load(file) if file.exists() else None

    def edges(self):
        """Every stored edge as (source, target), sorted."""
        targets = np.repeat(np.arange(len(self.row_ptr) - 1), np.diff(self.row_ptr))
        return sorted(zip(self.col_idx.tolist(), targets.tolist()))


class Case(WorkFolder):
    """Works in a folder of its own, which is the current one. self.warned has what the last command
    warned of, and self.output what it printed, whichever way it ran."""

    warned = ""
    output = ""

    def atoll(self, *words, ranks=0):
        """The finished process of a command."""
        result = cli_support.run([str(word) for word in words], ".", ranks)
        self.warned = "\n".join(line for line in result.stderr.splitlines() if "warning" in line)
        self.output = result.stdout + result.stderr
        return result

    def succeed(self, *words, ranks=0):
        """Runs a command that must end well. Returns its output."""
        result = self.atoll(*words, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{words}: {self.output}")
        return result.stdout

    def refuse(self, *words, says=(), ranks=0):
        """Runs a command that must end with exit code 2 and one message, which has all of `says`,
        and leave nothing behind. Returns the message."""
        before = sorted(os.listdir("."))
        result = self.atoll(*words, ranks=ranks)
        self.assertEqual(result.returncode, 2, f"{words}: {self.output}")
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
        self.check_message(result.stderr, says)
        self.assertEqual(sorted(os.listdir(".")), before)
        return result.stderr

    def make(self, format, source, *words, out="data"):
        """Imports `source` and returns the Folder, whose every value is checked."""
        self.succeed("import", format, source, "--out", out, *words)
        warned, output = self.warned, self.output
        self.succeed("info", out, "--validate")
        self.warned, self.output = warned, output
        return Folder(out)

    def save(self, folder, **arrays):
        """Arrays as .npy files of a folder. Returns its path."""
        os.makedirs(folder, exist_ok=True)
        for name, array in arrays.items():
            np.save(os.path.join(folder, f"{name}.npy"), array)
        return folder

    def check_message(self, message, says):
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, message)

    def python(self, make, *arguments, **keywords):
        """The Folder of the dataset that a function of the Python package makes, such as
        atoll.Dataset.from_arrays."""
        with self.python_warnings():
            dataset = make(*arguments, **keywords)
        self.addCleanup(lambda kept: None, dataset)  # as long as the test wants its folder
        return Folder(dataset.path)

    def python_refuses(self, make, *arguments, says=(), **keywords):
        """The same for what must raise InputError with all of `says`. Returns the message."""
        with self.python_warnings(), self.assertRaises(atoll.InputError) as caught:
            make(*arguments, **keywords)
        self.check_message(str(caught.exception), says)
        return str(caught.exception)

    @contextlib.contextmanager
    def python_warnings(self):
        """Collects in self.warned what the Python package warns of, and in self.output also what it
        logs."""
        lines = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())
        logger = logging.getLogger("atoll")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            self.warned = "\n".join(str(item.message) for item in caught)
            self.output = "\n".join([*lines, self.warned])

    def assert_same(self, first, second):
        """Two Folders with the same arrays and the same description of them."""
        names = {file.name for path in (first.path, second.path)
                 for file in pathlib.Path(path).glob("*.npy")}
        for name in sorted(names):
            one, other = (getattr(folder, name[:-4]) for folder in (first, second))
            self.assertIsNotNone(one, f"{first.path} has no {name}")
            self.assertIsNotNone(other, f"{second.path} has no {name}")
            np.testing.assert_array_equal(one, other, name)
        for field in ("directed", "task", "classes", "nodes", "edges"):
            self.assertEqual(first.fields.get(field), second.fields.get(field), field)
