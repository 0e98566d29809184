#!/usr/bin/env python3
"""Runs a file of unit tests, or the part of it that googletest's variables GTEST_TOTAL_SHARDS and
GTEST_SHARD_INDEX name: every so manieth test. Usage: unittest_shard.py FILE [ARGUMENT...]"""

import itertools
import os
import runpy
import sys
import unittest


def keep_every(shards, shard):
    """Makes unittest load only the tests of a shard."""
    loader = unittest.defaultTestLoader
    names_of, number = loader.getTestCaseNames, itertools.count()
    loader.getTestCaseNames = lambda case: [name for name in names_of(case)
                                            if next(number) % shards == shard]


def main():
    # Programs that the tests start must not take them for theirs.
    keep_every(int(os.environ.pop("GTEST_TOTAL_SHARDS", "1")),
               int(os.environ.pop("GTEST_SHARD_INDEX", "0")))
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
