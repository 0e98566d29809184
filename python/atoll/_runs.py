"""Trainings that differ in their seed."""

import math
import statistics
from collections.abc import Sequence

from atoll._table import Table

FIGURES = ("train", "valid", "test", "best_epoch", "epochs", "loss", "epoch_ms_median")


class Runs(Sequence):
    """Several runs, one per seed, as train(..., seeds=range(3)) returns them.

    runs[0] is a Run, and runs.mean["test"], runs.deviation["test"] are over all of them.
    """

    def __init__(self, runs, seeds):
        self._runs = list(runs)
        self.seeds = list(seeds)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return Runs(self._runs[place], self.seeds[place])
        return self._runs[place]

    def __len__(self):
        return len(self._runs)

    @property
    def table(self):
        """A Table with one row per run: seed, train, valid, test, best_epoch, epochs, ..."""
        return Table.from_records([
            {"seed": seed, **{name: run.summary.get(name) for name in FIGURES}}
            for seed, run in zip(self.seeds, self._runs)])

    def _over_runs(self, of):
        result = {}
        for name in FIGURES:
            values = [run.summary.get(name) for run in self._runs]
            if values and None not in values:
                result[name] = of(values)
        return result

    @property
    def mean(self):
        """The mean of each figure: a dictionary with train, valid, test, best_epoch, ..."""
        return self._over_runs(statistics.fmean)

    @property
    def deviation(self):
        """The standard deviation of each figure over the seeds (n - 1 in its denominator; NaN for
        a single run)."""
        return self._over_runs(
            lambda values: statistics.stdev(values) if len(values) > 1 else math.nan)

    def report(self, path=None):
        """The page of `atoll report` that compares these runs."""
        return self._runs[0].report(*self._runs[1:], path=path)

    def __repr__(self):
        mean, deviation = self.mean, self.deviation
        summary = self._runs[0].summary if self._runs else {}
        shown = " ".join(f"{name} {mean[name]:.4f} ± {deviation[name]:.4f}"
                         for name in ("valid", "test") if name in mean)
        return (f"Runs({len(self)} seeds: {summary.get('model')} on {summary.get('dataset')}, "
                f"{summary.get('metric')} {shown})")

    def _repr_html_(self):
        return self.table._repr_html_()
