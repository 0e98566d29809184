#!/usr/bin/env python3
"""Times full-graph training epochs of PyTorch Geometric on a dataset folder, for comparison.

Reads the folder with NumPy alone and trains the model that `atoll bench` trains: GCN or GraphSAGE
(mean), `--layers` x `--hidden`, ReLU, dropout, Adam, loss over the training nodes. Prints one JSON
object. Needs torch and torch_geometric; runs where they install.
"""

import os
import sys

from peer_options import add_exported, make_parser, read_options


def arguments():
    parser = make_parser(__doc__, device="cuda")
    parser.add_argument("--adjacency", choices=["edge_index", "csr", "kept"], default="csr",
                        help="edge list with scatter; sparse CSR matrix; EdgeIndex that keeps its "
                             "CSR and that of its transpose")
    add_exported(parser)  # with --adjacency csr or edge_index
    parser.add_argument("--compile", action="store_true", help="the model by torch.compile")
    parser.add_argument("--memory-gb", type=float, help="of the device; default: all it has")
    return read_options(parser, ["numpy", "torch", "torch_geometric"])


def refuse_what_does_not_fit(options, task):
    """edge_index keeps a message of `hidden` floats per edge: ends here where that is hopeless."""
    import torch

    if options.adjacency != "edge_index":
        return
    if options.memory_gb is not None:
        memory = 1e9 * options.memory_gb
    elif task.device.type == "cuda":
        memory = torch.cuda.get_device_properties(task.device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    messages = 4 * task.edges * options.hidden
    if messages > 0.4 * memory:
        sys.exit(f"edge_index: the messages of one layer take {messages / 1e9:.1f} GB, more than "
                 f"0.4 of {memory / 1e9:.1f} GB of memory")


def fused_layers():
    """GCNConv and SAGEConv that hand an EdgeIndex to its product, as GraphConv of PyG does."""
    from torch_geometric.nn import GCNConv, SAGEConv

    class FusedGCN(GCNConv):
        SUPPORTS_FUSED_EDGE_INDEX = True

        def message_and_aggregate(self, edge_index, x, edge_weight):
            return edge_index.matmul(x, edge_weight, reduce="sum", transpose=True)

    class FusedSAGE(SAGEConv):
        SUPPORTS_FUSED_EDGE_INDEX = True

        def message_and_aggregate(self, edge_index, x):
            return edge_index.matmul(x[0], reduce="mean", transpose=True)

    return FusedGCN, FusedSAGE


def csr_and_sum(options, task):
    """torch's sparse CSR matrix, and what GraphSAGE does with its rows: sum or mean."""
    import torch
    from peer_training import Csr, normalized

    if options.precision != "bf16":  # with weights 1 / degree the sum is the mean
        return normalized(task, options.model).to_torch(torch.float32), "sum"
    if options.model == "gcn":
        return normalized(task, "gcn").to_torch(torch.bfloat16), "sum"
    # Only the mean, of torch's products on CPUs, has bf16.
    ones = torch.ones(task.edges, device=task.device)
    return Csr(task.row_ptr, task.columns, ones).to_torch(torch.bfloat16), "mean"


def build_model(options, task):
    import torch
    from peer_training import Csr, Stack, normalized
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import GCNConv, SAGEConv

    graph = Csr(task.row_ptr, task.columns)
    given = {}  # what a layer takes besides x
    gcn_options = {"normalize": False}
    sage_options = {"aggr": "mean"}
    if options.adjacency == "edge_index":
        given["edge_index"] = task.edge_index()
        gcn_options = {"cached": True}
    elif options.adjacency == "csr":
        given["edge_index"], sage_options["aggr"] = csr_and_sum(options, task)
    else:
        GCNConv, SAGEConv = fused_layers()
        if options.model == "gcn":
            graph = normalized(task, "gcn")
            given["edge_weight"] = graph.values
        given["edge_index"] = EdgeIndex(
            torch.stack([graph.columns, graph.rows()]), sparse_size=(task.nodes, task.nodes),
            sort_order="col", is_undirected=not task.directed).fill_cache_()

    def make_layer(inputs, outputs, bias):
        if options.model == "gcn":
            return GCNConv(inputs, outputs, bias=bias, **gcn_options)
        return SAGEConv(inputs, outputs, bias=bias, **sage_options)

    return Stack(options, task, make_layer, lambda layer, x: layer(x, **given))


def exported_graph(options, task):
    """The inputs of a module of `atoll export` beside x."""
    import torch
    from peer_training import Csr

    if options.adjacency != "csr":
        return task.edge_index()
    return Csr(task.row_ptr, task.columns,
               torch.ones(task.edges, device=task.device)).to_torch(torch.float32)


def main():
    options = arguments()
    import torch
    import torch_geometric
    from peer_training import Task, exported_model, train_and_report

    task = Task(options)
    refuse_what_does_not_fit(options, task)
    if options.exported:
        model = exported_model(options, task, exported_graph(options, task))
    else:
        model = build_model(options, task)
    if options.compile:
        model = torch.compile(model)
    train_and_report(options, task, model,
                     f"PyG {torch_geometric.__version__}, torch {torch.__version__}",
                     {"adjacency": options.adjacency, "compiled": options.compile})


if __name__ == "__main__":
    main()
