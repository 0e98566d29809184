"""Tables of edges and nodes as arrays: Parquet files, DataFrames, Arrow tables, mappings."""

import os
import re
import warnings
from collections.abc import Mapping

import numpy as np

from atoll._errors import InputError

SETS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}
NO_SET = 255
# Features that Dataset.from_arrays(features=...) makes of the graph.
MADE_FEATURES = re.compile(r"degree|constant|edges|(random|positional):\d+")


def _read_parquet(path):
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: reading a Parquet file needs pyarrow, which is not installed; "
                         "install it, or pass a table that you have read") from None
    try:
        return pyarrow.parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None


class Frame:
    """Columns of a table by name. A column is read when it is asked for."""

    def __init__(self, table, what):
        self._what = what
        if isinstance(table, (str, os.PathLike)):
            self._what = os.fspath(table)
            table = _read_parquet(self._what)
        if isinstance(table, Mapping):
            table = {name: self._column_of(name, values) for name, values in table.items()}
            self.names = list(table)
        elif hasattr(table, "column_names"):  # Arrow
            self.names = list(table.column_names)
        elif hasattr(table, "columns"):  # pandas, polars
            self.names = [str(name) for name in table.columns]
        else:
            raise InputError(f"{what}: its type is {type(table).__name__}; allowed are a Parquet "
                             "file, a DataFrame, an Arrow table or a dictionary of arrays")
        self._table = table
        self.rows = None
        self.rows = len(self.column(self.names[0])) if self.names else 0

    def column(self, name):
        """Its values: [rows], or [rows, k] if each value is a list of k numbers."""
        if name not in self.names:
            raise InputError(f"{self._what}: no column '{name}'; it has {', '.join(self.names)}")
        values = self._table[name]
        values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        if values.ndim == 0:
            self.fail(name, f"is {values.item()!r}; a column has a value per row")
        if self.rows is not None and len(values) != self.rows:
            self.fail(name, f"has {len(values)} rows, but column '{self.names[0]}' has {self.rows}; "
                            "all must have the same number")
        return self._stacked(name, values) if values.dtype == object else values

    def _column_of(self, name, values):
        """An array of what a dictionary has under a name; lists of several lengths stay lists."""
        try:
            return np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as error:
            if not isinstance(values, (list, tuple)):  # a sparse tensor, say
                self.fail(name, f"is {type(values).__name__}, which can't be a NumPy array ({error}); "
                                "allowed are lists and dense arrays")
        column = np.empty(len(values), object)
        for row, value in enumerate(values):
            column[row] = value
        return column

    def _stacked(self, name, values):
        """[rows, k] where the values are lists of k numbers; others as they are."""
        lists = [hasattr(row, "__len__") and not isinstance(row, (str, bytes, Mapping))
                 for row in values]
        if not any(lists):
            return values
        if not all(lists):
            row = lists.index(False)
            self.fail(name, f"has {values[row]!r} in row {row}, but a list of numbers in row "
                            f"{lists.index(True)}; all rows must have one")
        widths = {len(row) for row in values}
        if len(widths) != 1:
            self.fail(name, f"has lists of {min(widths)} to {max(widths)} numbers; all must have the "
                            "same length")
        try:
            return np.stack([np.asarray(row) for row in values])
        except ValueError as error:
            self.fail(name, f"has lists that make no array ({error}); a row's list has numbers alone")

    def say_dropped(self, read):
        """Warns of the columns that are not among those that were read."""
        dropped = [name for name in self.names if name and name not in read]
        if dropped:
            warnings.warn(f"{self._what}: not read: {', '.join(dropped)}", stacklevel=4)

    def fail(self, name, problem):
        raise InputError(f"{self._what}: column '{name}' {problem}")


def _is_number(values):
    return values.dtype.kind in "fiu"


def _feature_matrix(nodes, features, others):
    if features is None:
        features = [name for name in nodes.names
                    if name not in others and nodes.column(name).dtype.kind in "fiub"]
    features = [features] if isinstance(features, str) else list(features)
    nodes.say_dropped({*features, *others})
    parts = []
    for name in features:
        values = nodes.column(name)
        if values.dtype.kind not in "fiub":
            nodes.fail(name, f"is {values.dtype}; features must be numbers")
        if values.ndim > 2:
            nodes.fail(name, f"has the shape {list(values.shape)}; a row has a number or a list of "
                             "numbers")
        values = values.astype(np.float32)
        if np.isnan(values).any():
            nodes.fail(name, f"has no value in row {int(np.flatnonzero(np.isnan(values))[0])}; "
                             "fill it, or leave the column out of features")
        parts.append(values if values.ndim == 2 else values[:, None])
    return np.concatenate(parts, axis=1) if parts else None


def _weights(edges, name):
    values = edges.column(name)
    if values.dtype.kind in "fiubO":  # objects may be numbers, where some are missing
        try:
            return values.astype(np.float32)
        except (TypeError, ValueError):
            pass
    edges.fail(name, f"is {values.dtype}; weights must be numbers")


