#!/usr/bin/env python3
"""What atoll.torch costs and gains: tables in Markdown for docs/torch.md.

    torch_bridge.py equality data/arxiv --ranks 1,2,4      # losses against PyTorch Geometric in f64
    torch_bridge.py epoch data/arxiv --epochs 10           # an epoch of one process against it
    torch_bridge.py bytes data/arxiv --ranks 2,4           # bytes per epoch against `atoll train`
    emulated-cluster run python3 tests/benchmarks/torch_bridge.py rank data/arxiv --bits none,4

The first three start their processes themselves. `rank` runs under a launcher: the ways of --bits
take turns, an epoch each. Models: --layers of --hidden columns, ReLU between them, Adam, no dropout.
Needs torch, torch_geometric and atoll.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = ("gcn", "sage", "gatv2")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["equality", "epoch", "bytes", "rank"])
    parser.add_argument("dataset")
    parser.add_argument("--models", default="gcn,sage,gatv2", help="default %(default)s")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8, help="of gatv2")
    parser.add_argument("--norm", choices=["none", "batch"], default="batch")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--bits", default="none", help="none, a width or adaptive; several with commas")
    parser.add_argument("--adjacency", choices=["edge_index", "csr"], default="edge_index")
    parser.add_argument("--threads", type=int, default=0, help="of a process; 0: PyTorch's choice")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5, help="that are measured")
    parser.add_argument("--out", help="rank: rank 0 writes what it has found as JSON")
    options = parser.parse_args()
    options.models = options.models.split(",")
    for model in options.models:
        if model not in MODELS:
            parser.error(f"--models {model}: allowed are {', '.join(MODELS)}")
    return options


def make_model(options, kind, inputs, classes):
    import torch
    import torch_geometric.nn as pyg

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            columns = [inputs] + [options.hidden] * (options.layers - 1) + [classes]
            self.layers = torch.nn.ModuleList(make(a, b) for a, b in zip(columns, columns[1:]))
            norm = torch.nn.BatchNorm1d if options.norm == "batch" else torch.nn.Identity
            self.norms = torch.nn.ModuleList(norm(b) for b in columns[1:-1])

        def forward(self, x, edges):
            for layer, norm in zip(self.layers, self.norms):
                x = norm(layer(x, edges)).relu()
            return self.layers[-1](x, edges)

    def make(a, b):
        if kind == "gcn":
            return pyg.GCNConv(a, b, cached=True)
        if kind == "sage":
            return pyg.SAGEConv(a, b)
        last = b == classes
        return pyg.GATv2Conv(a, b if last else b // options.heads, 1 if last else options.heads)

    return Stack()


class Alone:
    """Epochs of PyTorch Geometric alone, on the whole graph."""

    def __init__(self, options, kind, double=False):
        import torch
        import atoll
        dataset = atoll.Dataset(options.dataset)
        self.x = torch.from_numpy(dataset.x.copy())
        y = torch.from_numpy(dataset.y.copy()).long()
        self.mask = torch.from_numpy(dataset.train_mask) & (y >= 0)
        self.edges = torch.from_numpy(dataset.edge_index)
        self.y = y[self.mask]
        if options.adjacency == "csr":
            ones = torch.ones(dataset.num_edges)
            self.edges = torch.sparse_csr_tensor(torch.from_numpy(dataset._read("row_ptr").copy()),
                                                 self.edges[0], ones, (len(y), len(y)))
        self.model = make_model(options, kind, dataset.num_features, dataset.num_classes)
        if double:
            self.x, self.model = self.x.double(), self.model.double()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def epoch(self):
        import torch
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        out = self.model(self.x, self.edges)
        loss = torch.nn.functional.cross_entropy(out[self.mask], self.y)
        loss.backward()
        self.optimizer.step()
        return loss.item(), time.perf_counter() - begin


class Bridge:
    """Epochs of the same model by atoll.torch."""

    def __init__(self, options, kind, bits="none"):
        import torch
        import atoll.torch
        bits = None if bits == "none" else int(bits) if bits.isdigit() else bits
        data = self.data = atoll.torch.shard(options.dataset, bits=bits)
        self.mask = data.train_mask & (data.y >= 0)
        self.edges = data.adj_t if options.adjacency == "csr" else data.edge_index
        self.model = make_model(options, kind, data.num_features, data.num_classes)
        self.model = atoll.torch.distribute(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def epoch(self):
        import torch
        import atoll.torch
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        out = self.model(self.data.x, self.edges)
        loss = atoll.torch.loss(torch.nn.functional.cross_entropy, out, self.data.y, self.mask,
                                self.data.ranks)
        loss.backward()
        atoll.torch.sum_gradients(self.model, self.data.ranks)
        self.optimizer.step()
        return loss.item(), time.perf_counter() - begin


def spread(seconds):
    """Median, least and most in ms."""
    ms = [1000 * value for value in seconds]
    return f"{statistics.median(ms):.0f} ({min(ms):.0f} - {max(ms):.0f})"


def in_ranks(options, kind, ranks, bits, epochs):
    """The findings of rank 0 of a job of processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "found.json")
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                 str(ranks), os.path.abspath(__file__), "rank", options.dataset, "--models", kind,
                 "--layers", str(options.layers), "--hidden", str(options.hidden), "--heads",
                 str(options.heads), "--norm", options.norm, "--bits", bits, "--adjacency",
                 options.adjacency, "--threads", str(options.threads or 1), "--warmup", "0",
                 "--epochs", str(epochs), "--out", out]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            return json.load(file)[kind]


