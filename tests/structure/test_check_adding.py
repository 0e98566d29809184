#!/usr/bin/env python3
"""check_adding.py finds what it should: every broken promise once, and nothing in pages that keep
theirs."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_adding

FILES = {"engine/table.cpp": '{"mine", mine_convolution}', "docs/models.md": "| `mine` |",
         "tests/oracle.cpp": 'if (kind == "mine")', "tests/other_test.cpp": 'train("mine");',
         "engine/engine.cpp": "determined"}


class CheckAddingTest(unittest.TestCase):
    def problems(self, texts, most=2, files=("engine/table.cpp", "docs/models.md")):
        return list(check_adding.check_example(texts, most, ["mine"], files))

    def test_a_kept_promise(self):
        self.assertEqual(self.problems(FILES), [])

    def test_a_list_by_hand(self):
        problem, = self.problems({**FILES, "launch/help.cpp": '"gcn, sage, mine"'})
        self.assertIn("launch/help.cpp names mine, too", problem)

    def test_too_many_files(self):
        self.assertIn("has 2 files; promised are at most 1", self.problems(FILES, most=1)[0])

    def test_files_without_the_example(self):
        self.assertEqual(self.problems(FILES, 3, ["engine/table.cpp", "engine/engine.cpp", "gone.cpp"]),
                         ["engine/engine.cpp does not name mine",
                          "gone.cpp, a file of mine, is not there"])

    def test_lists_of_a_page(self):
        page = ("Files of the example, at most 6 (`mine`, `my-own`):\n\n* `a.cpp`\n* `b.md`\n\n"
                "* `c.cpp` is another list\n")
        self.assertEqual(list(check_adding.promises(page)),
                         [(6, ["mine", "my-own"], ["a.cpp", "b.md"])])


if __name__ == "__main__":
    unittest.main()
