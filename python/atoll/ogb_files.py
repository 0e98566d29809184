#!/usr/bin/env python3
"""Some of OGB's sets have splits that are PyTorch files, which the engine doesn't read: link sets
(split/SCHEME/train.pt) and node sets with split/SCHEME/split_dict.pt. This script turns the folder
of OGB's archive into one that `atoll import` reads. It needs NumPy and PyTorch. It takes only plain
data from PyTorch files and runs nothing in them. `Dataset.import_("ogb", folder)` does the same by
itself.

    python3 python/atoll/ogb_files.py dataset/ogbl_collab --out collab-arrays
    atoll import npy collab-arrays --nodes 235868 --out data/collab"""

import argparse
import gzip
import os
import pathlib
import pickle
import shutil
import sys

SETS = ("train", "valid", "test")
DICTIONARY = "split_dict.pt"


class BadInput(ValueError):
    """Its text names file, place, value and what is allowed."""


def import_packages():
    """NumPy and PyTorch, where they are."""
    try:
        import numpy
        import torch
    except ImportError as error:
        raise BadInput(f"this needs NumPy and PyTorch: {error}") from None
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
        raise BadInput(f"PyTorch {torch.__version__} found; 2.6 or later is needed, which can read "
                       "plain data without running code")
    return numpy, torch


def read_text(np, path, dtype, columns=None):
    if not path.is_file():
        raise BadInput(f"{path}: it is not there; an OGB set has it, or raw/data.npz")
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=dtype, ndmin=2)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    if columns is not None and rows.shape[1] != columns:
        raise BadInput(f"{path}: {rows.shape[1]} columns found, {columns} expected")
    return rows


def read_graph(np, raw):
    """edge_index [2, E], the number of nodes, and their features or None."""
    if (raw / "data.npz").is_file():
        data = np.load(raw / "data.npz")
        for name in ("edge_index", "num_nodes_list"):
            if name not in data:
                raise BadInput(f"{raw / 'data.npz'}: no array '{name}'; it has {sorted(data)}")
        features = data["node_feat"] if "node_feat" in data else None
        return data["edge_index"], int(data["num_nodes_list"].sum()), features
    edges = read_text(np, raw / "edge.csv.gz", np.int64, 2)
    nodes = int(read_text(np, raw / "num-node-list.csv.gz", np.int64, 1).sum())
    features = None
    if (raw / "node-feat.csv.gz").is_file():
        features = read_text(np, raw / "node-feat.csv.gz", np.float32)
    return edges.T, nodes, features


