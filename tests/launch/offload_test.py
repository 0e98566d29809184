#!/usr/bin/env python3
"""`--offload` and `--memory` on emulated devices as a user runs them: values that wait for backward in
the host's memory leave the model as it is, and what is forecast is what is taken."""

import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

DEEP = ["--model", "gcnii", "--layers", "16", "--hidden", "64"]
TRAIN = [*DEEP, "--threads", "1"]


class OffloadTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "1000", "--classes", "4", "--features", "8",
                    "--degree", "4", "--out", "data")

    def train(self, name, *options, epochs=2, backend="cuda"):
        result = run(["train", "data", *TRAIN, "--epochs", str(epochs), "--backend", backend,
                      "--run-dir", name, *options], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def least(self, *options):
        """MiB that the refusal of a far too small limit names."""
        message = self.refuse("train", "data", *TRAIN, "--backend", "cuda", "--run-dir", "refused",
                              "--memory", "1MiB", *options)
        self.assertIn("--memory 1MiB: training takes", message)
        return int(re.search(r"--memory (\d+)MiB or more", message).group(1))

    def check_any_choice(self, ranks):
        local = ["--transport", "local", "--ranks", ranks]
        self.assertNotIn("wait for backward", self.train(f"plain{ranks}", *local))
        text = self.train(f"all{ranks}", *local, "--offload", "on")
        self.assertRegex(text, r"--offload on: values wait for backward in .* of pinned host "
                               r"memory on rank 0")
        self.assertEqual(self.tensors(f"plain{ranks}"), self.tensors(f"all{ranks}"))
        limit = self.least(*local, "--offload", "on") - 3  # the figure has 4 MiB to spare
        text = self.train(f"limit{ranks}", *local, "--offload", "on", "--memory", f"{limit}MiB")
        self.assertRegex(text, r"--memory \d+MiB: values wait for backward")
        self.assertNotIn("computed again", text)
        self.assertEqual(self.tensors(f"plain{ranks}"), self.tensors(f"limit{ranks}"))

    def test_one_rank_has_the_same_model_with_any_choice(self):
        self.check_any_choice("1")

    def test_two_ranks_have_the_same_model_with_any_choice(self):
        self.check_any_choice("2")

    def test_both_ways_together_take_least(self):
        both = self.least()
        self.assertLess(both, self.least("--offload", "off"))
        self.assertLessEqual(both, self.least("--offload", "on"))
        self.train("plain")
        self.train("both", "--memory", f"{both}MiB")
        self.assertEqual(self.tensors("plain"), self.tensors("both"))

    def test_a_run_that_offloads_goes_on_without_and_with(self):
        self.train("whole", epochs=3)
        for name, options in (("on", ["--offload", "on"]), ("off", ["--offload", "off"])):
            self.train(name, "--offload", "on", epochs=1)
            self.train(name, *options, "--resume", epochs=3)
            self.assertEqual(self.tensors("whole"), self.tensors(name))

    def test_what_is_listed_is_what_is_taken(self):
        listing = json.loads(self.succeed("program", "data", *DEEP, "--offload", "on", "--json"))
        plain = json.loads(self.succeed("program", "data", *DEEP, "--json"))
        self.assertEqual(plain["host_bytes"], 0)
        self.assertLess(listing["block_bytes"], plain["block_bytes"] / 2)
        stores = [op for op in listing["operations"] if op["operation"] == "store"]
        fetches = [op for op in listing["operations"] if op["operation"] == "fetch"]
        # Rows of 64 columns, which start at multiples of 128 bytes without gaps.
        self.assertEqual(listing["host_bytes"], sum(op["rows"] * 64 * 4 for op in stores))
        self.assertEqual(len(fetches), len(stores))
        self.assertTrue(all(op["place"] is None for op in stores))
        self.assertTrue(all(op["place"]["bytes"] == op["rows"] * 64 * 4 for op in fetches))
        text = self.succeed("program", "data", *DEEP, "--offload", "on")
        self.assertIn(f"host memory: {listing['host_bytes'] / 1e6:.2f} MB", text)
        bench = json.loads(self.succeed("bench", "data", *DEEP, "--backend", "cuda", "--offload",
                                        "on", "--epochs", "1", "--warmup", "1", "--json"))
        self.assertAlmostEqual(bench["pinned_values_mb"], listing["host_bytes"] / 1e6, places=9)
        self.assertLess(bench["memory_needed_mb"],
                        (plain["block_bytes"] + plain["parameter_bytes"]) / 1e6)

    def test_a_processor_has_no_other_memory(self):
        message = self.refuse("train", "data", *TRAIN, "--run-dir", "cpu", "--backend", "cpu",
                              "--offload", "on")
        self.assertIn("--offload on: rank 0 computes on cpu", message)
        message = self.refuse("train", "data", *TRAIN, "--run-dir", "mixed", "--backend",
                              "cuda,cpu", "--transport", "local", "--ranks", "2", "--offload",
                              "on")
        self.assertIn("--offload on: rank 1 computes on cpu", message)
        # auto keeps to what a processor can do.
        text = self.train("auto", "--offload", "auto", "--memory", "4GiB", backend="cpu")
        self.assertNotIn("wait for backward", text)


if __name__ == "__main__":
    unittest.main()
