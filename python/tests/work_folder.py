"""Shared by the tests of the package. Exits with 77 (skipped) where numpy is missing."""

import os
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print("SKIPPED: the Python package (numpy is not installed)")
    sys.exit(77)


class WorkFolder(unittest.TestCase):
    """Every test works in a folder of its own."""

    def setUp(self):
        self._before = os.getcwd()
        self._folder = tempfile.TemporaryDirectory()
        os.chdir(self._folder.name)

    def tearDown(self):
        os.chdir(self._before)
        self._folder.cleanup()
