#!/usr/bin/env python3
"""`atoll topology` as a user runs it: a file written by hand is shown, and what was measured is a
file that can be shown."""

import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import run, write

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/placement.md")
# Everything is done, in no time; figures mean nothing.
QUICK = ["--kernel-time", "0.003", "--rows", "300", "--progress-time", "0.01",
         "--backend", "cpu", "--threads", "1"]


def example_of_docs():
    """The file that docs/placement.md gives as an example."""
    with open(DOCS, encoding="utf-8") as file:
        return re.search(r"```json\n(.*?)```", file.read(), re.DOTALL).group(1)


class TopologyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def succeed(self, *arguments, ranks=0):
        result = run(["topology", *arguments], self.folder, ranks)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        return result.stdout

    def refuse(self, *arguments, ranks=0):
        result = run(["topology", *arguments], self.folder, ranks)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        return result.stderr

    def test_shows_the_example_of_the_docs(self):
        write(os.path.join(self.folder, "cluster.json"), example_of_docs())
        text = self.succeed("show", "cluster.json")
        self.assertIn("cluster.json: 10 ranks on 3 hosts, 4 islands", text)
        self.assertRegex(text, r"(?m)^  node-0 +0-3 +10000 +no limit$")
        self.assertRegex(text, r"(?m)^  node-1 +4-7 +10000 +no limit$")
        self.assertRegex(text, r"(?m)^  old +8-9 +1000 +1000$")
        self.assertRegex(text, r"(?m)^  0-7 +cuda +80.00 GiB +2000 +600 +0 +0 +16: 900, 128: 1500 ")
        self.assertRegex(text, r"(?m)^  3 +9$")  # the last island
        self.assertRegex(text, r"(?m)^  within an island +24 +5 +1600$")
        self.assertRegex(text, r"(?m)^  within a host +2 +8 +40$")
        self.assertRegex(text, r"(?m)^  between hosts +64 +50 +5 \(1 to 5\)$")
        self.assertEqual(self.succeed("show", "cluster.json", ranks=2), text)

    def check_probe(self, stdout, ranks):
        # How many islands there are depends on what else the machine does.
        self.assertRegex(stdout, rf"{ranks} ranks on 1 host, \d+ island")
        self.assertIn("written to t.json", stdout)
        self.assertEqual(os.listdir(self.folder), ["t.json"])
        with open(os.path.join(self.folder, "t.json"), encoding="utf-8") as file:
            topology = json.load(file)
        self.assertEqual(topology["format"], 1)
        self.assertEqual(len(topology["hosts"]), 1)
        self.assertEqual(sum(rank.get("count", 1) for rank in topology["ranks"]), ranks)
        for rank in topology["ranks"]:
            self.assertEqual(list(rank["spmm_gb_per_s"]), ["16", "64", "128", "256"])
        shown = self.succeed("show", "t.json")
        self.assertEqual("t.json: " + stdout[:stdout.index("\nwritten")], shown)

    def test_probe_of_threads(self):
        self.check_probe(self.succeed("probe", "--transport", "local", "--ranks", "3", "--out",
                                      "t.json", *QUICK), 3)

    def test_probe_under_a_launcher(self):
        self.check_probe(self.succeed("probe", "--out", "t.json", *QUICK, ranks=2), 2)

    def test_bad_words(self):
        self.assertRegex(self.refuse("measure"), "measure.*probe.*show")
        self.assertIn("names no file", self.refuse("show"))
        self.assertIn("'x.json' found", self.refuse("probe", "x.json"))
        self.assertIn("x.json", self.refuse("show", "x.json"))
        self.assertIn("--out", self.refuse("probe", "--out", "nowhere/t.json", *QUICK))
        self.assertIn("--out", self.refuse("probe", "--out", "nowhere/t.json", *QUICK, ranks=2))
        self.assertIn("--rows", self.refuse("probe", "--rows", "1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
