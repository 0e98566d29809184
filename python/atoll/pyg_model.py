"""Models that Atoll has trained, as modules of PyTorch Geometric (PyG).

`atoll export` puts this file as model.py beside model.json, which describes a model, and
model.safetensors, its weights. It needs no Atoll there: after `import model`,
`model.load()(*model.read_dataset("data/mine"))` gives logits. In the Python package it is
atoll.pyg_model, whose load() takes such a folder."""

import collections
import functools
import json
import pathlib

import numpy
import torch
from safetensors.torch import load_file
from torch_geometric import nn as pyg

ACTIVATIONS = {
    "relu": torch.nn.ReLU,
    "leaky-relu": functools.partial(torch.nn.LeakyReLU, 0.01),
    "elu": torch.nn.ELU,
    "gelu": torch.nn.GELU,
    "none": torch.nn.Identity,
}
NORMS = {"batch": torch.nn.BatchNorm1d, "layer": torch.nn.LayerNorm, "none": torch.nn.Identity}


# PyG's PowerMeanAggregation has other bounds, and in some versions takes no power of what it adds.
class PowerMean(pyg.Aggregation):
    """(mean of b^p)^(1/p) of numbers b, x but at least 1e-7 and at most 10; 0 of none."""

    def __init__(self, p, learn=False):
        super().__init__()
        self.p = torch.nn.Parameter(torch.tensor([float(p)])) if learn else p

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        scores = self.p * x.clamp(1e-7, 10).log()
        most = self.reduce(scores, index, ptr, dim_size, dim, reduce="max")
        ratios = (scores - most.index_select(dim, index)).exp()
        mean = self.reduce(ratios, index, ptr, dim_size, dim, reduce="mean")
        # The logarithm of 0 would make gradients that are no numbers of p.
        reads = mean > 0
        logarithm = most + torch.where(reads, mean, 1).log()
        return torch.where(reads, (logarithm / self.p).exp(), 0)


def weighted_sum(x, edge_index, edge_weight):
    source, target = edge_index
    return torch.zeros_like(x).index_add(0, target, edge_weight[:, None] * x[source])


class WeightedSAGE(pyg.SAGEConv):
    """SAGEConv that takes a weight per edge, if there are any."""

    def forward(self, x, edge_index, edge_weight=None):
        if edge_weight is None or self.aggr not in ("mean", "sum"):
            return super().forward(x, edge_index)
        if self.aggr == "mean":
            target = edge_index[1]
            total = x.new_zeros(len(x)).index_add_(0, target, edge_weight)
            edge_weight = (edge_weight / total[target]).nan_to_num(0, 0, 0)
        rows = weighted_sum(x, edge_index, edge_weight)
        return self.lin_l(rows) + (self.lin_r(x) if self.root_weight else 0)


class WeightedGIN(pyg.GINConv):
    """GINConv that takes a weight per edge, if there are any."""

    def forward(self, x, edge_index, edge_weight=None):
        if edge_weight is None:
            return super().forward(x, edge_index)
        return self.nn(weighted_sum(x, edge_index, edge_weight) + (1 + self.eps) * x)


class LaterBiasedGATv2(pyg.GATv2Conv):
    """GATv2Conv whose products always have a bias; `bias` is about what it gives."""

    def __init__(self, *arguments, bias=True, **options):
        super().__init__(*arguments, **options)
        if not bias:
            self.bias = None


# Convolutions: how one is made, of a layer's entry in model.json, the columns that it gets, and the
# whole of model.json.


def make_gcn(layer, columns, model):
    return pyg.GCNConv(columns, layer["columns"], bias="bias" in layer["parameters"])


def make_sage(layer, columns, model):
    learns = {"learn": True} if layer["learn-aggregator"] else {}
    options = {"aggr": layer["aggregator"]}
    if layer["aggregator"] == "softmax":
        options["aggr_kwargs"] = {"t": layer["temperature"], **learns}
    if layer["aggregator"] == "power":
        options["aggr"] = PowerMean(layer["aggregator-power"], **learns)
    return make_weighted_sage(layer, columns, options)


def make_mean(layer, columns, model):
    return make_weighted_sage(layer, columns, {"aggr": "mean"})


def make_sum(layer, columns, model):
    return make_weighted_sage(layer, columns, {"aggr": "sum"})


def make_weighted_sage(layer, columns, options):
    return WeightedSAGE(columns, layer["columns"], **options,
                        root_weight="root_weight" in layer["parameters"],
                        bias="bias" in layer["parameters"])


