#!/usr/bin/env python3
"""Runs on a dataset that has grown (docs/growing.md) from the command line: --warm-start, --replay
and --sequence, and the report of the runs of a sequence."""

import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, first_nodes, run

TRAIN = ["--layers", "2", "--backend", "cpu", "--epochs", "4"]  # of 256 columns
STEPS = (400, 700, 1000)
SEQUENCE = ["--sequence", ",".join(map(str, STEPS))]


class WarmStartTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", str(STEPS[-1]), "--features", "8", "--classes",
                    "4", "--out", "data-3")
        for number, nodes in enumerate(STEPS[:-1], 1):
            first_nodes(os.path.join(cls.folder, "data-3"), nodes,
                        os.path.join(cls.folder, f"data-{number}"))
        cls.succeed("train", "data-1", *TRAIN, *SEQUENCE, "--run-dir", "run-1")
        cls.succeed("train", "data-2", *TRAIN, *SEQUENCE, "--run-dir", "run-2", "--warm-start",
                    "run-1", "--replay", "0")
        cls.succeed("train", "data-3", *TRAIN, *SEQUENCE, "--run-dir", "run-3", "--warm-start",
                    "run-2/model.safetensors", "--replay", "20", "--replay-select", "cover",
                    "--replay-weights", "match")

    def read(self, *path):
        with open(os.path.join(self.folder, *path), "rb") as file:
            return file.read()

    def summary(self, name):
        return json.loads(self.read(name, "summary.json"))

    def test_what_runs_record(self):
        self.assertNotIn("warm_start", self.summary("run-1"))
        second, third = self.summary("run-2"), self.summary("run-3")
        self.assertEqual(second["warm_start"]["model"], "run-1/model.safetensors")
        self.assertEqual([second["replay"]["from"], second["replay"]["buffer"]], [400, 0])
        self.assertEqual([third["replay"]["from"], third["replay"]["buffer"]], [700, 20])
        self.assertEqual(third["replay"]["old_nodes"],
                         second["replay"]["old_nodes"] + second["replay"]["new_nodes"])
        before, after = third["replay"]["distance"]
        self.assertLess(after, before)
        self.assertEqual([step["nodes"] for step in third["sequence"]],
                         [[0, 400], [400, 700], [700, 1000]])

    def test_the_report_has_matrix_performance_and_forgetting(self):
        said = self.succeed("report", "run-1", "run-2", "run-3", "--sequence", "--out", "all.html")
        score = [[step["test"] for step in self.summary(f"run-{i}")["sequence"]]
                 for i in (1, 2, 3)]
        for name, scores in zip(("run-1", "run-2", "run-3"), score):
            row = re.search(rf"^ *{name}((?: +[\d.]+)*)$", said, re.MULTILINE).group(1).split()
            self.assertEqual(row, [f"{value:.4f}" for value in scores])
        average = sum(score[2]) / 3
        forgetting = (score[2][0] - score[0][0] + score[2][1] - score[1][1]) / 2
        found = re.search(r"average performance ([\d.]+), forgetting ([-+.\d]+)", said)
        self.assertAlmostEqual(float(found.group(1)), average, delta=6e-5)
        self.assertAlmostEqual(float(found.group(2)), forgetting, delta=6e-5)
        page = self.read("all.html").decode()
        self.assertIn("Steps of the dataset", page)
        self.assertIn("nodes 400-699", page)
        self.assertNotIn("Steps of the dataset", self.page_without_sequence())
        message = self.refuse("report", "run-2", "run-3", "--sequence", "--out", "none.html")
        self.assertIn("its dataset has 2 steps; run 1 of --sequence must have 1", message)

    def page_without_sequence(self):
        self.succeed("report", "run-1", "run-2", "--out", "plain.html")
        return self.read("plain.html").decode()

    def test_ranks_agree(self):
        words = ["data-3", *TRAIN, "--warm-start", "run-2", "--replay", "20", "--replay-select",
                 "cover", "--replay-weights", "match", "--run-dir"]
        result = run(["train", *words, "on-three"], self.folder, ranks=3)
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = {name: [json.loads(line)["loss"]
                         for line in self.read(name, "metrics.jsonl").splitlines()]
                  for name in ("on-three", "run-3")}
        for mine, expected in zip(losses["on-three"], losses["run-3"], strict=True):
            self.assertAlmostEqual(mine, expected, delta=1e-4 * expected)

    def test_a_run_can_be_repeated_and_resumed(self):
        self.succeed("train", "--config", "run-3/config.toml", "--run-dir", "in-two", "--epochs",
                     "2", "--checkpoint-every", "1")
        self.succeed("train", "data-3", "--run-dir", "in-two", "--epochs", "4", "--resume")
        self.assertEqual(self.read("in-two", "model.safetensors"),
                         self.read("run-3", "model.safetensors"))
        # From another folder.
        place = os.path.join(self.folder, "in-two", "config.toml")
        again = run(["train", "--config", place, "--resume", "--epochs", "5"], "/")
        self.assertEqual(again.returncode, 0, again.stderr)
        message = self.refuse("train", "data-3", "--run-dir", "in-two", "--epochs", "6",
                              "--resume", "--warm-start", "run-1")
        self.assertIn("the checkpoint was made with", message)

    def test_what_can_not_be_is_refused(self):
        for words, text in (
                (["--warm-start", "run-1", "--hidden", "8"], "F32 [8, 256] and must be F32 [8, 8]"),
                (["--warm-start", "data-1"], "data-1: holds no model.safetensors"),
                (["--warm-start", "nothing"], "nothing"),
                (["--warm-start", "run-1", "--init", "run-1/model.safetensors"], "leave one out"),
                (["--replay", "5"], "which nodes are new is not known"),
                (["--replay", "-1"], "allowed are all, and whole numbers from 0"),
                (["--replay-from", "5"], "--replay-from 5: found without --replay"),
                (["--replay", "5", "--replay-from", "2000"], "has 1000 nodes"),
                (["--sequence", "5,5"], "allowed are whole numbers that ascend")):
            message = self.refuse("train", "data-3", *TRAIN, "--run-dir", "none", *words)
            self.assertIn(text, message)
        message = self.refuse("train", "data-3", *TRAIN, "--run-dir", "run-1", "--overwrite",
                              "--warm-start", "run-1")
        self.assertIn("where the new run would take its place", message)
        # A benchmark begins with no other run's model.
        for words, text in ((["--replay", "5"], "give --replay-from"),
                            (["--replay", "5", "--replay-weights", "match"], "bench begins with none")):
            message = self.refuse("bench", "data-3", *words)
            self.assertIn(text, message)
            self.assertNotIn("--warm-start", message)

    def test_other_options_of_the_model_are_said(self):
        result = run(["train", "data-2", *TRAIN, "--run-dir", "none", "--warm-start", "run-1",
                      "--activation", "elu"], self.folder)
        self.assertIn('activation "relu", now "elu"', result.stderr)


if __name__ == "__main__":
    unittest.main()
