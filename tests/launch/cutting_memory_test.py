#!/usr/bin/env python3
"""The memory that a cut says it takes, against the largest resident set that it had."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, environment, run

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(path, name))
               for path, _, names in os.walk(folder) for name in names)


def peak(arguments, folder):
    """The largest resident set of atoll in bytes, and what it printed on standard error."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([os.path.abspath(ATOLL), *arguments], cwd=folder,
                                   env=environment(), stdout=subprocess.DEVNULL, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read()
    assert process.returncode == 0, text
    return usage.ru_maxrss * 1024, text


class CuttingMemoryTest(unittest.TestCase):
    """No cut takes more than it says. Many edges, or many nodes: what grows with either must show
    beside what a process takes anyway."""

    def generate(self, folder, name, nodes, degree):
        made = run(["generate", "rmat", "--nodes", nodes, "--degree", degree, "--features", "1",
                    "--out", name], folder)
        self.assertEqual(made.returncode, 0, made.stderr)

    def check(self, nodes, degree, *cuts):
        with tempfile.TemporaryDirectory() as folder:
            self.generate(folder, "small", "3000", "10")
            # The memory that the command takes whatever it cuts. It differs by a few MiB from run to
            # run with how many pages of the program the system maps at a time.
            base = max(peak(["partition", "small", "--parts", "8", "--method", method], folder)[0]
                       for method in ("contiguous", "random", "contiguous"))
            self.generate(folder, "graph", nodes, degree)
            mapped = folder_bytes(os.path.join(folder, "graph"))
            for options in cuts:
                with self.subTest(options=options):
                    used, text = peak(["partition", "graph", "--parts", "8", "--node-order",
                                       "natural", *options.split()], folder)
                    said = re.search(r"takes up to ([0-9.]+) ([KMG]?i?B) of memory", text)
                    self.assertIsNotNone(said, text)
                    stated = float(said[1]) * UNITS[said[2]]
                    self.assertLess(used, base + mapped + stated)

    def test_many_edges(self):
        self.check("60000", "12", "--method auto --refine off", "--method communities",
                   "--method communities --objective cut")

    def test_many_edges_at_their_most_thorough(self):
        self.check("60000", "12", "--refine strong")

    def test_many_nodes(self):
        self.check("300000", "2", "--method communities --objective cut", "--method contiguous",
                   "--method random", "--method contiguous --refine on")


if __name__ == "__main__":
    unittest.main(verbosity=2)
