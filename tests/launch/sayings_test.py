#!/usr/bin/env python3
"""A training's output while it runs: on a terminal, without colours, and when it goes wrong."""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, OneFolderTest, environment, run

TRAIN = ["train", "data", "--layers", "2", "--hidden", "16", "--threads", "1", "--backend", "cpu"]


class SayingsTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", "300", "--out", "data")

    def on_terminal(self, *words, columns=None, **variables):
        """Everything that it writes, with standard error on a terminal."""
        master, slave = pty.openpty()
        if columns is not None:
            subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=slave, check=True)
        with subprocess.Popen([os.path.abspath(ATOLL), *words], cwd=self.folder, stderr=slave,
                              stdout=subprocess.DEVNULL,
                              env={**environment(), "TERM": "xterm", **variables}) as process:
            os.close(slave)
            text = b""
            while True:
                try:
                    text += os.read(master, 4096)
                except OSError:  # closed at the other end
                    break
        os.close(master)
        self.assertEqual(process.returncode, 0, text)
        return text.decode()

    def test_lines_of_progress_fit_the_terminal(self):
        command = [*TRAIN, "--epochs", "120", "--run-dir", "none"]
        for columns, width, full in ((None, 80, False), (80, 80, False), (200, 200, True),
                                     (40, 40, False)):
            lines = re.split(r"\r\n|\r\x1b\[K|\n", self.on_terminal(*command, columns=columns))
            epochs = [line for line in lines if line.startswith("epoch ")]
            self.assertGreater(len(epochs), 1)
            self.assertLess(max(map(len, epochs)), width)
            self.assertEqual("epochs/s" in epochs[-1], full)
            self.assertIn("left", epochs[-1])
            if columns != 40:
                self.assertRegex(epochs[-1], r"valid [01]\.")

    def test_no_color(self):
        command = [*TRAIN, "--epochs", "1", "--run-dir", "none"]
        colour = "\x1b[32m"
        self.assertIn(colour, self.on_terminal(*command))
        self.assertIn(colour, self.on_terminal(*command, NO_COLOR=""))
        self.assertNotRegex(self.on_terminal(*command, NO_COLOR="1"), r"\x1b\[[0-9;]*m")

    def test_a_run_that_diverges_fails(self):
        for ranks in (0, 2):
            result = run([*TRAIN, "--lr", "1e6", "--epochs", "20", "--overwrite", "--run-dir",
                          "wild"], self.folder, ranks)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("the run has diverged: the loss is"), 1,
                             result.stderr)
            self.assertIn("20 epochs", result.stdout)
        with open(os.path.join(self.folder, "wild/summary.json"), encoding="utf-8") as file:
            self.assertTrue(json.load(file)["diverged"])
        for options in (["--lr", "1e20"], ["--lr", "1e20", "--eval-every", "1"],
                        ["--lr", "1e20", "--bits", "4", "--transport", "local", "--ranks", "2"]):
            result = run([*TRAIN, *options, "--epochs", "20", "--run-dir", "none"], self.folder)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("lower --lr", result.stderr)
        result = run([*TRAIN, "--epochs", "20", "--overwrite", "--run-dir", "good"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(self.folder, "good/summary.json"), encoding="utf-8") as file:
            self.assertFalse(json.load(file)["diverged"])

    def test_the_best_epoch_before_a_divergence_is_kept(self):
        for ranks in (0, 2):
            folder = f"steps-{ranks}"
            result = run([*TRAIN, "--lr", "0.01", "--epochs", "20", "--eval-every", "1",
                          "--lr-schedule", "step", "--lr-step-epochs", "5", "--lr-step-factor", "1e32",
                          "--run-dir", folder], self.folder, ranks)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("the run has diverged", result.stderr)
            with open(os.path.join(self.folder, folder, "summary.json"), encoding="utf-8") as file:
                summary = json.load(file)
            self.assertTrue(summary["diverged"])
            self.assertEqual(summary["stopped_by"], "divergence")
            self.assertIn(f"; {folder}/model.safetensors holds the model of epoch "
                          f"{summary['best_epoch']}, the best one before", result.stderr)
            self.assertNotIn("-nan", result.stderr)
            self.assertIn(summary["best_epoch"], range(1, 8))
            result = run(["predict", folder, "data", "--out", f"{folder}.npy"], self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_narrow_heads_are_warned_of(self):
        def say(*words):
            base = ["train", "data", "--layers", "2", "--threads", "1", "--backend", "cpu"]
            result = run([*base, "--model", "gat", "--epochs", "1", "--run-dir", "none", *words],
                         self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stderr
        self.assertIn("warning layer 0 (gat): with 8 heads and --hidden 8 each head has 1 column, "
                      "since --hidden counts those of all heads together; as wide as PyTorch "
                      "Geometric's GATConv with out_channels=8 is --hidden 64",
                      say("--hidden", "8", "--heads", "8"))
        for words in (["--hidden", "32", "--heads", "8"], ["--hidden", "2", "--heads", "1"],
                      ["--hidden", "32", "--heads", "8", "--output-heads", "8"]):
            self.assertNotIn("each head has", say(*words))

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a device")
    def test_a_missing_device_is_an_error_of_the_option(self):
        for words in (TRAIN, ["bench", "data"], ["topology", "probe", "--out", "t.json"]):
            words = [word for word in words if word not in ("--backend", "cpu")]
            result = run([*words, "--backend", "cuda"], self.folder)
            self.assertEqual(result.returncode, 2, f"{words}: {result.stderr}")
            self.assertIn("backend cuda", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
