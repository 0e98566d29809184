#!/usr/bin/env python3
"""Exchange modes (docs/exchange.md) from the command line: what they send, how they resume, and what
they refuse."""

import json
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

TRAIN = ["train", "data", "--norm", "batch", "--layers", "3", "--hidden", "16", "--backend", "cpu",
         "--eval-every", "3"]
# One of every mode that keeps something from one epoch to the next, and some that don't.
MODES = {
    "one-bit": ["--exchange", "one-bit"],
    "one-bit-late": ["--exchange", "one-bit", "--schedule", "pipelined", "--synchronous-every", "5"],
    "stale": ["--exchange", "stale"],
    "stale-shifted": ["--exchange", "stale", "--bits", "8", "--shift", "on"],
    "sampled": ["--exchange", "sampled", "--rate", "0.3"],
    "periodic": ["--exchange", "periodic", "--every", "5"],
    "staggered": ["--exchange", "periodic", "--every", "4", "--stagger", "on", "--shift", "on"],
    "skip": ["--exchange", "skip", "--bound", "0.4", "--oldest", "5"],
    "compensated": ["--exchange", "compensated"],
    # By given times, or no two runs would be alike. It chooses after epochs 5, 7, 9 and 11.
    "unified": ["--exchange", "unified", "--calibration", "slow.json", "--drift-limit", "1000",
                "--reassign-every", "2"],
    "compensated-late": ["--exchange", "compensated", "--bits", "1", "--schedule", "pipelined"],
    "repartitioned": ["--exchange", "none", "--repartition-every", "3", "--coverage-weights", "on"],
}


class ExchangeModesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "rmat", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--out", "data")
        links = [{"from": a, "to": b, "theta_s_per_byte": 1e-5, "gamma_s": 1e-4}
                 for a in range(3) for b in range(3) if a != b]
        channels = [{"layer": layer, "direction": direction, "central_s": 0, "slowdown_s": 0,
                     "quantize_s": 0} for layer in range(3) for direction in ("forward", "backward")]
        with open(os.path.join(cls.folder, "slow.json"), "w", encoding="utf-8") as file:
            json.dump({"exchange": {"ranks": 3, "links": links, "channels": channels}}, file)

    def train(self, name, *options, ranks=3):
        result = run([*TRAIN, *options, "--run-dir", name], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")

    def file(self, name, file):
        with open(os.path.join(self.folder, name, file), "rb") as handle:
            return handle.read()

    def epochs(self, name):
        return [json.loads(line) for line in self.file(name, "metrics.jsonl").splitlines()]

    def test_resumed_runs_have_the_same_bits(self):
        for name, options in MODES.items():
            part, whole = ("9", "12") if name == "unified" else ("4", "8")
            self.train(f"{name}-whole", *options, "--epochs", whole)
            self.train(f"{name}-part", *options, "--epochs", part, "--checkpoint-every", "4")
            self.train(f"{name}-part", "--epochs", whole, "--resume")
            self.assertEqual(self.file(f"{name}-part", "model.safetensors"),
                             self.file(f"{name}-whole", "model.safetensors"), name)
            losses = [[epoch["loss"] for epoch in self.epochs(f"{name}-{which}")]
                      for which in ("part", "whole")]
            self.assertEqual(*losses, name)

    def test_what_they_send(self):
        self.train("exact", "--epochs", "7")
        exact = [epoch["bytes_sent"] for epoch in self.epochs("exact")]  # with the padding of rows
        for name, options, share in (
                ("share-sampled", MODES["sampled"], (.2, .5)), ("share-one-bit", MODES["one-bit"], (.1, .9)),
                ("share-stale", MODES["stale"], (.7, 1)),
                ("share-periodic", ["--exchange", "periodic", "--every", "20"], (0, .2))):
            self.train(name, *options, "--epochs", "7")
            sent = [epoch["bytes_sent"] for epoch in self.epochs(name)]
            found = sent[5] / exact[5]
            self.assertTrue(share[0] < found < share[1], f"{name}: {found} of the bytes of exact")
            summary = json.loads(self.file(name, "summary.json"))
            self.assertEqual(summary["exchange"], options[1])
        self.train("share-unified", *MODES["unified"], "--epochs", "7")
        chosen = self.epochs("share-unified")[5]["assignment"]["channels"]
        self.assertGreater(sum(chosen[0]["periods"].values()), 0)
        self.assertTrue(all(0 < channel["error"] < 1 for channel in chosen))
        skipped = self.epochs("share-sampled")[5]["assignment"]["channels"][0]
        self.assertLess(sum(skipped["bits"].values()), skipped["rows"])

    def test_each_rank_has_a_file_for_the_rows_that_it_keeps(self):
        def files(epoch):
            ranks = [f"epoch-{epoch}.rank-{rank}-of-3.safetensors" for rank in range(3)]
            return sorted([f"epoch-{epoch}.safetensors", *ranks])

        def resume(change):
            """As from the fourth epoch, once `change` has been made to the folder."""
            shutil.copytree(os.path.join(self.folder, "kept"), os.path.join(self.folder, change.__name__))
            checkpoint = os.path.join(self.folder, change.__name__, "checkpoint")
            change(checkpoint)
            result = run([*TRAIN, "--epochs", "8", "--resume", "--run-dir", change.__name__],
                         self.folder, ranks=3)
            return result, sorted(os.listdir(checkpoint))

        def nothing(_):
            pass

        def lost(folder):
            os.remove(os.path.join(folder, files(4)[2]))

        def damaged(folder):
            with open(os.path.join(folder, files(4)[2]), "r+b") as file:
                file.seek(-1, os.SEEK_END)
                last = file.read(1)
                file.seek(-1, os.SEEK_END)
                file.write(bytes([last[0] ^ 1]))

        self.train("kept", *MODES["compensated"], "--epochs", "4", "--checkpoint-every", "2")
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "kept/checkpoint"))), files(4))
        result, there = resume(nothing)
        self.assertEqual((result.returncode, there), (0, files(8)), result.stderr)
        self.assertNotIn("anew", result.stderr)
        result, there = resume(lost)
        self.assertEqual((result.returncode, there), (0, files(8)), result.stderr)
        self.assertIn("1 of 3 ranks don't find", result.stderr)
        self.assertIn("starts anew", result.stderr)
        self.assertNotEqual(self.file("lost", "model.safetensors"),
                            self.file("nothing", "model.safetensors"))
        result, there = resume(damaged)
        self.assertEqual((result.returncode, there), (2, files(4)), result.stderr)
        self.assertIn(files(4)[2], result.stderr)

    def test_another_number_of_ranks_begins_anew(self):
        self.train("ranks", *MODES["periodic"], "--epochs", "3")
        result = run([*TRAIN, "--epochs", "6", "--resume", "--run-dir", "ranks"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("starts anew", result.stderr)

    def test_new_cuts(self):
        """On two ranks, stopped when a cut is over; what is recorded; and what a cut takes."""
        options = MODES["repartitioned"]
        self.train("cuts-whole", *options, "--epochs", "8", ranks=2)
        self.train("cuts-part", *options, "--epochs", "6", "--checkpoint-every", "6", ranks=2)
        self.train("cuts-part", "--epochs", "8", "--resume", ranks=2)
        self.assertEqual(self.file("cuts-part", "model.safetensors"),
                         self.file("cuts-whole", "model.safetensors"))
        epochs = self.epochs("cuts-whole")
        for field in ("loss", "valid_loss", "cut", "edges_inside"):
            self.assertEqual([epoch.get(field) for epoch in self.epochs("cuts-part")],
                             [epoch.get(field) for epoch in epochs])
        self.assertEqual([epoch["cut"] for epoch in epochs], [0, 0, 0, 1, 1, 1, 2, 2])
        self.assertEqual([epoch["epoch"] for epoch in epochs if "cut_ms" in epoch], [4, 7])
        self.train("cuts-none", "--exchange", "none", "--epochs", "8", ranks=2)
        none = self.epochs("cuts-none")
        self.assertNotIn("cut", none[0])
        self.assertEqual([epoch["loss"] for epoch in none[:3]], [epoch["loss"] for epoch in epochs[:3]])
        self.assertNotEqual(none[4]["loss"], epochs[4]["loss"])
        result = run(["bench", *TRAIN[1:10], *options, "--warmup", "1", "--epochs", "6", "--json"],
                     self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["cut_ms"]["median"], 0)

    def test_contradictions_are_named(self):
        for options, words in (
                (["--exchange", "fast"], ["fast", "compensated"]),
                (["--exchange", "stale", "--bits", "adaptive"], ["--bits adaptive", "--exchange stale"]),
                (["--exchange", "sampled", "--bits", "random"], ["--bits random", "sampled"]),
                (["--exchange", "sampled", "--rate", "0"], ["--rate", "0"]),
                (["--exchange", "periodic", "--every", "0"], ["--every", "0"]),
                (["--exchange", "skip", "--oldest", "65"], ["--oldest", "65", "64"]),
                (["--exchange", "unified", "--bits", "2"], ["--bits 2", "unified"]),
                (["--exchange", "unified", "--drift-limit", "-1"], ["--drift-limit", "-1"]),
                (["--exchange", "sampled", "--shift", "on"], ["--shift on", "sampled"]),
                (["--exchange", "skip", "--schedule", "pipelined"], ["--schedule pipelined", "skip"]),
                (["--synchronous-every", "4"], ["--synchronous-every 4", "exact"]),
                (["--exchange", "stale", "--cuda-graph", "on"], ["--cuda-graph on", "stale"]),
                (["--repartition-every", "5"], ["--repartition-every 5", "exact", "--exchange none"]),
                (["--repartition-every", "-1"], ["--repartition-every", "-1"]),
                (["--repartition-every", "5", "--plan", "slow.json"], ["--repartition-every", "--plan"]),
                (["--exchange", "none", "--coverage-weights", "on"],
                 ["--coverage-weights on", "--repartition-every"]),
                (["--exchange", "none", "--coverage-weights", "yes"],
                 ["--coverage-weights", "yes", "on"]),
                (["--exchange", "none", "--repartition-every", "2", "--weights", "2,1", "--ranks", "2",
                  "--transport", "local"], ["--weights", "--repartition-every"])):
            result = run([*TRAIN, *options, "--epochs", "1", "--run-dir", "none"], self.folder)
            self.assertEqual(result.returncode, 2, f"{options}: {result.stderr}")
            for word in words:
                self.assertIn(word, result.stderr)
        bench = ["bench", "data", *TRAIN[2:8], "--compare", "exact,stale"]
        result = run(bench, self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--exchange stale", result.stderr)
        result = run([*bench[:-1], "exact,none", "--exchange", "none", "--repartition-every", "2"],
                     self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--repartition-every", result.stderr)

    def test_options_of_other_modes_are_named(self):
        for options, words in (
                (["--every", "5"], ["--every 5", "--exchange exact", "for --exchange periodic"]),
                # Also at their defaults.
                (["--exchange", "periodic", "--rate", "0.1"],
                 ["--rate 0.1", "--exchange periodic", "for --exchange sampled"]),
                (["--exchange", "stale", "--stagger", "off"], ["--stagger off", "for --exchange periodic"]),
                (["--bits", "4", "--bound", "1"], ["--bound 1", "quantized", "for --exchange skip"]),
                (["--exchange", "sampled", "--oldest", "3"], ["--oldest 3", "for --exchange skip"]),
                (["--exchange", "none", "--shift", "off"], ["--shift off", "stale, periodic, skip"]),
                (["--exchange", "compensated", "--synchronous-every", "0"],
                 ["--synchronous-every 0", "compensated", "for --exchange stale"]),
                (["--exchange", "exact", "--bits", "4"],
                 ["--bits 4", "--exchange exact", "for --exchange quantized"]),
                (["--exchange", "none", "--bits", "adaptive"], ["--bits adaptive", "--exchange none"]),
                (["--bits", "4", "--lambda", "0.3"], ["--lambda 0.3", "for --bits adaptive"]),
                (["--bits", "4", "--reassign-every", "3"],
                 ["--reassign-every 3", "for --bits random, adaptive"])):
            result = run([*TRAIN, *options, "--epochs", "1", "--run-dir", "none"], self.folder)
            self.assertEqual(result.returncode, 2, f"{options}: {result.stderr}")
            for word in words:
                self.assertIn(word, result.stderr)
        bench = ["bench", "data", *TRAIN[2:8], "--warmup", "0", "--epochs", "1", "--compare"]
        result = run([*bench, "exact,sampled", "--every", "5"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in ("--every 5", "--compare exact,sampled", "for --exchange periodic"):
            self.assertIn(word, result.stderr)
        result = run([*bench, "exact,periodic", "--every", "5"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_files_of_runs_with_another_mode(self):
        """A file may hold defaults of every option; a mode on the command line counts more."""
        self.train("filed", "--exchange", "periodic", "--every", "3", "--epochs", "1")
        for file, options, code in (("config.toml", [], 0), ("config.resolved.toml", [], 0),
                                    ("config.toml", ["--exchange", "exact"], 0),
                                    ("config.toml", ["--exchange", "exact", "--every", "3"], 2)):
            result = run(["train", "data", "--config", f"filed/{file}", *options, "--run-dir", "none"],
                         self.folder)
            self.assertEqual(result.returncode, code, f"{file} {options}: {result.stderr}")
        with open(os.path.join(self.folder, "odd.toml"), "w", encoding="utf-8") as file:
            file.write("exchange = 'exact'\nevery = 3\n")
        result = run(["train", "data", "--config", "odd.toml", "--run-dir", "none"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--every 3", result.stderr)


if __name__ == "__main__":
    unittest.main()
