#!/usr/bin/env python3
"""Tests of check_sources.py on a build of two sources that are compiled as one."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_sources


class CheckSourcesTest(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.root = home.name

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def checked(self, second):
        """The exit code for a library of two sources."""
        a = self.write("a.cpp", "#include <string>\nstd::string a() { return ONE; }\n")
        b = self.write("b.cpp", second)
        unity = self.write("build/Unity/unity_0_cxx.cxx", f'#include "{a}"\n#include "{b}"\n')
        command = f"ccache c++ '-DONE=\"1\"' -std=c++20 -MD -MT x.o -MF x.d -o x.o -c {unity}"
        self.write("build/compile_commands.json",
                   json.dumps([{"directory": self.root, "command": command, "file": unity}]))
        return check_sources.main(self.root, os.path.join(self.root, "build"))

    def test_sources_that_need_nobody(self):
        self.assertEqual(self.checked("#include <string>\nstd::string b() { return ONE; }\n"), 0)

    def test_a_source_that_lives_on_the_one_before(self):
        self.assertEqual(self.checked("std::string b() { return ONE; }\n"), 1)

    def test_nothing_to_check(self):
        self.write("build/compile_commands.json", "[]")
        self.assertEqual(check_sources.main(self.root, os.path.join(self.root, "build")), 1)


if __name__ == "__main__":
    unittest.main()
