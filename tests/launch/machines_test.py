#!/usr/bin/env python3
"""docs/machines.md: every command in it is one that the program takes, and what `atoll info` says of
memory is what training then takes."""

import json
import os
import re
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/machines.md")
# A graph on which values and features outweigh the program itself.
NODES = 60000
MODEL = ["--model", "sage", "--layers", "3", "--hidden", "256"]


def commands():
    """The commands of the page, as words."""
    with open(PAGE, encoding="utf-8") as file:
        blocks = [line.strip() for line in file if line.startswith("    ")]
    return [shlex.split(line) for line in blocks if re.search(r"\batoll\b|sbatch", line)]


class MachinesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", str(NODES), "--features", "64", "--out", "data")

    def test_every_command_of_the_page_is_one(self):
        seen = set()
        for words in commands():
            if words[0] == "sbatch":  # what follows the script is for atoll train
                words = ["train", *words[words.index("launch/slurm-example.sbatch") + 1:]]
            else:
                words = words[words.index("atoll") + 1:]
            seen.add(words[0])
            if "--hosts" in words:  # which are none here
                place = words.index("--hosts")
                words = [*words[:place], *words[place + 2:]]
            # It gets as far as looking for its input, so options and values are right.
            result = run(words, self.folder)
            self.assertEqual(result.returncode, 2, words)
            self.assertRegex(result.stderr, "data/products|downloads/ogbn_products", words)
            self.assertNotRegex(result.stderr, "unknown option|not in {|allowed is", words)
        self.assertEqual(seen, {"import", "info", "train", "partition", "launch", "bench"})

    def memory(self, *words):
        return json.loads(self.succeed("info", "data", *words, "--json"))["memory"]

    def peak(self, ranks):
        result = run(["train", "data", *MODEL, "--epochs", "2", "--threads", "1", "--overwrite",
                      "--backend", "cpu", "--run-dir", "run"], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(self.folder, "run/summary.json"), encoding="utf-8") as file:
            return 1e6 * json.load(file)["peak_rss_mb"]

    def test_the_estimate_is_what_a_run_takes(self):
        for ranks in (1, 2, 4):
            if ranks > 1:
                self.succeed("partition", "data", "--parts", str(ranks))
            memory = self.memory(*MODEL, "--ranks", str(ranks))
            self.assertTrue(memory["cut"])
            self.assertEqual(len(memory["ranks"]), ranks)
            self.assertEqual(sum(rank["nodes"] for rank in memory["ranks"]), NODES)
            most = max(rank["total_bytes"] for rank in memory["ranks"]) + memory["program_bytes"]
            if ranks > 1:  # of MPI, as the text says
                self.assertIn("under MPI 20 MB", self.succeed("info", "data", "--ranks", "2"))
                most += 20e6
            peak = self.peak(ranks)
            self.assertLess(abs(peak / most - 1), 0.2, f"{ranks} ranks: {most} said, {peak} taken")

    def test_without_a_cut_it_is_a_bound(self):
        before = self.memory(*MODEL, "--ranks", "3")
        self.assertFalse(before["cut"])
        text = self.succeed("info", "data", *MODEL, "--ranks", "3")
        self.assertIn("on 3 ranks without a cut, at most, in MB of each", text)
        self.assertIn("after atoll partition --parts 3 these are the", text)
        self.succeed("partition", "data", "--parts", "3")
        after = self.memory(*MODEL, "--ranks", "3")
        self.assertTrue(after["cut"])
        most = max(rank["total_bytes"] for rank in after["ranks"])
        self.assertLess(most, before["ranks"][0]["total_bytes"])

    def test_rows_that_modes_keep_are_counted(self):
        self.succeed("partition", "data", "--parts", "2")
        taken = {}
        for name, options in (("exact", []), ("bits", ["--bits", "1"]),
                              ("stale", ["--exchange", "stale"]),
                              ("compensated", ["--exchange", "compensated", "--bits", "1"])):
            memory = self.memory(*MODEL, "--ranks", "2", *options)
            self.assertEqual(memory["exchange"], {"bits": "quantized"}.get(name, name))
            taken[name] = memory["ranks"][0]["messages_bytes"]
        self.assertLess(taken["bits"], taken["exact"])
        self.assertLess(taken["exact"], taken["stale"])
        # Three rows of each message beside the packets: one where it is received, two where it is
        # sent. Exact messages take one, in training and once more in evaluation.
        self.assertLess(1.5 * taken["exact"], taken["compensated"] - taken["bits"])
        self.assertIn("kept for later epochs (--exchange stale)",
                      self.succeed("info", "data", "--ranks", "2", "--exchange", "stale"))
        self.assertIn("--every", self.refuse("info", "data", "--ranks", "2", "--every", "3"))

    def test_models_differ_and_plain_info_says_nothing_of_memory(self):
        self.assertNotIn("memory", json.loads(self.succeed("info", "data", "--json")))
        wide, narrow = (self.memory("--model", "sage", "--hidden", hidden)["ranks"][0]
                        for hidden in ("256", "64"))
        self.assertGreater(wide["values_bytes"], 2 * narrow["values_bytes"])
        self.assertEqual(wide["features_bytes"], NODES * 64 * 4)
        half = self.memory("--model", "sage", "--hidden", "256", "--dtype", "bf16")["ranks"][0]
        # The sum of the validation loss is a double in both.
        self.assertEqual(2 * half["values_bytes"] - wide["values_bytes"], 8)
        self.assertIn("transformer", self.refuse("info", "data", "--model", "transformer"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