def make_gin(layer, columns, model, make=WeightedGIN, **options):
    hidden, parameters = layer["columns"], layer["parameters"]
    activation = "relu" if layer["activation"] == "none" else layer["activation"]
    mlp = torch.nn.Sequential(
        torch.nn.Linear(columns, hidden, bias="hidden_bias" in parameters),
        NORMS[layer["norm"]](hidden),
        ACTIVATIONS[activation](),
        torch.nn.Linear(hidden, hidden, bias="bias" in parameters))
    return make(mlp, eps=-1 if layer["root"] == "none" else 0, train_eps="epsilon" in parameters,
                **options)


def make_gine(layer, columns, model):
    return make_gin(layer, columns, model, pyg.GINEConv, edge_dim=model["edge-features"])


def make_gcnii(layer, columns, model):
    return pyg.GCN2Conv(columns, alpha=layer["alpha"], theta=layer["theta"],
                        layer=layer["number"])


def make_hop(layer, columns, model):
    # A step of APPNP without its share of the first row is S x.
    return pyg.APPNP(K=1, alpha=0)


def make_gat(layer, columns, model, make=pyg.GATConv):
    averages, heads = layer["average-heads"], layer["heads"]
    return make(columns, layer["columns"] // (1 if averages else heads), heads, concat=not averages,
                dropout=layer["attention-dropout"], add_self_loops=layer["root"] != "none",
                bias="bias" in layer["parameters"],
                edge_dim=model["edge-features"] if layer["edge-scores"] else None)


def make_gatv2(layer, columns, model):
    return make_gat(layer, columns, model, LaterBiasedGATv2)


def make_rgcn(layer, columns, model):
    return pyg.RGCNConv(columns, layer["columns"], model["relations"],
                        num_bases=layer["bases"] or None,
                        root_weight="root_weight" in layer["parameters"],
                        bias="bias" in layer["parameters"])


def make_linear(layer, columns, model):
    return torch.nn.Linear(columns, layer["columns"], bias="bias" in layer["parameters"])


# How one is called. `start` is what the first layer gets of a stretch of layers with the same
# convolution.
Edges = collections.namedtuple("Edges", "index weight type attr")


def call_weighted(conv, x, edges, start, layer):
    return conv(x, edges.index, edges.weight)


def call_gcnii(conv, x, edges, start, layer):
    return conv(x, start, edges.index, edges.weight)


def call_appnp(conv, x, edges, start, layer):
    alpha = layer["alpha"]
    return (1 - alpha) * conv(x, edges.index, edges.weight) + alpha * start


def call_attention(conv, x, edges, start, layer):
    return conv(x, edges.index, edges.attr) if layer["edge-scores"] else conv(x, edges.index)


def call_gine(conv, x, edges, start, layer):
    return conv(x, edges.index, edges.attr)


def call_rgcn(conv, x, edges, start, layer):
    if edges.weight is not None:
        raise ValueError("RGCNConv takes no weights of edges")
    return conv(x, edges.index, edges.type)


def call_linear(conv, x, edges, start, layer):
    return conv(x)


# In the order of help texts.
CONVOLUTIONS = {
    "gcn": (make_gcn, call_weighted),
    "sage": (make_sage, call_weighted),
    "gin": (make_gin, call_weighted),
    "gine": (make_gine, call_gine),
    "mean": (make_mean, call_weighted),
    "sum": (make_sum, call_weighted),
    "none": (make_linear, call_linear),
    "gat": (make_gat, call_attention),
    "gatv2": (make_gatv2, call_attention),
    "rgcn": (make_rgcn, call_rgcn),
    "gcnii": (make_gcnii, call_gcnii),
    "appnp": (make_hop, call_appnp),
    "sgc": (make_hop, call_weighted),
}


def dropout(probability):
    return torch.nn.Dropout(probability) if probability > 0 else torch.nn.Identity()


