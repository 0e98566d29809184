#!/usr/bin/env python3
"""`atoll export --to pyg` and `atoll train --init` beside PyTorch Geometric, or, where only DGL is
installed, beside DGL's layers under PyG's names (dgl_as_pyg.py), for the models that it has:
exported models give there the logits that `atoll predict` writes, and what PyTorch has trained
further gives here the logits of PyTorch. Exits with 77 (skipped) where a package is missing."""

import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launch"))
SKIPPED = 77
ON_DGL = (importlib.util.find_spec("torch_geometric") is None and
          importlib.util.find_spec("dgl") is not None)
for package in ("numpy", "torch", "safetensors", *(() if ON_DGL else ("torch_geometric",))):
    if importlib.util.find_spec(package) is None:
        print(f"SKIPPED: models exchanged with PyTorch Geometric ({package} is not installed)")
        sys.exit(SKIPPED)

import numpy as np
import torch
from safetensors.torch import save_file
from cli_support import run

if ON_DGL:
    os.environ.setdefault("DGLBACKEND", "pytorch")
    sys.path.insert(0, str(HERE))
    import dgl_as_pyg

    dgl_as_pyg.install()

NODES, FEATURES, CLASSES = 40, 6, 4
BOUND = 1e-4  # of the largest logit

# Options of train beside the model, and the names of sets that are trained on.
MODELS = [words.split() for words in (
    "--model gcn",
    "--model gcn --norm layer --input-dropout 0.2",
    "--model gcn --norm batch --layers 4",
    "--model sage",
    "--model sage --norm layer --activation gelu",
    "--model sage --norm batch --root none",
    "--model gin",
    "--model gin --norm batch --activation elu",
    "--model gin --norm layer --root epsilon --activation leaky-relu",
    "--model gin --root none",
    "--model gcnii --layers 8",
    "--model gcnii --norm batch --alpha 0.2 --theta 1",
    "--model appnp --hops 4 --alpha 0.3",
    "--model sgc",
    "--model mlp --norm batch",
    "--model mean --root linear",
    "--model sum --root none --hidden 4",
    "--model gcn --skip linear --norm batch --input-layer linear --head linear --layers 4",
    "--model gcn --skip identity --skip-from first --input-layer activated --head linear",
    "--model sage --skip linear --skip-from first --norm layer --norm-place before --head linear",
    "--model gcn --jump sum --norm-place before --norm batch",
    "--model sage --jump max --norm batch",
    "--model gcn --jump concatenate --norm layer --norm-place before",
    "--model gat --heads 4 --activation elu --attention-dropout 0.3 --output-heads 2",
    "--model gat --heads 2 --average-heads on --norm batch --root none",
    "--model gat --heads 4 --edge-scores on --layers 2",
    "--model gat --heads 2 --edge-scores on --average-heads on --norm layer --root none",
    "--model gatv2 --heads 4 --skip linear --layers 2",
    "--model gatv2 --heads 2 --norm layer --jump concatenate --root none",
    "--model gatv2 --heads 4 --edge-scores on --layers 2",
    "--model gatv2 --heads 2 --edge-scores on --average-heads on --norm layer --root none",
    "--model sage --aggregator max --norm batch",
    "--model sage --aggregator softmax --temperature 2 --root none",
    "--model sage --aggregator softmax --learn-aggregator on --norm layer",
    "--model sage --aggregator power --aggregator-power 2.5",
    "--model sage --aggregator power --aggregator-power 2.5 --learn-aggregator on",
    "--model sage --aggregator power --aggregator-power -1 --learn-aggregator on --norm batch",
    "--model sage --aggregator sum",
    "--model gine",
    "--model gine --norm layer --activation elu --root epsilon",
    "--model gine --root none --skip linear --head linear --layers 3",
    "--model rgcn",
    "--model rgcn --bases 2 --norm layer --skip linear --root none",
    "--model sage --input-layer typed --activation elu",
    "--model mlp --input-layer typed",
    "--model rgcn --input-layer typed --norm batch --skip linear --head linear",
    "--model-file model.toml")]
# Every other model that the exported file has a class for, as it usually is.
sys.path.insert(0, str(HERE.parents[1] / "python"))
from atoll.pyg_model import CONVOLUTIONS

for kind in CONVOLUTIONS:
    usual = ["--model", {"none": "mlp"}.get(kind, kind)]
    if not any(options[:2] == usual for options in MODELS):
        MODELS.append(usual)
