#!/usr/bin/env python3
"""Times full-graph training epochs of DGL on a dataset folder, for comparison.

Trains what pyg_epoch.py trains with DGL's GraphConv and SAGEConv on a graph with 32-bit ids whose
CSR and CSC are made beforehand, or a module of `atoll export` on DGL's layers. Prints one JSON object. Needs torch and dgl.
"""

import os

from peer_options import add_exported, make_parser, read_options


def arguments():
    os.environ.setdefault("DGLBACKEND", "pytorch")  # else its import writes a file of settings
    parser = make_parser(__doc__, device="cpu")
    parser.add_argument("--normalization", choices=["layer", "edges"], default="layer",
                        help="of gcn: two products with degrees in the layer, or one weight per "
                             "edge made beforehand")
    add_exported(parser)
    return read_options(parser, ["numpy", "torch", "dgl"])


def build_model(options, task):
    import dgl
    from dgl.nn.pytorch import GraphConv, SAGEConv
    from peer_training import Csr, Stack, normalized

    # The layer takes out-degrees for the sources, Atoll in-degrees on both sides.
    edges = options.normalization == "edges" or task.directed
    csr = Csr(task.row_ptr, task.columns) if options.model == "sage" else normalized(task, "gcn")
    graph = dgl.graph(("csc", (csr.row_ptr.int(), csr.columns.int(), [])), num_nodes=task.nodes)
    graph = graph.formats(["csc", "csr"]).to(task.device)
    graph.create_formats_()
    if options.model == "sage":
        return Stack(options, task, lambda inputs, outputs, bias: SAGEConv(
            inputs, outputs, "mean", bias=bias), lambda layer, x: layer(graph, x))
    given = {"edge_weight": csr.values} if edges else {}
    return Stack(options, task, lambda inputs, outputs, bias: GraphConv(
        inputs, outputs, norm="none" if edges else "both", bias=bias),
        lambda layer, x: layer(graph, x, **given))


def main():
    options = arguments()
    import dgl
    import torch
    from peer_training import Task, exported_model, train_and_report

    task = Task(options)
    if options.exported:
        import dgl_as_pyg

        dgl_as_pyg.install()
        model = exported_model(options, task, task.edge_index())
    else:
        model = build_model(options, task)
    train_and_report(options, task, model,
                     f"DGL {dgl.__version__}, torch {torch.__version__}",
                     {"adjacency": "csc and csr"})


if __name__ == "__main__":
    main()
