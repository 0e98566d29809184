"""Shared by the scripts that time a peer: reading the dataset folder, the stack of layers, the
timed epochs and the printed result. Needs torch and NumPy."""

import json
import pathlib
import statistics
import sys
import time

import numpy as np
import torch

SPLITS = {"train": 0, "valid": 1, "test": 2}


class Task:
    """A dataset folder in memory: features x [N, F], labels y [N], the labelled rows of each split,
    and the graph as CSR, row_ptr [N + 1] and columns [E], whose row i holds the in-edges of node
    i."""

    def __init__(self, options):
        self.folder = options.dataset
        self.device = torch.device(options.device)
        self.description = json.loads((self.folder / "dataset.json").read_text(encoding="utf-8"))
        labels = self.read("labels")
        if labels.ndim == 2:
            sys.exit(f"{self.folder}: multi-label sets are not compared")
        split = self.read("split")
        split = split if split.ndim == 1 else split[0]
        self.y = torch.from_numpy(labels.astype(np.int64)).to(self.device)
        self.classes = int(labels.max()) + 1
        self.rows = {name: torch.from_numpy(np.flatnonzero((split == code) & (labels >= 0)))
                     .to(self.device) for name, code in SPLITS.items()}
        self.x = torch.from_numpy(np.load(self.folder / "features.npy")).to(self.device)
        if options.precision == "bf16":  # layers aggregate x before autocast narrows anything
            self.x = self.x.to(torch.bfloat16)
        self.row_ptr = torch.from_numpy(np.load(self.folder / "row_ptr.npy")).to(self.device).long()
        self.columns = torch.from_numpy(np.load(self.folder / "col_idx.npy")).to(self.device)
        self.nodes, self.edges = len(self.row_ptr) - 1, len(self.columns)
        self.directed = bool(self.description["directed"])

    def edge_index(self):
        """[2, E]: sources and targets."""
        targets = Csr(self.row_ptr, self.columns).rows()
        return torch.stack([self.columns.long(), targets.long()])

    def read(self, name):
        return np.load(self.folder / f"{name}.npy", mmap_mode="r")


class Csr:
    """A sparse matrix [N, N] by row_ptr [N + 1], columns [E] and values [E] (None: ones)."""

    def __init__(self, row_ptr, columns, values=None):
        self.row_ptr, self.columns, self.values = row_ptr, columns, values

    def lengths(self):
        return self.row_ptr.diff()

    def rows(self):
        """The row of every entry."""
        every_row = torch.arange(len(self.row_ptr) - 1, device=self.columns.device,
                                 dtype=self.columns.dtype)
        return torch.repeat_interleave(every_row, self.lengths())

    def transposed(self):
        order = torch.argsort(self.columns, stable=True)
        row_ptr = torch.zeros_like(self.row_ptr)
        counts = torch.bincount(self.columns, minlength=len(self.row_ptr) - 1)
        row_ptr[1:] = counts.cumsum(0)
        return Csr(row_ptr, self.rows()[order], self.values[order])

    def to_torch(self, dtype):
        """As torch's sparse CSR, with 32-bit indices where they suffice."""
        nodes = len(self.row_ptr) - 1
        index = torch.int32 if len(self.columns) < 2**31 else torch.int64
        return torch.sparse_csr_tensor(self.row_ptr.to(index), self.columns.to(index),
                                       self.values.to(dtype), (nodes, nodes))


def add_self_loops(graph):
    """The same CSR with one more entry at the end of every row that has none on the diagonal."""
    lengths, rows = graph.lengths(), graph.rows()
    missing = torch.ones(len(lengths), dtype=torch.bool, device=rows.device)
    missing[rows[rows == graph.columns]] = False
    before = torch.zeros_like(graph.row_ptr)  # entries inserted before a row
    before[1:] = missing.cumsum(0)
    row_ptr = graph.row_ptr + before
    columns = torch.empty(int(row_ptr[-1]), dtype=graph.columns.dtype, device=rows.device)
    places = torch.arange(len(graph.columns), device=rows.device)
    columns[places + torch.repeat_interleave(before[:-1], lengths)] = graph.columns
    every_row = torch.arange(len(lengths), dtype=graph.columns.dtype, device=rows.device)
    columns[row_ptr[1:][missing] - 1] = every_row[missing]
    return Csr(row_ptr, columns)


