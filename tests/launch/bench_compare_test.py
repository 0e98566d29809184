#!/usr/bin/env python3
"""`atoll bench --compare` on a small graph: the fields of its figures, and those that can be known
beforehand."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import Workplace, run

BENCH = ["bench", "data", "--layers", "3", "--hidden", "16", "--transport", "local", "--ranks", "2",
         "--out", "figures.json"]
FIELDS = {"mode", "overlap", "mean_bits", "epoch_ms", "exposed_comm_ms", "bytes_sent_per_epoch",
          "loss", "speedup", "bound_ms", "loss_difference"}


def wire_bytes(bits, columns):
    """Bytes of one f32 row on the wire, as docs/exchange.md says."""
    return 4 * columns if bits == 32 else 4 + (columns * bits + 31) // 32 * 4


class BenchCompareTest(unittest.TestCase):
    def setUp(self):
        place = Workplace()
        self.folder = place.__enter__()
        self.addCleanup(place.cleanup)

    def compare(self, modes, *more, epochs=3):
        result = run(BENCH + ["--epochs", str(epochs), "--compare", modes, *more], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(self.folder, "figures.json"), encoding="utf-8") as file:
            report = json.load(file)
        return report, {mode["mode"]: mode for mode in report["modes"]}, result.stdout

    def test_figures_of_four_modes(self):
        report, modes, table = self.compare("vanilla,exact,8,adaptive")
        self.assertEqual([mode["mode"] for mode in report["modes"]],
                         ["vanilla", "exact", "8", "adaptive"])
        for field, value in {"ranks": 2, "nodes": 200, "model": "gcn", "hidden": 16, "epochs": 3,
                             "lambda": 0.5, "reassign_every": 10}.items():
            self.assertEqual(report[field], value, field)
        for name, mode in modes.items():
            self.assertLessEqual(FIELDS, set(mode), name)
            self.assertIn(f"\n  {name} ", table)
            epoch = mode["epoch_ms"]
            self.assertGreater(epoch["min"], 0)
            self.assertLessEqual(epoch["min"], epoch["median"])
            self.assertLessEqual(epoch["median"], epoch["max"])
            self.assertAlmostEqual(mode["speedup"],
                                   modes["vanilla"]["epoch_ms"]["median"] / epoch["median"])
            self.assertGreater(mode["bound_ms"], 0)
        self.assertFalse(modes["vanilla"]["overlap"])
        self.assertTrue(modes["exact"]["overlap"])
        # Overlap changes no bit.
        self.assertEqual(modes["vanilla"]["loss"], modes["exact"]["loss"])
        self.assertEqual(modes["exact"]["loss_difference"], 0)
        self.assertEqual(modes["vanilla"]["mean_bits"], 32)
        self.assertEqual(modes["8"]["mean_bits"], 8)
        self.assertNotEqual(modes["8"]["loss"], modes["exact"]["loss"])
        self.assertLess(abs(modes["8"]["loss_difference"]), 0.02)
        self.assertLess(abs(modes["adaptive"]["loss_difference"]), 0.3)
        self.assertTrue(1 <= modes["adaptive"]["mean_bits"] <= 32)

    def test_bytes_are_those_of_the_formula(self):
        _, modes, _ = self.compare("exact,8,2,random,adaptive,32")
        exact = modes["exact"]["bytes_sent_per_epoch"]
        for name in ("8", "2", "random", "adaptive", "32"):
            saved = 0
            for channel in modes[name]["assignment"]["channels"]:
                columns = channel["columns"]
                rows = sum(channel["bits"].values())
                sent = sum(count * wire_bytes(int(bits), columns)
                           for bits, count in channel["bits"].items())
                self.assertEqual(channel["bytes"], sent)
                self.assertEqual(channel["rows"], rows)
                # Rows of exact messages are padded to eight columns.
                saved += rows * wire_bytes(32, -(-columns // 8) * 8) - sent
            self.assertEqual(modes[name]["bytes_sent_per_epoch"], exact - saved, name)
            if name in ("8", "2", "random"):
                self.assertGreater(saved, 0)
        self.assertEqual(modes["32"]["loss"], modes["exact"]["loss"])
        self.assertLess(modes["2"]["bytes_sent_per_epoch"], modes["8"]["bytes_sent_per_epoch"])

    def test_bounds_of_modes_that_send_some_messages(self):
        """They are known, also where epochs differ by what they send."""
        _, modes, table = self.compare("vanilla,exact,sampled,periodic,skip,none", "--rate", "0.2",
                                       "--every", "2", "--bound", "0.3", "--warmup", "2", epochs=6)
        for name, mode in modes.items():
            self.assertIsNotNone(mode["bound_ms"], name)
            self.assertGreater(mode["bound_ms"], 0, name)
        # Without messages there is nothing to wait for.
        self.assertAlmostEqual(modes["none"]["bound_ms"], modes["none"]["epoch_ms"]["median"])
        self.assertIn("periodic", table)

    def test_without_a_vanilla_there_is_no_speedup(self):
        _, modes, table = self.compare("4,random", "--warmup", "1")
        for mode in modes.values():
            self.assertIsNone(mode["speedup"])
            self.assertIsNone(mode["loss_difference"])
            self.assertIsNone(mode["bound_ms"])
        self.assertIn(" - ", table)

    def test_all_is_every_mode(self):
        report, _, _ = self.compare("all", "--warmup", "0", "--model", "sage", epochs=1)
        self.assertEqual([mode["mode"] for mode in report["modes"]],
                         ["vanilla", "exact", "8", "4", "2", "1", "random", "adaptive"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
