"""DGL's layers under the names, arguments and parameters of PyTorch Geometric's, so that a module
that `atoll export` wrote runs on DGL: install() puts them where its file imports them from.

They take edge_index [2, E] (sources, targets) without weights; what DGL lacks is refused. The graph
of an edge_index, with CSR and CSC, is made at the first call and kept. Needs torch and dgl."""

import sys
import types

import dgl
import torch
from dgl.nn import pytorch as layers

GRAPHS = {}  # (address of edge_index, loops) -> graph and the edge_index, which keeps its address


def graph_of(edge_index, nodes, loops):
    """The graph with 32-bit ids; loops: with an edge from each node to itself."""
    key = (edge_index.data_ptr(), loops)
    if key not in GRAPHS:
        graph = dgl.graph((edge_index[0], edge_index[1]), num_nodes=nodes)
        if loops:
            graph = dgl.add_self_loop(dgl.remove_self_loop(graph))
        graph = graph.int()
        graph.create_formats_()
        GRAPHS[key] = (graph, edge_index)
    return GRAPHS[key][0]


class Stand(torch.nn.Module):
    """A layer of DGL in `layer`, whose parameters a state_dict has by PyG's names:
    NAMES[name] = (name here, whether transposed)."""

    NAMES = {}

    def __init__(self, layer, bias=0):
        super().__init__()
        self.layer = layer
        self.bias = torch.nn.Parameter(torch.zeros(bias)) if bias else None
        self._register_load_state_dict_pre_hook(
            lambda state, prefix, *_: self.rename(state, prefix, to_here=True))
        self._register_state_dict_hook(
            lambda _, state, prefix, *__: self.rename(state, prefix, to_here=False))

    def rename(self, state, prefix, to_here):
        for theirs, (ours, transposed) in self.NAMES.items():
            old, new = (theirs, ours) if to_here else (ours, theirs)
            if prefix + old in state and old != new:
                value = state.pop(prefix + old)
                state[prefix + new] = value.T.contiguous() if transposed else value

    def add_bias(self, x):
        return x if self.bias is None else x + self.bias


class GCNConv(Stand):
    NAMES = {"lin.weight": ("layer.weight", True)}

    def __init__(self, inputs, outputs, bias=True):
        super().__init__(layers.GraphConv(inputs, outputs, norm="both", bias=False,
                                          allow_zero_in_degree=True), bias and outputs)
        self.factors = None  # per edge, where in- and out-degrees differ, and for which graph

    def forward(self, x, edge_index, edge_weight=None):
        assert edge_weight is None
        graph = graph_of(edge_index, len(x), loops=True)
        if self.factors is None or self.factors[0] is not graph:
            # DGL's own normalisation takes out-degrees for the sources, PyG in-degrees.
            scale = graph.in_degrees().float().rsqrt()
            sources, targets = (ids.long() for ids in graph.edges(order="eid"))
            same = torch.equal(graph.in_degrees(), graph.out_degrees())
            self.factors = (graph, None if same else scale[sources] * scale[targets])
            self.layer._norm = "both" if same else "none"
        return self.add_bias(self.layer(graph, x, edge_weight=self.factors[1]))


class GCN2Conv(Stand):
    NAMES = {"weight1": ("layer.weight1", False)}

    def __init__(self, channels, alpha, theta, layer):
        super().__init__(layers.GCN2Conv(channels, layer, alpha, theta, bias=False,
                                         allow_zero_in_degree=True))

    def forward(self, x, first, edge_index, edge_weight=None):
        assert edge_weight is None
        return self.layer(graph_of(edge_index, len(x), loops=True), x, first)


class SAGEConv(Stand):
    NAMES = {"lin_l.weight": ("layer.fc_neigh.weight", False), "lin_l.bias": ("bias", False),
             "lin_r.weight": ("layer.fc_self.weight", False)}

    def __init__(self, inputs, outputs, aggr="mean", root_weight=True, bias=True):
        assert aggr == "mean" and root_weight, "DGL has the mean with a root weight"
        super().__init__(layers.SAGEConv(inputs, outputs, "mean", bias=False), bias and outputs)
        self.aggr = aggr

    def forward(self, x, edge_index):
        return self.add_bias(self.layer(graph_of(edge_index, len(x), loops=False), x))


class Attention(Stand):
    """With the heads side by side (concat), or their mean."""

    def __init__(self, layer, outputs, heads, concat, add_self_loops, bias, edge_dim):
        assert edge_dim is None, "DGL has no features of edges"
        super().__init__(layer, bias and outputs * (heads if concat else 1))
        self.concat, self.loops = concat, add_self_loops

    def forward(self, x, edge_index):
        y = self.layer(graph_of(edge_index, len(x), self.loops), x)
        return self.add_bias(y.flatten(1) if self.concat else y.mean(1))


class GATConv(Attention):
    NAMES = {"lin.weight": ("layer.fc.weight", False), "att_src": ("layer.attn_l", False),
             "att_dst": ("layer.attn_r", False)}

    def __init__(self, inputs, outputs, heads=1, concat=True, dropout=0, add_self_loops=True,
                 bias=True, edge_dim=None):
        super().__init__(layers.GATConv(inputs, outputs, heads, attn_drop=dropout, bias=False,
                                        allow_zero_in_degree=True),
                         outputs, heads, concat, add_self_loops, bias, edge_dim)


class GATv2Conv(Attention):
    NAMES = {"lin_l.weight": ("layer.fc_src.weight", False),
             "lin_l.bias": ("layer.fc_src.bias", False),
             "lin_r.weight": ("layer.fc_dst.weight", False),
             "lin_r.bias": ("layer.fc_dst.bias", False), "att": ("layer.attn", False)}

    def __init__(self, inputs, outputs, heads=1, concat=True, dropout=0, add_self_loops=True,
                 bias=True, edge_dim=None):
        super().__init__(layers.GATv2Conv(inputs, outputs, heads, attn_drop=dropout, bias=True,
                                          allow_zero_in_degree=True),
                         outputs, heads, concat, add_self_loops, bias, edge_dim)


def install():
    """Makes `from torch_geometric.nn import GCNConv` give the classes above."""
    package = types.ModuleType("torch_geometric")
    package.nn = types.ModuleType("torch_geometric.nn")
    # Bases of classes in that file; DGL has none that is called like them.
    for name in ("Aggregation", "GINConv"):
        setattr(package.nn, name, type(name, (torch.nn.Module,), {}))
    for stand in (GCNConv, GCN2Conv, SAGEConv, GATConv, GATv2Conv):
        setattr(package.nn, stand.__name__, stand)
    sys.modules.update({"torch_geometric": package, "torch_geometric.nn": package.nn})