def normalized(task, model):
    """gcn: D^-1/2 (A + I) D^-1/2 with in-degrees on both sides. sage: D^-1 A, where 0 stays 0."""
    graph = Csr(task.row_ptr, task.columns)
    if model == "sage":
        scale = graph.lengths().clamp(min=1).float().reciprocal()
        graph.values = torch.repeat_interleave(scale, graph.lengths())
        return graph
    graph = add_self_loops(graph)
    scale = graph.lengths().float().rsqrt()
    graph.values = torch.repeat_interleave(scale, graph.lengths()) * scale[graph.columns]
    return graph


class Stack(torch.nn.Module):
    """Layers with batch norm or a bias, ReLU and dropout between them: what `atoll bench` trains.

    make_layer(inputs, outputs, bias) gives a layer, call(layer, x) applies it."""

    def __init__(self, options, task, make_layer, call):
        super().__init__()
        widths = [task.x.shape[1]] + [options.hidden] * (options.layers - 1) + [task.classes]
        batch_norm = options.norm == "batch"
        self.dropout, self.call = options.dropout, call
        self.layers, self.norms = torch.nn.ModuleList(), torch.nn.ModuleList()
        for index, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1):
            last = index == options.layers
            # A norm subtracts what a bias would add.
            self.layers.append(make_layer(inputs, outputs, bias=last or not batch_norm))
            if batch_norm and not last:
                self.norms.append(torch.nn.BatchNorm1d(outputs))
        self.to(task.device)

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = self.call(layer, x)
            if index + 1 < len(self.layers):
                if self.norms:
                    x = self.norms[index](x)
                x = torch.nn.functional.relu(x, inplace=True)
                x = torch.nn.functional.dropout(x, self.dropout, self.training)
        return x


def exported_model(options, task, edges):
    """The module of `atoll export`, called with `edges`. PyG's layers that can keep the normalised
    graph do so, in the first epoch."""
    sys.path.insert(0, str(options.exported))
    import model as exported

    module = exported.load().to(task.device).train()
    for part in module.modules():
        if hasattr(part, "cached"):
            part.cached = True

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x, edges)

    return Model()


class Trainer:
    """Full-graph epochs of a model: model(x) gives logits [N, classes]."""

    def __init__(self, options, task, model):
        self.options, self.task, self.model = options, task, model
        self.targets = task.y[task.rows["train"]]
        self.optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)

    def logits(self):
        with torch.autocast(self.task.device.type, torch.bfloat16,
                            enabled=self.options.precision == "bf16"):
            return self.model(self.task.x)

    def synchronize(self):
        if self.task.device.type == "cuda":
            torch.cuda.synchronize()

    def epoch(self):
        """The loss before the step, and the milliseconds it took."""
        self.synchronize()
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.logits()[self.task.rows["train"]].float()
        loss = torch.nn.functional.cross_entropy(logits, self.targets)
        loss.backward()
        self.optimizer.step()
        self.synchronize()
        return loss.item(), 1000 * (time.perf_counter() - start)

    def accuracies(self):
        """The share of right classes of each split without dropout; None for an empty split."""
        self.model.eval()
        with torch.no_grad():
            right = (self.logits().argmax(1) == self.task.y).double()
        return {name: right[rows].mean().item() if len(rows) else None
                for name, rows in self.task.rows.items()}


def peak_resident_mb():
    """The largest memory this process has had, in 10^6 bytes; None where there is no /proc."""
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / 1e6


def train_and_report(options, task, model, peer, details):
    """Trains, and prints one JSON object. peer: name and versions; details: fields of this peer."""
    trainer = Trainer(options, task, model)
    losses, milliseconds = [], []
    for index in range(options.warmup + options.epochs):
        loss, duration = trainer.epoch()
        losses.append(loss)
        if index >= options.warmup:
            milliseconds.append(duration)
    on_gpu = task.device.type == "cuda"
    result = {
        "peer": peer, "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(), "dataset": task.description["name"],
        "nodes": task.nodes, "edges": task.edges, "model": options.model,
        "layers": options.layers, "hidden": options.hidden, "norm": options.norm,
        "precision": options.precision, "seed": options.seed, "epochs": options.epochs,
        **details, "loss": losses[-1], "losses": losses,
        "epoch_ms": {"median": statistics.median(milliseconds), "min": min(milliseconds),
                     "max": max(milliseconds)},
        "peak_rss_mb": peak_resident_mb(),  # before the evaluation, as atoll bench has none
        "peak_device_mb": torch.cuda.max_memory_allocated() / 1e6 if on_gpu else None}
    result.update(trainer.accuracies())
    print(json.dumps(result))
