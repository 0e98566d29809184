#!/usr/bin/env python3
"""Every subcommand explains itself, and wrong words on the command line are answered with the right
ones, once, with exit code 2."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, run

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/reference.md")


class HelpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = json.loads(run(["reference", "--json"], ".").stdout)
        cls.subcommands = [command["name"] for command in cls.reference["commands"]
                           if " " not in command["name"]]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_atoll(self, *arguments, ranks=0):
        return run(list(arguments), self.folder.name, ranks)

    def refuse(self, *arguments, ranks=0):
        """Standard error of a refused command line."""
        result = self.run_atoll(*arguments, ranks=ranks)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
        return result.stderr

    def test_program_help_lists_every_subcommand(self):
        result = self.run_atoll("--help")
        self.assertEqual(result.returncode, 0)
        for name in self.subcommands:
            self.assertRegex(result.stdout, rf"(?m)^  {name} ")

    def test_subcommand_help_has_examples(self):
        for name in self.subcommands:
            with self.subTest(name):
                result = self.run_atoll(name, "--help")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, "")
                self.assertRegex(result.stdout, rf"Examples?:\n(.*\n)*.*atoll {name}")
                self.assertIn("--config", result.stdout)

    def test_help_of_train_fits_a_screen(self):
        short = self.run_atoll("train", "--help").stdout
        lines = short.splitlines()
        self.assertLessEqual(len(lines), 50)
        self.assertLessEqual(max(map(len, lines)), 100)
        everything = self.run_atoll("train", "--help-all").stdout
        self.assertGreater(len(everything.splitlines()), 100)
        for option in re.findall(r"(?m)^  (--[a-z-]+)", short):
            self.assertRegex(everything, rf"(?m)^  (-\w,)?{option}\b")
        self.assertRegex(short, r"--hidden N .* \[256\]")
        # Commands without a screen of their own say the same for both.
        self.assertEqual(self.run_atoll("info", "--help").stdout,
                         self.run_atoll("info", "--help-all").stdout)

    def train(self, *words):
        result = self.run_atoll("train", "graph", "--epochs", "2", "--layers", "2", "--hidden", "8", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_options_imply_what_they_need(self):
        self.run_atoll("generate", "sbm", "--nodes", "60", "--out", "graph")
        self.train("--ranks", "2", "--bits", "4", "--run-dir", "run")
        with open(os.path.join(self.folder.name, "run", "config.toml"), encoding="utf-8") as file:
            config = file.read()
        self.assertIn("exchange = 'quantized'", config)
        with open(os.path.join(self.folder.name, "run", "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual((summary["ranks"], summary["exchange"]), (2, "quantized"))
        # Exact messages have 32 bits.
        self.train("--ranks", "2", "--bits", "32", "--exchange", "exact", "--run-dir", "other")
        with open(os.path.join(self.folder.name, "other", "summary.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["exchange"], "exact")

    def test_quiet_and_verbose(self):
        self.run_atoll("generate", "sbm", "--nodes", "60", "--out", "graph")
        self.assertIn("info", self.train("--run-dir", "none").stderr)
        self.assertEqual(self.train("-q", "--run-dir", "none").stderr, "")
        self.assertIn("info", self.train("--verbose", "--run-dir", "none").stderr)
        self.assertIn("--quiet", self.refuse("train", "graph", "-q", "-v"))

    def test_no_escape_sequences_in_a_pipe(self):
        result = self.run_atoll("train", "nowhere")
        self.assertNotIn("\x1b", result.stderr + result.stdout)

    def test_nested_subcommand(self):
        result = self.run_atoll("trace", "merge", "--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"Examples:\n(.*\n)*.*atoll trace merge")
        self.assertIn("--config", result.stdout)
        error = self.refuse("trace", "merge", "run", "--epcoh", "3")
        self.assertIn("unknown option '--epcoh' (did you mean '--epoch'?)", error)
        self.assertIn("See 'atoll trace merge --help'", error)
        error = self.refuse("trace", "merrge", "run")
        self.assertIn("unknown subcommand 'merrge' (did you mean 'merge'?)", error)

    def test_the_reference_is_that_of_the_program(self):
        made = self.run_atoll("reference").stdout
        with open(REFERENCE, encoding="utf-8") as file:
            self.assertEqual(file.read(), made, "run: atoll reference > docs/reference.md")
        for name in self.subcommands:
            self.assertIn(f"\n## atoll {name}\n", made)
        for option in re.findall(r"(?m)^  (?:-\w,)?(--[a-z0-9-]+)",
                                 self.run_atoll("train", "--help-all").stdout):
            if option not in ("--help", "--help-all"):
                self.assertIn(f"`{option}`", made)

    def test_the_reference_as_json(self):
        commands = {command["name"]: command for command in self.reference["commands"]}
        self.assertIn("merge", commands["trace"]["nested"])
        self.assertEqual(commands["trace merge"]["nested"], [])
        self.assertIn("clocks", commands["trace merge"]["does"])
        self.assertNotIn("reference", commands)  # for who works on Atoll
        self.assertEqual([row["name"] for row in commands["train"]["arguments"]], ["dataset"])
        options = {row["name"]: row for row in commands["train"]["options"]}
        self.assertEqual(options["norm"], {
            "name": "norm", "letter": "", "group": "Model", "help": "Normalisation of each hidden layer",
            "default": "none", "is_flag": False, "words": ["none", "layer", "batch"], "required": False})
        self.assertEqual((options["quiet"]["letter"], options["quiet"]["is_flag"]), ("q", True))
        self.assertEqual(options["epochs"]["default"], "100")
        self.assertEqual([(name, row["alone"]) for name, row in options.items() if "alone" in row],
                         [("inductive", "train")])
        for command in commands.values():
            for row in command["options"]:
                self.assertTrue(row["help"], (command["name"], row))
        self.assert_options_are_those_of_their_commands(commands)
        directions = {row["name"]: row["lower_is_better"] for row in self.reference["metrics"]}
        self.assertEqual((directions["accuracy"], directions["rmse"], directions["hits@"]),
                         (False, True, False))

    def assert_options_are_those_of_their_commands(self, commands):
        """Help may speak of options of another command only behind its name."""
        for command in commands.values():
            own = {row["name"] for row in command["options"]}
            for row in command["options"]:
                for before, name in re.findall(r"([\w-]+ )?--([a-z][\w-]*)", row["help"]):
                    if before.strip() not in commands:
                        self.assertIn(name, own, (command["name"], row["help"]))

    def completed(self, *words, shell="bash"):
        result = self.run_atoll("completion", shell, "--", *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.splitlines()

    def test_the_storm_of_contradictions_has_values_for_all_options(self):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../storm"))
        import pairs
        known = pairs.pairs_of(lambda command: run([command, "--help-all"], ".").stdout)
        self.assertGreater(len(known), 100)

    def test_completion(self):
        self.assertEqual(self.completed("tr"), ["train", "trace"])
        self.assertIn("export", self.completed(""))
        self.assertNotIn("reference", self.completed(""))  # for who works on Atoll
        self.assertEqual(self.completed("train", "--mod"), ["--model", "--model-file"])
        self.assertEqual(self.completed("train", "data", "--norm", ""), ["none", "layer", "batch"])
        self.assertEqual(self.completed("train", "--model=gatv"), ["--model=gatv2"])
        self.assertEqual(self.completed("train", "da"), [])  # files
        self.assertEqual(self.completed("train", "data", "--overwrite", ""), [])
        self.assertEqual(self.completed("trace", "m"), ["merge"])
        self.assertIn("matrix-market", self.completed("import", ""))
        self.assertEqual(self.completed("import", "npy", "--task", "b"), ["binary"])
        self.assertEqual(self.completed("launch", "--", "train", "--backen"), ["--backend"])
        self.assertEqual(self.completed("train", "--model-f", shell="fish"),
                         ["--model-file\tTOML file that describes the model layer by layer, instead of "
                          "the options of this group (docs/models.md)"])
        self.assertEqual(self.completed("generate", "like:r", shell="zsh"), ["like\\:reddit"])
        self.assertIn("not in {bash,zsh,fish}", self.refuse("completion", "tcsh"))

    def test_completion_in_bash(self):
        if shutil.which("bash") is None:
            self.skipTest("bash is not installed")
        script = """set -euo pipefail
            eval "$(atoll completion bash)"
            for COMP_LINE; do COMP_POINT=${#COMP_LINE}; COMPREPLY=(); _atoll || true; echo "${COMPREPLY[*]}"; done"""
        folder = os.path.dirname(os.path.abspath(ATOLL))
        result = subprocess.run(
            ["bash", "-c", script, "bash", "atoll tra", "atoll train --model=gatv", "atoll train d --skip ",
             "atoll generate like:o", "atoll train nowh"],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True,
            timeout=TIMEOUT, check=False)
        self.assertEqual(result.stderr, "")
        # Bash does not replace what stands before = and :.
        self.assertEqual(result.stdout.splitlines(),
                         ["train trace", "gatv2", "none identity linear", "ogbn-arxiv ogbn-products", ""])

    def test_times_and_their_units(self):
        self.run_atoll("generate", "sbm", "--nodes", "60", "--out", "graph")
        for text, value in (("2m", "120"), ("1h30m", "5400"), ("90", "90")):
            self.train("--timeout", text, "--run-dir", "run", "--overwrite")
            with open(os.path.join(self.folder.name, "run", "config.toml"), encoding="utf-8") as file:
                self.assertIn(f"timeout = {value}\n", file.read())
        for wrong in ("-1", "soon", "5 minutes"):
            self.assertIn("such as 45s, 10m, 1h30m", self.refuse("train", "graph", "--timeout", wrong))

    def test_version(self):
        result = self.run_atoll("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^atoll \d+\.\d+\.\d+ \(commit ([0-9a-f]{12}|unknown)")

    def test_bare_and_help_as_a_word(self):
        for words, same in (((), ("--help",)), (("help",), ("--help",)),
                            (("help", "train"), ("train", "--help")),
                            (("help", "trace", "merge"), ("trace", "merge", "--help"))):
            result = self.run_atoll(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, self.run_atoll(*same).stdout)

    def test_no_subcommand(self):
        self.assertIn("subcommand is required", self.refuse("trace"))

    def test_words_that_look_like_slips(self):
        for option, word, meant in (("--model", "GCN", "gcn"), ("--model", "gnc", "gcn"),
                                    ("--model", "Sage", "sage"), ("--norm", "Batch", "batch"),
                                    ("--transport", "MPI", "mpi"), ("--method", "mettis", "metis"),
                                    ("--overlap", "onn", "on")):
            self.assertIn(f"(did you mean '{meant}'?)", self.refuse("train", "data", option, word))
        self.assertIn("(did you mean 'labels'?)",
                      self.refuse("predict", "run", "data", "--what", "label", "--out", "a.npy"))
        self.assertNotIn("did you mean", self.refuse("train", "data", "--model", "transformer"))

    def test_misspelt_subcommand(self):
        error = self.refuse("trian", "data")
        self.assertIn("unknown subcommand 'trian' (did you mean 'train'?)", error)
        for name in self.subcommands:
            self.assertIn(name, error)

    def test_misspelt_option(self):
        error = self.refuse("train", "data", "--epocsh", "5")
        self.assertIn("unknown option '--epocsh' (did you mean '--epochs'?)", error)

    def test_surplus_argument(self):
        self.assertIn("unexpected argument 'b'", self.refuse("info", "a", "b"))

    def test_bad_value_lists_the_good_ones(self):
        self.assertRegex(self.refuse("train", "data", "--model", "cheb"), "gcn.*sage")
        self.assertIn("--epochs", self.refuse("train", "data", "--epochs", "many"))

    def test_missing_value(self):
        self.assertIn("--epochs", self.refuse("train", "data", "--epochs"))

    def test_once_under_a_launcher(self):
        self.assertIn("--epocsh", self.refuse("train", "data", "--epocsh", "5", ranks=3))

    def test_help_once_under_a_launcher(self):
        result = self.run_atoll("train", "--help", ranks=2)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.count("Usage:"), 1)

    def test_absent_device_is_no_fallback(self):
        # The user can choose another backend, or do what the message says: exit code 2.
        self.assertEqual(self.run_atoll("generate", "sbm", "--nodes", "50", "--out", "d").returncode, 0)
        devices = json.loads(self.run_atoll("doctor", "--json").stdout)["findings"]
        cuda = next(finding for finding in devices if finding["name"] == "CUDA")
        if cuda["level"] == "ok":
            self.skipTest("this machine has a CUDA device")
        result = self.run_atoll("train", "d", "--epochs", "1", "--backend", "cuda")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("atoll: error: backend cuda:", result.stderr)

    def test_doctor(self):
        result = self.run_atoll("doctor")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        for word in ("MPI", "OpenMP", "oneDNN", "METIS", "CUDA", "loopback", "/dev/shm"):
            self.assertIn(word, result.stdout)
        report = json.loads(self.run_atoll("doctor", "--json").stdout)
        levels = {finding["level"] for finding in report["findings"]}
        self.assertLessEqual(levels, {"ok", "note", "problem"})
        self.assertEqual(result.returncode, 1 if "problem" in levels else 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
