"""A part of the fake package."""

from fake_cut import record


def random_seed(seed):
    record(seed=seed)
