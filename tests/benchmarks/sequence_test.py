#!/usr/bin/env python3
"""What sequence.py computes of the results of runs, and that it runs no cell twice."""

import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

import intervals
import sequence


class SequenceTest(unittest.TestCase):
    def test_average_performance_and_forgetting(self):
        average, forgetting = sequence.performance([[.5], [.375, .75], [.25, .875, 1.]])
        self.assertAlmostEqual(average, .7083333)
        self.assertAlmostEqual(forgetting, (-.25 + .125) / 2)
        self.assertEqual(sequence.performance([[.5]]), (.5, 0.))

    def test_epochs_to_a_level(self):
        lines = [{"epoch": 1, "valid": .2}, {"epoch": 2}, {"epoch": 3, "valid": .5}]
        self.assertEqual(sequence.epochs_to(lines, .5), 3)
        self.assertEqual(sequence.epochs_to(lines, .2, before=.1), 1)
        self.assertEqual(sequence.epochs_to(lines, .2, before=.2), 0)
        self.assertIsNone(sequence.epochs_to(lines, .6))

    def test_no_cell_is_run_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            options = types.SimpleNamespace(command="run", results=str(results), seeds=1, steps=2,
                                            methods="joint,random,cover", shares=".01,.05", train=["x"])
            runs = []

            def run(_, method, share, seed):
                runs.append((method, share, seed))
                # Seed 1: a cover is .25 better than a random buffer; seed 2: .125.
                better = (.25 if seed == 1 else .125) if method == "cover" else 0
                return [[.5], [.25, .5 + better]]

            kept, sequence.run_sequence = sequence.run_sequence, run
            self.addCleanup(setattr, sequence, "run_sequence", kept)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                sequence.fill(options)
                self.assertEqual(runs, [("joint", 0., 1), ("random", .01, 1), ("random", .05, 1),
                                        ("cover", .01, 1), ("cover", .05, 1)])
                sequence.fill(options)
                self.assertEqual(len(runs), 5)
                options.seeds = 2
                sequence.fill(options)
                self.assertEqual(len(runs), 10)
                sequence.print_table(options)
            self.assertIn("| random | 5 % | 2 | 0.3750 ± 0.0000 | -0.2500 ± 0.0000 | - | - |", said.getvalue())
            # Means .09375 of (.125, .0625) with t(1) = 12.706 times .0625 / 2 around them.
            self.assertIn("| cover | 5 % | 2 | 0.4688 ± 0.3971 | -0.2500 ± 0.0000 | +0.0938 ± 0.3971 "
                          "| +0.0000 ± 0.0000 |", said.getvalue())
            self.assertEqual(len([json.loads(line) for line in results.read_text().splitlines()]), 10)

    def test_quantiles_of_student(self):
        for nu, quantile in ((1, 12.70620), (2, 4.30265), (4, 2.77645), (9, 2.26216), (30, 2.04227)):
            self.assertAlmostEqual(intervals.student_t(nu), quantile, delta=1e-5 * quantile)
        self.assertAlmostEqual(intervals.student_t(4, .99), 4.60409, places=4)


if __name__ == "__main__":
    unittest.main()
