#!/usr/bin/env python3
"""Model files and the options of models as a user gives them: what is trained, what a run keeps, and
what is said of files and options that make no model."""

import json
import os
import pathlib
import shutil
import struct
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
        cls.succeed("generate", "relational", "--nodes", "200", "--classes", "2", "--relations", "4",
                    "--out", "typed")
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
        self.copy_typed("more", node_types=5)
        message = self.refuse("predict", "whole", "more", "--out", "labels.npy")
        self.assertIn("more: it has 5 types of nodes, the model in whole", message)
        self.assertIn("needs 2", message)
        self.refuse_file('input = {columns = 8, typed = "on"}\n' + layer, "input", "typed")

    def copy_typed(self, name, **fields):
        shutil.copytree(self.path("typed"), self.path(name))
        path = self.path(name, "dataset.json")
        with open(path, encoding="utf-8") as file:
            description = json.load(file)
        for field in ("seal", "files", "checksum"):
            description.pop(field, None)
        write(path, json.dumps({**description, **fields}))
        return description

    def input_bias(self, run_dir):
        data = pathlib.Path(self.path(run_dir, "model.safetensors")).read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        first, last = json.loads(data[8:begin])["input.bias"]["data_offsets"]
        return struct.unpack(f"<{(last - first) // 4}f", data[begin + first:begin + last])

    def test_nodes_of_a_type_without_features_learn_an_embedding(self):
        features = self.copy_typed("bare")["features"]
        path = pathlib.Path(self.path("bare", "features.npy"))
        row = 4 * features
        data = path.read_bytes()
        rows = [data[at:at + row] for at in range(len(data) - 200 * row, len(data), row)]
        rows[1::2] = [bytes(row)] * 100  # node v has type v % 2
        path.write_bytes(data[:-200 * row] + b"".join(rows))
        for epochs in ("1", "9"):
            self.succeed("train", "bare", "--model", "sage", "--layers", "2", "--hidden", "8",
                         "--input-layer", "typed", "--epochs", epochs, "--run-dir", f"bare-{epochs}",
                         "--eval-every", epochs)
        pairs = list(zip(self.input_bias("bare-1"), self.input_bias("bare-9")))
        self.assertEqual(len(pairs), 16)
        moved = [early != late for early, late in pairs]
        self.assertGreaterEqual(sum(moved[8:]), 2)

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

    def test_keys_that_nobody_reads(self):
        for key in ("heads = 2", "aggregator = 'max'", "alpha = 0.2", "theta = 1.0", "bases = 2",
                    "temperature = 2.0", "attention-dropout = 0.5", "average-heads = true",
                    "edge-scores = true", "learn-aggregator = true", "aggregator-power = 2.0",
                    "attention-norm = 'symmetric'"):
            self.refuse_file(f'[[layer]]\nconvolution = "gcn"\ncolumns = 8\n{key}\n{PLAIN}',
                             "[[layer]] 1", f"'{key.split()[0]}'", "gcn has no use for it")
        sage = PLAIN.replace('"none"', '"sage"', 1)
        for key, reader in (("temperature", "softmax"), ("aggregator-power", "power")):
            self.refuse_file(sage.replace("columns = 16", f"columns = 16\n{key} = 2.0"),
                             "[[layer]] 1", f"'{key}'", reader, "mean")
        self.refuse_file(STACK.replace('skip = "linear"', 'skip-from = "first"'), "[[layer]] 1",
                         "'skip-from'")
        write(self.path("hops.toml"), PLAIN.replace('"appnp"\nalpha = 0.2',
                                                    '"sgc"\nactivation = "relu"'))
        self.succeed("program", "data", "--model-file", "hops.toml")

    def test_heads_that_dont_divide_columns(self):
        write(self.path("heads.toml"), PLAIN.replace('"none"\ncolumns = 16',
                                                     '"gat"\ncolumns = 9\nheads = 2'))
        message = self.refuse("train", "data", "--model-file", "heads.toml", "--run-dir", "none")
        self.assertIn("model file: layer 0 (gat): heads 2", message)

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
