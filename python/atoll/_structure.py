"""The structure of a dataset as other partitioners want it: without self-loops and duplicates, with
the weights that Atoll balances, and as the files that they read."""

import numpy as np

NODE_COST = 48  # kNodeCost of partition/partitioner.hpp: a node's dense work, counted in edges
MOST_WEIGHT = 1_500_000_000  # kMostWeight there: some partitioners add weights in 32 bits
BALANCES = ("cost", "nodes", "edges")


def _proper_entries(row_ptr, col_idx):
    """Rows and columns of the entries, row by row and sorted, without diagonal and duplicates."""
    row = np.repeat(np.arange(len(row_ptr) - 1, dtype=np.int32), np.diff(row_ptr))
    same_row = row[1:] == row[:-1]
    if np.any(same_row & (col_idx[1:] < col_idx[:-1])):
        return _unique_pairs(row, col_idx, len(row_ptr) - 1)
    keep = row != col_idx
    keep[1:] &= ~same_row | (col_idx[1:] != col_idx[:-1])
    return row[keep], col_idx[keep]


def _unique_pairs(row, column, nodes):
    key = np.unique(row.astype(np.int64) * nodes + column)
    row, column = key // nodes, key % nodes
    keep = row != column
    return row[keep].astype(np.int32), column[keep].astype(np.int32)


def _rows(row, column, nodes):
    start = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=nodes), out=start[1:])
    return start, column


def neighbours(row_ptr, col_idx, directed):
    """(start, neighbours) of the undirected graph: those of node v are at start[v] to start[v + 1],
    in ascending order. Every edge is there once in each direction."""
    nodes = len(row_ptr) - 1
    row, column = _proper_entries(row_ptr, col_idx)
    if directed:
        row, column = _unique_pairs(np.concatenate([row, column]), np.concatenate([column, row]),
                                    nodes)
    return _rows(row, column, nodes)


def nets(row_ptr, col_idx, directed):
    """(start, nodes) of the nets of the hypergraph whose connectivity less one is the number of halo
    rows (docs/partition.md): a node and all that read its row. Of a directed graph every node has a
    second one, of those that read its row in backward. Nets of a single node are left out."""
    nodes = len(row_ptr) - 1
    row, column = _proper_entries(row_ptr, col_idx)
    parts = [_with_its_node(*_rows(row, column, nodes))]
    if directed:
        order = np.argsort(column, kind="stable")
        parts.append(_with_its_node(*_rows(column[order], row[order], nodes)))
    sizes = np.concatenate([size for size, _ in parts])
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start, np.concatenate([members for _, members in parts])


def _with_its_node(start, others):
    """Sizes and members of the nets: row v with v itself in front."""
    nodes = len(start) - 1
    size = np.diff(start)
    read = size > 0
    members = np.insert(others, start[:-1][read], np.arange(nodes, dtype=np.int32)[read])
    return size[read] + 1, members


def node_weights(row_ptr, col_idx, directed, balance):
    """The weights of nodes that `atoll partition --balance` uses (docs/partition.md), int64 [N]."""
    nodes = len(row_ptr) - 1
    if balance == "nodes":
        return np.ones(nodes, np.int64)
    degree = np.diff(row_ptr).astype(np.int64)
    if directed:  # the mean of both degrees, rounded up
        degree = (degree + np.bincount(col_idx, minlength=nodes) + 1) // 2
    weights = degree + NODE_COST if balance == "cost" else degree
    if not weights.any():  # a graph without edges is balanced by nodes
        return np.ones(nodes, np.int64)
    total = int(weights.sum())
    if total > MOST_WEIGHT:
        weights = -(-weights // (total // (MOST_WEIGHT - nodes) + 1))
    return weights


def _write_rows(file, start, members, first=None):
    """A line per row: `first` of the row, if there is one, and its members, counted from 1."""
    words = list(map(str, range(1, int(members.max(initial=-1)) + 2)))
    for row in range(len(start) - 1):
        line = [words[member] for member in members[start[row]:start[row + 1]].tolist()]
        if first is not None:
            line.insert(0, str(first[row]))
        file.write(" ".join(line) + "\n")


def write_metis(path, start, others, weights=None):
    """A graph as METIS text."""
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{len(start) - 1} {len(others) // 2}{'' if weights is None else ' 10'}\n")
        _write_rows(file, start, others, None if weights is None else weights.tolist())


def write_hmetis(path, start, members, weights):
    """A hypergraph as hMETIS text."""
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{len(start) - 1} {len(weights)} 10\n")
        _write_rows(file, start, members)
        file.writelines(f"{weight}\n" for weight in weights.tolist())


def write_parhip(path, start, others, weights):
    """A graph in ParHIP's binary format: a header, where each node's neighbours stand in the file,
    the neighbours, and the weights of the nodes."""
    # Bits that are set: no weights of edges; ids of nodes, weights of nodes and of edges of 32 bits.
    version = 1 | 8 | 16 | 32
    nodes = len(start) - 1
    header = np.array([version, nodes, len(others)], np.uint64)
    places = start * 4 + header.nbytes + (nodes + 1) * 8
    with open(path, "wb") as file:
        for array in (header, places.astype(np.uint64), others.astype(np.uint32),
                      weights.astype(np.int32)):
            array.tofile(file)
