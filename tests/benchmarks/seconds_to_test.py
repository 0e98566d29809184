#!/usr/bin/env python3
"""Seconds until an accuracy, from run folders and outputs of peers."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import seconds_to


class SecondsToTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_of(self, name, valid):
        """A run of epochs of 2 s, evaluated in every second one."""
        (self.folder / name).mkdir()
        lines = []
        for epoch, accuracy in enumerate(valid, 1):
            line = {"epoch": epoch, "epoch_ms": 2000}
            if epoch % 2 == 0:
                line |= {"valid": accuracy, "test": accuracy - 0.01}
            lines.append(json.dumps(line))
        (self.folder / name / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(self.folder / name)

    def print_table(self, *arguments):
        output = io.StringIO()
        with mock.patch("sys.argv", ["seconds_to.py", *arguments]), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            seconds_to.main()
        return output.getvalue().splitlines()

    def test_seeds_are_medians_with_their_spread(self):
        first = self.run_of("a", [0, .70, .99, .75, 0, .74])
        second = self.run_of("b", [0, .60, 0, .71, 0, .76])
        table = self.print_table(f"ours={first}", f"ours={second}", "--levels", ".7,.75,.76")
        self.assertEqual(table[-1], "| ours | 6.0 (4.0 - 8.0) | 10.0 (8.0 - 12.0) | - "
                                    "| 0.7550 (0.7500 - 0.7600) | 0.7450 (0.7400 - 0.7500) |")

    def test_a_peer_beside_a_run(self):
        peer = self.folder / "peer.json"
        peer.write_text(json.dumps({"epochs": [{"seconds": 3.5, "valid": .7, "test": .6},
                                               {"seconds": 7, "valid": .6, "test": .7}]}),
                        encoding="utf-8")
        table = self.print_table(f"ours={self.run_of('a', [0, .8])}", f"DGL={peer}", "--levels", ".7")
        self.assertEqual(table[2:], ["| ours | 4.0 | 0.8000 | 0.7900 |", "| DGL | 3.5 | 0.7000 | 0.6000 |"])

    def test_what_cannot_be_read_is_named(self):
        for argument, word in (("ours", "2"), (f"ours={self.folder}", "metrics.jsonl"),
                               (f"ours={self.run_of('a', [0])}", "no epoch was evaluated")):
            with self.assertRaises(SystemExit) as ended:
                self.print_table(argument)
            self.assertIn(word, str(ended.exception.code))


if __name__ == "__main__":
    unittest.main()
