#!/usr/bin/env python3
"""Signals and long work outside training: import, generate and partition end by the signal at once,
also while METIS cuts, and leave nothing behind; work of more than two seconds says how it goes on."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, environment, list_tree, run, write


def start(folder, *arguments):
    return subprocess.Popen([os.path.abspath(ATOLL), *arguments], cwd=folder, env=environment(),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(happened, process):
    """Waits until happened() while the process runs."""
    deadline = time.monotonic() + TIMEOUT
    while not happened():
        if process.poll() is not None:
            raise AssertionError(f"ended too early: {process.stderr.read()}")
        if time.monotonic() > deadline:
            raise AssertionError("nothing happened")
        time.sleep(0.002)


class StopTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = self.place.name
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stderr.close()

    def begin(self, *arguments):
        self.processes.append(start(self.folder, *arguments))
        return self.processes[-1]

    def stopped(self, process, sent):
        """Sends a signal; the process ends by it, says nothing of an error and is gone in time."""
        process.send_signal(sent)
        said = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, -sent, said)
        self.assertNotIn("error", said)

    def test_import_and_generate_leave_nothing(self):
        write(os.path.join(self.folder, "edges.txt"), "0 1\n" * 10_000_000)
        commands = {
            "import": ("import", "edges", "edges.txt", "--out", "new"),
            "generate": ("generate", "rmat", "--nodes", "2000000", "--degree", "20", "--out", "new"),
        }
        for name, command in commands.items():
            for sent in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(f"{name}, {sent.name}"):
                    process = self.begin(*command)
                    wait_for(lambda: len(os.listdir(self.folder)) > 1, process)
                    self.stopped(process, sent)
                    self.assertEqual(os.listdir(self.folder), ["edges.txt"])

    def test_partition_ends_while_metis_cuts_and_says_so_before(self):
        made = run(["generate", "sbm", "--nodes", "20000", "--degree", "20", "--features", "4",
                    "--out", "data"], self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        before = list_tree(self.folder)
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sent.name):
                # A thousand cuts take minutes.
                process = self.begin("partition", "data", "--parts", "8", "--method", "metis",
                                     "--cuts", "1000")
                watchdog = threading.Timer(TIMEOUT, process.kill)
                watchdog.start()
                said = iter(process.stderr.readline, "")
                line = next((line for line in said if line.startswith("partitioning")), "")
                watchdog.cancel()
                self.assertRegex(line, r"^partitioning sbm: cutting, \d+ s$")
                self.stopped(process, sent)
                self.assertEqual(list_tree(self.folder) - before, set())


if __name__ == "__main__":
    unittest.main()