def _labels(nodes, name):
    """(y, the classes' names or None)."""
    values = nodes.column(name)
    if _is_number(values):
        return values, None
    known = np.array([value is not None and value == value for value in values])
    if known.any() and all(isinstance(value, (int, np.integer)) for value in values[known]):
        labels = np.full(len(values), -1, np.int64)  # numbers, but not of every node
        labels[known] = values[known].astype(np.int64)
        return labels, None
    classes, numbers = np.unique(values[known].astype(str), return_inverse=True)
    labels = np.full(len(values), -1, np.int64)
    labels[known] = numbers
    return labels, classes.tolist()


def _set_of_rows(nodes, name):
    sets = np.full(nodes.rows, NO_SET, np.uint8)
    for row, word in enumerate(nodes.column(name)):
        if word is None or word != word or word == "":
            continue
        if word not in SETS:
            nodes.fail(name, f"has '{word}' in row {row}; allowed are {', '.join(SETS)} and nothing")
        sets[row] = SETS[word]
    return sets


def _mask(nodes, name):
    """A column of booleans, or of 0 and 1, as booleans."""
    values = nodes.column(name)
    if values.dtype != bool:
        # Anything else would be true without being said: "False", NaN, None.
        wrong = [row for row, value in enumerate(values.tolist()) if value not in (0, 1)]
        if wrong:
            nodes.fail(name, f"has {values[wrong[0]].item()!r} in row {wrong[0]}; allowed are booleans, "
                             "and 0 and 1")
    return values.astype(bool)


def _numbers_of(edges, name, nodes, ids, id_column):
    """Node numbers of a column of ids."""
    values = edges.column(name)
    if len(values) == 0:  # of any type: a table without rows often has none
        return np.zeros(0, np.int64)
    if ids is None:
        if values.dtype.kind not in "iu":
            edges.fail(name, f"is {values.dtype}; allowed are numbers of nodes, counted from 0. If "
                             "nodes have other ids, name their column: id=...")
        return values.astype(np.int64)
    if _is_number(ids) and not _is_number(values):
        edges.fail(name, f"is {values.dtype}, but column '{id_column}' of the nodes has numbers")
    if not _is_number(ids):
        values = values.astype(str)
    if len(ids) == 0:
        edges.fail(name, f"has '{values[0]}' in row 0, but the table of nodes has no rows")
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids, values, sorter=order)
    place[place == len(ids)] = 0
    numbers = order[place]
    wrong = np.flatnonzero(ids[numbers] != values)
    if len(wrong):
        edges.fail(name, f"has '{values[wrong[0]]}' in row {int(wrong[0])}, which is not in column "
                         f"'{id_column}' of the nodes")
    return numbers.astype(np.int64)


def arrays_of_tables(edges, nodes, *, source, target, id, features, label, split, weight,
                     edge_type):
    """Keywords for Dataset.from_arrays, and the names of the classes or None."""
    edges = Frame(edges, "edges")
    nodes = None if nodes is None else Frame(nodes, "nodes")
    made = None
    if isinstance(features, str) and MADE_FEATURES.fullmatch(features) \
            and (nodes is None or features not in nodes.names):
        made, features = features, None if nodes is None else []
    for option, value in (("id", id), ("features", features), ("label", label)):
        if nodes is None and value is not None:
            raise InputError(f"{option}: it names a column of the table of nodes, but there is no "
                             "such table")
    ids = None
    if id is not None:
        ids = nodes.column(id)
        ids = ids if _is_number(ids) else ids.astype(str)
        if len(np.unique(ids)) != len(ids):
            nodes.fail(id, "has the same id twice")
    arrays = {"edge_index": np.stack([_numbers_of(edges, name, nodes, ids, id)
                                      for name in (source, target)])}
    if weight is not None:
        arrays["edge_weight"] = _weights(edges, weight)
    if edge_type is not None:
        arrays["edge_type"] = np.unique(edges.column(edge_type), return_inverse=True)[1]
    edges.say_dropped({source, target, weight, edge_type})
    classes = None
    if nodes is not None:
        arrays["num_nodes"] = nodes.rows
        masks = [name for name in ("train_mask", "val_mask", "test_mask") if name in nodes.names]
        others = {id, label, split, *masks}
        arrays["x"] = _feature_matrix(nodes, features, others)
        if label is not None:
            arrays["y"], classes = _labels(nodes, label)
        for name in masks:
            arrays[name] = _mask(nodes, name)
        if split is not None and split in nodes.names:
            sets = _set_of_rows(nodes, split)
            for value, name in enumerate(("train_mask", "val_mask", "test_mask")):
                arrays[name] = sets == value
            split = None
    arrays["split"] = split
    arrays["features"] = made
    return arrays, classes
