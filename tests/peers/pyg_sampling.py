#!/usr/bin/env python3
"""Trains GraphSAGE or GCN by mini-batches of PyG's NeighborLoader on a dataset folder: what
dgl_sampling.py does with DGL, with the same options and output.

Needs torch, torch_geometric, and what its loader samples with: pyg-lib or torch-sparse. With the
former, each layer computes the rows that later ones read, no more (PyG's trim_to_layer); the latter
does not say which hop a row is of, so each layer computes all rows of the batch.
"""

from peer_sampling import sampling_options, train_by_batches


def build(options, task):
    """The model, its batches and the logits of all nodes: see train_by_batches()."""
    import torch
    from peer_training import Csr, Stack
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.nn import GCNConv, SAGEConv
    from torch_geometric.utils import trim_to_layer

    adjacency = Csr(task.row_ptr, task.columns, torch.ones(task.edges)).to_torch(torch.float32)
    given = {}  # a batch's edges, and how many of its nodes and edges lie in which hop

    def call(layer, x):
        if not given:
            return layer(x, adjacency)
        if given["hops"] is not None:
            x, given["edges"], _ = trim_to_layer(given["layer"], *given["hops"], x, given["edges"])
            given["layer"] += 1
        return layer(x, given["edges"])

    def make_layer(inputs, outputs, bias):
        if options.model == "gcn":  # by the degrees in the batch
            return GCNConv(inputs, outputs, bias=bias)
        return SAGEConv(inputs, outputs, aggr="mean", bias=bias)

    model = Stack(options, task, make_layer, call)
    data = Data(x=task.x, edge_index=task.edge_index())
    # NeighborLoader counts hops from the targets, DGL from the input.
    loader = NeighborLoader(data, options.fan_out[::-1], input_nodes=task.rows["train"],
                            batch_size=options.batch, shuffle=True)

    def batches():
        for batch in loader:
            counted = "num_sampled_nodes" in batch
            given.update(edges=batch.edge_index, layer=0, hops=(
                batch.num_sampled_nodes, batch.num_sampled_edges) if counted else None)
            yield model(batch.x)[:batch.batch_size], batch.n_id[:batch.batch_size]

    def whole_graph():
        given.clear()
        return model(task.x)

    return model, batches, whole_graph


def main():
    from peer_sampling import sampling_options, train_by_batches

    options = sampling_options(__doc__, ["numpy", "torch", "torch_geometric"])
    import torch
    import torch_geometric
    from peer_training import Task

    task = Task(options)
    train_by_batches(options, task, build(options, task),
                     f"PyG {torch_geometric.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
