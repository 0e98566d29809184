"""The usual arrays, by both ways: what the other cases are variations of."""

import unittest

import numpy as np

import atoll
from support import QUICK, Case, graph


class Usual(Case):
    def test_the_same_arrays_by_both_ways(self):
        arrays = graph()
        np.savez("mine.npz", **arrays)
        program = self.make("npy", "mine.npz", "--directed", "--keep-self-loops")
        package = self.python(atoll.Dataset.from_arrays, **arrays, directed=True,
                              keep_self_loops=True)
        self.assert_same(program, package)
        np.testing.assert_array_equal(program.labels, arrays["y"])
        self.succeed("train", "data", *QUICK)

    def test_what_is_wrong_is_named_by_both(self):
        arrays = {**graph(), "y": np.full(12, 10 ** 6)}
        np.savez("mine.npz", **arrays)
        says = ["label 1000000 of node 0", "allowed are labels below 1000"]
        self.refuse("import", "npy", "mine.npz", "--out", "data", says=["mine.npz[y]", *says])
        self.python_refuses(atoll.Dataset.from_arrays, **arrays, says=says)


if __name__ == "__main__":
    unittest.main()
