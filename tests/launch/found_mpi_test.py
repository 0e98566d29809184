#!/usr/bin/env python3
"""The program that looks for its MPI library when it runs (docs/transport.md): what it says with and
without one, and a training by processes."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from cli_support import ATOLL, OneFolderTest, environment, is_open_mpi, run

NOWHERE = "/no/libmpi.so"


def run_with(choice, *words, program=ATOLL):
    """The program with this value of ATOLL_MPI."""
    return subprocess.run([os.path.abspath(program), *words], capture_output=True, text=True,
                          env=dict(environment(), ATOLL_MPI=choice), timeout=60, check=False)


class FoundMpiTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = place.name
        cls.succeed("generate", "sbm", "--nodes", "200", "--out", "data")

    def test_training_by_processes_gives_what_threads_give(self):
        if ("openmpi" if is_open_mpi() else "mpich") not in os.environ["ATOLL_MPI_KINDS"].split(","):
            self.skipTest("there is no plug-in for this launcher's library")
        words = ["train", "data", "--epochs", "3", "--hidden", "8", "--run-dir"]
        result = run([*words, "processes"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.succeed(*words, "threads", "--transport", "local", "--ranks", "2")
        self.assertEqual(self.tensors("processes"), self.tensors("threads"))

    def test_version_names_the_file_that_was_loaded(self):
        if not is_open_mpi():
            self.skipTest("needs Open MPI")
        self.assertRegex(self.succeed("--version"), r"\nMPI: Open MPI v\d+[.\d]+ \(/.*libmpi\.so\.40")

    def test_plug_ins_are_found_whatever_the_program_is_called(self):
        """The Python package starts it as "atoll", which is no path."""
        if not is_open_mpi():
            self.skipTest("needs Open MPI")
        result = subprocess.run(["atoll", "--version"], executable=os.path.abspath(ATOLL), text=True,
                                capture_output=True, env=environment(), cwd=self.folder, timeout=60,
                                check=False)
        self.assertIn("\nMPI: Open MPI", result.stdout)

    def test_without_a_library(self):
        self.assertIn("\nMPI: none (atoll doctor says why)\n", run_with(NOWHERE, "--version").stdout)
        findings = json.loads(run_with(NOWHERE, "doctor", "--json").stdout)["findings"]
        library, = [row for row in findings if row["section"] == "MPI"]
        self.assertEqual((library["name"], library["value"], library["level"]), ("library", "none", "note"))
        self.assertIn(f"ATOLL_MPI={NOWHERE}: {NOWHERE}: cannot open", library["advice"])

    def test_launch_says_what_it_lacks(self):
        result = run_with(NOWHERE, "launch", "--", "train", "data", "--run-dir", "never")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("launch: starts ranks as processes, by Open MPI's mpirun, but ATOLL_MPI=",
                      result.stderr)

    def test_other_words_and_files_are_refused(self):
        for choice, text in (("intel", "ATOLL_MPI is 'intel'; allowed are openmpi, mpich, and"),
                             ("/proc/self/exe", "/proc/self/exe")):
            result = run_with(choice, "launch", "--", "train", "data", "--run-dir", "never")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)

    def test_what_was_looked_for_is_named(self):
        """Without its plug-ins, no library serves the program."""
        alone = shutil.copy2(ATOLL, os.path.join(self.folder, "alone"))
        self.addCleanup(os.remove, alone)
        result = run_with("", "launch", "--", "train", "data", "--run-dir", "never", program=alone)
        self.assertEqual(result.returncode, 2, result.stderr)
        for text in ("no library of MPI was found", "libmpi.so.40 (Open MPI)",
                     "libmpich.so.12, libmpi.so.12 (MPICH)", "LD_LIBRARY_PATH", "--transport local"):
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main()
