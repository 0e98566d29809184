#!/usr/bin/env python3
"""`atoll export` and `train --init` as a user runs them, without PyTorch; tests/peers/export_test.py
compares with it."""

import json
import os
import re
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_stand
from cli_support import OneFolderTest, write

PYG_MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "atoll",
                         "pyg_model.py")

OPTIONS = {"--model": "sage", "--layers": "2", "--hidden": "8", "--norm": "batch", "--dropout": "0"}


def words_of(options):
    return [word for option in options.items() for word in option]


MODEL = words_of(OPTIONS)


class ExportTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "200", "--classes", "4", "--features", "6",
                    "--out", "data")
        cls.succeed("train", "data", *MODEL, "--epochs", "10", "--run-dir", "run")
        cls.text = cls.succeed("export", "run", "--to", "pyg", "--out", "exported")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def header(self, *names):
        content = self.read(*names)
        length = struct.unpack("<Q", content[:8])[0]
        return json.loads(content[8:8 + length])

    def losses(self, run_dir):
        return [json.loads(line)["loss"] for line in self.read(run_dir, "metrics.jsonl").splitlines()]

    def built(self, folder):
        """The module of an exported model, of a stand-in for PyTorch, called once."""
        module = torch_stand.load(self.path(folder, "model.py"))
        model = module.Model(json.loads(self.read(folder, "model.json")))
        model(None, None)
        return model

    def test_the_folder_holds_weights_and_what_reads_them(self):
        self.assertIn("sage of 2 layers in exported", self.text)
        self.assertEqual(sorted(os.listdir(self.path("exported"))),
                         ["model.json", "model.py", "model.safetensors"])
        tensors = self.header("exported/model.safetensors")
        self.assertEqual(tensors["convs.0.lin_l.weight"]["shape"], [8, 6])
        self.assertEqual(tensors["convs.1.lin_l.bias"]["shape"], [4])
        self.assertEqual(tensors["norms.0.num_batches_tracked"]["shape"], [])
        self.assertEqual({entry.get("dtype") for entry in tensors.values()}, {"F32", "I64", None})
        with open(PYG_MODEL, "rb") as file:
            self.assertEqual(self.read("exported/model.py"), file.read())
        self.assertEqual(
            [repr(conv) for conv in self.built("exported").convs],
            ["WeightedSAGE(6, 8, aggr='mean', root_weight=True, bias=False)",
             "WeightedSAGE(8, 4, aggr='mean', root_weight=True, bias=True)"])

    def test_the_description_says_every_option(self):
        described = json.loads(self.read("exported/model.json"))
        options = {name: described[name] for name in described if name not in ("head", "layer")}
        self.assertEqual(options, {
            "features": 6, "outputs": 4, "relations": 0, "edge-features": 0, "node-types": 0,
            "trained-nodes": 0, "input-dropout": 0, "decoder": "dot", "decoder-layers": 3,
            "decoder-dropout": 0, "input": None})
        self.assertEqual(described["head"], {"jump": "last", "layer": "none"})
        hidden, last = described["layer"]
        self.assertEqual(list(hidden), list(last))
        self.assertEqual(
            [(layer["convolution"], layer["number"], layer["columns"], layer["norm"],
              layer["activation"], layer["parameters"]) for layer in (hidden, last)],
            [("sage", 1, 8, "batch", "relu",
              ["weight", "root_weight", "norm.weight", "norm.bias"]),
             ("sage", 2, 4, "none", "none", ["weight", "root_weight", "bias"])])

    def test_the_python_file_knows_the_convolutions_that_are_exported(self):
        module = torch_stand.load(PYG_MODEL)
        self.succeed("train", "data", "--model", "dot", "--epochs", "1", "--run-dir", "dot")
        message = self.refuse("export", "dot", "--out", "new")
        self.assertIn("layer 0 (dot): PyTorch Geometric has no class for it; it has those for "
                      f"{', '.join(module.CONVOLUTIONS)}", message)

    def test_the_python_file_keeps_to_the_words_of_options(self):
        """Those of activations and norms as the reference lists them."""
        module = torch_stand.load(PYG_MODEL)
        text = self.succeed("train", "--help-all")
        for option, words in (("activation", module.ACTIVATIONS), ("norm", module.NORMS)):
            listed = re.search(rf"--{option} TEXT:\{{(.*?)\}}", text).group(1)
            self.assertEqual(sorted(words), sorted(listed.split(",")))

    def test_training_starts_with_the_weights_of_a_file(self):
        epochs = ["--epochs", "4", "--lr", "0.02"]
        self.succeed("train", "data", *MODEL, *epochs, "--run-dir", "from-pyg", "--init",
                     "exported/model.safetensors")
        self.succeed("train", "data", *MODEL, *epochs, "--run-dir", "from-own", "--init",
                     "run/model.safetensors")
        self.succeed("train", "data", *MODEL, *epochs, "--run-dir", "on-two", "--init",
                     "run/model.safetensors", "--transport", "local", "--ranks", "2")
        self.assertEqual(self.losses("from-pyg"), self.losses("from-own"))
        for mine, expected in zip(self.losses("on-two"), self.losses("from-own"), strict=True):
            self.assertAlmostEqual(mine, expected, delta=1e-5)
        # A loss is that of the weights before the epoch, and the model that of the best epoch.
        best = json.loads(self.read("run/summary.json"))["best_epoch"]
        self.assertLess(self.losses("from-own")[0], self.losses("run")[best - 1])

    def test_a_run_with_initial_weights_can_be_repeated_and_resumed(self):
        words = ["--run-dir", "whole", "--epochs", "4", "--init", "exported/model.safetensors"]
        self.succeed("train", "data", *MODEL, *words)
        self.succeed("train", "--config", "whole/config.toml", "--run-dir", "again")
        self.assertEqual(self.read("again/model.safetensors"), self.read("whole/model.safetensors"))
        self.succeed("train", "--config", "whole/config.toml", "--run-dir", "in-two", "--epochs", "2",
                     "--checkpoint-every", "1")
        self.succeed("train", "--config", "in-two/config.toml", "--epochs", "4", "--resume")
        self.assertEqual(self.read("in-two/model.safetensors"), self.read("whole/model.safetensors"))

    def test_every_kind_of_model_is_exported(self):
        write(self.path("model.toml"), 'input = {columns = 8}\n[[layer]]\nconvolution = "gin"\n'
                                       'columns = 8\n[[layer]]\nconvolution = "gcn"\n')
        for number, words in enumerate((
                "--model gin --root epsilon", "--model gcnii", "--model appnp", "--model sgc",
                "--model mlp", "--model mean", "--model sum", "--model gcn --jump max",
                "--model gat --heads 2 --activation elu", "--model gatv2 --norm layer",
                "--model sage --aggregator softmax --learn-aggregator on",
                "--model sage --aggregator power --learn-aggregator on --jump concatenate",
                "--model gcn --skip linear --input-layer linear --head linear --norm-place before",
                "--model-file model.toml")):
            self.succeed("train", "data", *words.split(), "--epochs", "1", "--run-dir",
                         f"kind-{number}")
            self.succeed("export", f"kind-{number}", "--out", f"kind-{number}-pyg")
            self.built(f"kind-{number}-pyg")
            self.succeed("train", "data", *words.split(), "--epochs", "1", "--run-dir",
                         f"kind-{number}-again", "--init", f"kind-{number}-pyg/model.safetensors")

    def test_weights_of_another_model_are_refused(self):
        for options, texts in (
                ({"--hidden": "5"}, ["model.safetensors: not the weights of this model",
                                     "convs.0.lin_l.weight is F32 [8, 6] and must be F32 [5, 6]"]),
                ({"--model": "gcn"}, ["missing: convs.0.lin.weight", "surplus: convs.0.lin_l.weight"]),
                ({"--layers": "3"}, ["missing: norms.1.weight", "surplus: convs.1.lin_l.bias"]),
                ({"--norm": "none"}, ["missing: convs.0.lin_l.bias", "surplus: norms.0.bias"])):
            message = self.refuse("train", "data", *words_of({**OPTIONS, **options}), "--run-dir",
                                  "none", "--init", "exported/model.safetensors")
            for text in texts:
                self.assertIn(text, message)
        message = self.refuse("train", "data", *words_of({**OPTIONS, "--layers": "1"}), "--run-dir",
                              "none", "--init", "run/model.safetensors")
        self.assertIn("surplus: layers.0.norm.bias", message)

    def test_files_that_are_no_weights_are_refused(self):
        write(self.path("text"), "these are no weights")
        damaged = bytearray(self.read("run/model.safetensors"))
        damaged[-1] ^= 1
        write(self.path("damaged"), bytes(damaged))
        weights = bytearray(self.read("exported/model.safetensors"))
        weights = weights.replace(b'"checksum"', b'"checksun"')
        write(self.path("infinite"), bytes(weights[:-4]) + struct.pack("<f", float("inf")))
        for name, text in (("text", "text"), ("damaged", "damaged"), ("none", "none"),
                           ("infinite", "allowed are finite numbers")):
            message = self.refuse("train", "data", *MODEL, "--run-dir", "none", "--init", name)
            self.assertIn(text, message)

    def test_what_cannot_be_exported_is_refused(self):
        for words, text in ((["run", "--out", "exported"], "exported"),
                            (["data", "--out", "new"], "holds no model.safetensors"),
                            (["exported", "--out", "new"], "has no 'atoll' entry"),
                            (["run", "--to", "onnx", "--out", "new"], "onnx not in {pyg}"),
                            (["run"], "--out is required")):
            self.assertIn(text, self.refuse("export", *words))
        self.succeed("train", "data", "--model", "gcn", "--root", "epsilon", "--epochs", "1",
                     "--run-dir", "epsilon")
        self.assertIn("layer 0 (gcn): PyTorch Geometric has no class for it with root epsilon; it "
                      "has none", self.refuse("export", "epsilon", "--out", "new"))
        self.succeed("train", "data", "--model", "gat", "--attention-norm", "symmetric", "--epochs",
                     "1", "--run-dir", "symmetric")
        self.assertIn("layer 0 (gat): PyTorch Geometric has no class for it with attention-norm "
                      "symmetric; it has none", self.refuse("export", "symmetric", "--out", "new"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
