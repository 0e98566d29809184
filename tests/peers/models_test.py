#!/usr/bin/env python3
"""The models of the scripts that time peers, beside dense products in double precision: logits and
gradients on a directed graph and on a symmetric one. Exits with 77 (skipped) without torch; tests
of a peer whose package is missing are skipped."""

import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("DGLBACKEND", "pytorch")
SKIPPED = 77
for package in ("numpy", "torch"):
    if importlib.util.find_spec(package) is None:
        print(f"SKIPPED: models of peers ({package} is not installed)")
        sys.exit(SKIPPED)

import numpy as np
import torch
import dgl_epoch
import dgl_sampling
import peer_training
import pyg_epoch
import pyg_sampling
import torch_epoch

# Edges u -> v: node 2 has a self-loop, node 5 no edge out, node 0 none in, node 4 neither.
EDGES = [(0, 1), (1, 2), (2, 2), (3, 2), (0, 3), (1, 3), (2, 5), (3, 5), (0, 5)]
NODES, FEATURES, CLASSES = 6, 5, 3


def write_dataset(folder, symmetric):
    """Writes the graph as a dataset folder; returns A [N, N] with A[v, u] = 1 for u -> v."""
    adjacency = np.zeros((NODES, NODES))
    for u, v in EDGES:
        adjacency[v, u] = 1
        if symmetric:
            adjacency[u, v] = 1
    arrays = {"row_ptr": np.concatenate([[0], adjacency.sum(1).cumsum()]).astype(np.int64),
              "col_idx": np.nonzero(adjacency)[1].astype(np.int32),
              "features": np.sin(np.arange(NODES * FEATURES, dtype=np.float32)).reshape(NODES, -1),
              "labels": np.array([0, 1, 2, 0, -1, 1], np.int32),
              "split": np.array([0, 0, 0, 1, 0, 2], np.uint8)}
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    (folder / "dataset.json").write_text(json.dumps({"name": "six", "directed": not symmetric}))
    return torch.from_numpy(adjacency)


def operator(adjacency, model):
    if model == "sage":
        return adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
    loops = adjacency.clone().fill_diagonal_(1)
    scale = loops.sum(1).rsqrt()
    return scale[:, None] * loops * scale[None, :]


def parameters_of(layer):
    """W [in, out], R [in, out] or None, b or None of a layer of any peer."""
    if isinstance(layer, torch.nn.Module) and type(layer).__name__ == "Convolution":
        return layer.weight.weight.T, layer.root and layer.root.weight.T, layer.weight.bias
    if hasattr(layer, "lin_l"):  # PyG
        return layer.lin_l.weight.T, layer.lin_r.weight.T, layer.lin_l.bias
    if hasattr(layer, "lin"):
        return layer.lin.weight.T, None, layer.bias
    if hasattr(layer, "fc_neigh"):  # DGL
        bias = layer.fc_self.bias if "bias" not in layer._parameters else layer.bias  # by version
        return layer.fc_neigh.weight.T, layer.fc_self.weight.T, bias
    return layer.weight, None, layer.bias


def dense_logits(parameters, adjacency, x):
    for index, (weight, root, bias) in enumerate(parameters):
        y = adjacency @ x @ weight
        if root is not None:
            y = y + x @ root
        if bias is not None:
            y = y + bias
        x = torch.relu(y) if index + 1 < len(parameters) else y
    return x


