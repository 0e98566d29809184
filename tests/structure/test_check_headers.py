#!/usr/bin/env python3
"""Tests of check_headers.py on small trees: what it must find, and that a build without NCCL or CUDA
is told what was skipped instead of failing."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_headers
from header_chains import all_includes, make_chains

COMPILER = os.environ.get("CXX") or shutil.which("c++")
BEGIN = "// Says what it is for.\n#pragma once\n"
# A header that no machine has: found only where the test puts it.
NCCL = BEGIN + "#include <nccl_made_for_this_test.h>\nusing Made = made_by_nccl;\n"


class CheckHeadersTest(unittest.TestCase):
    def check(self, files, flags="", unity=False):
        """(exit code, lines of output) for a tree of these files, of which base/a.cpp is built."""
        with tempfile.TemporaryDirectory() as root:
            build = os.path.join(root, "build")
            for path, text in {"base/a.cpp": "int a;\n", "build/compile_commands.json": "",
                               **files}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            source = os.path.join(root, "base/a.cpp")
            if unity:
                source = os.path.join(build, "base/CMakeFiles/base.dir/Unity/unity_0_cxx.cxx")
            entry = {"directory": build, "file": source,
                     "command": f"{COMPILER} {flags} -I{root} -std=c++20 -o a.o -c {source}"}
            with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as file:
                json.dump([entry], file)
            output = io.StringIO()
            arguments, sys.argv = sys.argv, ["check_headers.py", root, build]
            try:
                with contextlib.redirect_stdout(output):
                    code = check_headers.main()
            finally:
                sys.argv = arguments
            return code, output.getvalue().splitlines()

    def test_complete_headers(self):
        code, lines = self.check({
            "base/a.hpp": BEGIN + "#include <vector>\nstd::vector<int> ids();\n",
            "base/b.hpp": BEGIN + '#include "base/a.hpp"\nstd::vector<int> more();\n'})
        self.assertEqual((code, lines), (0, ["2 headers compiled alone in 1 runs of the compiler, "
                                             "0 failed"]))

    def test_a_missing_include_is_found_whatever_stands_beside_it(self):
        names = BEGIN + "#include <vector>\n"
        lacks = BEGIN + "std::vector<int> ids();\n"
        for unity in (False, True):
            code, lines = self.check({"base/names.hpp": names, "base/lacks.hpp": lacks,
                                      "base/user.hpp": BEGIN + '#include "base/names.hpp"\n'
                                                               '#include "base/lacks.hpp"\n'},
                                     unity=unity)
            self.assertEqual(code, 1)
            self.assertIn("base/lacks.hpp: does not compile alone", lines[0])
            self.assertEqual(len(lines), 2, lines)

    def test_a_part_that_the_build_lacks_is_skipped_visibly(self):
        files = {"base/a.hpp": BEGIN + "int a();\n", "base/nccl.hpp": NCCL,
                 "base/user.hpp": BEGIN + '#include "base/nccl.hpp"\n'}
        code, lines = self.check(files)
        self.assertEqual(code, 0, lines)
        self.assertTrue(lines[0].startswith("SKIPPED: headers that need NCCL"), lines)
        self.assertTrue(lines[0].endswith(": base/nccl.hpp, base/user.hpp"), lines)
        self.assertIn("1 headers compiled alone", lines[-1])

    def test_a_part_that_is_built_is_never_skipped(self):
        code, lines = self.check({"base/nccl.hpp": NCCL}, "-DATOLL_NCCL_OF_BUILD=1")
        self.assertEqual(code, 1)
        self.assertIn("nccl_made_for_this_test.h", lines[0])

    def test_an_absent_part_is_checked_against_the_emulation(self):
        emulated = os.path.join(check_headers.EMULATION, "nccl_made_for_this_test.h")
        code, lines = self.check({"base/nccl.hpp": NCCL, emulated: "using made_by_nccl = int;\n"})
        self.assertEqual(code, 0, lines)
        self.assertIn("compiled against the emulation", lines[0])
        self.assertIn("1 headers compiled alone", lines[-1])
        code, lines = self.check({"base/nccl.hpp": NCCL, emulated: "\n"})
        self.assertEqual(code, 1)
        self.assertIn("made_by_nccl", lines[1])

    def test_other_missing_headers_fail(self):
        code, lines = self.check({"base/a.hpp": BEGIN + "#include <made_for_this_test.h>\n"})
        self.assertEqual(code, 1)
        self.assertIn("made_for_this_test.h", lines[0])


class ChainsTest(unittest.TestCase):
    @staticmethod
    def chains(includes, groups=None):
        """Chains of headers given as name -> lines of includes."""
        names = sorted(includes)
        files = all_includes(names, lambda name: [f"#include {target}" for target in includes[name]],
                             lambda name, _: {name})
        return make_chains(names, files, groups or {name: 0 for name in names})

    def test_a_header_follows_only_what_it_includes(self):
        self.assertEqual(self.chains({"a": [], "b": ['"a"'], "c": ['"b"']}), [["a", "b", "c"]])
        self.assertEqual(self.chains({"a": [], "b": []}), [["a"], ["b"]])
        # c includes both, but b, which would stand before it, doesn't include a.
        self.assertEqual(self.chains({"a": [], "b": [], "c": ['"a"', '"b"']}), [["a", "c"], ["b"]])
        # Nor all that it includes.
        self.assertEqual(self.chains({"a": ["<v>"], "b": ["<w>"]}), [["a"], ["b"]])

    def test_groups_are_apart(self):
        self.assertEqual(self.chains({"a": [], "b": ['"a"']}, {"a": 0, "b": 1}), [["a"], ["b"]])

    def test_includes_under_a_condition_do_not_count(self):
        chains = self.chains({"a": [], "b": ['"a"\n'], "c": []})
        self.assertEqual(chains, [["a", "b"], ["c"]])
        names = ["a", "b"]
        text = {"a": [], "b": ["#ifdef X", '#include "a"', "#endif"]}
        files = all_includes(names, text.get, lambda name, _: {name})
        self.assertEqual(make_chains(names, files, {"a": 0, "b": 0}), [["a"], ["b"]])


if __name__ == "__main__":
    unittest.main()