MODEL_FILE = """
input = {columns = 8, activation = "gelu", dropout = 0.3}
head = {jump = "concatenate", layer = "linear"}
[[layer]]
convolution = "gin"
columns = 8
norm = "batch"
skip = "linear"
[[layer]]
repeat = 3
convolution = "gcnii"
dropout = 0.2
norm = "layer"
norm-place = "before"
skip = "identity"
skip-from = "first"
[[layer]]
repeat = 2
convolution = "appnp"
alpha = 0.3
activation = "elu"
[[layer]]
convolution = "sage"
columns = 5
"""


def write_dataset(folder, directed, weighted, task, typed=False):
    """A random graph with self-loops and nodes that read nobody."""
    random = np.random.default_rng(7)
    adjacency = np.where(random.random((NODES, NODES)) < 0.1, random.random((NODES, NODES)) + 0.1, 0)
    adjacency[5] = 0
    if not directed:
        adjacency = np.maximum(adjacency, adjacency.T)
    rows, columns = np.nonzero(adjacency)
    arrays = {"row_ptr": np.searchsorted(rows, np.arange(NODES + 1)).astype(np.int64),
              "col_idx": columns.astype(np.int32),
              "features": random.standard_normal((NODES, FEATURES)).astype(np.float32),
              "labels": {"single-label": random.integers(CLASSES, size=NODES).astype(np.int32),
                         "binary": random.integers(2, size=NODES).astype(np.int32),
                         "multi-label": random.integers(2, size=(NODES, CLASSES)).astype(np.uint8)
                         }[task],
              "split": (np.arange(NODES) % 3).astype(np.uint8)}
    if weighted:
        arrays["edge_weights"] = adjacency[rows, columns].astype(np.float32)
    if typed:
        arrays["node_types"] = (random.integers(4, size=NODES)).astype(np.uint8)
        arrays["edge_types"] = ((rows + 2 * columns) % 3).astype(np.uint8)
        arrays["edge_features"] = random.standard_normal((len(rows), 4)).astype(np.float32)
    folder.mkdir()
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    (folder / "dataset.json").write_text(json.dumps({"name": folder.name, "directed": directed,
                                                     "task": task}))


DATASETS = {"plain": (False, False, "single-label"), "directed": (True, False, "single-label"),
            "weighted": (True, True, "single-label"), "binary": (False, True, "binary"),
            "multi": (True, False, "multi-label"),
            "typed": (True, False, "single-label", True)}


def is_of_dgl(options):
    """Whether DGL has the layers: no other aggregators, features or types of edges."""
    return (options[0] == "--model" and options[1] in ("gcn", "sage", "gcnii", "gat", "gatv2", "mlp")
            and not {"--aggregator", "--edge-scores", "typed"}.intersection(options)
            and (options[1] != "sage" or "--root" not in options))


def sets_for(options):
    """Datasets for a model: with types of nodes, and types and features of edges, where it reads them."""
    if ON_DGL:
        return ["plain", "directed", "multi"] if is_of_dgl(options) else []
    reads = {"rgcn", "gine", "--edge-scores", "typed"}
    return ["typed"] if reads.intersection(options) else DATASETS


