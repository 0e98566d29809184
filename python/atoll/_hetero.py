"""Arrays of the graphs of PyTorch Geometric that have several types of nodes and edges."""

import numpy as np

from atoll._errors import InputError


def split_by_type(x, node_type, array):
    """Features by type, as a dictionary or a list with None where there are none, as {"x_0": ...}.
    `array` makes an array of a value, given its name and how many dimensions are allowed."""
    if node_type is None:
        raise InputError("x: features by type need node_type, which says what type each node is")
    kinds = x.items() if isinstance(x, dict) else enumerate(x)
    count = int(np.max(node_type)) + 1 if len(node_type) else 0
    arrays = {}
    for kind, value in kinds:
        if value is None:
            continue
        if not isinstance(kind, (int, np.integer)) or not 0 <= kind < count:
            raise InputError(f"x: it has features of type {kind!r}; node_type has the types 0 to "
                             f"{count - 1}")
        name = f"x_{kind}"
        arrays[name] = array(value, name, (2,))
        nodes = int(np.sum(np.equal(node_type, kind)))
        if len(arrays[name]) != nodes:
            raise InputError(f"x[{kind}]: it has {len(arrays[name])} rows, but there are {nodes} "
                             f"nodes of type {kind}")
    if not arrays:
        raise InputError("x: no type of nodes has features in it; leave x out")
    return arrays


def _counts(data):
    """How many nodes each type has, by its name."""
    counts = {}
    for kind in data.node_types:
        store = data[kind]
        nodes = getattr(store, "num_nodes", None)
        counts[kind] = int(nodes if nodes is not None else len(store["x"]))
    return counts


def _joined(parts, counts, fill):
    """One array of all nodes of those of some types; `fill` is what the other nodes have."""
    given = [np.asarray(part) for part in parts.values()]
    rows = []
    for kind, count in counts.items():
        rows.append(np.asarray(parts[kind]) if kind in parts
                    else np.full((count, *given[0].shape[1:]), fill))
    return np.concatenate(rows)


def _labels(parts, counts):
    if len({np.asarray(part).shape[1:] for part in parts.values()}) > 1:
        raise InputError(f"from_pyg: y of {' and '.join(parts)} differ in shape; keep that of one "
                         "type of nodes")
    real = any(np.asarray(part).dtype.kind == "f" for part in parts.values())
    signed = {kind: np.asarray(part) if real else np.asarray(part).astype(np.int64)
              for kind, part in parts.items()}
    return _joined(signed, counts, np.nan if real else -1)


def arrays_of_hetero(data, array):
    """The arguments of from_arrays() for a HeteroData. Types of nodes and edges are numbered in the
    order of data.node_types and data.edge_types; nodes are one type after the other."""
    counts = _counts(data)
    firsts = dict(zip(counts, np.cumsum([0, *counts.values()])))
    given = {"node_type": np.repeat(np.arange(len(counts)), list(counts.values()))}

    def of_nodes(key, dimensions):
        found = {kind: getattr(data[kind], key, None) for kind in counts}
        return {kind: array(value, f"{kind}.{key}", dimensions) for kind, value in found.items()
                if value is not None}

    features = of_nodes("x", (2,))
    if features:
        given["x"] = [features.get(kind) for kind in counts]
    labels = of_nodes("y", (1, 2))
    if labels:
        given["y"] = _labels(labels, counts)
    for key in ("train_mask", "val_mask", "test_mask"):
        masks = of_nodes(key, (1, 2))
        if masks:
            given[key] = _joined(masks, counts, False)

    edges, types = [], []
    values = {"edge_attr": [], "edge_weight": []}
    for number, kind in enumerate(data.edge_types):
        source, _, target = kind
        store = data[kind]
        pairs = array(store.edge_index, f"{kind}.edge_index", (2,))
        edges.append(pairs + np.array([[firsts[source]], [firsts[target]]]))
        types.append(np.full(pairs.shape[1], number))
        for key, parts in values.items():
            value = getattr(store, key, None)
            if value is not None:
                parts.append(array(value, f"{kind}.{key}", (1, 2)))
    given["edge_index"] = np.concatenate(edges, axis=1)
    given["edge_type"] = np.concatenate(types)
    for key, parts in values.items():
        if not parts:
            continue
        if len(parts) < len(edges) or len({part.shape[1:] for part in parts}) > 1:
            raise InputError(f"from_pyg: {key} of {len(parts)} of {len(edges)} types of edges; "
                             "allowed is that all types have it, with equally many columns, or none")
        given[key] = np.concatenate(parts)
    return given
