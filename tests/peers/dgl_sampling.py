#!/usr/bin/env python3
"""Trains GraphSAGE by mini-batches of sampled neighbours with DGL on a dataset folder, and says after
how many seconds which accuracy was reached, for comparison with training on the whole graph.

The defaults are those of DGL's own example of node classification by sampling (three layers of 256,
ten neighbours each, batches of 1024, Adam with 5e-4 and weight decay 5e-4, dropout 0.5). Seconds
count training, not the evaluation on the whole graph after every epoch. Prints one JSON object.
Needs torch and dgl.
"""

import json
import os
import time

from peer_options import make_parser, read_options


def arguments():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    parser = make_parser(__doc__, device="cpu")
    parser.add_argument("--fan-out", type=int, nargs="+", help="per layer; default: ten each")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.set_defaults(model="sage", warmup=0, lr=5e-4)
    return read_options(parser, ["numpy", "torch", "dgl"])


def main():
    options = arguments()
    import dgl
    import torch
    from dgl.nn.pytorch import SAGEConv
    from peer_training import Stack, Task

    if options.model != "sage":
        raise SystemExit("--model: only sage is trained by sampling")
    task = Task(options)
    # Numbers of 64 bits: with 32, DGL 2.1.0 crashes while it samples.
    graph = dgl.graph(("csc", (task.row_ptr.long(), task.columns.long(), [])), num_nodes=task.nodes)
    graph = graph.formats(["csc"])
    # A batch hands each layer a block of its own, the whole graph hands all of them the same.
    blocks = []
    model = Stack(options, task, lambda inputs, outputs, bias: SAGEConv(
        inputs, outputs, "mean", bias=bias), lambda layer, x: layer(blocks.pop(0), x))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr,
                                 weight_decay=options.weight_decay)
    sampler = dgl.dataloading.NeighborSampler(options.fan_out or [10] * options.layers)
    loader = dgl.dataloading.DataLoader(graph, task.rows["train"].long(), sampler,
                                        batch_size=options.batch, shuffle=True, drop_last=False)
    seconds, epochs = 0.0, []
    for _ in range(options.epochs):
        start = time.perf_counter()
        model.train()
        for sources, targets, batch in loader:
            blocks[:] = batch
            loss = torch.nn.functional.cross_entropy(model(task.x[sources.long()]),
                                                     task.y[targets.long()])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        seconds += time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            blocks[:] = [graph] * options.layers
            right = (model(task.x).argmax(1) == task.y).double()
        epochs.append({"seconds": seconds, **{name: right[rows].mean().item()
                                              for name, rows in task.rows.items()}})
    print(json.dumps({"peer": f"DGL {dgl.__version__}, torch {torch.__version__}",
                      "threads": torch.get_num_threads(), "epochs": epochs}))


if __name__ == "__main__":
    main()
