"""Graphs of other libraries as arrays or tables. The libraries themselves are not needed."""

import numbers

import numpy as np

from atoll._errors import InputError

MASKS = ("train_mask", "val_mask", "test_mask")


def _column(values):
    """An array of attributes. Values of several kinds, or lists, stay Python objects."""
    kinds = {type(value) for value in values}
    if all(issubclass(kind, (bool, int, float, str, np.generic)) for kind in kinds):
        if len({issubclass(kind, (str, np.str_)) for kind in kinds}) == 1:
            return np.array(values)
    column = np.empty(len(values), object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def _columns(rows):
    """A table of dictionaries. None stands for what a row has not."""
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def tables_of_networkx(graph, weight):
    """Tables of edges and nodes, for from_tables(), and the name of the weights or None."""
    for part in ("nodes", "edges", "is_directed"):
        if not hasattr(graph, part):
            raise InputError(f"from_networkx: {type(graph).__name__} has no {part}; allowed are "
                             "graphs of NetworkX")
    number = {node: place for place, node in enumerate(graph.nodes)}
    if not number:
        raise InputError("from_networkx: the graph has no nodes")
    edges = list(graph.edges(data=True))
    attributes = [attributes for _, _, attributes in edges]
    known = any(weight in row for row in attributes)
    if weight not in (None, "weight") and not known:
        raise InputError(f"from_networkx: no edge has the attribute {weight!r} (weight)")
    table = _columns(attributes)
    if known:
        table[weight] = _edge_weights(edges, weight)
    for end, name in enumerate(("source", "target")):
        table[name] = np.array([number[edge[end]] for edge in edges], np.int64)
    nodes = _columns([attributes for _, attributes in graph.nodes(data=True)])
    # Frame takes the number of rows from the first column.
    return table, nodes or {"": np.full(len(number), "")}, weight if known else None


def _edge_weights(edges, name):
    weights = []
    for source, target, attributes in edges:
        value = attributes.get(name, 1)
        if not isinstance(value, (numbers.Real, np.bool_)):
            raise InputError(f"from_networkx: the edge from {source!r} to {target!r} has {value!r} as "
                             f"its {name!r} (weight); allowed are numbers, and weight=None for a graph "
                             "without weights")
        weights.append(value)
    return np.array(weights, np.float32)


def _of(data, name, argument, place):
    """The array under a key that the caller has named."""
    if name not in data:
        raise InputError(f"from_dgl: {argument} is {name!r}, which {place} does not have; it has "
                         f"{', '.join(map(str, data)) or 'nothing'}")
    return data[name]


def arrays_of_dgl(graph, *, features, label, weight, edge_features, edge_type, node_type):
    """Keywords for Dataset.from_arrays."""
    if len(getattr(graph, "canonical_etypes", [None])) > 1:
        raise InputError("from_dgl: the graph has several types of edges; call "
                         "dgl.to_homogeneous(graph, ndata=[...]) first, and name its types: "
                         "edge_type=dgl.ETYPE, node_type=dgl.NTYPE")
    for part in ("edges", "num_nodes", "ndata", "edata"):
        if not hasattr(graph, part):
            raise InputError(f"from_dgl: {type(graph).__name__} has no {part}; allowed is a "
                             "DGLGraph")
    source, target = graph.edges(order="eid")
    ends = [np.asarray(end.detach().cpu() if hasattr(end, "detach") else end)
            for end in (source, target)]
    arrays = {"edge_index": np.stack(ends), "num_nodes": graph.num_nodes()}
    for key, name, usual in (("x", features, "feat"), ("y", label, "label")):
        argument = "features" if key == "x" else "label"
        if name is not None:
            arrays[key] = _of(graph.ndata, name, argument, "graph.ndata")
        elif usual in graph.ndata:
            arrays[key] = graph.ndata[usual]
    for name in MASKS:
        if name in graph.ndata:
            mask = graph.ndata[name]
            # DGL's own sets have them as bytes, too.
            arrays[name] = mask.bool() if hasattr(mask, "bool") else np.asarray(mask).astype(bool)
    for key, name, argument in (("edge_weight", weight, "weight"),
                                ("edge_attr", edge_features, "edge_features"),
                                ("edge_type", edge_type, "edge_type")):
        if name is not None:
            arrays[key] = _of(graph.edata, name, argument, "graph.edata")
    if node_type is not None:
        arrays["node_type"] = _of(graph.ndata, node_type, "node_type", "graph.ndata")
    return arrays


def arrays_of_scipy(adjacency, weighted):
    """Keywords for Dataset.from_arrays."""
    if not hasattr(adjacency, "tocoo"):
        raise InputError(f"from_scipy: its type is {type(adjacency).__name__}; allowed are sparse "
                         "matrices and arrays of SciPy")
    if len(adjacency.shape) != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"from_scipy: its shape is {adjacency.shape}; allowed is [N, N]")
    entries = adjacency.tocoo()
    there = entries.data != 0
    arrays = {"edge_index": np.stack([entries.row[there], entries.col[there]]).astype(np.int64),
              "num_nodes": adjacency.shape[0]}
    values = entries.data[there]
    if weighted is None:
        weighted = values.dtype != bool and bool(np.any(values != 1))
    if weighted:
        if values.dtype.kind not in "fiub":
            raise InputError(f"from_scipy: the values of adjacency are {values.dtype}; allowed are "
                             "real numbers and booleans, and weighted=False, which ignores them")
        arrays["edge_weight"] = values.astype(np.float32)
    return arrays