class Model(torch.nn.Module):
    """The model of a description (model.json, as a dict), with new weights."""

    def __init__(self, description):
        super().__init__()
        self.layers = description["layer"]
        columns = description["features"]
        self.nodes = None
        if description["trained-nodes"] > 0:
            self.nodes = torch.nn.Embedding(description["trained-nodes"], columns)
        self.dropout = dropout(description["input-dropout"])

        layer = description["input"]
        self.input = None
        if layer is not None:
            self.input = (pyg.HeteroLinear(columns, layer["columns"], description["node-types"])
                          if layer["typed"] else torch.nn.Linear(columns, layer["columns"]))
            self.input_is_typed = layer["typed"]
            self.input_activation = ACTIVATIONS[layer["activation"]]()
            self.input_dropout = dropout(layer["dropout"])
            columns = layer["columns"]

        self.convs, self.norms, self.activations, self.dropouts, self.skips = (
            torch.nn.ModuleList() for _ in range(5))
        given = [columns]  # of what the first layer gets, and of what each layer gives
        for layer in self.layers:
            make, _ = CONVOLUTIONS[layer["convolution"]]
            self.convs.append(make(layer, given[-1], description))
            normed = given[-1] if layer["norm-place"] == "before" else layer["columns"]
            self.norms.append(NORMS[layer["norm"]](normed))
            self.activations.append(ACTIVATIONS[layer["activation"]]())
            self.dropouts.append(dropout(layer["dropout"]))
            skipped = given[0] if layer["skip-from"] == "first" else given[-1]
            self.skips.append(torch.nn.Linear(skipped, layer["columns"], bias=False)
                              if layer["skip"] == "linear" else torch.nn.Identity())
            given.append(layer["columns"])

        self.jump = description["head"]["jump"]
        self.head = None
        if description["head"]["layer"] == "linear":
            if layer["norm-place"] == "before":
                self.head_norm = NORMS[layer["norm"]](given[-1])
            columns = sum(given[1:]) if self.jump == "concatenate" else given[-1]
            self.head = torch.nn.Linear(columns, description["outputs"])

        self.decoder = torch.nn.ModuleList()
        self.decoder_dropout = dropout(description["decoder-dropout"])
        if description["decoder"] == "mlp":
            columns = description["outputs"]
            for _ in range(description["decoder-layers"] - 1):
                self.decoder.append(torch.nn.Linear(columns, columns))
            self.decoder.append(torch.nn.Linear(columns, 1))

    def forward(self, x, edge_index, edge_weight=None, edge_type=None, edge_attr=None,
                node_type=None):
        """Logits [nodes, outputs] of x [nodes, features], which is not read where the model has
        trained a row for each node; edge_index [2, edges] has sources and targets."""
        edges = Edges(edge_index, edge_weight, edge_type, edge_attr)
        x = first = self.dropout(x if self.nodes is None else self.nodes.weight)
        if self.input is not None:
            x = self.input(x, node_type) if self.input_is_typed else self.input(x)
            first = self.input_activation(x)
            x = self.input_dropout(first)
        whole, outputs = first, []  # whole: x before dropout
        for layer, conv, norm, activation, drop, skip in zip(
                self.layers, self.convs, self.norms, self.activations, self.dropouts, self.skips):
            norm_before = layer["norm-place"] == "before"
            if layer["number"] == 1:
                start = whole
            _, call = CONVOLUTIONS[layer["convolution"]]
            y = call(conv, drop(activation(norm(x))) if norm_before else x, edges, start, layer)
            if layer["skip"] != "none":
                y = y + skip(first if layer["skip-from"] == "first" else x)
            whole = y if norm_before else activation(norm(y))
            x = whole if norm_before else drop(whole)
            if self.jump != "last":
                outputs.append(x)
        return x if self.head is None else self.head(self.jumped(x, outputs))

    def jumped(self, x, outputs):
        """The head's input: x of the last layer, or what becomes of the outputs of all."""
        def prepared(x):
            if self.layers[-1]["norm-place"] != "before":
                return x
            return self.dropouts[-1](self.activations[-1](self.head_norm(x)))

        if self.jump == "concatenate":
            return torch.cat([*outputs[:-1], prepared(x)], 1)
        if self.jump == "sum":
            x = sum(outputs)
        if self.jump == "max":
            x = torch.stack(outputs).amax(0)
        return prepared(x)

    def score(self, z, pairs):
        """Scores [n] of pairs [2, n] of nodes with embeddings z = self(...)."""
        x = z[pairs[0]] * z[pairs[1]]
        if not self.decoder:
            return x.sum(1)
        for layer in self.decoder[:-1]:
            x = self.decoder_dropout(torch.relu(layer(x)))
        return self.decoder[-1](x).squeeze(1)


def load(folder=None):
    """The model in a folder of `atoll export`, by default the one that this file lies in, with its
    weights, not in training mode."""
    folder = pathlib.Path(__file__).parent if folder is None else pathlib.Path(folder)
    model = Model(json.loads((folder / "model.json").read_text(encoding="utf-8")))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.eval()


def read_dataset(folder):
    """x, edge_index and, or None, edge_weight, edge_type, edge_attr and node_type of a dataset
    folder of Atoll."""
    def read(name):
        file = pathlib.Path(folder) / f"{name}.npy"
        return torch.from_numpy(numpy.load(file)) if file.exists() else None

    x, row_ptr, source = read("features"), read("row_ptr"), read("col_idx").long()
    target = torch.repeat_interleave(torch.arange(len(row_ptr) - 1), row_ptr.diff())
    weights, types, features, node_types = (
        read(name) for name in ("edge_weights", "edge_types", "edge_features", "node_types"))
    types, node_types = (None if t is None else t.long() for t in (types, node_types))
    return x, torch.stack([source, target]), weights, types, features, node_types
