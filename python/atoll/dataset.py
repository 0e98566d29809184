"""Datasets: folders of NumPy arrays, made from arrays, from graphs of other libraries, or from
files."""

import json
import os
import re
import shutil
import tempfile
import weakref

import numpy as np

from atoll import ogb_files
from atoll._errors import InputError
from atoll._frames import arrays_of_tables
from atoll._graphs import arrays_of_dgl, arrays_of_scipy, tables_of_networkx
from atoll._hetero import arrays_of_hetero, split_by_type
from atoll._kept import KeptPlace
from atoll._program import log, option_words, renamed, run
from atoll._structure import neighbours, write_metis

CLASSES = "class_names.json"
TRAIN, VALID, TEST = 0, 1, 2  # values of split.npy


def _array(value, name, dimensions):
    """A NumPy array of anything that can be one, such as a tensor of PyTorch on the CPU, without a
    copy."""
    found = getattr(value, "dtype", type(value).__name__)
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        if hasattr(value, "toarray"):  # a sparse matrix of SciPy
            value = value.toarray()
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, sparse tensors, bf16
        raise InputError(f"{name}: it is {found}, which can't be a NumPy array ({error}); allowed are "
                         "dense arrays and tensors of numbers that NumPy has, and lists whose rows have "
                         "the same length") from None
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise InputError(f"{name}: its type is {array.dtype}; allowed are numbers and booleans")
    if array.ndim not in dimensions:
        raise InputError(f"{name}: its shape is {array.shape}; allowed are "
                         f"{' or '.join(str(d) for d in dimensions)} dimensions")
    return array


def path_of(dataset, name="dataset"):
    """The absolute path of a Dataset, or of a folder. Raises InputError, which calls it `name`."""
    try:
        path = os.fspath(dataset)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise InputError(f"{name}: found {dataset!r}; allowed are a Dataset and the path of a dataset "
                         "folder")
    return os.path.abspath(path)


def _dimensions(value):
    try:
        return np.ndim(value)
    except ValueError:  # ragged lists
        return None


def node_numbers(nodes, name, count):
    """Numbers of nodes as an integer array [n], of such, of a single one or of a mask of all `count`
    nodes. Raises InputError, which calls them `name`."""
    array = np.atleast_1d(_array(nodes, name, (0, 1, 2)))
    if array.dtype == bool and array.shape != (count,):
        raise InputError(f"{name}: it is bool {list(array.shape)}; allowed is a mask of all {count} "
                         "nodes of the dataset")
    if array.size == 0:
        raise InputError(f"{name}: it lists no node; allowed is None for none or all")
    if array.ndim > 1 or array.dtype.kind not in "iub":
        raise InputError(f"{name}: it is {array.dtype} {list(array.shape)}; allowed are whole numbers "
                         "or a mask")
    return np.flatnonzero(array) if array.dtype == bool else array


