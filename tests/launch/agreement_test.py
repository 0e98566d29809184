#!/usr/bin/env python3
"""Ranks that were started differently: all end at once with exit code 2 and one error that names
what differs, before any of them has done anything."""

import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (ATOLL, MPIEXEC, Workplace, edit_json, environment, is_open_mpi, list_tree, run,
                         write)

TRAIN = ["train", "data", "--epochs", "2", "--layers", "2", "--hidden", "4"]
SECONDS = 60  # far beyond what the start of two processes takes: a hang is an error


def run_each(commands, folder, variables=None):
    """One process of a job for each command, which may name another program first."""
    launcher = [MPIEXEC, "--bind-to", "none"]
    for rank, command in enumerate(commands):
        launcher += [":"] if rank else []
        launcher += ["-n", "1"]
        for name, value in (variables or {}).get(rank, {}).items():
            launcher += ["-x", f"{name}={value}"] if is_open_mpi() else ["-env", name, value]
        launcher += [os.path.abspath(ATOLL)] + command
    return subprocess.run(launcher, cwd=folder, env=environment(), capture_output=True, text=True,
                          errors="replace", timeout=SECONDS, check=False)


class AgreementTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workplace = Workplace()
        cls.folder = cls.workplace.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.workplace.cleanup()

    def refuse(self, commands, *expected, variables=None):
        before = list_tree(self.folder)
        result = run_each(commands, self.folder, variables)
        self.assertEqual(result.returncode, 2, result.stderr + result.stdout)
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
        message = result.stderr[result.stderr.index("atoll: error:"):]
        for part in expected:
            self.assertIn(part, message)
        self.assertEqual(list_tree(self.folder), before, "left behind")

    def test_options(self):
        """A few; tests/storm has a pair for every option there is."""
        for option, first, second in [("--seed", "1", "2"), ("--eval-every", "1", "2"),
                                      ("--dtype", "f32", "bf16"), ("--norm", "none", "batch")]:
            with self.subTest(option):
                self.refuse([TRAIN, TRAIN + [option, second]],
                            f"{option} is {first} on rank 0 and {second} on rank 1")

    def test_three_ranks(self):
        self.refuse([TRAIN, TRAIN, TRAIN + ["--lr", "0.5"]],
                    "--lr is 0.01 on rank 0 and 0.5 on rank 2")

    def test_flag_that_is_no_part_of_a_configuration(self):
        here = TRAIN + ["--run-dir", "run"]
        self.refuse([here, here + ["--resume"]], "--resume is ", "true on rank 1")

    def test_other_subcommand(self):
        predict = ["predict", "run", "data", "--out", "labels.npy"]
        self.refuse([TRAIN, predict],
                    "the command is 'atoll train' on rank 0 and 'atoll predict' on rank 1")

    def test_subcommand_that_one_process_runs(self):
        self.refuse([TRAIN, ["info", "data"]],
                    "the command is 'atoll train' on rank 0 and 'atoll info' on rank 1")
        self.refuse([["info", "data"], TRAIN], "'atoll info' on rank 0")

    def test_help_beside_training(self):
        result = run_each([TRAIN, ["train", "--help"]], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("the command is 'atoll train' on rank 0", result.stderr)

    def test_other_dataset(self):
        result = run(["generate", "sbm", "--nodes", "200", "--classes", "4", "--features", "8",
                      "--seed", "9", "--out", "other"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        other = ["other" if word == "data" else word for word in TRAIN]
        missing = ["missing" if word == "data" else word for word in TRAIN]
        self.refuse([TRAIN, other], "the checksum of the dataset is", "(data) on rank 0",
                    "(other) on rank 1")
        self.refuse([TRAIN, missing], "unknown (missing", "on rank 1")
        shutil.rmtree(os.path.join(self.folder, "other"))

    def test_files_that_every_rank_reads(self):
        for name, text in (("a.json", "{}"), ("b.json", "{ }")):
            write(os.path.join(self.folder, name), text)
        for option in ("--plan", "--calibration", "--init"):
            self.refuse([TRAIN + [option, "a.json"], TRAIN + [option, "b.json"]],
                        f"the checksum of {option} is", "(a.json) on rank 0", "(b.json) on rank 1")

    def test_model_files(self):
        for name, convolution in (("a.toml", "gcn"), ("b.toml", "sage")):
            write(os.path.join(self.folder, name), f'[[layer]]\nconvolution = "{convolution}"\n')
        words = ["train", "data", "--epochs", "1", "--model-file"]
        self.refuse([words + ["a.toml"], words + ["b.toml"]], "the checksum of --model-file is",
                    "(a.toml) on rank 0", "(b.toml) on rank 1")

    def test_environment(self):
        self.refuse([TRAIN, TRAIN], "ATOLL_VECTORS is not set on rank 0 and baseline on rank 1",
                    variables={1: {"ATOLL_VECTORS": "baseline"}})

    def test_command_line_that_one_rank_can_not_read(self):
        self.refuse([TRAIN, TRAIN + ["--epoch", "3"]],
                    "rank 1 of this job can't start: unknown option '--epoch'")
        write(os.path.join(self.folder, "bad.toml"), "hidden = \n")
        self.refuse([TRAIN + ["--config", "bad.toml"], TRAIN],
                    "rank 0 of this job can't start: bad.toml:1")

    def test_same_error_everywhere_is_said_as_it_is(self):
        self.refuse([TRAIN + ["--epoch", "3"]] * 3, "atoll: error: unknown option '--epoch'")

    def test_what_may_differ(self):
        """A rank's threads and backend, and where its host keeps the dataset."""
        shutil.copytree(os.path.join(self.folder, "data"), os.path.join(self.folder, "copy"))
        # The cut is read from where rank 0 has it.
        copy = ["copy" if word == "data" else word for word in TRAIN]
        result = run_each([TRAIN + ["--threads", "1"],
                           copy + ["--threads", "2", "--backend", "reference"]], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        shutil.rmtree(os.path.join(self.folder, "copy"))

    def test_hand_made_dataset(self):
        shutil.copytree(os.path.join(self.folder, "data"), os.path.join(self.folder, "mine"))
        edit_json(os.path.join(self.folder, "mine/dataset.json"), files=None, checksum=None,
                  seal=None)
        mine = ["mine" if word == "data" else word for word in TRAIN]
        result = run(mine, self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.refuse([mine, TRAIN], "the checksum of the dataset is")

    def test_one_process_of_several_does_the_work(self):
        result = run(["info", "data"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run(["partition", "data", "--parts", "3"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ([*TRAIN, "--run-dir", "exported-run"],
                      ["export", "exported-run", "--out", "exported"]):
            result = run(words, self.folder, ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run(["--version"], self.folder, ranks=2).stdout.count("atoll"), 1)

    def test_more_ranks_than_nodes(self):
        result = run(["train", "data", "--transport", "local", "--ranks", "4096"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--ranks 4096: dataset data has 200 nodes", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
