#!/usr/bin/env python3
"""The arithmetic of regression.py on reports made by hand; nothing is timed."""

import unittest

import regression


def profile(spmm_ms, gemm_ms=50.0):
    def cost(milliseconds, share, bound):
        return {"ms": milliseconds, "share": share, "calls": 1, "bound_ms": bound / 2,
                "no_reuse_bound_ms": bound}
    return {"epoch_ms": 100.0, "bound_ms": 40.0, "no_reuse_bound_ms": 80.0,
            "operations": {"spmm": cost(spmm_ms, 0.3, 20.0), "gemm": cost(gemm_ms, 0.5, 40.0),
                           "adam_step": cost(1.0, 0.01, 0.1)},
            "phases": {"wait": cost(10.0, 0.1, 0.0), "spmm central": cost(spmm_ms, 0.3, 20.0)}}


class RegressionTest(unittest.TestCase):
    def test_ratios_leave_out_what_is_short_or_has_no_bound(self):
        self.assertEqual(regression.ratios(profile(30.0)),
                         {"operations spmm": 1.5, "operations gemm": 1.25,
                          "phases spmm central": 1.5, "epoch": 1.25})

    def test_medians_are_of_what_every_round_has(self):
        rounds = [{"a": 1.0, "b": 2.0}, {"a": 3.0}, {"a": 2.0, "b": 5.0}]
        self.assertEqual(regression.medians(rounds), {"a": (2.0, 1.0, 3.0)})

    def test_slower_is_more_than_a_fifth_above_the_baseline_in_the_best_round(self):
        baseline = {"spmm": 1.0, "gemm": 1.0, "gone": 1.0}
        measured = {"spmm": (1.3, 1.21, 1.4), "gemm": (1.5, 1.19, 1.9), "new": (9.0, 9.0, 9.0)}
        self.assertEqual(regression.slower(measured, baseline), ["spmm"])
        self.assertEqual(regression.slower(measured, baseline, tolerance=0.1), ["spmm", "gemm"])

    def test_a_fifth_slower_operation_is_found_in_reports(self):
        before = {name: median for name, (median, _, _) in
                  regression.medians([regression.ratios(profile(30.0))] * 3).items()}
        after = regression.medians([regression.ratios(profile(37.0)) for _ in range(3)])
        self.assertEqual(regression.slower(after, before),
                         ["operations spmm", "phases spmm central"])


if __name__ == "__main__":
    unittest.main()