class Dataset:
    """A dataset folder. Its arrays are memory-mapped when you ask for them, and never changed."""

    _temporary = None  # removes the folder together with this object; None: it stays
    _moved = False  # from a temporary folder to where runs are
    _whole = None  # of a dataset that has a base: its arrays in one folder

    def __init__(self, path):
        self._path = path_of(path, "path")
        file = os.path.join(self._path, "dataset.json")
        try:
            with open(file, encoding="utf-8") as text:
                self._fields = json.load(text)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{self._path}: this is not a dataset folder, it has no dataset.json; "
                             "Dataset.import_() makes one from files, Dataset.from_arrays() from "
                             "arrays") from None

    @classmethod
    def from_folder(cls, path):
        """A folder that `atoll import` or `atoll generate` has made."""
        return cls(path)

    @classmethod
    def from_arrays(cls, edge_index, x=None, y=None, train_mask=None, val_mask=None, test_mask=None,
                    *, edge_weight=None, edge_attr=None, edge_type=None, node_type=None, split=None,
                    num_nodes=None, directed=False, keep_self_loops=False, task=None,
                    features=None, seed=None, path=None, name="arrays"):
        """Makes a dataset from arrays with the names and shapes of PyTorch Geometric.

        edge_index: [2, E] integers, row 0 the sources and row 1 the targets. Node edge_index[1, e]
            reads the row of node edge_index[0, e].
        x: [N, F] features. With node_type it may also be a list or dictionary with an array per
            type of nodes, whose rows are in the order of its nodes; types may have different
            numbers of features, or none.
        y: [N] classes (-1: none), [N, C] of 0 and 1 for several labels per node, or floating-point
            numbers to predict (NaN: none). Floating-point numbers that are all whole may be either:
            then `task` says which.
        train_mask, val_mask, test_mask: masks, of booleans or of 0 and 1, [N], or [N, K] for K
            splits; or the numbers of the nodes. The log says what they were taken for.
        split: instead of masks, "0.6,0.2,0.2" (shares of the labelled nodes) or
            "per-class:20,500,1000".
        edge_weight: [E]. edge_attr: [E, G]. edge_type: [E], for relations. node_type: [N].
        num_nodes: needed only if no array has a row per node and the last nodes have no edges.
        directed: False stores every edge in both directions, so that a node reads all its
            neighbours. True keeps edges as they are.
        keep_self_loops: False drops edges from a node to itself.
        task: "single-label", "multi-label", "binary" or "regression", if y leaves it open.
        features: instead of x, features made of the graph: "degree", "constant", "random:32" or
            "positional:16" (docs/formats.md), or "edges": of each node the mean of the features of
            its edges. A dataset without any can be trained with
            train(dataset, features="trained:64"): a row of parameters for each node.
        seed: of the split, and of random features.
        path: folder to make; it must not exist. None: a temporary folder. train() moves it beside
            the run, where it stays; without a training it is deleted together with this object.

        `atoll import` has the same defaults: the same arrays give the same graph. Edges that occur
        several times are merged, and their weights are added. Raises InputError.
        """
        edge_index = _array(edge_index, "edge_index", (2,))
        if edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
            raise InputError(f"edge_index: it is {edge_index.dtype} {list(edge_index.shape)}; "
                             "allowed are integers [2, E]")
        arrays = {"edge_index": edge_index}
        masks = {"train_mask": train_mask, "val_mask": val_mask, "test_mask": test_mask}
        by_type = isinstance(x, dict) or (isinstance(x, list) and len(x) > 0 and
                                          (x[0] is None or _dimensions(x[0]) == 2))
        if by_type:
            if node_type is not None:
                node_type = _array(node_type, "node_type", (1,))
            arrays.update(split_by_type(x, node_type, _array))
        for key, value, dimensions in (
                ("x", None if by_type else x, (2,)), ("y", y, (1, 2)), ("edge_weight", edge_weight, (1,)),
                ("edge_attr", edge_attr, (1, 2)), ("edge_type", edge_type, (1,)),
                ("node_type", node_type, (1,)), *((key, masks[key], (1, 2)) for key in masks)):
            if value is not None:
                arrays[key] = _array(value, key, dimensions)
        for key, array in arrays.items():
            if key.startswith("edge_") and key != "edge_index" and len(array) != edge_index.shape[1]:
                raise InputError(f"{key}: it has {len(array)} rows, but there are "
                                 f"{edge_index.shape[1]} edges")
        nodes = num_nodes
        for key in ("x", "y", "node_type"):
            if key in arrays:
                nodes = len(arrays[key]) if nodes is None else nodes
                if len(arrays[key]) != nodes:
                    raise InputError(f"{key}: it has {len(arrays[key])} rows, but there are "
                                     f"{nodes} nodes")
        if nodes == 0:
            empty = [key for key in ("x", "y", "node_type") if key in arrays] or ["num_nodes"]
            raise InputError(f"{empty[0]}: there are no rows in it; a graph has at least one node")
        if nodes is None:
            nodes = int(edge_index.max()) + 1 if edge_index.size else 0
        if features is not None and x is not None:
            raise InputError(f"features: x is given, too; features={features!r} is for graphs "
                             "without x")
        if split is not None and set(masks) & set(arrays):
            raise InputError("split: there are masks, too; give only one of the two")
        words = ["import", "npy", "--nodes", str(nodes)]
        words += ["--directed"] if directed else []
        words += ["--keep-self-loops"] if keep_self_loops else []
        words += ["--split", split] if split is not None else []
        words += ["--task", task] if task is not None else []
        words += ["--features", str(features)] if features is not None else []
        words += ["--seed", str(seed)] if seed is not None else []
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            for key, array in arrays.items():
                if array.dtype == bool and key not in masks:
                    array = array.astype(np.uint8)
                np.save(os.path.join(folder, key + ".npy"), array)  # of any layout
            # Names that the caller knows, instead of a folder that has gone.
            with renamed((re.escape(folder + os.sep) + r"(\w+)\.npy", r"\1"),
                         (re.escape(folder), name.replace("\\", r"\\")),
                         (r"^--nodes ", "num_nodes=")):
                return cls._make([*words[:2], folder, *words[2:]], path, name)

    @classmethod
    def from_tables(cls, edges, nodes=None, *, source="source", target="target", id=None,
                    features=None, label=None, split=None, weight=None, edge_type=None,
                    path=None, name="tables", **options):
        """Makes a dataset from a table with one row per edge and, optionally, a table with one row
        per node. Tables are Parquet files (needs pyarrow), DataFrames, Arrow tables, or
        dictionaries of arrays. Results have their rows in the order of the table of nodes.

        source, target: columns of edges. Their values are numbers of nodes, counted from 0, or
            values of the column `id` of nodes.
        id: column of nodes with their ids, numbers or text.
        features: columns of nodes, with a number or a list of numbers per row. None: all columns of
            numbers, except those that are named here and the masks. Or what from_arrays() makes of
            the graph, as "degree", unless a column is called so.
        label: column of nodes. Either numbers, as y of from_arrays(), or text: each word is a
            class, in alphabetical order, and .classes then holds the words.
        split: column of nodes with "train", "valid", "test" or nothing; or a text as in
            from_arrays(). Columns train_mask, val_mask and test_mask are found by their names.
        weight, edge_type: columns of edges.
        options: those of from_arrays().

        A warning names the columns that are not read. Raises InputError.
        """
        arrays, classes = arrays_of_tables(edges, nodes, source=source, target=target, id=id,
                                           features=features, label=label, split=split,
                                           weight=weight, edge_type=edge_type)
        dataset = cls.from_arrays(**arrays, path=path, name=name, **options)
        if classes is not None:
            with open(os.path.join(dataset.path, CLASSES), "w", encoding="utf-8") as file:
                json.dump(classes, file, ensure_ascii=False)
        return dataset

    @classmethod
    def from_pyg(cls, data, *, path=None, name="pyg", **options):
        """Makes a dataset from a torch_geometric.data.Data, or from anything with its attributes:
        x, y, edge_index, masks, edge_weight, edge_attr, edge_type, node_type. edge_attr holds
        features of edges, even if it has a single column; for weights, pass
        edge_weight=data.edge_attr.

        Of a HeteroData, types of nodes and edges are numbered in the order of data.node_types and
        data.edge_types, and nodes are one type after the other. Types of nodes may have different
        numbers of features, or none: see `--input-layer typed`."""
        if hasattr(data, "node_types") and hasattr(data, "edge_types"):
            values = {**arrays_of_hetero(data, _array), **options}
            return cls.from_arrays(values.pop("edge_index"), path=path, name=name, **values)
        keys = ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask", "edge_weight",
                "edge_attr", "edge_type", "node_type", "num_nodes")
        values = {key: getattr(data, key, None) for key in keys}
        if values["edge_index"] is None:
            raise InputError("from_pyg: the object has no edge_index; if it has a SparseTensor "
                             "adj_t, use edge_index=torch.stack(data.adj_t.t().coo()[:2])")
        values.update(options)
        return cls.from_arrays(values.pop("edge_index"), path=path, name=name, **values)

    @classmethod
    def from_networkx(cls, graph, *, features=None, label=None, split=None, weight="weight",
                      edge_type=None, directed=None, path=None, name="networkx", **options):
        """Makes a dataset from a graph of NetworkX. Nodes are numbered in the order of graph.nodes.

        features, label, split: attributes of nodes, as the columns of nodes in from_tables().
        weight: attribute of edges; an edge without it weighs 1. If no edge has it, the graph has no
            weights.
        edge_type: attribute of edges.
        directed: None: as the graph is. False reads a DiGraph in both directions.
        options: those of from_arrays().

        Raises InputError."""
        if directed and not graph.is_directed():
            raise InputError("from_networkx: directed is True, but the graph is not directed; "
                             "graph.to_directed() has each edge in both directions")
        edges, nodes, weight = tables_of_networkx(graph, weight)
        return cls.from_tables(edges, nodes, features=features, label=label, split=split,
                               weight=weight, edge_type=edge_type, path=path, name=name,
                               directed=graph.is_directed() if directed is None else directed,
                               **options)

    @classmethod
    def from_dgl(cls, graph, *, features=None, label=None, weight=None, edge_features=None,
                 edge_type=None, node_type=None, path=None, name="dgl", **options):
        """Makes a dataset from a DGLGraph with one type of nodes and edges.

        features, label: keys of graph.ndata. None: "feat" and "label", if they are there. Masks are
            found as "train_mask", "val_mask" and "test_mask".
        weight, edge_features, edge_type: keys of graph.edata. node_type: a key of graph.ndata. (A
            graph of dgl.to_homogeneous() has its types under dgl.ETYPE and dgl.NTYPE.)
        options: those of from_arrays(). Its defaults hold here, too: directed=True keeps edges as
            they are, and keep_self_loops=True those of dgl.add_self_loop().

        Raises InputError."""
        arrays = arrays_of_dgl(graph, features=features, label=label, weight=weight,
                               edge_features=edge_features, edge_type=edge_type,
                               node_type=node_type)
        arrays.update(options)
        return cls.from_arrays(**arrays, path=path, name=name)

    @classmethod
    def from_scipy(cls, adjacency, x=None, y=None, train_mask=None, val_mask=None, test_mask=None,
                   *, weighted=None, path=None, name="scipy", **options):
        """Makes a dataset from a sparse matrix or array of SciPy, in any of its formats.
        adjacency[i, j] is the edge i -> j, and its value the weight. Stored zeros are no edges.

        weighted: None: if any value is not 1. False ignores the values.
        x, y, masks, options: those of from_arrays(). x may be sparse.

        Raises InputError."""
        arrays = arrays_of_scipy(adjacency, weighted)
        arrays.update(options)
        return cls.from_arrays(x=x, y=y, train_mask=train_mask, val_mask=val_mask,
                               test_mask=test_mask, **arrays, path=path, name=name)

    @classmethod
    def import_(cls, format, source, *, path=None, name=None, **options):
        """Makes a dataset from files, like `atoll import FORMAT SOURCE`. The options of that
        command are keywords (directed=True, split="0.6,0.2,0.2", ...). Formats: docs/formats.md.
        If PyTorch is installed, it also reads those of OGB's sets whose splits are PyTorch
        files."""
        if any(word in options for word in ("snapshots", "snapshots_from")):
            raise InputError("snapshots: they are several datasets; allowed with the command "
                             "`atoll import`, whose folders Dataset() opens")
        source = os.path.abspath(os.fspath(source))
        split_name = options.get("split_name")
        if format == "ogb" and ogb_files.needs_pytorch(source, split_name):
            options.pop("split_name", None)
            name = name or os.path.basename(source)
            with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
                try:
                    words = ogb_files.convert(source, os.path.join(folder, "set"), split_name)
                except ogb_files.BadInput as error:
                    raise InputError(str(error)) from None
                return cls._make([*words, *option_words("import", options)], path, name)
        words = ["import", format, source, *option_words("import", options)]
        return cls._make(words, path, name)

    @classmethod
    def generate(cls, kind, *, path=None, **options):
        """Makes a synthetic graph, like `atoll generate KIND`. The options of that command are
        keywords."""
        words = ["generate", kind, *option_words("generate", options)]
        return cls._make(words, path, None)

    @classmethod
    def _make(cls, words, path, name):
        temporary = None
        if path is None:
            temporary = tempfile.mkdtemp(prefix="atoll-")
            path = os.path.join(temporary, re.sub(r"[^\w.-]+", "-", name or "dataset"))
        words = [*words, "--out", os.fspath(path)]
        if name is not None:
            words += ["--name", name]
        try:
            for line in run(words).splitlines():
                log.info("%s", line)
            dataset = cls(path)
        except BaseException:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if temporary is not None:
            dataset._temporary = weakref.finalize(dataset, shutil.rmtree, temporary,
                                                  ignore_errors=True)
        return dataset

    def _move_beside(self, run_dir):
        """Moves a temporary folder to where runs are, for good. Equal datasets have the same place
        there, so that a script that runs ten times keeps its dataset once."""
        if self._temporary is None:
            return
        what = [self._fields.get(key) for key in ("checksum", "directed", "task", "classes")]
        place = KeptPlace(run_dir, os.path.basename(self._path), [self.name, self.classes, *what])
        place.fill(lambda part: shutil.move(self._path, part))
        self._keep_parts(place.path)
        self._temporary()
        self._temporary = None
        self._moved = True
        self._path = place.path

    def _keep_parts(self, place):
        """Moves cuts that an equal dataset at `place` has not."""
        own = os.path.join(self._path, "parts")
        for name in sorted(os.listdir(own)) if os.path.isdir(own) else []:
            kept = os.path.join(place, "parts", name)
            if not os.path.exists(kept):
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                shutil.move(os.path.join(own, name), kept)

    @property
    def path(self):
        """The folder, as text."""
        return self._path

    @property
    def name(self):
        return self._fields.get("name", os.path.basename(self._path))

    def __fspath__(self):
        return self._path

    def append(self, edge_index=None, x=None, y=None, split=None, *, num_nodes=None,
               edge_weight=None, edge_attr=None, edge_type=None, node_type=None, node_ids=None,
               remove_nodes=None, remove_edges=None, change_features=None, keep_self_loops=False,
               seed=None, path=None, name=None):
        """Lets the dataset grow, like `atoll append`: returns another one, which holds what is new
        and where this one lies. This one stays as it is, and must stay where it is.

        edge_index: [2, E] new edges. New nodes have the numbers from num_nodes of this dataset on.
        x: [n, F] features of n new nodes; num_nodes=n instead if nodes have no features.
        y: their labels. split: their roles, [n] or [K, n] with 0 train, 1 valid, 2 test, 255 none,
            or "0.6,0.2,0.2", drawn with `seed` from those with labels.
        edge_weight, edge_attr, edge_type, node_type, node_ids: as the dataset has them.
        remove_nodes: numbers of nodes that lose their edges, label and split; they keep their
            numbers. remove_edges: [2, m].
        change_features: (numbers of nodes, their new rows).
        path: folder to make; it must not exist. None: `name`, or the next free name, beside this
            dataset's folder. If this dataset is temporary, the other one is whole, and temporary
            unless `path` is given.

        Raises InputError."""
        index = None if edge_index is None else _array(edge_index, "edge_index", (2,))
        gone = None if remove_edges is None else _array(remove_edges, "remove_edges", (2,))
        values = {"edges": index, "labels": y, "edge-weights": edge_weight,
                  "edge-features": edge_attr, "edge-types": edge_type, "node-types": node_type,
                  "remove-edges": gone}
        if remove_nodes is not None:
            values["remove-nodes"] = node_numbers(remove_nodes, "remove_nodes", self.num_nodes)
        if x is not None and num_nodes is not None and len(x) != num_nodes:
            raise InputError(f"x: it has {len(x)} rows, but num_nodes is {num_nodes}")
        words = ["append", self._path]
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            def save(key, value):
                array = _array(value, key, (1, 2))
                file = os.path.join(folder, key + ".npy")
                np.save(file, array.astype(np.uint8) if array.dtype == bool else array)
                return file
            if x is not None:
                words += ["--nodes", save("x", x)]
            elif num_nodes is not None:
                words += ["--nodes", str(num_nodes)]
            for option, value in values.items():
                if value is not None:
                    words += [f"--{option}", save(option, value)]
            if split is not None:
                words += ["--split", split if isinstance(split, str) else save("split", split)]
            if change_features is not None:
                ids, rows = change_features
                words += ["--change-features",
                          save("changed-ids", ids) + "," + save("changed-rows", rows)]
            if node_ids is not None:
                file = os.path.join(folder, "node_ids.txt")
                with open(file, "w", encoding="utf-8", newline="\n") as lines:
                    lines.writelines(f"{id}\n" for id in node_ids)
                words += ["--node-ids", file]
            words += ["--keep-self-loops"] if keep_self_loops else []
            words += ["--seed", str(seed)] if seed is not None else []
            # Names that the caller knows, instead of a folder that has gone.
            with renamed((re.escape(folder + os.sep) + r"([\w-]+)\.(npy|txt)", r"\1")):
                if self._temporary is None and not self._moved:
                    return self._make(words, path or self._free_name_beside(name), name)
                delta = self._make(words, os.path.join(folder, self.name + "@2"), name)
                return delta.compact(path)

    def _free_name_beside(self, name):
        folder, own = os.path.split(self._path)
        if name is not None:
            return os.path.join(folder, re.sub(r"[^\w.@-]+", "-", name))
        stem, _, number = own.rpartition("@")
        following = int(number) + 1 if stem and number.isdigit() else 2
        stem = stem if stem and number.isdigit() else own
        while os.path.exists(os.path.join(folder, f"{stem}@{following}")):
            following += 1
        return os.path.join(folder, f"{stem}@{following}")

    def compact(self, path=None):
        """Writes a dataset that append() has made as one whole folder, like `atoll compact`, and
        returns it. path: folder to make; None: a temporary folder. Raises InputError."""
        return self._make(["compact", self._path], path, None)

    def _array_folder(self):
        """Where the arrays lie: of a dataset that has a base, in a whole copy that is made when they
        are first asked for, and removed together with this object."""
        if self._fields.get("format") != "atoll-delta":
            return self._path
        if self._whole is None:
            self._whole = self.compact()
        return self._whole.path

    def _read(self, name):
        file = os.path.join(self._array_folder(), name + ".npy")
        return np.load(file, mmap_mode="r") if os.path.exists(file) else None

    @property
    def num_nodes(self):
        nodes = self._fields.get("nodes")
        return len(self._read("row_ptr")) - 1 if nodes is None else nodes

    @property
    def num_edges(self):
        """Number of stored edges. An undirected graph stores each edge in both directions."""
        edges = self._fields.get("edges")
        return int(self._read("row_ptr")[-1]) if edges is None else edges

    @property
    def num_features(self):
        return 0 if self.x is None else self.x.shape[1]

    @property
    def num_classes(self):
        return int(self._fields.get("classes", 0))

    @property
    def classes(self):
        """Names of the classes, if from_tables(), from_networkx() or a file of labels that
        import_() has read had words, or None."""
        try:
            with open(os.path.join(self._path, CLASSES), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return (self._fields.get("provenance") or {}).get("class_names")

    @property
    def task(self):
        """"single-label", "multi-label", "binary", "regression", ..., or None."""
        return self._fields.get("task")

    @property
    def directed(self):
        return bool(self._fields["directed"])

    @property
    def x(self):
        """Features, f32 [N, F], or None."""
        return self._read("features")

    @property
    def y(self):
        """Labels, or None: int32 [N] (-1: none), uint8 [N, C], or f32 in a regression."""
        return self._read("labels")

    @property
    def node_ids(self):
        """The ids that the nodes have in the source, if it was imported with renumber=True, else
        None: int64 [N], or an array of text. Node i of all arrays is the one with node_ids[i]."""
        file = os.path.join(self._array_folder(), "node_ids.txt")
        if not os.path.exists(file):
            return None
        with open(file, encoding="utf-8", newline="\n") as lines:
            ids = np.array(lines.read().split("\n")[:-1])
        numbers = re.compile(r"-?[1-9]\d{0,17}|0")
        return ids.astype(np.int64) if all(map(numbers.fullmatch, ids)) else ids

    @property
    def edge_index(self):
        """A new array, int64 [2, E], sorted by target."""
        row_ptr = self._read("row_ptr")
        target = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(row_ptr))
        return np.stack([self._read("col_idx").astype(np.int64), target])

    def _mask(self, value):
        split = self._read("split")
        return None if split is None else (split == value).T

    @property
    def train_mask(self):
        """bool [N], or [N, K] for K splits, or None."""
        return self._mask(TRAIN)

    @property
    def val_mask(self):
        return self._mask(VALID)

    @property
    def test_mask(self):
        return self._mask(TEST)

    def to_metis(self, path):
        """Writes the graph as METIS text, which other partitioners read. Every edge is there once
        in each direction; self-loops and weights are left out."""
        write_metis(path, *neighbours(self._read("row_ptr"), self._read("col_idx"), self.directed))

    def info(self):
        """The text of `atoll info`: sizes, degrees, splits."""
        return run(["info", self._path])

    def __repr__(self):
        kind = "directed" if self.directed else "undirected"
        return (f"Dataset({self.name!r}: {self.num_nodes:,} nodes, {self.num_edges:,} edges "
                f"({kind}), {self.num_features} features, {self.num_classes} classes)")
