#!/usr/bin/env python3
"""Training on blocks (docs/blocks.md) from the command line: the commands of the page, what runs
record, how they resume, and what is refused."""

import json
import os
import re
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/blocks.md")
TRAIN = ["train", "data/arxiv", "--norm", "batch", "--layers", "3", "--hidden", "16", "--backend",
         "cpu"]


class BlocksTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        os.mkdir(os.path.join(cls.folder, "data"))
        cls.succeed("generate", "sbm", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--out", "data/arxiv")

    def train(self, name, *options, ranks=3):
        result = run([*TRAIN, *options, "--run-dir", name], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")

    def file(self, name, file):
        with open(os.path.join(self.folder, name, file), "rb") as handle:
            return handle.read()

    def epochs(self, name):
        return [json.loads(line) for line in self.file(name, "metrics.jsonl").splitlines()]

    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            lines = [line.split("  #")[0] for line in file.read().replace("\\\n", " ").splitlines()
                     if re.match("    (mpirun|build/atoll)", line)]
        self.assertGreater(len(lines), 4)
        for number, line in enumerate(lines):
            words = shlex.split(line)
            ranks = int(words[2]) if words[0] == "mpirun" else 0
            words = words[words.index("build/atoll") + 1:]
            more = ["--run-dir", f"page-{number}"] if words[0] == "train" else ["--warmup", "1"]
            if "--epochs" not in words:
                more += ["--epochs", "2"]
            result = run([*words, "--hidden", "8", *more], self.folder, ranks=ranks)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_any_number_of_ranks(self):
        self.train("one", "--blocks", "4", "--epochs", "3", ranks=0)
        for ranks, options in ((2, []), (4, ["--arrival", "on"])):
            name = f"ranks-{ranks}"
            self.train(name, "--blocks", "4", "--epochs", "3", *options, ranks=ranks)
            for one, several in zip(self.epochs("one"), self.epochs(name)):
                self.assertAlmostEqual(several["loss"], one["loss"], delta=1e-4 * one["loss"])
                self.assertEqual(several["edges_kept"], one["edges_kept"])
                self.assertEqual(several["steps"], 4)
                self.assertIn("next block", several["phases"])

    def test_resumed_runs_have_the_same_bits(self):
        for name, options in (("exact", ["--blocks-until", "5"]), ("bits", ["--bits", "4"]),
                              ("none", ["--exchange", "none", "--block-kind", "random"])):
            options = ["--blocks", "4", *options]
            self.train(f"{name}-whole", *options, "--epochs", "7")
            self.train(f"{name}-part", *options, "--epochs", "4", "--checkpoint-every", "4")
            self.train(f"{name}-part", "--epochs", "7", "--resume")
            self.assertEqual(self.file(f"{name}-part", "model.safetensors"),
                             self.file(f"{name}-whole", "model.safetensors"), name)
            for field in ("loss", "valid", "steps", "edges_kept"):
                self.assertEqual(*([epoch.get(field) for epoch in self.epochs(f"{name}-{which}")]
                                   for which in ("part", "whole")), (name, field))
        self.assertEqual([epoch.get("steps") for epoch in self.epochs("exact-whole")],
                         [4, 4, 4, 4, 4, None, None])
        self.assertEqual([epoch.get("last_before_switch") for epoch in self.epochs("exact-whole")],
                         [None, None, None, None, True, None, None])

    def test_blocks_end_by_accuracy(self):
        options = ["--blocks", "4", "--blocks-until", "accuracy", "--switch-patience", "2", "--lr",
                   "1e-12", "--norm", "none", "--lr-after-switch", "0.02"]
        result = run(["train", "data/arxiv", "--layers", "2", "--hidden", "16", "--backend", "cpu",
                      *options, "--epochs", "6", "--run-dir", "ends"], self.folder, ranks=3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("valid accuracy has not improved in 2 evaluations: from epoch 4 on, training "
                      "is on the whole graph", result.stderr)
        self.assertEqual(result.stderr.count("from epoch 4 on"), 1, "rank 0 says it")
        epochs = self.epochs("ends")
        self.assertEqual([epoch.get("steps") for epoch in epochs], [4, 4, 4, None, None, None])
        self.assertEqual([epoch.get("last_before_switch") for epoch in epochs],
                         [None, None, True, None, None, None])
        self.assertLess(epochs[5]["loss"], epochs[3]["loss"])
        self.succeed("generate", "sbm", "--nodes", "300", "--features", "4", "--classes", "3",
                     "--out", "no-valid")
        self.succeed("split", "no-valid", "--split", ".8,0,.2", "--replace")
        message = self.refuse("train", "no-valid", "--blocks", "4", "--blocks-until", "accuracy",
                              "--run-dir", "none")
        self.assertIn("--blocks-until accuracy: accuracy is undefined for the validation set",
                      message)

    def test_what_bench_says(self):
        bench = ["bench", *TRAIN[1:], "--blocks", "5", "--warmup", "1", "--epochs", "3", "--profile",
                 "1"]
        result = run([*bench, "--json"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["blocks"], report["block_kind"]), (5, "communities"))
        self.assertEqual(report["steps"]["median"], 5)
        self.assertTrue(.2 < report["edges_kept"]["median"] < 1)
        self.assertGreater(report["halo_bytes_per_epoch_formula"], 0)
        self.assertIn("5 steps per epoch, on", run(bench, self.folder).stdout)

    def test_predictions_are_of_the_whole_graph(self):
        self.train("whole", "--blocks", "4", "--epochs", "3", ranks=0)
        self.succeed("predict", "whole", "data/arxiv", "--out", "labels.npy")
        valid = json.loads(self.file("whole", "summary.json"))["valid"]
        self.assertRegex(self.succeed("evaluate", "whole", "data/arxiv"),
                         rf"accuracy +train 0.\d+ +valid {valid:.4f} ")

    def test_communities_of_before_are_pruned(self):
        self.succeed("generate", "sbm", "--nodes", "300", "--features", "4", "--classes", "3",
                     "--out", "changed")
        train = ["train", "changed", "--blocks", "4", "--epochs", "1", "--run-dir"]
        self.succeed(*train, "before")
        self.assertIn("removed 0 folders", self.succeed("partition", "changed", "--prune"))
        first, = os.listdir(os.path.join(self.folder, "changed/communities"))
        self.succeed("split", "changed", "--split", ".5,.3,.2", "--replace")
        self.succeed(*train, "after")
        removed = self.succeed("partition", "changed", "--prune")
        self.assertIn(f"changed/communities/{first}", removed)
        self.assertIn("removed 1 folder,", removed)
        second, = os.listdir(os.path.join(self.folder, "changed/communities"))
        self.assertNotEqual(first, second)

    def test_contradictions_are_named(self):
        with open(os.path.join(self.folder, "plan.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        for options, words in (
                (["--blocks", "1"], ["--blocks 1", "2 to 4096"]),
                (["--blocks", "many"], ["--blocks many", "auto", "2 to 4096"]),
                (["--blocks", "5000"], ["--blocks", "5000", "4096"]),
                (["--blocks", "-2"], ["--blocks", "-2"]),
                (["--blocks", "1201"], ["--blocks 1201", "1200 nodes", "2 to 1200"]),
                (["--block-kind", "random"], ["--block-kind random", "--blocks 2 or more"]),
                (["--blocks", "4", "--block-kind", "metis"], ["metis", "communities", "random"]),
                (["--blocks-until", "3"], ["--blocks-until 3", "--blocks 2 or more"]),
                (["--blocks-until", "accuracy"], ["--blocks-until accuracy", "--blocks 2 or more"]),
                (["--switch-patience", "2"],
                 ["--switch-patience 2", "--blocks-until 0 and --local-until 0", "accuracy"]),
                (["--lr-after-switch", "0.1"],
                 ["--lr-after-switch 0.1", "--blocks-until 0 and --local-until 0"]),
                (["--blocks", "4", "--blocks-until", "soon"],
                 ["--blocks-until", "soon", "0 to 10000000", "accuracy"]),
                (["--blocks", "4", "--blocks-until", "-1"], ["--blocks-until", "-1"]),
                (["--blocks", "4", "--blocks-until", "accuracy", "--eval-every", "0"],
                 ["--blocks-until accuracy", "--eval-every must be at least 1"]),
                (["--blocks", "4", "--blocks-until", "9", "--switch-patience", "2"],
                 ["--switch-patience 2", "--blocks-until 9", "--blocks-until accuracy"]),
                (["--blocks", "4", "--lr-after-switch", "0.1"],
                 ["--lr-after-switch 0.1", "--blocks-until 0", "accuracy"]),
                (["--blocks", "4", "--blocks-until", "3", "--lr-after-switch", "-1"],
                 ["--lr-after-switch", "-1"]),
                (["--blocks", "4", "--exchange", "stale"], ["--blocks 4", "--exchange stale", "quantized"]),
                (["--blocks", "4", "--bits", "8", "--schedule", "pipelined"],
                 ["--blocks 4", "--exchange quantized, pipelined"]),
                (["--blocks", "4", "--exchange", "unified"], ["--blocks 4", "--exchange unified"]),
                (["--blocks", "4", "--bits", "adaptive"], ["--blocks 4", "--bits adaptive", "1, 2, 4"]),
                (["--blocks", "4", "--exchange", "none", "--repartition-every", "2"],
                 ["--blocks 4", "--repartition-every"]),
                (["--blocks", "4", "--recompute", "all"], ["--blocks 4", "--recompute all"]),
                (["--blocks", "4", "--blocks-until", "3", "--memory", "8GiB"],
                 ["--blocks 4", "--memory found, where epochs on the whole graph follow"]),
                (["--blocks", "4", "--offload", "on"], ["--blocks 4", "--offload on"]),
                (["--blocks", "4", "--features", "trained:4"],
                 ["--blocks 4", "--features trained"]),
                (["--blocks", "4", "--trace"], ["--blocks 4", "--trace"]),
                (["--blocks", "4", "--cuda-graph", "on"], ["--blocks 4", "--cuda-graph on"]),
                (["--blocks", "4", "--blocks-until", "3", "--plan", "plan.json"],
                 ["--plan", "--blocks-until"])):
            folder = "refused" if "--trace" in options else "none"
            result = run([*TRAIN, *options, "--epochs", "1", "--run-dir", folder], self.folder)
            self.assertEqual(result.returncode, 2, f"{options}: {result.stderr}")
            for word in words:
                self.assertIn(word, result.stderr)
        result = run(["bench", *TRAIN[1:], "--compare", "exact,none", "--blocks", "4"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--blocks", result.stderr)
        for until in ("3", "accuracy"):
            result = run(["bench", *TRAIN[1:], "--blocks", "4", "--blocks-until", until], self.folder)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"--blocks-until {until}: found in bench", result.stderr)
        self.succeed("split", "data/arxiv", "--links", "--out", "links")
        result = run(["train", "links", "--blocks", "4", "--run-dir", "none"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("link-prediction", result.stderr)


if __name__ == "__main__":
    unittest.main()
