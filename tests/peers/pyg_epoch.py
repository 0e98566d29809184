#!/usr/bin/env python3
"""Times full-graph training epochs of PyTorch Geometric on a dataset folder, for comparison.

Reads the folder with NumPy alone and trains the model that `atoll bench` trains: GCN or GraphSAGE
(mean), `--layers` x `--hidden`, ReLU, dropout, Adam, loss over the training nodes. Prints one JSON
object. Needs torch and torch_geometric; runs where they install.
"""

import argparse
import json
import os
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
    """features [N, F], labels [N], training mask [N]."""
    split = np.load(folder / "split.npy")
    split = split if split.ndim == 1 else split[0]
    labels = np.load(folder / "labels.npy")
    if labels.ndim == 2:
        sys.exit(f"{folder}: multi-label sets are not compared")
    features = np.load(folder / "features.npy")
    return features, labels.astype(np.int64), (split == 0) & (labels >= 0)


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


def refuse_what_does_not_fit(options, edges, device):
    """edge_index keeps a message of `hidden` floats per edge: ends here where that is hopeless."""
    import torch

    if options.adjacency != "edge_index":
        return
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    messages = 4 * edges * options.hidden
    if messages > 0.4 * memory:
        sys.exit(f"edge_index: the messages of one layer take {messages / 1e9:.1f} GB, more than "
                 f"0.4 of this device's {memory / 1e9:.1f} GB")


def add_self_loops(row_ptr, columns):
    """The same CSR with one more entry at the end of every row that has none on the diagonal."""
    import torch

    nodes, device = len(row_ptr) - 1, row_ptr.device
    lengths = row_ptr.diff()
    every_row = torch.arange(nodes, device=device, dtype=columns.dtype)
    rows = torch.repeat_interleave(every_row, lengths)
    missing = torch.ones(nodes, dtype=torch.bool, device=device)
    missing[rows[rows == columns]] = False
    before = torch.zeros_like(row_ptr)  # entries inserted before a row
    before[1:] = missing.cumsum(0)
    inserted_ptr = row_ptr + before
    inserted = torch.empty(int(inserted_ptr[-1]), dtype=columns.dtype, device=device)
    places = torch.arange(len(columns), device=device)
    inserted[places + torch.repeat_interleave(before[:-1], lengths)] = columns
    inserted[inserted_ptr[1:][missing] - 1] = every_row[missing]
    return inserted_ptr, inserted


def build_adjacency(options, device):
    """An edge_index, or A as torch sparse CSR whose row i holds the in-edges of node i.

    The folder's row_ptr [N + 1] and col_idx [E] are this CSR already: nothing is sorted.
    """
    import torch

    row_ptr = torch.from_numpy(np.load(options.dataset / "row_ptr.npy")).to(device)
    columns = torch.from_numpy(np.load(options.dataset / "col_idx.npy")).to(device)
    row_ptr, nodes = row_ptr.long(), len(row_ptr) - 1
    if options.adjacency == "edge_index":
        targets = torch.repeat_interleave(torch.arange(nodes, device=device), row_ptr.diff())
        return torch.stack([columns.long(), targets])
    if options.model == "gcn":
        row_ptr, columns = add_self_loops(row_ptr, columns)
        scale = row_ptr.diff().float().rsqrt()
        values = torch.repeat_interleave(scale, row_ptr.diff()) * scale[columns]
    else:
        values = torch.ones(len(columns), device=device)
    if options.precision == "bf16":  # autocast narrows x, and both factors must agree
        values = values.to(torch.bfloat16)
    # 32-bit indices where they suffice, as Atoll has them.
    index = torch.int32 if len(columns) < 2**31 else torch.int64
    return torch.sparse_csr_tensor(row_ptr.to(index), columns.to(index), values, (nodes, nodes))


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
    edges = len(np.load(options.dataset / "col_idx.npy", mmap_mode="r"))
    refuse_what_does_not_fit(options, edges, device)
    torch.manual_seed(1)
    features, labels, train = load(options.dataset)
    nodes, width = features.shape
    x = torch.from_numpy(features).to(device)
    if options.precision == "bf16":  # SAGE aggregates the features before autocast narrows them
        x = x.to(torch.bfloat16)
    y = torch.from_numpy(labels).to(device)
    rows = torch.from_numpy(np.flatnonzero(train)).to(device)
    adjacency = build_adjacency(options, device)
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
        "nodes": nodes, "edges": edges, "model": options.model, "layers": options.layers,
        "hidden": options.hidden, "norm": options.norm, "adjacency": options.adjacency,
        "precision": options.precision, "epochs": options.epochs,
        "loss": float(loss),
        "epoch_ms": {"median": statistics.median(milliseconds), "min": min(milliseconds),
                     "max": max(milliseconds)},
        "peak_device_mb": (torch.cuda.max_memory_allocated() / 1e6
                           if device.type == "cuda" else None)}))


if __name__ == "__main__":
    main()
