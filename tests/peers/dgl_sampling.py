#!/usr/bin/env python3
"""Trains GraphSAGE or GCN by mini-batches of sampled neighbours with DGL on a dataset folder, and says
after how many seconds which accuracy was reached, for comparison with training on the whole graph.

The defaults are those of DGL's own example of node classification by sampling (three layers of 256,
ten neighbours each, batches of 1024, Adam with 5e-4 and weight decay 5e-4, dropout 0.5). Seconds
count training, not the evaluation on the whole graph after every epoch. Prints one JSON object.
Needs torch and dgl.
"""

import os


def build(options, task):
    """The model, its batches and the logits of all nodes: see train_by_batches()."""
    import dgl
    from dgl.nn.pytorch import GraphConv, SAGEConv
    from peer_training import Stack

    # Numbers of 64 bits: with 32, DGL 2.1.0 crashes while it samples.
    graph = dgl.graph(("csc", (task.row_ptr.long(), task.columns.long(), [])), num_nodes=task.nodes)
    if options.model == "gcn":
        graph = dgl.add_self_loop(dgl.remove_self_loop(graph))
    # The whole graph is asked for its out-degrees, too.
    whole, graph = graph.formats(["csc", "csr"]), graph.formats(["csc"])
    # A batch hands each layer a block of its own, the whole graph hands all of them the same.
    blocks = []

    def make_layer(inputs, outputs, bias):
        if options.model == "gcn":  # by the degrees in the block
            return GraphConv(inputs, outputs, norm="both", bias=bias)
        return SAGEConv(inputs, outputs, "mean", bias=bias)

    model = Stack(options, task, make_layer, lambda layer, x: layer(blocks.pop(0), x))
    loader = dgl.dataloading.DataLoader(
        graph, task.rows["train"].long(), dgl.dataloading.NeighborSampler(options.fan_out),
        batch_size=options.batch, shuffle=True, drop_last=False)

    def batches():
        for sources, targets, batch in loader:
            blocks[:] = batch
            yield model(task.x[sources.long()]), targets.long()

    def whole_graph():
        blocks[:] = [whole] * options.layers
        return model(task.x)

    return model, batches, whole_graph


def main():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    from peer_sampling import sampling_options, train_by_batches

    options = sampling_options(__doc__, ["numpy", "torch", "dgl"])
    import dgl
    import torch
    from peer_training import Task

    task = Task(options)
    train_by_batches(options, task, build(options, task),
                     f"DGL {dgl.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
