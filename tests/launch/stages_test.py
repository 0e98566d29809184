#!/usr/bin/env python3
"""Layers in stages (docs/stages.md) from the command line: the same bits for any number of ranks,
resumed runs, predictions, bench, and what is refused."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

MODEL = ["--model", "gcnii", "--layers", "4", "--hidden", "16", "--norm", "layer", "--backend",
         "cpu"]
STAGES = ["--stages", "all", "--stale", "on", "--chunks", "4", "--stale-from", "3"]


class StagesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--out", "data")

    def train(self, name, *options, ranks=3):
        result = run(["train", "data", *MODEL, *options, "--run-dir", name], self.folder,
                     ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")
        return result.stderr

    def file(self, name, file):
        with open(os.path.join(self.folder, name, file), "rb") as handle:
            return handle.read()

    def losses(self, name):
        return [json.loads(line)["loss"] for line in self.file(name, "metrics.jsonl").splitlines()]

    def test_any_number_of_ranks_trains_the_same_bits(self):
        said = self.train("three", *STAGES, "--epochs", "8", "--verbose")
        self.assertIn("stages begin with layers 0, ", said)
        self.assertIn("4 chunks of nodes, which read rows of the last epoch from epoch 3 on", said)
        for name, ranks in (("one", 1), ("two", 2), ("four", 4)):
            self.train(name, *STAGES, "--epochs", "8", ranks=ranks)
            self.assertEqual(self.losses(name), self.losses("three"), name)
        self.train("whole", "--epochs", "8", ranks=1)
        for staged, whole in list(zip(self.losses("three"), self.losses("whole")))[:2]:
            self.assertAlmostEqual(staged, whole, delta=1e-5 * whole)
        self.assertNotEqual(self.losses("three")[-1], self.losses("whole")[-1])

    def test_a_run_goes_on_from_its_checkpoint_with_other_stages(self):
        options = [*STAGES, "--checkpoint-every", "4"]
        self.train("straight", *options, "--epochs", "12")
        self.train("stopped", *options, "--epochs", "8")
        self.train("stopped", "--epochs", "12", "--resume")
        self.assertEqual(self.file("stopped", "model.safetensors"),
                         self.file("straight", "model.safetensors"))
        self.train("fewer", *options, "--epochs", "8")
        self.train("fewer", "--epochs", "12", "--resume", ranks=2)
        self.assertEqual(self.losses("fewer"), self.losses("straight"))
        error = self.refuse("train", "data", *MODEL, *options, "--chunks", "5", "--epochs", "14",
                            "--run-dir", "fewer", "--resume", ranks=3)
        self.assertIn("chunks", error)

    def test_one_rank_evaluates_the_model_as_the_run_did(self):
        self.train("evaluated", *STAGES, "--epochs", "6", "--eval-every", "6")
        self.succeed("predict", "evaluated", "data", "--out", "labels.npy")
        self.succeed("evaluate", "evaluated", "data", "--out", "alone.json")
        with open(os.path.join(self.folder, "alone.json"), encoding="utf-8") as file:
            alone = json.load(file)
        in_stages = json.loads(self.file("evaluated", "summary.json"))
        for split in ("train", "valid", "test"):
            self.assertEqual(alone[split], in_stages[split], split)
            self.assertGreater(alone[split], 0.2, split)

    def test_bench_tells_stages_and_bytes(self):
        for bits, columns in (([], 4 * 16), (["--exchange", "quantized", "--bits", "4"], 4 + 8)):
            result = run(["bench", "data", *MODEL, "--stages", "2", "--stale", "on",
                          "--stale-from", "2", "--warmup", "2", "--epochs", "2", "--json", *bits],
                         self.folder, ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout)
            self.assertEqual((report["first_layers"][0], len(report["first_layers"]),
                              report["chunks"]), (0, 2, 32))
            # One matrix forward, and two backward: of the layer and of the first row.
            rows = 3 * 1200 * columns
            sums = report["bytes_sent_per_epoch"] - rows
            self.assertGreater(sums, 0, bits)
            self.assertLess(sums, 20000, bits)
            if not bits:
                self.assertEqual(report["halo_bytes_per_epoch_formula"], rows)

    def test_what_is_refused(self):
        for options, ranks, words in (
                (["--stages", "2"], 2, ["--stages 2", "add --stale on"]),
                (["--stages", "2", "--stale", "on"], 3, ["--stages 2", "3 ranks", "allowed are 3"]),
                (["--stages", "some"], 1, ["--stages some", "whole numbers", "all"]),
                ([*STAGES, "--snapshot-every", "2"], 2, ["--snapshot-every 2", "--checkpoint-every"]),
                ([*STAGES, "--trace"], 2, ["--trace", "allowed without it"]),
                (["--chunks", "4"], 1, ["--chunks 4", "without --stages"]),
                (["--stale-from", "4"], 1, ["--stale-from 4", "without --stages"]),
                ([*STAGES, "--norm", "batch"], 2, ["moments", "--norm layer or none"]),
                ([*STAGES, "--layers", "2"], 3, ["2 layers", "1 to 2 ranks"]),
                ([*STAGES, "--bits", "adaptive"], 2, ["--bits adaptive", "allowed are 1, 2, 4"]),
                ([*STAGES, "--blocks", "4"], 2, ["--blocks 4", "allowed without it"]),
                ([*STAGES, "--group-ranks", "2"], 2, ["--group-ranks 2", "leave it out"])):
            model = [word for i, word in enumerate(MODEL)
                     if not any(MODEL[j] in options for j in (i, i - 1) if j >= 0 and
                                MODEL[j].startswith("--") and MODEL[j] != "--backend")]
            error = self.refuse("train", "data", *model, *options, "--epochs", "4", ranks=ranks)
            for word in words:
                self.assertIn(word, error, options)


if __name__ == "__main__":
    unittest.main()
