#!/usr/bin/env python3
"""Model files and the options of models as a user gives them: what is trained, what a run keeps, and
what is said of files and options that make no model."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run, write

STACK = """
input = {columns = 12, activation = "relu", dropout = 0.1}
head = {jump = "concatenate", layer = "linear"}
[[layer]]
repeat = 2
convolution = "gcn"
columns = 12
norm = "batch"
skip = "linear"
[[layer]]
convolution = "gin"
columns = 8
root = "epsilon"
"""
PLAIN = """
[[layer]]
convolution = "none"
columns = 16
[[layer]]
convolution = "none"
[[layer]]
repeat = 3
convolution = "appnp"
alpha = 0.2
"""


class ModelFileTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "300", "--classes", "4", "--features", "6",
                    "--out", "data")
        write(cls.path("stack.toml"), STACK)
        write(cls.path("plain.toml"), PLAIN)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def summary(self, name):
        with open(self.path(name, "summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def refuse_file(self, text, *words):
        write(self.path("bad.toml"), text)
        message = self.refuse("train", "data", "--model-file", "bad.toml", "--run-dir", "none")
        for word in ("bad.toml", *words):
            self.assertIn(word, message)

    def refuse_options(self, options, *words):
        message = self.refuse("train", "data", *options, "--run-dir", "none")
        for word in words:
            self.assertIn(word, message)

    def test_a_run_goes_on_without_the_file_it_was_given(self):
        write(self.path("moved.toml"), STACK)
        self.succeed("train", "data", "--model-file", "moved.toml", "--epochs", "4", "--run-dir",
                     "run", "--checkpoint-every", "2")
        self.assertEqual(self.summary("run")["model"], "model file")
        os.remove(self.path("moved.toml"))
        self.succeed("train", "--config", "run/config.toml", "--resume", "--epochs", "6")
        self.assertEqual(self.summary("run")["epochs"], 6)
        text = self.succeed("predict", "run", "data", "--out", "labels.npy")
        self.assertIn("labels of 300 nodes", text)

    def test_an_input_layer_per_type_of_nodes(self):
        self.succeed("generate", "relational", "--nodes", "200", "--classes", "2", "--relations",
                     "4", "--out", "typed")
        layer = '[[layer]]\nconvolution = "sage"\n'
        write(self.path("typed.toml"), 'input = {columns = 8, typed = true}\n' + layer)
        options = ["typed", "--model-file", "typed.toml", "--checkpoint-every", "2"]
        text = self.succeed("program", *options[:3])
        self.assertEqual(text.count("= linear by type"), 1)
        self.succeed("train", *options, "--epochs", "6", "--run-dir", "whole")
        self.succeed("train", *options, "--epochs", "4", "--run-dir", "in-two")
        self.succeed("train", *options, "--epochs", "6", "--run-dir", "in-two", "--resume")
        whole, in_two = (pathlib.Path(self.path(name, "model.safetensors")).read_bytes()
                         for name in ("whole", "in-two"))
        self.assertEqual(whole, in_two)
        shutil.copytree(self.path("typed"), self.path("more"))
        with open(self.path("more", "dataset.json"), encoding="utf-8") as file:
            description = json.load(file)
        description.pop("seal", None)
        write(self.path("more", "dataset.json"), json.dumps({**description, "node_types": 5}))
        message = self.refuse("predict", "whole", "more", "--out", "labels.npy")
        self.assertIn("more: it has 5 types of nodes, the model in whole", message)
        self.assertIn("needs 2", message)
        self.refuse_file('input = {columns = 8, typed = "on"}\n' + layer, "input", "typed")

    def test_another_file_is_another_run(self):
        self.succeed("train", "data", "--model-file", "stack.toml", "--epochs", "2", "--run-dir",
                     "one", "--checkpoint-every", "1")
        write(self.path("other.toml"), STACK.replace('"linear"\n[[', '"none"\n[['))
        result = run(["train", "data", "--model-file", "other.toml", "--run-dir", "one", "--resume",
                      "--epochs", "3"], self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("model-file", result.stderr)

    def test_hops_behind_the_layer_that_gives_the_logits(self):
        text = self.succeed("program", "data", "--model-file", "plain.toml", "--pass", "evaluation")
        self.assertIn("model file", text)
        self.assertEqual(text.count("aggregate symmetric forward"), 3)

    def test_files_that_make_no_model(self):
        self.refuse_file("layer = [", "not valid TOML")
        self.refuse_file("head = {layer = 'linear'}", "no [[layer]]")
        self.refuse_file(STACK + "\nwidth = 3\n", "unknown key 'width'", "[[layer]] 2")
        self.refuse_file(STACK.replace('"gin"', '"cheb"'), "[[layer]] 2", "'cheb'", "allowed are gcn")
        self.refuse_file(STACK.replace("repeat = 2", "repeat = 0"), "[[layer]] 1", "repeat",
                         "from 1 to 200")
        self.refuse_file(STACK.replace("columns = 8", ""), "[[layer]] 2", "'columns' is missing")
        self.refuse_file(STACK.replace('layer = "linear"', 'layer = "none"'), "head", "jump",
                         "linear")
        self.refuse_file(PLAIN.replace('"none"\n[[layer]]\nrepeat', '"none"\nnorm = "batch"\n'
                                       "[[layer]]\nrepeat"), "[[layer]] 2", "gives the logits",
                         "'norm'")
        self.refuse_file('[[layer]]\nconvolution = "sgc"\n', "no layer gives the logits")
        self.refuse_file('input = {activation = "relu"}\n' + PLAIN, "input", "'columns' is missing")

    def test_options_that_make_no_model(self):
        self.refuse_options(["--model-file", "stack.toml", "--hidden", "32"], "--hidden",
                            "--model-file")
        self.refuse_options(["--skip", "identity"], "identity skip", "layer 0")
        self.refuse_options(["--jump", "max", "--head", "none"], "--jump max", "--head none")
        self.refuse_options(["--model", "gcn", "--hops", "4"], "--hops", "gcn has no use for it")
        self.refuse_options(["--model", "gcnii", "--root", "linear"], "--root")
        self.refuse_options(["--skip-from", "first"], "--skip-from first", "--skip")
        self.refuse_options(["--model", "appnp", "--layers", "100", "--hops", "150"], "--layers 100",
                            "allowed are 200")


if __name__ == "__main__":
    unittest.main()
