#!/usr/bin/env python3
"""`train --memory` as a user runs it (docs/memory.md): values that don't fit are dropped and computed
again, or lie in a file, the model stays the same, and a limit that can't be kept is refused with one
that can."""

import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, OneFolderTest, environment, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/memory.md")
DEEP = ["--model", "gcnii", "--layers", "24", "--hidden", "64", "--threads", "1"]


class MemoryLimitTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "10000", "--classes", "4", "--features", "8",
                    "--out", "data")

    def train(self, name, *options, epochs=2):
        result = run(["train", "data", *DEEP, "--epochs", str(epochs), "--run-dir", name, *options],
                     self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def least(self, *options):
        """MiB that the refusal of a far too small limit names, of two figures: all and least."""
        message = self.refuse("train", "data", *DEEP, "--run-dir", "refused", "--memory", "1MiB",
                              *options)
        self.assertIn("--memory 1MiB: training takes", message)
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

    def test_values_in_a_file_leave_the_model_as_it_is(self):
        for ranks in ("1", "2"):
            local = ["--transport", "local", "--ranks", ranks]
            file = [*local, "--offload-folder", self.folder, "--offload", "on"]
            self.train(f"in_memory{ranks}", *local)
            limit = self.least(*file)
            text = self.train(f"in_file{ranks}", *file, "--memory", f"{limit}MiB")
            self.assertRegex(text, r"--memory \d+MiB: on rank 0, .* of .* of values and features are in "
                                   r"memory at a time, the others in a file in .*; an epoch writes .* and "
                                   r"reads")
            self.assertEqual(self.tensors(f"in_memory{ranks}"), self.tensors(f"in_file{ranks}"))

    def test_a_run_with_values_in_a_file_goes_on_without_and_with(self):
        limit = self.least("--offload-folder", self.folder, "--offload", "on")
        file = ["--memory", f"{limit}MiB", "--offload-folder", self.folder, "--offload", "on"]
        self.train("one_go")
        for name, first, then in (("to_file", [], file), ("from_file", file, []),
                                  ("file", file, file)):
            self.train(name, *first, epochs=1)
            self.train(name, *then, "--resume")
            self.assertEqual(self.tensors("one_go"), self.tensors(name), name)

    def test_values_in_a_file_keep_the_limit(self):
        self.succeed("generate", "sbm", "--nodes", "30000", "--classes", "4", "--features", "8",
                     "--out", "larger")
        # Training on the whole graph; and on blocks, where values of evaluations are in the file.
        for share, kind in ((0.6, ["--layers", "12", "--hidden", "256", "--offload", "on"]),
                            (0.7, ["--layers", "10", "--hidden", "128", "--jump", "concatenate",
                                   "--blocks", "32"])):
            deep = ["--model", "gcn", "--epochs", "2", "--threads", "2", "--offload-folder", ".", *kind]
            refused = ["train", "larger", *deep, "--memory", "1MiB", "--run-dir", "none"]
            self.refuse(*refused)  # finds communities, which leave memory to the process
            message = self.refuse(*refused)
            all_mib, least = (float(re.search(words, message).group(1))
                              for words in (r"takes ([\d.]+) MiB", r"--memory (\d+)MiB or more"))
            self.assertLess(least, share * all_mib)
            process = subprocess.Popen(
                [os.path.abspath(ATOLL), "train", "larger", *deep, "--memory", f"{least:.0f}MiB",
                 "--run-dir", "small", "--overwrite"], cwd=self.folder, env=environment(),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            self.assertEqual(status, 0)
            self.assertLess(usage.ru_maxrss / 1024, least)

    def test_folders_that_hold_no_values(self):
        memory = ["--memory", "1GiB"]
        for options, words in (
                (["--offload-folder", "x"], "--offload-folder x: values lie there where memory has "
                                            "no room for them; allowed with --memory SIZE"),
                ([*memory, "--offload-folder", "x", "--offload", "off"],
                 "--offload-folder x: --offload off found; allowed with auto and on")):
            self.assertIn(words, self.refuse("train", "data", *options))
        limit = self.least("--offload-folder", self.folder, "--offload", "on")
        message = self.refuse("train", "data", *DEEP, "--run-dir", "none", "--memory",
                              f"{limit}MiB", "--offload-folder", "nowhere", "--offload", "on")
        self.assertIn("--offload-folder nowhere: no such folder", message)

    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.startswith("    build/atoll")]
        self.assertEqual(len(lines), 2)
        for number, words in enumerate(lines):
            words = ["data" if word == "data/arxiv" else word for word in words[1:]]
            result = run([*words, "--hidden", "16", "--epochs", "1", "--run-dir", f"page{number}"],
                         self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_is_no_amount_of_memory(self):
        for text in ("8", "lots", "-1GiB", "0B", "8gib"):
            message = self.refuse("train", "data", "--memory", text)
            self.assertIn(f"'{text}' is no amount of memory; allowed are a number and a unit",
                          message)


if __name__ == "__main__":
    unittest.main()
