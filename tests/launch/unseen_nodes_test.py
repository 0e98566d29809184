#!/usr/bin/env python3
"""Nodes that training has not seen (docs/growing.md): predictions of chosen nodes, and training that
sees the training nodes alone, from the command line."""

import json
import os
import re
import shlex
import shutil
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, npy, numbers, run, write

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/growing.md")
SECTION = re.compile(r"^## Nodes that training has not seen$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
NODES, FEATURES, NEW = 900, 8, 20
TRAIN = ["--layers", "2", "--hidden", "16", "--norm", "batch", "--backend", "cpu"]


def grow(source, target):
    """A dataset with nodes more, which read old ones and each other."""
    os.mkdir(target)
    arrays = {name: numbers(os.path.join(source, f"{name}.npy"), code)
              for name, code in (("row_ptr", "q"), ("col_idx", "i"), ("features", "f"),
                                 ("labels", "i"), ("split", "B"))}
    for new in range(NEW):
        node = NODES + new
        arrays["col_idx"] += sorted({node * 7 % NODES, node * 11 % NODES, NODES + new // 2})
        arrays["row_ptr"].append(len(arrays["col_idx"]))
        arrays["features"] += [((node * 13 + c * 5) % 17 - 8) / 5 for c in range(FEATURES)]
        arrays["labels"].append(-1)
        arrays["split"].append(255)
    nodes = NODES + NEW
    for name, descr, code, shape in (("row_ptr", "<i8", "q", (nodes + 1,)),
                                     ("col_idx", "<i4", "i", (len(arrays["col_idx"]),)),
                                     ("features", "<f4", "f", (nodes, FEATURES)),
                                     ("labels", "<i4", "i", (nodes,)),
                                     ("split", "|u1", "B", (1, nodes))):
        data = struct.pack(f"<{len(arrays[name])}{code}", *arrays[name])
        write(os.path.join(target, f"{name}.npy"), npy(descr, shape, data))
    write(os.path.join(target, "dataset.json"), json.dumps({"directed": True}))


class UnseenNodesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        os.mkdir(os.path.join(cls.folder, "data"))
        os.mkdir(os.path.join(cls.folder, "runs"))
        cls.succeed("generate", "sbm", "--nodes", str(NODES), "--features", str(FEATURES),
                    "--classes", "4", "--degree", "2", "--directed", "--out", "data/arxiv")
        grow(cls.path("data/arxiv"), cls.path("data/grown"))
        cls.succeed("train", "data/arxiv", "--model", "sage", *TRAIN, "--epochs", "3", "--run-dir",
                    "runs/arxiv")
        write(cls.path("nodes.txt"), "3 899\n17\n")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def rows(self, name, columns=4):
        values = numbers(self.path(name), "f")
        return [values[i:i + columns] for i in range(0, len(values), columns)]

    def assert_rows(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=1e-5 * max(1, abs(b)))

    def epochs(self, name):
        with open(self.path(f"{name}/metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            section = SECTION.search(file.read()).group(1)
        lines = [line for line in section.replace("\\\n", " ").splitlines()
                 if re.match("    (mpirun|build/atoll)", line)]
        self.assertGreater(len(lines), 4)
        for number, line in enumerate(lines):
            words = shlex.split(line)
            ranks = int(words[2]) if words[0] == "mpirun" else 0
            words = words[words.index("build/atoll") + 1:]
            if words[0] == "train":
                words += ["--hidden", "8", "--epochs", "2", "--run-dir", f"page-{number}"]
            result = run(words, self.folder, ranks=ranks)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_chosen_nodes_have_their_rows(self):
        self.succeed("predict", "runs/arxiv", "data/arxiv", "--what", "logits", "--out", "all.npy")
        every = self.rows("all.npy")
        for nodes, ids in (("5,3,5", [5, 3, 5]), ("10-13", [10, 11, 12, 13]),
                           ("nodes.txt", [3, 899, 17])):
            said = self.succeed("predict", "runs/arxiv", "data/arxiv", "--nodes", nodes, "--what",
                                "logits", "--out", "some.npy")
            self.assertIn(f"logits of {len(ids)} of {NODES} nodes in some.npy", said)
            read, computed = re.search(r"read: (\d+) of 900 rows .* (\d+) of 1800 rows of 2 agg",
                                       said).groups()
            self.assertLess(int(read), 200)
            self.assertLess(int(computed), 100)
            self.assertEqual(numbers(self.path("some.ids.npy"), "q"), ids)
            self.assert_rows(self.rows("some.npy"), [every[node] for node in ids])
        self.succeed("predict", "runs/arxiv", "data/arxiv", "--out", "all.csv")
        self.succeed("predict", "runs/arxiv", "data/arxiv", "--nodes", "7,2", "--out", "some.csv")
        with open(self.path("all.csv"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        with open(self.path("some.csv"), encoding="utf-8") as file:
            some = file.read().splitlines()
        self.assertEqual(some[0], lines[0])
        # Node and class; probabilities up to rounding.
        self.assertEqual([line.split(",")[:2] for line in some[1:]],
                         [lines[1 + node].split(",")[:2] for node in (7, 2)])

    def test_ids_of_other_rows_do_not_stay(self):
        words = ["predict", "runs/arxiv", "data/arxiv", "--what", "logits", "--out"]
        self.succeed(*words, "kept.npy", "--nodes", "1,2")
        message = self.refuse(*words, "kept.npy", "--nodes", "kept.ids.npy")
        self.assertIn("the ids of its rows would replace --nodes kept.ids.npy", message)
        self.assertEqual(numbers(self.path("kept.ids.npy"), "q"), [1, 2])
        self.succeed(*words, "kept.npy")
        self.assertFalse(os.path.exists(self.path("kept.ids.npy")))
        self.assertIn("it lists no node", self.refuse(*words, "none.npy", "--nodes", ""))

    def test_new_nodes_of_a_grown_dataset(self):
        self.succeed("predict", "runs/arxiv", "data/grown", "--what", "logits", "--out", "grown.npy")
        said = self.succeed("predict", "runs/arxiv", "data/grown", "--nodes", "new", "--what",
                            "logits", "--out", "new.npy")
        self.assertIn(f"logits of {NEW} of {NODES + NEW} nodes", said)
        self.assertEqual(numbers(self.path("new.ids.npy"), "q"),
                         list(range(NODES, NODES + NEW)))
        self.assert_rows(self.rows("new.npy"), self.rows("grown.npy")[NODES:])
        # Nothing that lies farther away is read.
        shutil.copytree(self.path("data/grown"), self.path("data/torn"))
        features = numbers(self.path("data/torn/features.npy"), "f")
        before = self.rows("new.npy")
        near = self.neighbourhood("data/grown", range(NODES, NODES + NEW), 2)
        for node in set(range(NODES)) - near:
            features[node * FEATURES] = float("nan")
        write(self.path("data/torn/features.npy"),
              npy("<f4", (NODES + NEW, FEATURES), struct.pack(f"<{len(features)}f", *features)))
        self.succeed("predict", "runs/arxiv", "data/torn", "--nodes", "new", "--what", "logits",
                     "--out", "new.npy")
        self.assertEqual(self.rows("new.npy"), before)
        message = self.refuse("predict", "runs/arxiv", "data/torn", "--out", "torn.npy")
        self.assertIn("nan", message)

    def neighbourhood(self, data, nodes, hops):
        rows = numbers(self.path(f"{data}/row_ptr.npy"), "q")
        columns = numbers(self.path(f"{data}/col_idx.npy"), "i")
        near = set(nodes)
        for _ in range(hops):
            near |= {column for node in near for column in columns[rows[node]:rows[node + 1]]}
        return near

    def test_what_is_no_node_is_refused(self):
        predict = ["predict", "runs/arxiv", "data/arxiv", "--out", "bad.npy", "--nodes"]
        for nodes, words in (("900", ["entry 0 is 900", "0 to 899"]), ("3,x", ["3,x", "no such file"]),
                             ("new", ["900 nodes", "so no node is new"]),
                             ("missing.npy", ["missing.npy", "allowed are"])):
            message = self.refuse(*predict, nodes)
            for word in ["--nodes", *words]:
                self.assertIn(word, message)
        result = run([*predict, "1"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--nodes: 2 ranks found", result.stderr)

    def test_training_sees_the_training_nodes_alone(self):
        losses = []
        for name, ranks, flags in (("one", 0, ["--inductive", "data/arxiv"]),
                                   ("three", 3, ["data/arxiv", "--inductive", "train"]),
                                   ("file", 0, ["data/arxiv", "--config", "inductive.toml"])):
            write(self.path("inductive.toml"), 'inductive = "train"\n')
            result = run(["train", *flags, *TRAIN, "--epochs", "3", "--run-dir", name], self.folder,
                         ranks=ranks)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append([epoch["loss"] for epoch in self.epochs(name)])
            self.assertTrue(all(0.1 < epoch["edges_kept"] < 0.9 for epoch in self.epochs(name)))
            with open(self.path(f"{name}/summary.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["inductive"], "train")
        self.assertEqual(losses[0], losses[2])
        for one, three in zip(losses[0], losses[1]):
            self.assertAlmostEqual(one, three, delta=1e-5 * one)
        for options, words in ((["--blocks-until", "2", "--blocks", "4", "--block-kind", "random"],
                                ["--inductive train", "--blocks-until 2"]),
                               (["--exchange", "stale"], ["--inductive train", "stale", "exact"]),
                               (["--memory", "1GiB"], ["--inductive train", "--memory"]),
                               (["--repartition-every", "2"], ["--inductive train", "sees some of them"]),
                               (["--cuda-graph", "on"], ["--inductive train", "of another graph"])):
            message = self.refuse("train", "data/arxiv", "--inductive", *options, "--run-dir", "none")
            for word in words:
                self.assertIn(word, message)
        for words in (["data/arxiv", "--inductive", "test"], ["--inductive", "test", "data/arxiv"]):
            self.assertIn("'; --inductive takes one of none, train, valid, or stands alone for train",
                          self.refuse("train", *words, "--run-dir", "none"))


if __name__ == "__main__":
    unittest.main()
