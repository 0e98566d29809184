#!/usr/bin/env python3
"""Data as people have it: cases of public bug reports and files of all kinds, through the program
and through the Python package, each with the right values or the message that must come. The
cases are in cases_TOPIC.py beside this file. Usage: public_cases_test.py [TOPIC or TOPIC.CLASS.TEST...]"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import support  # noqa: F401  exits with 77 where NumPy is missing


def main():
    topics = sorted(path.stem for path in HERE.glob("cases_*.py"))
    names = [name if name.startswith("cases_") else f"cases_{name}" for name in sys.argv[1:]]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names or topics)
    result = unittest.TextTestRunner(verbosity=2, buffer=True).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
