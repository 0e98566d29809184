#!/usr/bin/env python3
"""Cuts that grow (atoll partition --from), as a user meets them: extended or made anew, found by
training, listed, and refused with what is wrong."""

import json
import os
import shutil
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (OneFolderTest, first_nodes, npy, numbers, read_npy, replace_npy_data, run,
                         write)

NODES = 1200
OLD_NODES = 1100
FEATURES = 8


class PartitionGrowthTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.succeed("generate", "sbm", "--nodes", str(NODES), "--classes", "4", "--features",
                    str(FEATURES), "--out", "data/grown")
        first_nodes(cls.path("data/grown"), OLD_NODES, cls.path("data/old"), classes=4)
        cls.old = json.loads(cls.succeed("partition", "data/old", "--parts", "4", "--json"))

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def grow(self, place, *options):
        """A cut from the old one, kept in `place`, as --json and as the text tell of it."""
        command = ["partition", "data/grown", "--from", self.old["folder"], "--parts-dir", place,
                   *options]
        made = json.loads(self.succeed(*command, "--json"))
        return made, self.succeed(*command)

    def test_extends(self):
        made, text = self.grow("extended")
        step, = made["partition"]["from"]
        self.assertEqual((step["cut"], step["nodes"]), ("extended", OLD_NODES))
        self.assertEqual(step["checksum"], self.old["partition"]["checksum"])
        name = os.path.basename(self.old["folder"])
        self.assertIn(f"extended {name}: {step['halo_rows']} halo rows (about {step['estimate']} are "
                      "expected of a fresh cut, --drift 1.1)", text)
        # By the old dataset's folder, and with other numbers of threads, it is the same.
        again, _ = self.grow("again")
        for part in range(4):
            self.assertEqual(*(read_npy(self.path(cut["folder"], f"part-{part}", "inner_ids.npy"))
                               for cut in (made, again)))
        by_dataset = json.loads(self.succeed("partition", "data/grown", "--from", "data/old",
                                             "--parts", "4", "--parts-dir", "third", "--json"))
        self.assertEqual(by_dataset["quality"], made["quality"])

    def test_cuts_anew_beyond_the_drift(self):
        shutil.copytree(self.path("data/grown"), self.path("data/other"))
        shuffled = [(7 * v) % NODES for v in range(NODES)]  # ids are others' now
        starts = numbers(self.path("data/grown/row_ptr.npy"), "q")
        columns = numbers(self.path("data/grown/col_idx.npy"), "i")
        rows = [[] for _ in range(NODES)]
        for v in range(NODES):
            rows[shuffled[v]] = sorted(shuffled[u] for u in columns[starts[v]:starts[v + 1]])
        ends = [sum(len(row) for row in rows[:v]) for v in range(NODES + 1)]
        flat = [u for row in rows for u in row]
        write(self.path("data/other/row_ptr.npy"),
              npy("<i8", [NODES + 1], struct.pack(f"<{NODES + 1}q", *ends)))
        write(self.path("data/other/col_idx.npy"),
              npy("<i4", [len(flat)], struct.pack(f"<{len(flat)}i", *flat)))
        write(self.path("data/other/dataset.json"), json.dumps({"directed": False, "classes": 4}))
        text = self.succeed("partition", "data/other", "--from", self.old["folder"])
        self.assertRegex(text, "cut (quickly|anew): [0-9]+ halo rows .*--drift 1.1.* extended would "
                               "have [0-9]+")
        fresh = json.loads(self.succeed("partition", "data/other", "--parts", "4", "--parts-dir",
                                        "fresh-other", "--json"))
        grown = json.loads(self.succeed("partition", "data/other", "--parts", "4", "--json"))
        self.assertIn(grown["partition"]["from"][0]["cut"], ("quick", "anew"))
        rows_of = lambda made: made["quality"]["total"]["halo_forward"]
        self.assertLessEqual(rows_of(grown), 1.1 * rows_of(fresh))

    def test_trains_as_on_a_fresh_cut(self):
        self.grow("to-train")
        self.succeed("partition", "data/grown", "--parts", "4", "--parts-dir", "fresh")
        losses = []
        for place in ("to-train", "fresh"):
            self.succeed("train", "data/grown", "--layers", "2", "--hidden", "8", "--epochs", "20",
                         "--backend", "cpu", "--transport", "local", "--ranks", "4", "--parts-dir",
                         place, "--run-dir", f"run-{place}")
            self.assertEqual(len(os.listdir(self.path(place))), 1)
            with open(self.path(f"run-{place}", "metrics.jsonl"), encoding="utf-8") as lines:
                losses.append([json.loads(line)["loss"] for line in lines])
        self.assertEqual(len(losses[0]), 20)
        for grown, fresh in zip(*losses):
            self.assertAlmostEqual(grown, fresh, delta=1e-4 * abs(fresh))

    def test_is_not_replaced(self):
        self.succeed("partition", "data/grown", "--parts", "4", "--parts-dir", "there")
        _, text = self.grow("there")
        self.assertIn("cut from nothing before; remove the folder to let it grow", text)

    def test_errors(self):
        grown = ["partition", "data/grown", "--from"]
        for words, arguments in (
                (["--parts: 2 found", "has 4 parts"], [*grown, self.old["folder"], "--parts", "2"]),
                (["--parts is required", "data/old"], [*grown, "data/old"]),
                (["data: not a partition"], [*grown, "data"]),
                (["no such partition", "atoll partition data/old --list"],
                 [*grown, "data/old", "--parts", "3"]),
                (["cut from a graph with 1100 nodes", "data/smaller has 1000"],
                 ["partition", "data/smaller", "--from", self.old["folder"]]),
                (["--balance", "nodes", "cost"], [*grown, self.old["folder"], "--balance", "nodes"]),
                (["--islands", "[2,2]", "none"], [*grown, self.old["folder"], "--islands", "2,2"]),
                (["--method: random found with --from"],
                 [*grown, self.old["folder"], "--method", "random"]),
                (["--objective: cut found with --from"],
                 [*grown, self.old["folder"], "--objective", "cut"]),
                (["--drift: nan found; allowed are 1 to 100"],
                 [*grown, self.old["folder"], "--drift", "nan"]),
                (["--drift", "0.5"], [*grown, self.old["folder"], "--drift", "0.5"]),
                (["--drift", "--from"], ["partition", "data/grown", "--parts", "4", "--drift", "2"]),
                (["--from", "--list"], [*grown, self.old["folder"], "--list"])):
            if "data/smaller" in arguments and not os.path.exists(self.path("data/smaller")):
                first_nodes(self.path("data/grown"), 1000, self.path("data/smaller"), classes=4)
            with self.subTest(" ".join(arguments)):
                result = run([*arguments, "--parts-dir", "none"] if "data/old" not in arguments
                             else arguments, self.folder)
                self.assertEqual(result.returncode, 2, result.stderr + result.stdout)
                for word in words:
                    self.assertIn(word, result.stderr)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_damaged_folder(self):
        shutil.copytree(self.path(self.old["folder"]), self.path("damaged"))
        replace_npy_data(self.path("damaged/part-1/inner_ids.npy"), 0, b"\7")
        error = self.refuse("partition", "data/grown", "--from", "damaged", "--parts-dir", "none")
        self.assertIn("damaged/part-1/inner_ids.npy: changed since shard.json was written", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
