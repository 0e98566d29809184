#!/usr/bin/env python3
"""Times full-graph training epochs of PyTorch Geometric on a dataset folder, for comparison.

Reads the folder with NumPy alone and trains the model that `atoll bench` trains: GCN or GraphSAGE
(mean), `--layers` x `--hidden`, ReLU, dropout, Adam, loss over the training nodes. Prints one JSON
object. Needs torch and torch_geometric; runs where they install.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=pathlib.Path, help="dataset folder")
    parser.add_argument("--model", choices=["gcn", "sage"], default="gcn")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--norm", choices=["none", "batch"], default="none")
    parser.add_argument("--adjacency", choices=["edge_index", "csr"], default="csr",
                        help="edge list with scatter, or a sparse CSR matrix")
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32",
                        help="bf16: autocast")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


def load(folder):
    """features [N, F], labels [N], training mask [N], edge_index [2, E] (source, target)."""
    row_ptr = np.load(folder / "row_ptr.npy", mmap_mode="r")
    targets = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    sources = np.load(folder / "col_idx.npy").astype(np.int64)
    split = np.load(folder / "split.npy")
    split = split if split.ndim == 1 else split[0]
    labels = np.load(folder / "labels.npy")
    if labels.ndim == 2:
        sys.exit(f"{folder}: multi-label sets are not compared")
    features = np.load(folder / "features.npy")
    return features, labels.astype(np.int64), (split == 0) & (labels >= 0), (sources, targets)


def build_model(options, features, classes):
    import torch
    from torch_geometric.nn import GCNConv, SAGEConv

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [features] + [options.hidden] * (options.layers - 1) + [classes]
            self.convolutions = torch.nn.ModuleList()
            self.norms = torch.nn.ModuleList()
            for width, after in zip(widths, widths[1:]):
                if options.model == "gcn":
                    layer = GCNConv(width, after, cached=options.adjacency == "edge_index",
                                    normalize=options.adjacency == "edge_index")
                else:
                    layer = SAGEConv(width, after)
                self.convolutions.append(layer)
                if options.norm == "batch":
                    self.norms.append(torch.nn.BatchNorm1d(after))

        def forward(self, x, adjacency):
            for index, layer in enumerate(self.convolutions):
                x = layer(x, adjacency)
                if index + 1 == len(self.convolutions):
                    return x
                if options.norm == "batch":
                    x = self.norms[index](x)
                x = torch.nn.functional.dropout(torch.relu(x), options.dropout, self.training)

    return Model()


def build_adjacency(options, edges, nodes, device):
    """An edge_index, or A as torch sparse CSR whose row i holds the in-edges of node i."""
    import torch

    sources, targets = (torch.from_numpy(np.ascontiguousarray(side)) for side in edges)
    if options.adjacency == "edge_index":
        return torch.stack([sources, targets]).to(device)
    values = torch.ones(len(sources))
    if options.model == "gcn":
        loops = torch.arange(nodes)
        sources, targets = torch.cat([sources, loops]), torch.cat([targets, loops])
        degree = torch.bincount(targets, minlength=nodes).float()
        values = degree[targets].rsqrt() * degree[sources].rsqrt()
    if options.precision == "bf16":  # autocast narrows x, and both factors must agree
        values = values.to(torch.bfloat16)
    matrix = torch.sparse_coo_tensor(torch.stack([targets, sources]), values, (nodes, nodes))
    return matrix.coalesce().to_sparse_csr().to(device)


def main():
    options = arguments()
    try:
        import torch
        import torch_geometric
    except ImportError as error:
        sys.exit(f"not comparable here: {error}")
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    device = torch.device(options.device)
    features, labels, train, edges = load(options.dataset)
    nodes, width = features.shape
    x = torch.from_numpy(features).to(device)
    y = torch.from_numpy(labels).to(device)
    rows = torch.from_numpy(np.flatnonzero(train)).to(device)
    adjacency = build_adjacency(options, edges, nodes, device)
    model = build_model(options, width, int(labels.max()) + 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def synchronize():
        if device.type == "cuda":
            torch.cuda.synchronize()

    def epoch():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16"):
            logits = model(x, adjacency)
        loss = torch.nn.functional.cross_entropy(logits[rows].float(), y[rows])
        loss.backward()
        optimizer.step()
        return loss

    milliseconds = []
    for index in range(options.warmup + options.epochs):
        synchronize()
        start = time.perf_counter()
        loss = epoch()
        synchronize()
        if index >= options.warmup:
            milliseconds.append(1000 * (time.perf_counter() - start))
    print(json.dumps({
        "peer": f"PyG {torch_geometric.__version__}, torch {torch.__version__}",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "dataset": json.loads((options.dataset / "dataset.json").read_text())["name"],
        "nodes": nodes, "edges": len(edges[0]), "model": options.model, "layers": options.layers,
        "hidden": options.hidden, "norm": options.norm, "adjacency": options.adjacency,
        "precision": options.precision, "epochs": options.epochs,
        "loss": float(loss),
        "epoch_ms": {"median": statistics.median(milliseconds), "min": min(milliseconds),
                     "max": max(milliseconds)},
        "peak_device_mb": (torch.cuda.max_memory_allocated() / 1e6
                           if device.type == "cuda" else None)}))


if __name__ == "__main__":
    main()
