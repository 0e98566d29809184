#!/usr/bin/env python3
"""launch/tools/build-matrix: its words, and that a refusal leaves nothing behind."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PARTS = ("launch/tools/build-matrix", "launch/script_steps.sh")


class BuildMatrixTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name
        for part in PARTS:
            os.makedirs(os.path.join(self.folder, os.path.dirname(part)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, part), os.path.join(self.folder, part))

    def run_matrix(self, *words, **variables):
        return subprocess.run([os.path.join(self.folder, PARTS[0]), *words], capture_output=True,
                              text=True, env=dict(os.environ, **variables), timeout=60, check=False)

    def test_help_names_every_build(self):
        result = self.run_matrix("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for name in ("gcc", "clang-14", "clang-16", "mpich"):
            self.assertIn(f"\n  {name} ", result.stdout)

    def test_wrong_words_are_refused_before_anything_is_made(self):
        for words, text in ((["msvc"], "'msvc' is unknown; allowed are gcc clang-14 clang-16 mpich"),
                            (["gcc", "gcc clang-14"], "'gcc clang-14' is unknown"),
                            ([""], "'' is unknown"),
                            (["--fast"], "unknown option '--fast'"),
                            (["--jobs"], "--jobs ''"),
                            (["--jobs", "0", "gcc"], "--jobs '0'"),
                            (["--jobs", "2x"], "--jobs '2x'")):
            result = self.run_matrix(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertTrue(result.stderr.startswith("build-matrix: error: "), result.stderr)
            self.assertIn(text, result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "build")))

    def test_a_build_that_fails_does_not_keep_others_from_running(self):
        """There is no CMake project here, so none can be configured."""
        result = self.run_matrix("gcc", "gcc")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("FAILED"), 2, result.stdout)
        self.assertEqual(result.stdout.count("not built: see build/matrix/gcc/logs"), 2)


if __name__ == "__main__":
    unittest.main()
