#!/usr/bin/env python3
"""Tests of check_structure.py on small trees, each with one violation, so that a check which stops
seeing its violation is noticed."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_structure

HEADER = "// Says what it is for.\n#pragma once\n"


class CheckStructureTest(unittest.TestCase):
    def problems(self, files):
        """The violations in a tree made of files (path -> text) and a correct base folder."""
        tree = {
            "base/error.hpp": HEADER,
            "base/error.cpp": '#include "base/error.hpp"\n',
            "base/CMakeLists.txt": "atoll_library(base SOURCES error.cpp)\n",
        }
        tree.update(files)
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_structure.check_tree(root)[1]

    def expect(self, files, *parts):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def test_correct_tree(self):
        self.assertEqual(self.problems({
            "kernels/backend.hpp": HEADER + '#include "base/error.hpp"\n',
            "engine/program/layer.hpp": HEADER + '#include "kernels/backend.hpp"\n#include <vector>\n',
        }), [])

    def test_upward_include(self):
        self.expect({"kernels/backend.hpp": HEADER,
                     "base/log.hpp": HEADER + '#include "kernels/backend.hpp"\n'},
                    "base/log.hpp:3:", "base may not include")

    def test_layers_include_no_transport(self):
        self.expect({"engine/comm/transport.hpp": HEADER,
                     "engine/program/layer.hpp": HEADER + '#include "engine/comm/transport.hpp"\n'},
                    "engine/program/layer.hpp:3:", "engine/program may not include")

    def test_nobody_includes_cuda(self):
        cuda = {"kernels/cuda/stream.hpp": HEADER}
        include = '#include "kernels/cuda/stream.hpp"\n'
        self.expect({**cuda, "launch/command.hpp": HEADER + include}, "launch may not include")
        self.expect({**cuda, "kernels/registry.hpp": HEADER + include}, "kernels may not include")

    def test_sibling_backends_are_separate(self):
        self.expect({"kernels/cpu/simd.hpp": HEADER,
                     "kernels/reference/sums.hpp": HEADER + '#include "kernels/cpu/simd.hpp"\n'},
                    "kernels/reference may not include")

    def test_single_headers_of_the_folder_above(self):
        shared = {"launch/version.hpp": HEADER, "launch/command.hpp": HEADER}
        page = "launch/report/page.hpp"
        include = '#include "launch/version.hpp"\n'
        self.assertEqual(self.problems({**shared, page: HEADER + include}), [])
        self.expect({**shared, page: HEADER + '#include "launch/command.hpp"\n'},
                    "launch/report may not include")

    def test_include_from_the_root(self):
        self.expect({"base/log.hpp": HEADER + '#include "error.hpp"\n'},
                    "base/log.hpp:3:", "no path from the repository root")

    def test_tests_may_include_everything_that_exists(self):
        self.assertEqual(self.problems({
            "kernels/cpu/simd.hpp": HEADER,
            "tests/kernels/simd_test.cpp": '#include "kernels/cpu/simd.hpp"\n',
            "tests/kernels/CMakeLists.txt": "atoll_test(kernels SOURCES simd_test.cpp)\n",
        }), [])
        self.expect({"tests/a.hpp": HEADER + '#include "kernels/gone.hpp"\n'}, "gone.hpp")

    def test_conditional_compilation(self):
        for line in ("#ifdef ATOLL_CUDA", "#if defined(HAVE_NCCL)", "  #  ifndef OPEN_MPI",
                     "#elif USE_CUDA"):
            self.expect({"base/log.hpp": HEADER + line + "\n"}, "base/log.hpp:3:", "conditional")
        self.assertEqual(self.problems({"engine/comm/mpi.hpp": HEADER + "#ifdef OPEN_MPI\n"}), [])

    def test_mpi_header(self):
        self.expect({"engine/program/layer.hpp": HEADER + "#include <mpi.h>\n"}, "mpi.h")
        self.expect({"engine/comm/a.hpp": HEADER + "#include <mpi.h>\n"}, "mpi.h")
        self.assertEqual(self.problems({"engine/comm/mpi/a.hpp": HEADER + "#include <mpi.h>\n"}), [])

    def test_header_beginning(self):
        self.expect({"base/log.hpp": "#pragma once\n"}, "starts with a sentence")
        self.expect({"base/log.hpp": "// Logs.\n"}, "#pragma once is missing")

    def test_unfinished_work(self):
        self.expect({"base/log.hpp": HEADER + "// TO" + "DO: rotate\n"}, "base/log.hpp:3:")

    def test_source_outside_the_build(self):
        self.expect({"base/log.cpp": "\n"}, "base/log.cpp", "is in no CMakeLists.txt")
        # A name that only ends alike doesn't count.
        self.expect({"base/CMakeLists.txt": "atoll_library(base SOURCES error.cpp my_log.cpp)\n",
                     "base/my_log.cpp": "\n", "base/log.cpp": "\n"}, "base/log.cpp:1")

    def test_names_of_sources_compiled_as_one(self):
        def tree(first, second, lists="atoll_library(base SOURCES error.cpp a.cpp b.cpp)\n"):
            hidden = "namespace atl {\nnamespace {\n%s\n}  // namespace\n}\n"
            return {"base/a.cpp": hidden % first, "base/b.cpp": hidden % second,
                    "base/CMakeLists.txt": lists}
        for first, second in (("constexpr int kBlock = 1;", "constexpr long kBlock = 2;"),
                              ("struct Case {", "class Case {"),
                              ("bool there(const Path& path) {", "bool there(const Path& file) {"),
                              ("void print(const Json& text) {", "void print(const List& list) {"),
                              ("int counts[4];", "int counts[4];"),
                              ("__global__ void __launch_bounds__(kBlock) fill(int n) {",
                               "__global__ void __launch_bounds__(9) fill(int n) {")):
            self.expect(tree(first, second), "base/b.cpp:3:", "base/a.cpp")
        for first, second in (("using Parts = int;", "using Parts = int;"),
                              ("TEST(Base, Adds) {", "TEST(Base, Logs) {"),
                              ("void Reader::read() {", "void Writer::read() {"),
                              ("  int rows = 0;", "  int rows = 0;"), ("struct A;", "struct A;")):
            self.assertEqual(self.problems(tree(first, second)), [])
        two = "atoll_library(base SOURCES error.cpp a.cpp)\nadd_executable(b b.cpp)\n"
        self.assertEqual(self.problems(tree("int run() {", "int run() {", two)), [])

    def test_one_definition_of_a_type(self):
        def tree(first, second):
            return {"base/a.hpp": HEADER + first, "base/b.hpp": HEADER + second}
        shared = "namespace atl {\nstruct Rows {\n  int count;\n};\n}  // namespace atl\n"
        self.expect(tree(shared, shared), "base/b.hpp:4: atl::Rows", "defined in base/a.hpp too")
        line = "namespace atl {\nstruct Rows { int count; };\n}  // namespace atl\n"
        self.expect(tree(line, shared), "base/b.hpp:4: atl::Rows", "defined in base/a.hpp too")
        for other in (shared.replace("atl", "atl::inner"), shared.replace("Rows", "Columns"),
                      "namespace atl {\nstruct Rows;  // a.hpp\nstruct Rows::Inner {};\n}  // namespace atl\n",
                      "namespace atl {\nnamespace {\nstruct Rows {};\n}  // namespace\n}  // namespace atl\n"):
            self.assertEqual(self.problems(tree(shared, other)), [], other)

    def test_first_words_of_comments(self):
        for path, line, text in (
                ("tests/a.hpp", 3, HEADER + "// What is shared.\n"),
                ("tests/a.hpp", 3, HEADER + "  int a;  // Of a node.\n"),
                ("tests/a.hpp", 4, HEADER + "int a;  // number\nint b;  // Of a node.\n"),
                ("tests/a.hpp", 5, HEADER + "// Says more.\n//\n// Of a node.\n"),
                ("launch/a.py", 1, '"""Of a node.\nAnd more."""\n'),
                ("launch/a.py", 2, 'def f():\n    """What it is."""\n'),
                ("launch/a.py", 1, "a = 1  # What it is.\n"),
                ("cmake/a.cmake", 1, "# What it is.\n"),
                ("launch/CMakeLists.txt", 1, "  # Of a target.\n")):
            self.expect({path: text}, f"{path}:{line}: a comment begins with ")
        self.assertEqual(self.problems({
            "tests/a.hpp": HEADER + "// Number\n// Of a node.\nint a;  // Number\n        // Of a node.\n"
                           "\n// Whatever it is.\n\n// Often.\n",
            "launch/a.py": "TEXT = '''\n# What it is\n'''\nTEXT = '''Of a text'''\n",
            "docs/a.py": "# Of a folder that is not listed.\n",
        }), [])

    def test_globbing(self):
        self.expect({"base/CMakeLists.txt": "file(GLOB sources *.cpp) # error.cpp\n"}, "globbing")


if __name__ == "__main__":
    unittest.main()
