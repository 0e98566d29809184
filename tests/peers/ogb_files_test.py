#!/usr/bin/env python3
"""python/atoll/ogb_files.py on small folders with the layouts of OGB's sets, up to the dataset folder
that `atoll import` makes of them. Exits with 77 (skipped) where a package is missing."""

import gzip
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent.parent / "python" / "atoll" / "ogb_files.py"
sys.path.insert(0, str(HERE.parent / "launch"))
SKIPPED = 77
for package in ("numpy", "torch"):
    if importlib.util.find_spec(package) is None:
        print(f"SKIPPED: sets of OGB with files of PyTorch ({package} is not installed)")
        sys.exit(SKIPPED)

import numpy as np
import torch
from cli_support import run

NODES = 30


class Run:
    """An object that runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def edges_of(count, seed):
    random = np.random.default_rng(seed)
    first = random.integers(0, NODES, count)
    return np.stack([first, (first + random.integers(1, NODES, count)) % NODES], axis=1)


class OgbFilesTest(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        self.set = self.home / "ogbl_small"
        (self.set / "raw").mkdir(parents=True)
        (self.set / "split" / "time").mkdir(parents=True)
        self.graph = edges_of(120, 1)
        self.features = np.random.default_rng(2).standard_normal((NODES, 3)).astype(np.float32)

    def write_text(self, name, rows):
        with gzip.open(self.set / "raw" / f"{name}.csv.gz", "wt") as file:
            for row in rows:
                file.write(",".join(repr(value.item()) for value in np.atleast_1d(row)) + "\n")

    def write_graph(self):
        self.write_text("edge", self.graph)
        self.write_text("num-node-list", np.array([NODES]))
        self.write_text("node-feat", self.features)

    def write_split(self, make, **saving):
        for number, name in enumerate(("train", "valid", "test")):
            torch.save(make(name, edges_of(20, 10 + number)),
                       self.set / "split" / "time" / f"{name}.pt", **saving)

    def convert(self, out="arrays"):
        return subprocess.run([sys.executable, SCRIPT, self.set, "--out", self.home / out],
                              capture_output=True, text=True, check=False, cwd=self.home)

    def converted(self):
        result = self.convert()
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return {path.stem: np.load(path) for path in (self.home / "arrays").iterdir()}

    def assert_refused(self, *parts):
        result = self.convert()
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertFalse((self.home / "arrays").exists())

    @staticmethod
    def shared(name, edges):
        """As ogbl-collab: pairs that all edges are ranked against."""
        split = {"edge": edges, "weight": np.ones(len(edges)), "year": np.full(len(edges), 2019)}
        return split if name == "train" else {**split, "edge_neg": edges_of(15, 20)}

    @staticmethod
    def own(name, edges):
        """As ogbl-citation2: ends for each edge."""
        split = {"source_node": edges[:, 0], "target_node": edges[:, 1]}
        negatives = edges_of(20 * 4, 21)[:, 1].reshape(20, 4)
        return split if name == "train" else {**split, "target_node_neg": negatives}

    def test_pairs_shared_by_all_edges(self):
        self.write_graph()
        self.write_split(self.shared)
        arrays = self.converted()
        np.testing.assert_array_equal(arrays["edge_index"], self.graph.T)
        np.testing.assert_allclose(arrays["features"], self.features)
        np.testing.assert_array_equal(arrays["links_valid"], edges_of(20, 11))
        np.testing.assert_array_equal(arrays["links_test_negatives"], edges_of(15, 20))
        self.assertNotIn("links_train_negatives", arrays)

    def test_ends_of_each_edge_in_files_of_older_pytorch_and_numpy_graphs(self):
        np.savez(self.set / "raw" / "data.npz", edge_index=self.graph.T,
                 num_nodes_list=np.array([NODES]), node_feat=self.features.astype(np.float16))
        self.write_split(self.own, _use_new_zipfile_serialization=False)
        for path in (self.set / "split" / "time").iterdir():  # NumPy before version 2
            path.write_bytes(path.read_bytes().replace(b"numpy._core.", b"numpy.core."))
        arrays = self.converted()
        np.testing.assert_array_equal(arrays["links_train"], edges_of(20, 10))
        self.assertEqual(arrays["links_valid_negatives"].shape, (20, 4))
        self.assertEqual(arrays["features"].dtype, np.float32)

    def test_tensors_are_as_good_as_arrays(self):
        self.write_graph()
        self.write_split(lambda name, edges: {key: torch.from_numpy(value) for key, value in
                                              self.shared(name, edges).items()})
        np.testing.assert_array_equal(self.converted()["links_train"], edges_of(20, 10))

    def test_the_arrays_become_a_dataset_that_trains(self):
        self.write_graph()
        for make in (self.shared, self.own):
            self.write_split(make)
            self.converted()
            data = self.home / "data"
            for words in (["import", "npy", "arrays", "--nodes", str(NODES), "--out", "data"],
                          ["train", "data", "--epochs", "2", "--hidden", "8", "--run-dir", "run"]):
                result = run(words, self.home)
                self.assertEqual(result.returncode, 0, result.stderr)
            summary = json.loads((self.home / "run" / "summary.json").read_text())
            self.assertEqual(summary["metric"], "MRR")
            for folder in (data, self.home / "run", self.home / "arrays"):
                subprocess.run(["rm", "-r", folder], check=True)

    def write_labels(self):
        self.write_text("node-label", np.arange(NODES) % 3)

    def write_dictionary(self, split):
        torch.save(split, self.set / "split" / "time" / "split_dict.pt")

    def split(self):
        nodes = np.random.default_rng(3).permutation(NODES)
        return {"train": nodes[:18], "valid": nodes[18:24], "test": nodes[24:]}

    def test_a_dictionary_of_node_ids(self):
        self.write_graph()
        self.write_labels()
        for make in (lambda ids: ids, torch.from_numpy):
            self.write_dictionary({name: make(ids) for name, ids in self.split().items()})
            result = self.convert("text")
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            imported = run(["import", "ogb", "text", "--out", "data"], self.home)
            self.assertEqual(imported.returncode, 0, imported.stderr)
            found = np.load(self.home / "data" / "split.npy").reshape(-1)
            for value, name in enumerate(("train", "valid", "test")):
                self.assertEqual(set(np.flatnonzero(found == value)), set(self.split()[name]))
            for folder in ("text", "data"):
                subprocess.run(["rm", "-r", self.home / folder], check=True)

    def test_dictionaries_that_are_wrong(self):
        self.write_graph()
        self.write_labels()
        self.write_dictionary({"train": self.split()["train"]})
        self.assert_refused("split_dict.pt", "['train']", "'valid'")
        self.write_dictionary({**self.split(), "test": np.zeros((2, 2))})
        self.assert_refused("split_dict.pt", "'test'", "float64 [2, 2]", "node ids")
        self.write_dictionary({**self.split(), "test": Run()})
        self.assert_refused("split_dict.pt", "no plain data of PyTorch")
        self.write_split(self.shared)
        self.assert_refused("time: train.pt and split_dict.pt are there; keep one")

    def test_the_package_reads_them(self):
        sys.path.insert(0, str(SCRIPT.parent.parent))
        os.environ.setdefault("ATOLL_PROGRAM", os.path.abspath(os.environ["ATOLL"]))
        import atoll
        self.write_graph()
        self.write_labels()
        self.write_dictionary(self.split())
        dataset = atoll.Dataset.import_("ogb", self.set)
        self.assertEqual((dataset.name, int(dataset.train_mask.sum())), ("ogbl_small", 18))
        (self.set / "split" / "time" / "split_dict.pt").unlink()
        self.write_split(self.shared)
        links = atoll.Dataset.import_("ogb", self.set)
        np.testing.assert_array_equal(np.load(os.path.join(links.path, "links_train.npy")),
                                      edges_of(20, 10))
        (self.set / "split" / "time" / "test.pt").write_bytes(b"nothing")
        with self.assertRaisesRegex(atoll.InputError, "test.pt: no plain data"):
            atoll.Dataset.import_("ogb", self.set)

    def test_one_of_two_splits(self):
        sys.path.insert(0, str(SCRIPT.parent.parent))
        os.environ.setdefault("ATOLL_PROGRAM", os.path.abspath(os.environ["ATOLL"]))
        import atoll
        self.write_graph()
        self.write_labels()
        self.write_dictionary(self.split())
        (self.set / "split" / "random").mkdir()
        torch.save({name: ids[::-1].copy() for name, ids in self.split().items()},
                   self.set / "split" / "random" / "split_dict.pt")
        self.assert_refused("2 splits (folders) found", "--split-name: random, time")
        dataset = atoll.Dataset.import_("ogb", self.set, split_name="random")
        self.assertEqual(int(dataset.train_mask.sum()), 18)

    def test_bad_sets(self):
        self.assert_refused("split: no folder", "with train.pt or split_dict.pt found")
        self.write_split(self.shared)
        self.assert_refused("edge.csv.gz", "not there")
        self.write_graph()
        self.write_split(lambda name, edges: {"head": edges[:, 0], "tail": edges[:, 1]})
        self.assert_refused("train.pt", "'head'", "'source_node'")
        self.write_split(lambda name, edges: {"edge": edges + NODES})
        self.assert_refused("links_train", f"allowed are 0 to {NODES - 1}")
        self.write_split(lambda name, edges: {"edge": Run()})
        self.assert_refused("train.pt", "no plain data of PyTorch")
        self.assertFalse((self.home / "ran").exists())
        (self.set / "split" / "time" / "train.pt").write_bytes(b"nothing of PyTorch")
        self.assert_refused("train.pt")
        (self.home / "arrays").mkdir()
        result = self.convert()
        self.assertEqual(result.returncode, 2)
        self.assertIn("it is there", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
