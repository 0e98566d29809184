#!/usr/bin/env python3
"""Runs the code of every tutorial notebook, cell by cell, in a folder of its own. Jupyter is not
needed. CORA names the folder of Cora's files; without it that notebook is skipped."""

import importlib.util
import json
import os
import pathlib
import unittest

from work_folder import WorkFolder

TUTORIALS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorials"


def run_notebook(name):
    """The names that its cells define."""
    cells = json.loads((TUTORIALS / name).read_text(encoding="utf-8"))["cells"]
    names = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), names)
    return names


class TutorialsTest(WorkFolder):
    def test_every_notebook_is_tested(self):
        tested = {"own_data.ipynb", "cora.ipynb", "slow_network.ipynb", "torch.ipynb"}
        self.assertEqual({path.name for path in TUTORIALS.glob("*.ipynb")}, tested)

    def test_own_data(self):
        names = run_notebook("own_data.ipynb")
        scores = {model: run.summary["test"] for model, run in names["runs"].items()}
        self.assertGreater(scores["gcn"], scores["mlp"] + 0.1)
        self.assertEqual(names["longer"].epochs, 80)

    @unittest.skipUnless("CORA" in os.environ, "CORA does not name the folder of Cora's files")
    def test_cora(self):
        names = run_notebook("cora.ipynb")
        self.assertGreater(sum(names["tests"]) / len(names["tests"]), 0.80)

    def test_slow_network(self):
        names = run_notebook("slow_network.ipynb")
        few, exact = (names[run].summary["bytes_sent_per_epoch"] for run in ("few", "exact"))
        self.assertLess(few, exact / 3)
        self.assertGreater(names["few"].summary["test"], names["exact"].summary["test"] - 0.02)

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("torch", "torch_geometric"))),
                         "PyTorch Geometric is not installed")
    def test_torch(self):
        """ARXIV names a dataset folder to run it on."""
        if "ARXIV" in os.environ:
            os.makedirs("data")
            os.symlink(os.environ["ARXIV"], "data/arxiv")
        losses = run_notebook("torch.ipynb")["losses"]
        for one, four in zip(losses["one process"], losses["four processes"]):
            self.assertAlmostEqual(one, four, delta=1e-4)
        self.assertEqual(len(losses["four processes"]), 5)
        self.assertLess(losses["4 bits"][-1], losses["4 bits"][0] - 0.3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