class ModelTest(unittest.TestCase):
    def check(self, script, **more):
        for model in ("gcn", "sage"):
            for symmetric in (False, True):
                for hidden in (4, 8):  # fewer and more columns than features
                    with self.subTest(model=model, symmetric=symmetric, hidden=hidden):
                        self.check_one(script, model, symmetric, hidden, more)

    def check_one(self, script, model, symmetric, hidden, more):
        torch.manual_seed(3)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            adjacency = operator(write_dataset(folder, symmetric), model)
            options = types.SimpleNamespace(
                dataset=folder, device="cpu", precision="f32", model=model, layers=3, hidden=hidden,
                dropout=0.5, norm="none", memory_gb=None, lr=0.01, **more)
            task = peer_training.Task(options)
        stack = self.build(script, options, task).eval()  # no dropout
        rows = task.rows["train"]
        self.assertEqual(rows.tolist(), [0, 1, 2])
        logits = stack(task.x)
        torch.nn.functional.cross_entropy(logits[rows], task.y[rows]).backward()

        names = [parameter for layer in stack.layers for parameter in parameters_of(layer)]
        copies = [[None if value is None else value.detach().double().requires_grad_()
                   for value in parameters_of(layer)] for layer in stack.layers]
        expected = dense_logits(copies, adjacency, task.x.double())
        torch.nn.functional.cross_entropy(expected[rows], task.y[rows]).backward()
        torch.testing.assert_close(logits.double(), expected, rtol=1e-5, atol=1e-6)
        compared = 0
        for layer, copy in zip(stack.layers, copies):
            for (found, transposed), value in zip(gradients_of(layer), copy):
                if value is not None:
                    found = found.grad.T if transposed else found.grad
                    torch.testing.assert_close(found.double(), value.grad, rtol=1e-5, atol=1e-6)
                    compared += 1
        self.assertEqual(compared, sum(value is not None for value in names))

    @staticmethod
    def build(script, options, task):
        if script is torch_epoch:
            return script.build_model(options, task, script.make_aggregate(options, task)[1])
        return script.build_model(options, task)

    def test_torch(self):
        for cache in ("on", "off"):
            self.check(torch_epoch, cache_aggregate=cache)

    @unittest.skipUnless(importlib.util.find_spec("torch_geometric"), "needs torch_geometric")
    def test_pyg(self):
        for adjacency in ("edge_index", "csr", "kept"):
            self.check(pyg_epoch, adjacency=adjacency)

    @unittest.skipUnless(importlib.util.find_spec("dgl"), "needs dgl")
    def test_dgl(self):
        for normalization in ("layer", "edges"):
            self.check(dgl_epoch, normalization=normalization)

    def check_sampling(self, script):
        """With more neighbours than any node has, a batch gives the logits of the whole graph."""
        torch.manual_seed(3)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_dataset(folder, symmetric=True)
            options = types.SimpleNamespace(
                dataset=folder, device="cpu", precision="f32", model="sage", layers=3, hidden=8,
                dropout=0.5, norm="batch", fan_out=[9, 8, 7], batch=2)
            task = peer_training.Task(options)
        model, batches, whole_graph = script.build(options, task)
        model.eval()  # no dropout
        expected = whole_graph()
        seen = []
        for logits, nodes in batches():
            torch.testing.assert_close(logits, expected[nodes], rtol=1e-5, atol=1e-6)
            seen += nodes.tolist()
        self.assertEqual(sorted(seen), task.rows["train"].tolist())
        # One neighbour of each node is not enough.
        options.fan_out = [1, 1, 1]
        torch.manual_seed(3)
        model, batches, _ = script.build(options, task)
        model.eval()
        self.assertTrue(any(not torch.allclose(logits, expected[nodes], rtol=1e-3)
                            for logits, nodes in batches()))

    @unittest.skipUnless(importlib.util.find_spec("dgl"), "needs dgl")
    def test_dgl_sampling(self):
        self.check_sampling(dgl_sampling)

    @unittest.skipUnless(any(map(importlib.util.find_spec, ("pyg_lib", "torch_sparse"))),
                         "needs torch_geometric, and pyg-lib or torch-sparse")
    def test_pyg_sampling(self):
        self.check_sampling(pyg_sampling)


def gradients_of(layer):
    """(parameter, whether it is stored transposed) in the order of parameters_of."""
    for value in parameters_of(layer):
        if value is None:
            yield None, False
        elif value.is_leaf:
            yield value, False
        else:  # a view of the stored parameter, which autograd gives no gradient of its own
            yield value._base, True


if __name__ == "__main__":
    unittest.main()