def show_equality(options):
    ranks = [int(count) for count in options.ranks.split(",")]
    print("| model | loss of epoch 2, PyG alone in f64 | in f32 | "
          + " | ".join(f"P = {p}" for p in ranks) + " |")
    print("|---|---:|" + "---:|" * (1 + len(ranks)))
    for kind in options.models:
        def second_loss(**ways):
            alone = Alone(options, kind, **ways)
            return [alone.epoch()[0] for _ in range(2)][1]
        exact = second_loss(double=True)
        losses = [second_loss()]
        losses += [in_ranks(options, kind, count, "none", 2)["none"]["losses"][1] for count in ranks]
        cells = [f"{found:.6f} ({found - exact:+.1e})" for found in losses]
        print(f"| {kind} | {exact:.6f} | " + " | ".join(cells) + " |", flush=True)


def show_epoch(options):
    print("| model | PyG alone, ms | atoll.torch on one rank, ms | ratio of medians |")
    print("|---|---:|---:|---:|")
    for kind in options.models:
        ways = Alone(options, kind), Bridge(options, kind)
        seconds = [[], []]
        for epoch in range(options.warmup + options.epochs):
            for way, mine in zip(ways, seconds):
                took = way.epoch()[1]
                if epoch >= options.warmup:
                    mine.append(took)
        ratio = statistics.median(seconds[1]) / statistics.median(seconds[0])
        print(f"| {kind} | {spread(seconds[0])} | {spread(seconds[1])} | {ratio:.3f} |", flush=True)


def show_bytes(options):
    import atoll
    print("| model | ranks | bits | atoll.torch, MB per epoch | atoll train, MB per epoch | ratio |")
    print("|---|---:|---|---:|---:|---:|")
    for kind in options.models:
        for count in (int(text) for text in options.ranks.split(",") if text != "1"):
            for bits in options.bits.split(","):
                more = {} if bits == "none" else {"bits": bits}
                if kind == "gatv2":
                    more.update(heads=options.heads)
                # As atoll.torch sends them: rows, in epochs that are all alike.
                run = atoll.train(options.dataset, kind, layers=options.layers, hidden=options.hidden,
                                  norm=options.norm, ranks=count, epochs=3, progress=None, dropout=0.0,
                                  messages="rows", threads=1,
                                  run_dir=os.path.join(tempfile.mkdtemp(), "run"), **more)
                own = run.summary["bytes_sent_per_epoch"]
                mine = in_ranks(options, kind, count, bits, 3)[bits]["bytes"][-1]
                print(f"| {kind} | {count} | {bits} | {mine / 1e6:.3f} | {own / 1e6:.3f} | "
                      f"{mine / own:.3f} |", flush=True)


def run_rank(options):
    import atoll.torch
    import torch
    ranks = atoll.torch.start()
    result = {}
    for kind in options.models:
        ways = {bits: Bridge(options, kind, bits) for bits in options.bits.split(",")}
        found = {bits: {"losses": [], "epoch_s": [], "exchange_s": [], "bytes": []} for bits in ways}
        for epoch in range(options.warmup + options.epochs):
            for bits, way in ways.items():
                before = way.data.exchange.seconds, ranks.bytes_sent
                loss, seconds = way.epoch()
                # A rank waits for the slowest inside of exchanges: the least is that of the wire.
                mine = torch.tensor([way.data.exchange.seconds - before[0],
                                     ranks.bytes_sent - before[1]], dtype=torch.float64)
                all_ranks = torch.stack(ranks.all_gather(mine))
                if epoch >= options.warmup:
                    found[bits]["losses"].append(loss)
                    found[bits]["epoch_s"].append(seconds)
                    found[bits]["exchange_s"].append(float(all_ranks[:, 0].min()))
                    found[bits]["bytes"].append(float(all_ranks[:, 1].sum()))
        result[kind] = found
    if ranks.rank > 0:
        return
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file)
    print("| model | bits | epoch, ms | in exchanges, ms | MB per epoch | loss |")
    print("|---|---|---:|---:|---:|---:|")
    for kind, found in result.items():
        for bits, way in found.items():
            print(f"| {kind} | {bits} | {spread(way['epoch_s'])} | {spread(way['exchange_s'])} | "
                  f"{way['bytes'][-1] / 1e6:.2f} | {way['losses'][-1]:.4f} |")


def main():
    options = arguments()
    if options.threads > 0:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        import torch
        torch.set_num_threads(options.threads)
    {"equality": show_equality, "epoch": show_epoch, "bytes": show_bytes,
     "rank": run_rank}[options.what](options)


if __name__ == "__main__":
    main()