def read_split(np, torch, path):
    """The dictionary of arrays in a file of torch.save."""
    if not path.is_file():
        raise BadInput(f"{path}: it is not there; needed are {', '.join(s + '.pt' for s in SETS)}")
    core = getattr(np, "_core", None) or np.core
    allowed = [core.multiarray._reconstruct, np.ndarray, np.dtype,
               *{type(np.dtype(kind)) for kind in ("i4", "i8", "f4", "f8", "u1")}]
    if getattr(np, "_core", None) is not None:  # what NumPy called it when OGB wrote its files
        allowed.append((core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct"))
    try:
        with torch.serialization.safe_globals(allowed):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise BadInput(f"{path}: no plain data of PyTorch: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: it holds a {type(found).__name__}, a dictionary is needed")
    return {key: np.asarray(value) for key, value in found.items()}


def pairs(np, path, columns):
    """Columns of node ids side by side, [edges, 2]."""
    if any(column.ndim != 1 or column.shape != columns[0].shape for column in columns):
        raise BadInput(f"{path}: ends of edges have shapes {[column.shape for column in columns]}")
    return np.stack(columns, axis=1)


def links_of(np, path, split):
    """Edges [edges, 2] of a set, and what they are ranked against, or None."""
    if "edge" in split:
        edges, negatives = split["edge"], split.get("edge_neg")
        if negatives is not None and (negatives.ndim != 2 or negatives.shape[1] != 2):
            raise BadInput(f"{path}: 'edge_neg' has shape {negatives.shape}; [pairs, 2] is needed")
    elif "source_node" in split and "target_node" in split:
        edges = pairs(np, path, [split["source_node"], split["target_node"]])
        negatives = split.get("target_node_neg")
        own = negatives is None or (negatives.ndim == 2 and len(negatives) == len(edges))
        if not own or (negatives is not None and negatives.shape[1] == 2):
            raise BadInput(f"{path}: 'target_node_neg' has shape {negatives.shape}; [{len(edges)}, "
                           "k] is needed, k not 2")
    else:
        raise BadInput(f"{path}: no edges in {sorted(split)}; 'edge', or 'source_node' and "
                       "'target_node' are needed (knowledge graphs can't be read)")
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise BadInput(f"{path}: 'edge' has shape {edges.shape}; [edges, 2] is needed")
    return edges, negatives


def arrays_of(np, torch, folder, scheme):
    """The arrays of a link set, by the names of their files, and the number of nodes."""
    edge_index, nodes, features = read_graph(np, folder / "raw")
    arrays = {"edge_index": edge_index.astype(np.int64)}
    if features is not None:
        if len(features) != nodes:
            raise BadInput(f"{folder / 'raw'}: {len(features)} rows of features for {nodes} nodes")
        arrays["features"] = features.astype(np.float32)
    for name in SETS:
        path = scheme / f"{name}.pt"
        edges, negatives = links_of(np, path, read_split(np, torch, path))
        arrays[f"links_{name}"] = edges.astype(np.int64)
        if negatives is not None:
            arrays[f"links_{name}_negatives"] = negatives.astype(np.int64)
    for name, values in arrays.items():
        ids = name != "features" and values.size > 0
        if ids and not 0 <= values.min() <= values.max() < nodes:
            raise BadInput(f"{folder}: {name} has ids from {values.min()} to {values.max()}; "
                           f"allowed are 0 to {nodes - 1}")
    return arrays, nodes


def write_ids(np, path, ids, place):
    """As the text files of OGB's splits."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise BadInput(f"{place}: it is {ids.dtype} {list(ids.shape)}; a list of node ids is needed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(f"{node}\n" for node in ids.tolist())


def write_node_set(np, torch, folder, scheme, out):
    """The same set with its split as text; its graph is linked, not copied."""
    split = read_split(np, torch, scheme / DICTIONARY)
    if not set(split) >= set(SETS):
        raise BadInput(f"{scheme / DICTIONARY}: it has {sorted(split)}; needed are {SETS}")
    os.symlink((folder / "raw").resolve(), out / "raw")
    if (folder / "mapping").is_dir():
        os.symlink((folder / "mapping").resolve(), out / "mapping")
    for name in SETS:
        place = f"{scheme / DICTIONARY}: '{name}'"
        if split[name].dtype != object:
            write_ids(np, out / "split" / scheme.name / f"{name}.csv.gz", split[name], place)
            continue
        for kind, ids in split[name].item().items():  # of several types of nodes
            write_ids(np, out / "split" / scheme.name / kind / f"{name}.csv.gz", ids, place)


def schemes_of(folder, file, split_name):
    """Folders of split/ with such a file; only the one called split_name unless that is None."""
    return sorted(path.parent for path in (folder / "split").glob(f"*/{file}")
                  if split_name in (None, path.relative_to(folder / "split").parts[0]))


def needs_pytorch(folder, split_name=None):
    """Whether the split of a set is a file of PyTorch alone."""
    folder = pathlib.Path(folder)

    def there(file):
        return bool(schemes_of(folder, file, split_name))
    return (there("train.pt") or there(DICTIONARY)) \
        and not there("train.csv.gz") and not there("*/train.csv.gz")


def convert(folder, out, split_name=None):
    """Makes the folder `out`, complete or not at all, and returns the words of the command that
    reads it. Raises BadInput."""
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    np, torch = import_packages()
    links = schemes_of(folder, "train.pt", split_name)
    nodes = schemes_of(folder, DICTIONARY, split_name)
    for both in set(links) & set(nodes):
        raise BadInput(f"{both}: train.pt and {DICTIONARY} are there; keep one")
    if len(links) + len(nodes) > 1:
        names = ", ".join(sorted(path.name for path in links + nodes))
        raise BadInput(f"{folder / 'split'}: {len(links) + len(nodes)} splits (folders) found; name "
                       f"one of them with --split-name: {names}")
    if not links + nodes:
        raise BadInput(f"{folder / 'split'}: no folder {split_name or ''} with train.pt or "
                       f"{DICTIONARY} found; one is needed")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        if nodes:
            write_node_set(np, torch, folder, nodes[0], part)
            words = ["import", "ogb", str(out)]
        else:
            arrays, count = arrays_of(np, torch, folder, links[0])
            for name, values in arrays.items():
                np.save(part / f"{name}.npy", np.ascontiguousarray(values))
            words = ["import", "npy", str(out), "--nodes", str(count)]
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="has raw/ and split/, e.g. ogbl_collab")
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="folder to make; must not exist")
    parser.add_argument("--split-name", help="which folder of split/; default: the only one")
    options = parser.parse_args()
    try:
        if options.out.exists():
            raise BadInput(f"--out {options.out}: it is there; name a new folder")
        words = convert(options.folder, options.out, options.split_name)
    except (BadInput, OSError) as error:
        print(f"ogb_files.py: error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{options.out}: written. Next: atoll {' '.join(words)} --out DATA")


if __name__ == "__main__":
    main()