class ExportTest(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.folder = pathlib.Path(home.name)
        (self.folder / "model.toml").write_text(MODEL_FILE)
        for name, properties in DATASETS.items():
            write_dataset(self.folder / name, *properties)

    def atoll(self, *words):
        result = run([*words], self.folder)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stderr}")

    def train(self, dataset, run_dir, *options):
        # Options that are given later win.
        words = {"--epochs": "15", "--lr": "0.05"}
        if "--model-file" not in options:
            words.update({"--layers": "3", "--hidden": "8"})
        words.update(zip(options[::2], options[1::2]))
        self.atoll("train", dataset, "--run-dir", run_dir,
                   *[word for pair in words.items() for word in pair])

    def own_logits(self, run_dir, dataset):
        self.atoll("predict", run_dir, dataset, "--what", "logits", "--out", f"{run_dir}.npy")
        return np.load(self.folder / f"{run_dir}.npy")

    def load(self, folder):
        """The exported Python file as a module."""
        spec = importlib.util.spec_from_file_location(folder, self.folder / folder / "model.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[folder] = module  # where PyG looks for the types of its arguments
        spec.loader.exec_module(module)
        return module

    def assert_close(self, mine, expected):
        self.assertEqual(mine.shape, expected.shape)
        self.assertGreater(np.abs(expected).max(), 0)
        self.assertLessEqual(np.abs(mine - expected).max(), BOUND * np.abs(expected).max())

    def test_exported_models_give_the_same_logits(self):
        for number, options in enumerate(MODELS):
            for dataset in sets_for(options):
                with self.subTest(options=options, dataset=dataset):
                    name = f"{dataset}-{number}"
                    self.train(dataset, name, *options)
                    self.atoll("export", name, "--to", "pyg", "--out", f"{name}-pyg")
                    module = self.load(f"{name}-pyg")
                    with torch.no_grad():
                        logits = module.load()(*module.read_dataset(self.folder / dataset)).numpy()
                    self.assert_close(logits, self.own_logits(name, dataset))

    def test_what_pytorch_has_trained_comes_back(self):
        for number, options in enumerate(MODELS):
            if "batch" in options or "--model-file" in options or not sets_for(options):
                continue  # its statistics move with the epoch that a run has at least
            name = f"run-{number}"
            dataset = {"typed": "typed", "plain": "directed" if ON_DGL else "weighted"}[
                list(sets_for(options))[0]]
            self.train(dataset, name, *options)
            self.atoll("export", name, "--out", f"{name}-pyg")
            module = self.load(f"{name}-pyg")
            model, data = module.load(), module.read_dataset(self.folder / dataset)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            labels = torch.from_numpy(np.load(self.folder / dataset / "labels.npy")).long()
            for _ in range(5):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(*data), labels).backward()
                optimizer.step()
            with torch.no_grad():
                expected = model(*data).numpy()
            save_file(model.state_dict(), self.folder / f"{name}.safetensors")
            # Steps too small for the weights to change.
            self.train(dataset, f"{name}-back", *options, "--init", f"{name}.safetensors",
                       "--epochs", "1", "--lr", "1e-30")
            self.assert_close(self.own_logits(f"{name}-back", dataset), expected)

    def test_statistics_of_batch_norm_come_back(self):
        self.train("plain", "batch", "--norm", "batch")
        self.atoll("export", "batch", "--out", "batch-pyg")
        module = self.load("batch-pyg")
        state = module.load().state_dict()
        self.assertEqual(state["norms.0.num_batches_tracked"].dtype, torch.int64)
        save_file(state, self.folder / "again.safetensors")
        self.train("plain", "again", "--norm", "batch", "--init", "again.safetensors", "--epochs",
                   "1", "--lr", "1e-30")
        self.atoll("export", "again", "--out", "again-pyg")
        again = self.load("again-pyg").load().state_dict()
        self.assertEqual(list(again), list(state))
        # An epoch replaces a tenth of the statistics.
        difference = (again["norms.0.running_mean"] - state["norms.0.running_mean"]).abs().max()
        self.assertLess(difference, 0.5 * state["norms.0.running_mean"].abs().max())
        self.assertTrue(torch.equal(again["convs.1.lin.weight"], state["convs.1.lin.weight"]))

    def test_decoders_score_pairs_alike(self):
        self.atoll("split", "plain", "--links", "--valid", ".1", "--test", ".1", "--negatives", "20",
                   "--out", "links")
        for decoder, more in (("dot", []), ("mlp", ["--decoder-layers", "2", "--decoder-dropout",
                                                    "0.2"])):
            with self.subTest(decoder):
                self.check_decoder(decoder, ["--decoder", decoder, *more])

    def check_decoder(self, name, options):
        self.train("links", name, *options)
        self.atoll("export", name, "--out", f"{name}-pyg")
        module = self.load(f"{name}-pyg")
        model = module.load()
        edges, others = (torch.from_numpy(np.load(self.folder / "links" / f"links_test{end}.npy"))
                         for end in ("", "_negatives"))
        with torch.no_grad():
            z = model(*module.read_dataset(self.folder / "links"))
            score = model.score(z, edges.T).unsqueeze(1)
            pairs = torch.stack([edges[:, :1].expand_as(others).flatten(), others.flatten()])
            negatives = model.score(z, pairs).view_as(others)
        ranks = 1 + ((negatives > score).sum(1) + (negatives >= score).sum(1)) / 2
        summary = json.loads((self.folder / name / "summary.json").read_text())
        self.assertAlmostEqual((1 / ranks).mean().item(), summary["mrr"]["test"], delta=1e-3)
        # Back again.
        self.train("links", f"{name}-back", *options, "--init", f"{name}-pyg/model.safetensors",
                   "--epochs", "1", "--lr", "1e-30")
        self.atoll("export", f"{name}-back", "--out", f"{name}-back-pyg")
        back = self.load(f"{name}-back-pyg").load().state_dict()
        for tensor, value in model.state_dict().items():
            self.assertTrue(torch.equal(back[tensor], value), tensor)


if __name__ == "__main__":
    unittest.main(verbosity=2)
