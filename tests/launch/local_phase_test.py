#!/usr/bin/env python3
"""Runs that begin without messages (docs/exchange.md, A local phase) from the command line: what
they record and say, how they resume on several ranks, and what is refused."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

TRAIN = ["train", "data", "--layers", "3", "--hidden", "16", "--backend", "cpu"]
# Options beside the phase. Runs stop before, at and after the switch.
LATER = {
    "exact": [],
    "compensated": ["--exchange", "compensated", "--repartition-every", "2", "--coverage-weights",
                    "on"],
    "blocks": ["--exchange", "unified", "--blocks", "3", "--lambda", "1"],
}


class LocalPhaseTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--out", "data")

    def train(self, name, *options, ranks=3):
        norm = [] if "--norm" in options else ["--norm", "batch"]
        result = run([*TRAIN, *norm, *options, "--run-dir", name], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")
        return result.stderr

    def file(self, name, file):
        with open(os.path.join(self.folder, name, file), "rb") as handle:
            return handle.read()

    def epochs(self, name):
        return [json.loads(line) for line in self.file(name, "metrics.jsonl").splitlines()]

    def field(self, name, field):
        return [epoch.get(field) for epoch in self.epochs(name)]

    def test_resumed_runs_have_the_same_bits(self):
        for (name, options), ranks in zip(LATER.items(), (2, 3, 2)):
            options = [*options, "--local-until", "4"]
            said = self.train(f"{name}-whole", *options, "--epochs", "7", ranks=ranks)
            self.assertEqual(said.count("from epoch 5 on, training is"), 1, said)
            for stop in ("3", "4", "5"):
                part = f"{name}-{stop}"
                self.train(part, *options, "--epochs", stop, "--checkpoint-every", "9", ranks=ranks)
                self.train(part, "--epochs", "7", "--resume", ranks=ranks)
                self.assertEqual(self.file(part, "model.safetensors"),
                                 self.file(f"{name}-whole", "model.safetensors"), part)
                for field in ("loss", "valid", "cut", "steps", "last_before_switch"):
                    self.assertEqual(self.field(part, field), self.field(f"{name}-whole", field),
                                     (part, field))
            self.assertEqual(self.field(f"{name}-whole", "last_before_switch"),
                             [None, None, None, True, None, None, None])
        self.assertEqual(self.field("compensated-whole", "cut"), [0, 0, 1, 1, 0, 0, 0])
        self.assertEqual(self.field("blocks-whole", "steps"), [3, 3, 3, 3, None, None, None])

    def test_no_messages_until_then(self):
        self.train("nothing", "--exchange", "none", "--epochs", "6")
        self.train("exact", "--epochs", "6")
        said = self.train("local", "--local-until", "3", "--epochs", "6")
        self.assertIn("from epoch 4 on, training is with messages, --exchange exact", said)
        self.assertEqual(self.field("local", "loss")[:3], self.field("nothing", "loss")[:3])
        self.assertNotEqual(self.field("local", "loss")[3], self.field("nothing", "loss")[3])
        sent = self.field("local", "bytes_sent")
        self.assertEqual(sent[:3], self.field("nothing", "bytes_sent")[:3])
        self.assertEqual(sent[3:], self.field("exact", "bytes_sent")[3:])
        self.assertEqual(self.field("local", "assignment"), 6 * [None])

    def test_it_ends_by_accuracy(self):
        said = self.train("stalls", "--local-until", "accuracy", "--switch-patience", "2", "--lr",
                          "1e-12", "--norm", "none", "--lr-after-switch", "0.02", "--bits", "8",
                          "--epochs", "6")
        self.assertEqual(said.count("valid accuracy has not improved in 2 evaluations: from epoch 4 "
                                    "on, training is with messages, --exchange quantized"), 1, said)
        self.assertEqual(self.field("stalls", "last_before_switch"),
                         [None, None, True, None, None, None])
        self.assertEqual([assignment is not None for assignment in self.field("stalls", "assignment")],
                         [False, False, False, True, False, False])
        losses = self.field("stalls", "loss")
        self.assertLess(losses[5], losses[3])

    def test_contradictions_are_named(self):
        with open(os.path.join(self.folder, "plan.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        for options, words in (
                (["--local-until", "soon"], ["--local-until", "soon", "0 to 10000000", "accuracy"]),
                (["--local-until", "-1"], ["--local-until", "-1"]),
                (["--local-until", "3", "--exchange", "none"],
                 ["--local-until 3", "--exchange none", "exact", "unified"]),
                (["--local-until", "accuracy", "--eval-every", "0"],
                 ["--local-until accuracy", "--eval-every must be at least 1"]),
                (["--local-until", "3", "--switch-patience", "2"],
                 ["--switch-patience 2", "--local-until 3", "--local-until accuracy"]),
                (["--local-until", "0", "--lr-after-switch", "0.1"],
                 ["--lr-after-switch 0.1", "--local-until 0", "accuracy"]),
                (["--local-until", "3", "--coverage-weights", "on"],
                 ["--coverage-weights on", "--repartition-every"]),
                (["--local-until", "0", "--repartition-every", "2"],
                 ["--repartition-every 2", "--exchange exact", "--local-until"]),
                (["--local-until", "3", "--blocks", "4", "--blocks-until", "3"],
                 ["--blocks-until 3", "--local-until 3"]),
                (["--local-until", "3", "--blocks", "4", "--repartition-every", "2"],
                 ["--blocks 4", "--repartition-every"]),
                (["--local-until", "3", "--trace"], ["--trace", "--local-until"]),
                (["--local-until", "3", "--recompute", "all", "--ranks", "2", "--transport", "local"],
                 ["--local-until 3", "--recompute"]),
                (["--local-until", "3", "--plan", "plan.json"], ["--plan", "--local-until"])):
            folder = "refused" if "--trace" in options else "none"
            result = run([*TRAIN, *options, "--epochs", "1", "--run-dir", folder], self.folder)
            self.assertEqual(result.returncode, 2, f"{options}: {result.stderr}")
            for word in words:
                self.assertIn(word, result.stderr)
        for until in ("3", "accuracy"):
            for more in ([], ["--compare", "exact,none"]):
                result = run(["bench", *TRAIN[1:], "--local-until", until, *more], self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"--local-until {until}: found in bench", result.stderr)
        self.succeed("generate", "sbm", "--nodes", "300", "--features", "4", "--classes", "3",
                     "--out", "no-valid")
        self.succeed("split", "no-valid", "--split", ".8,0,.2", "--replace")
        message = self.refuse("train", "no-valid", "--local-until", "accuracy", "--run-dir", "none")
        self.assertIn("--local-until accuracy: accuracy is undefined for the validation set", message)


if __name__ == "__main__":
    unittest.main()
