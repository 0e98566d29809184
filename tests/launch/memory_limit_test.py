#!/usr/bin/env python3
"""`train --memory` as a user runs it: values that don't fit are dropped and computed again, the model
stays the same, and a limit that can't be kept is refused with one that can."""

import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, OneFolderTest, environment, run

DEEP = ["--model", "gcnii", "--layers", "24", "--hidden", "64", "--epochs", "3", "--threads", "1"]


class MemoryLimitTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "20000", "--classes", "4", "--features", "8",
                    "--out", "data")

    def train(self, name, *options):
        result = run(["train", "data", *DEEP, "--run-dir", name, *options], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def least(self, *options):
        """MiB that the refusal of a far too small limit names, of two figures: all and least."""
        message = self.refuse("train", "data", *DEEP, "--run-dir", "refused", "--memory", "1MiB",
                              *options)
        self.assertIn("--memory: training takes", message)
        return int(re.search(r"--memory (\d+)MiB or more", message).group(1))

    def test_a_limit_of_the_address_space_never_aborts(self):
        """ulimit -v: too little is exit code 2 and a sentence."""
        self.succeed("generate", "sbm", "--nodes", "3000", "--features", "1433", "--out", "wide")
        codes = {}
        for limit in range(80000, 300000, 10000):
            if self.limited(limit, "--version").returncode == 127:
                continue  # the loader of shared libraries, before the program's first line
            for threads in ("1", "2", "8", "16"):
                result = self.limited(limit, "train", "wide", "--hidden", "16", "--epochs", "1",
                                      "--threads", threads, "--run-dir", "none")
                with self.subTest(threads=threads, limit=limit):
                    codes[threads, limit] = result.returncode
                    self.assertIn(result.returncode, (0, 2), result.stderr)
                    if result.returncode == 2:
                        self.assertEqual(result.stderr.count("atoll: error: "), 1, result.stderr)
        self.assertEqual(list(codes.values())[0], 2)
        self.assertEqual(codes["8", 290000], 0)

    def limited(self, limit, *words):
        """limit: KiB, as of ulimit -v."""
        return subprocess.run(
            [os.path.abspath(ATOLL), *words], cwd=self.folder, env=environment(),
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit << 10, limit << 10)))

    def test_the_model_is_the_same_where_values_are_computed_again(self):
        for ranks in ("1", "2"):
            local = ["--transport", "local", "--ranks", ranks]
            self.assertNotIn("computed again", self.train(f"whole{ranks}", *local))
            limit = self.least(*local)
            text = self.train(f"dropped{ranks}", *local, "--memory", f"{limit}MiB")
            self.assertRegex(text, r"--memory \d+MiB: values of \d+ of 24 layers are computed again")
            self.assertEqual(self.tensors(f"whole{ranks}"), self.tensors(f"dropped{ranks}"))

    def test_what_is_refused_with_a_figure_fits_with_it_and_not_with_less(self):
        limit = self.least()
        self.train("fits", "--memory", f"{limit}MiB")
        self.refuse("train", "data", *DEEP, "--run-dir", "less", "--memory", f"{limit - 20}MiB")

    def test_quantized_messages_travel_once(self):
        options = ["--transport", "local", "--ranks", "2", "--exchange", "quantized", "--bits", "4"]
        limit = self.least(*options)
        self.train("whole_quantized", *options)
        text = self.train("quantized", *options, "--memory", f"{limit}MiB")
        self.assertIn("but for aggregates", text)
        self.assertEqual(self.tensors("whole_quantized"), self.tensors("quantized"))

    def test_what_is_no_amount_of_memory(self):
        for text in ("8", "lots", "-1GiB", "0B", "8gib"):
            message = self.refuse("train", "data", "--memory", text)
            self.assertIn(f"'{text}' is no amount of memory; allowed are a number and a unit",
                          message)


if __name__ == "__main__":
    unittest.main()
