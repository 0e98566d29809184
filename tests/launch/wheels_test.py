#!/usr/bin/env python3
"""launch/packaging/wheels: its words, and how a wheel for CUDA is named. What it makes, it tries
itself."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PARTS = ("launch/packaging/wheels", "launch/script_steps.sh")


class WheelsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name
        for part in PARTS:
            os.makedirs(os.path.join(self.folder, os.path.dirname(part)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, part), os.path.join(self.folder, part))

    def run_wheels(self, *words):
        return subprocess.run([os.path.join(self.folder, PARTS[0]), *words], capture_output=True,
                              text=True, timeout=60, check=False)

    def test_help_names_every_option(self):
        result = self.run_wheels("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for name in ("--python PROGRAM", "--twice", "--cuda NVCC", "--system SUITE", "--folder F",
                     "--jobs N"):
            self.assertIn(f"\n  {name} ", result.stdout)

    def test_wrong_words_are_refused_before_anything_is_made(self):
        here = ("--python", sys.executable)
        other = "bookworm" if sys.version_info >= (3, 12) else "trixie"
        for words, text in ((["fast"], "unknown word 'fast'"),
                            (["--python"], "--python: a value is needed"),
                            (["--python", "no-such-python"], "'no-such-python': it does not run"),
                            ([*here, "--jobs", "0"], "--jobs '0'"),
                            ([*here, "--system", "sid"], "allowed are bookworm, trixie, none"),
                            ([*here, "--system", other], "no wheel for that is made"),
                            ([*here, "--cuda", "no-such-nvcc"], "--cuda 'no-such-nvcc'")):
            result = self.run_wheels(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertTrue(result.stderr.startswith("wheels: error: "), result.stderr)
            self.assertIn(text, result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "build")))

    def test_name_of_a_wheel_for_cuda(self):
        """The function that changes pyproject.toml, with a stand-in for the compiler."""
        with open(os.path.join(self.folder, PARTS[0]), encoding="utf-8") as file:
            function = re.search(r"^name_cuda_wheel\(\) \{\n.*?^\}\n", file.read(), re.M | re.S)[0]
        for name in ("pyproject.toml", "CMakeLists.txt"):
            shutil.copy2(os.path.join(ROOT, name), self.folder)
        nvcc = os.path.join(self.folder, "nvcc")
        with open(nvcc, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
        os.chmod(nvcc, 0o755)
        subprocess.run(["bash", "-euo", "pipefail", "-c", f"nvcc={nvcc}\n{function}\nname_cuda_wheel ."],
                       cwd=self.folder, timeout=60, check=True)
        with open(os.path.join(self.folder, "pyproject.toml"), encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r'\nversion = "[0-9.]+\+cu12"\n')
        self.assertRegex(text, r'\ndependencies = \["numpy>=[0-9.]+", "nvidia-cublas-cu12", ')
        self.assertNotIn("dynamic = ", text)
        self.assertNotIn("[tool.scikit-build.metadata.version]", text)


if __name__ == "__main__":
    unittest.main()
