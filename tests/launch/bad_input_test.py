#!/usr/bin/env python3
"""Bad files and options, one row each: the program ends with exit code 2 and one error that names
what is wrong and where, in time, and leaves nothing behind."""

import gzip
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (OGB, Workplace, edit_json, list_tree, make_ogb, npy, read_npy,
                         replace_npy_data, run, write)


# ---- what a row does to its folder before the command runs -------------------------------------
def nothing(_):
    pass


def ogb(**changes):
    return lambda folder: make_ogb(os.path.join(folder, "ogb"), **changes)


def truncated_gz(folder):
    make_ogb(os.path.join(folder, "ogb"))
    packed = gzip.compress(OGB["raw/edge.csv.gz"].encode())
    write(os.path.join(folder, "ogb/raw/edge.csv.gz"), packed[:-6])


def no_gz(folder):
    make_ogb(os.path.join(folder, "ogb"))
    write(os.path.join(folder, "ogb/raw/edge.csv.gz"), b"\x1f\x8b\x00\x00garbage")


def file_of(name, content):
    return lambda folder: write(os.path.join(folder, name), content)


def hand_made(folder):
    """Makes data/ a folder that somebody else wrote: without checksums."""
    path = os.path.join(folder, "data/dataset.json")
    edit_json(path, files=None, checksum=None, seal=None)


def npy_data(name, position, data, checksums=False):
    def setup(folder):
        replace_npy_data(os.path.join(folder, "data", name), position, data)
        if not checksums:
            hand_made(folder)
    return setup


def as_float64(folder):
    path = os.path.join(folder, "data/features.npy")
    _, data = read_npy(path)
    values = struct.unpack(f"<{len(data) // 4}f", data)
    write(path, npy("<f8", [200, 8], struct.pack(f"<{len(values)}d", *values)))


def as_fortran(folder):
    path = os.path.join(folder, "data/features.npy")
    write(path, npy("<f4", [200, 8], bytes(read_npy(path)[1]), fortran=True))


def shorter_labels(folder):
    path = os.path.join(folder, "data/labels.npy")
    write(path, npy("<i4", [199], bytes(read_npy(path)[1][:796])))


def numbers_to_predict(third):
    """Labels become numbers: those of classes, and `third` for node 3."""
    def setup(folder):
        path = os.path.join(folder, "data/labels.npy")
        values = list(struct.unpack("<200i", read_npy(path)[1]))
        values[3] = third
        write(path, npy("<f4", [200], struct.pack("<200f", *values)))
        hand_made(folder)
        edit_json(os.path.join(folder, "data/dataset.json"), task="regression", classes=1)
    return setup


def truncated_npy(folder):
    os.truncate(os.path.join(folder, "data/features.npy"), 5000)


def no_training_node(folder):
    write(os.path.join(folder, "data/split.npy"), npy("|u1", [200], b"\x01" * 200))
    hand_made(folder)


def changed_under_partition(folder):
    """The dataset gets another edge list, and so another checksum, after it was cut."""
    result = run(["partition", "data", "--parts", "2"], folder)
    assert result.returncode == 0, result.stderr
    parts = os.path.join(folder, "data/parts")
    kept = os.path.join(folder, "kept")
    shutil.move(parts, kept)
    shutil.rmtree(os.path.join(folder, "data"))
    result = run(["generate", "sbm", "--nodes", "200", "--classes", "4", "--features", "8",
                  "--seed", "9", "--out", "data"], folder)
    assert result.returncode == 0, result.stderr
    # The folder's name holds the checksum: rename the old one to what the new set would look for.
    result = run(["partition", "data", "--parts", "2"], folder)
    assert result.returncode == 0, result.stderr
    new = os.path.join(parts, os.listdir(parts)[0])
    shutil.rmtree(new)
    shutil.move(os.path.join(kept, os.listdir(kept)[0]), new)
    os.rmdir(kept)


def damaged_shard(folder):
    result = run(["partition", "data", "--parts", "2"], folder)
    assert result.returncode == 0, result.stderr
    parts = os.path.join(folder, "data/parts")
    shard = os.path.join(parts, os.listdir(parts)[0], "part-1")
    name = sorted(name for name in os.listdir(shard) if name.endswith(".npy"))[0]
    os.truncate(os.path.join(shard, name), 40)


def extra_array(name, make, **fields):
    """Gives data/ an array of what make(number of edges) says, as somebody else would."""
    def setup(folder):
        edges = len(read_npy(os.path.join(folder, "data/col_idx.npy"))[1]) // 4
        write(os.path.join(folder, "data", name), make(edges))
        edit_json(os.path.join(folder, "data/dataset.json"), files=None, checksum=None, seal=None,
                  **fields)
    return setup


def types_with(position, value):
    def make(edges):
        types = [0] * edges
        types[position] = value
        return npy("<i4", [edges], struct.pack(f"<{edges}i", *types))
    return make


def existing_out(folder):
    os.mkdir(os.path.join(folder, "there"))
    write(os.path.join(folder, "there/mine.txt"), "precious")


def finished_run(folder):
    result = run(["train", "data", "--epochs", "1", "--hidden", "4", "--run-dir", "run"], folder)
    assert result.returncode == 0, result.stderr


def edited_after_partition(folder):
    finished_run(folder)  # makes the partition
    replace_npy_data(os.path.join(folder, "data/features.npy"), 0, struct.pack("<f", 42))


def damaged_model(folder):
    finished_run(folder)
    path = os.path.join(folder, "run/model.safetensors")
    os.truncate(path, os.path.getsize(path) - 10)


def other_features(folder):
    finished_run(folder)
    result = run(["generate", "sbm", "--nodes", "50", "--classes", "4", "--features", "5", "--out",
                  "other"], folder)
    assert result.returncode == 0, result.stderr


def calibration(damage):
    """Writes slow.json, an exchange measured on two ranks, after damage(exchange)."""
    def setup(folder):
        exchange = {"ranks": 2, "links": [], "channels": []}
        for sender in (0, 1):
            exchange["links"].append({"from": sender, "to": 1 - sender, "theta_s_per_byte": 1e-7,
                                      "gamma_s": 1e-4})
        damage(exchange)
        write(os.path.join(folder, "slow.json"), json.dumps({"exchange": exchange}))
    return setup


def topology(damage):
    """Writes t.json, a topology of two ranks on two hosts, after damage(topology)."""
    def setup(folder):
        rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"64": 4},
                "gemm_gflop_per_s": {"64": 30}, "elementwise_gb_per_s": 5, "quantize_gb_per_s": 1}
        made = {"format": 1, "hosts": [{"name": "a"}, {"name": "b"}],
                "ranks": [dict(rank, host="a"), dict(rank, host="b")],
                "links": {"between_hosts": {"latency_us": 50, "gbit_per_s": 1}}}
        damage(made)
        write(os.path.join(folder, "t.json"), json.dumps(made))
    return setup


def garbled_metrics(folder):
    write(os.path.join(folder, "run/metrics.jsonl"), '{"epoch": 1}\n{"epoch": \n')


def traced_run(damage):
    """A run of two ranks with a trace.json, after damage(trace)."""
    def setup(folder):
        result = run(["train", "data", "--transport", "local", "--ranks", "2", "--epochs", "2",
                      "--hidden", "4", "--run-dir", "run", "--trace"], folder)
        assert result.returncode == 0, result.stderr
        path = os.path.join(folder, "run/trace.json")
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        damage(trace)
        write(path, json.dumps(trace))
    return setup


def lose_a_packet(trace):
    events = trace["traceEvents"]
    events.remove(next(event for event in events if event["name"] == "packet"))


def reverse_time(trace):
    """Moves everything on rank 1 an hour back, which one host's clock can't explain."""
    for event in trace["traceEvents"]:
        if event["pid"] == 1 and event["ph"] == "X":
            event["ts"] -= 3.6e9


def typed_arrays(**arrays):
    """Writes arrays/, two edges between three nodes with types and features, or what is given."""
    def setup(folder):
        made = {"edge_index": npy("<i4", [2, 2], struct.pack("<4i", 0, 1, 1, 2)),
                "edge_type": npy("<i4", [2], struct.pack("<2i", 0, 1)),
                "edge_attr": npy("<f4", [2, 1], struct.pack("<2f", 0, 1)), **arrays}
        for name, content in made.items():
            write(os.path.join(folder, f"arrays/{name}.npy"), content)
    return setup


def typed_ogb(name=None, content=""):
    """Writes mag/, in OGB's layout of sets with types, and after it one other file."""
    def setup(folder):
        files = {"num-node-dict.csv.gz": "author,paper\n1,2\n",
                 "relations/author___writes___paper/edge.csv.gz": "0,0\n0,1\n"}
        for path, text in (files | ({name: content} if name else {})).items():
            write(os.path.join(folder, "mag/raw", path), gzip.compress(text.encode()))
    return setup


IMPORT = ["import", "ogb", "ogb", "--out", "new"]
ARRAYS = ["import", "npy", "arrays", "--out", "new"]
TYPED_OGB = ["import", "ogb", "mag", "--out", "new"]
TRAIN = ["train", "data", "--epochs", "2", "--hidden", "4", "--run-dir", "new-run"]
NAN = struct.pack("<f", float("nan"))
QUANTIZED = TRAIN + ["--exchange", "quantized"]
MEASURED = QUANTIZED + ["--calibration", "slow.json"]
SHOW = ["topology", "show", "t.json"]
COMPARE = ["bench", "data", "--out", "new.json", "--compare"]

# name, setup, command, what the error must say
CASES = [
    # command line
    ("unknown option", nothing, TRAIN + ["--epoch", "3"], ["--epoch", "--epochs"]),
    ("unknown model", nothing, TRAIN + ["--model", "cheb"], ["cheb", "gcn", "sage"]),
    ("heads that don't divide columns", nothing,
     TRAIN + ["--model", "gat", "--heads", "7"], ["--heads 7: ", "columns that 7 divides"]),
    ("no heads", nothing, TRAIN + ["--model", "gat", "--heads", "0"], ["--heads", "0", "1"]),
    ("heads without attention", nothing, TRAIN + ["--model", "gcn", "--heads", "4"],
     ["--heads", "gcn has no use for it"]),
    ("root of attention", nothing, TRAIN + ["--model", "gatv2", "--root", "linear"],
     ["--root linear: ", "usual, identity and none"]),
    ("relations of edges without types", nothing, TRAIN + ["--model", "rgcn"],
     ["rgcn", "edge_types.npy", "sage"]),
    ("an unknown aggregator", nothing, TRAIN + ["--model", "sage", "--aggregator", "min"],
     ["--aggregator", "min", "mean,sum,max,softmax,power"]),
    ("an aggregator of gcn", nothing, TRAIN + ["--aggregator", "max"],
     ["--aggregator", "gcn has no use for it"]),
    ("a temperature of means", nothing, TRAIN + ["--model", "sage", "--temperature", "2"],
     ["--temperature", "--aggregator softmax", "mean"]),
    ("a power of 0", nothing,
     TRAIN + ["--model", "sage", "--aggregator", "power", "--aggregator-power", "0"],
     ["aggregator-power 0", "at least 0.001"]),
    ("a power of softmax", nothing,
     TRAIN + ["--model", "sage", "--aggregator", "softmax", "--aggregator-power", "2"],
     ["--aggregator-power", "--aggregator power", "softmax"]),
    ("a trained mean", nothing, TRAIN + ["--model", "sage", "--learn-aggregator", "on"],
     ["learn-aggregator", "mean", "softmax and power"]),
    ("a trained aggregator of gcn", nothing, TRAIN + ["--learn-aggregator", "on"],
     ["--learn-aggregator", "gcn has no use for it"]),
    ("edges without features", nothing, TRAIN + ["--model", "gine"],
     ["gine", "edge_features.npy", "gin"]),
    ("nodes without types", nothing, TRAIN + ["--input-layer", "typed"],
     ["--input-layer typed", "node_types.npy", "linear"]),
    ("root of gine",
     extra_array("edge_features.npy", lambda edges: npy("<f4", [edges, 1], b"\0" * 4 * edges)),
     TRAIN + ["--model", "gine", "--root", "linear"], ["root linear", "identity, epsilon and none"]),
    ("bases without relations", nothing, TRAIN + ["--model", "sage", "--bases", "2"],
     ["--bases", "sage has no use for it"]),
    ("heads without attention", nothing, TRAIN + ["--model", "gine", "--heads", "2"],
     ["--heads", "gine has no use for it"]),
    ("factors of attention without attention", nothing,
     TRAIN + ["--model", "sage", "--attention-norm", "symmetric"],
     ["--attention-norm", "sage has no use for it"]),
    ("unknown factors of attention", nothing,
     TRAIN + ["--model", "gat", "--attention-norm", "both"], ["--attention-norm", "both", "symmetric"]),
    ("scores of edges of another model", nothing, TRAIN + ["--model", "dot", "--edge-scores", "on"],
     ["--edge-scores", "dot has no use for it"]),
    ("scores of edges without features", nothing, TRAIN + ["--model", "gat", "--edge-scores", "on"],
     ["edge-scores", "edge_features.npy"]),
    ("negative bases", nothing, TRAIN + ["--model", "rgcn", "--bases", "-1"], ["--bases", "-1", "0"]),
    ("unknown backend", nothing, TRAIN + ["--backend", "tpu"], ["tpu", "reference", "cpu"]),
    ("unknown exchange", nothing, TRAIN + ["--exchange", "psychic"], ["psychic", "exact"]),
    ("number expected", nothing, TRAIN + ["--lr", "fast"], ["--lr", "fast"]),
    ("number too small", nothing, TRAIN + ["--layers", "0"], ["--layers", "0"]),
    ("dropout of one", nothing, TRAIN + ["--dropout", "1"], ["--dropout", "1"]),
    ("unknown setting of a group", nothing, TRAIN + ["--parameter-groups", "*: rate=1"],
     ["--parameter-groups", "rate=1", "lr", "weight-decay"]),
    ("group that names nothing", nothing, TRAIN + ["--parameter-groups", "head.*: lr=1"],
     ["--parameter-groups", "head.*", "layers.0.weight"]),
    ("setting of a step without steps", nothing, TRAIN + ["--lr-step-factor", "0.3"],
     ["--lr-step-factor 0.3", "--lr-schedule constant", "for --lr-schedule step"]),
    ("epochs of steps without steps", nothing, TRAIN + ["--lr-step-epochs", "20"],
     ["--lr-step-epochs 20", "--lr-schedule constant", "for --lr-schedule step"]),
    ("layers of no decay", nothing, TRAIN + ["--weight-decay-layers", "first"],
     ["--weight-decay-layers first", "--weight-decay 0", "above 0"]),
    ("target above all shares", nothing, TRAIN + ["--target", "7"],
     ["--target 7", "accuracy is at most 1"]),
    ("negative norm", nothing, TRAIN + ["--clip-norm", "-1"], ["--clip-norm", "-1"]),
    ("negative rate", nothing, TRAIN + ["--lr", "-1"], ["--lr", "-1"]),
    ("unknown format", nothing, ["import", "dgl", "x", "--out", "new"], ["dgl", "ogb"]),
    ("unknown generator", nothing, ["generate", "tree", "--out", "new"], ["tree", "sbm", "rmat"]),
    ("zero nodes", nothing, ["generate", "sbm", "--nodes", "0", "--out", "new"], ["0"]),
    ("impossible split", nothing,
     ["generate", "sbm", "--split", "0.9,0.9,0.1", "--out", "new"], ["0.9,0.9,0.1"]),
    ("no output folder", nothing, ["generate", "sbm"], ["--out"]),
    ("existing output folder", existing_out, ["generate", "sbm", "--out", "there"], ["there"]),
    ("unknown split", nothing, TRAIN + ["--split-index", "7"],
     ["--split-index 7: ", "has one split; allowed is 0"]),
    ("unknown split of a cut", nothing, ["partition", "data", "--parts", "2", "--split-index", "1"],
     ["--split-index 1: ", "data has one split; allowed is 0"]),
    ("width of 3 bits", nothing, QUANTIZED + ["--bits", "3"], ["--bits", "3", "2", "4", "adaptive"]),
    ("widths of two of three layers", nothing, QUANTIZED + ["--bits", "8,4"], ["--bits 8,4", "2 widths", "3 layers"]),
    ("width of -8 bits", nothing, QUANTIZED + ["--bits", "-8"], ["--bits"]),
    ("negative lambda", nothing, QUANTIZED + ["--lambda", "-0.1"], ["--lambda", "-0.1", "0 to 1"]),
    ("lambda above 1", nothing, QUANTIZED + ["--lambda", "1.5"], ["--lambda", "1.5", "0 to 1"]),
    ("lambda that is no number", nothing, TRAIN + ["--lambda", "nan"], ["--lambda", "nan", "0 to 1"]),
    ("no epochs between assignments", nothing, QUANTIZED + ["--reassign-every", "0"],
     ["--reassign-every", "0"]),
    ("unknown sensitivity", nothing, QUANTIZED + ["--sensitivity", "high"],
     ["--sensitivity", "high", "variance", "upper-bound"]),
    ("recording of changing widths", nothing, QUANTIZED + ["--cuda-graph", "on", "--reassign-every", "2"],
     ["--cuda-graph on", "adaptive", "--reassign-every 2", "3 epochs or more"]),
    ("comparison of an unknown mode", nothing, COMPARE + ["exact,foo"],
     ["--compare exact,foo", "'foo'", "vanilla", "adaptive"]),
    ("comparison of 3 bits", nothing, COMPARE + ["3"], ["--compare 3", "'3'", "8"]),
    ("comparison of a mode with itself", nothing, COMPARE + ["4,4"],
     ["--compare 4,4", "'4'", "twice"]),
    ("comparison of an empty word", nothing, COMPARE + ["4,,8"], ["--compare 4,,8", "''"]),
    ("comparison with a profile", nothing, COMPARE + ["4", "--profile", "2"],
     ["--profile 2", "--compare"]),
    ("missing calibration", nothing, MEASURED, ["--calibration", "slow.json"]),
    ("calibration that is no JSON", file_of("slow.json", "{"), MEASURED, ["slow.json"]),
    ("calibration of nothing", file_of("slow.json", "{}"), MEASURED,
     ["slow.json", "exchange", "kernel_choices"]),
    ("calibration of two ranks", calibration(lambda exchange: None), MEASURED,
     ["slow.json", "2 parts", "has 1"]),
    ("comparison by a calibration of two ranks", calibration(lambda exchange: None),
     COMPARE + ["adaptive", "--calibration", "slow.json"], ["slow.json", "2 parts", "has 1"]),
    # configuration files
    ("missing TOML", nothing, TRAIN + ["--config", "none.toml"], ["none.toml"]),
    ("two TOML files",
     lambda folder: [write(os.path.join(folder, f"{name}.toml"), "lr = 0.1\n") for name in "ab"],
     TRAIN + ["--config", "a.toml", "--config", "b.toml"],
     ["--config: given twice, as a.toml and b.toml; allowed is one file"]),
    ("TOML syntax", file_of("run.toml", "lr = 0.1\nepochs == 3\n"),
     TRAIN + ["--config", "run.toml"], ["run.toml:2:9", "TOML"]),
    ("TOML key", file_of("run.toml", "epoch = 3\n"), TRAIN + ["--config", "run.toml"],
     ["run.toml:1:1", "'epoch'", "'epochs'"]),
    ("TOML value", file_of("run.toml", "lr = 1\nmodel = 'cheb'\n"),
     ["train", "data", "--config", "run.toml"], ["run.toml:2:9", "cheb", "sage"]),
    ("TOML in UTF-16", file_of("run.toml", "lr = 1\n".encode("utf-16-le").join([b"\xff\xfe", b""])),
     TRAIN + ["--config", "run.toml"], ["run.toml", "UTF-16LE"]),
    ("TOML not UTF-8", file_of("run.toml", b"name = '\xff\xfe'\n"), TRAIN + ["--config", "run.toml"],
     ["run.toml:1"]),
    # import
    ("missing source", nothing, IMPORT, ["ogb"]),
    ("truncated gz", truncated_gz, IMPORT, ["edge.csv.gz"]),
    ("no gz", no_gz, IMPORT, ["edge.csv.gz"]),
    ("edge count", ogb(num_edge_list="9\n"), IMPORT, ["edge.csv.gz", "7", "9"]),
    ("node count", ogb(num_node_list="7\n"), IMPORT, ["6", "7"]),
    ("zero nodes in the source", ogb(num_node_list="0\n"), IMPORT, ["num-node-list", "0"]),
    ("node id out of range", ogb(edge="0,1\n1,6\n" + "0,1\n" * 5), IMPORT,
     ["edge.csv.gz", "2", "6"]),
    ("negative node id", ogb(edge="0,1\n1,-1\n" + "0,1\n" * 5), IMPORT, ["edge.csv.gz", "-1"]),
    ("word for a node id", ogb(edge="0,1\n1,two\n" + "0,1\n" * 5), IMPORT,
     ["edge.csv.gz", "2", "two"]),
    ("not UTF-8", ogb(edge=b"0,1\n1,\xff\xfe\n" + b"0,1\n" * 5), IMPORT, ["edge.csv.gz", "2"]),
    ("edge of three", ogb(edge="0,1\n1,2,3\n" + "0,1\n" * 5), IMPORT, ["edge.csv.gz", "2"]),
    ("NaN feature", ogb(node_feat="1,0\n1,nan\n1,0\n0,1\n0,1\n0,1\n"), IMPORT,
     ["node-feat.csv.gz", "2"]),
    ("ragged features", ogb(node_feat="1,0\n1\n1,0\n0,1\n0,1\n0,1\n"), IMPORT,
     ["node-feat.csv.gz", "2"]),
    ("fractional label", ogb(node_label="0\n0.5\n0\n1\n1\n1\n"), IMPORT,
     ["node-label.csv.gz", "2", "0.5"]),
    ("node in two splits", ogb(valid="1\n3\n"), IMPORT, ["valid.csv.gz", "3", "train"]),
    ("split beyond the nodes", ogb(test="2\n6\n"), IMPORT, ["test.csv.gz", "6"]),
    ("edge list with one column", file_of("g.txt", "0 1\n2\n"),
     ["import", "edges", "g.txt", "--out", "new"], ["g.txt", "2"]),
    ("edge list with a bad weight", file_of("g.txt", "0 1 0.5\n1 2 heavy\n"),
     ["import", "edges", "g.txt", "--out", "new"], ["g.txt", "2", "heavy"]),
    ("edge list beyond --nodes", file_of("g.txt", "0 1\n1 9\n"),
     ["import", "edges", "g.txt", "--nodes", "5", "--out", "new"], ["g.txt", "2", "9"]),
    ("empty edge list", file_of("g.txt", ""), ["import", "edges", "g.txt", "--out", "new"],
     ["g.txt"]),
    ("METIS header and contents", file_of("g.graph", "3 3\n2\n1 3\n2\n"),
     ["import", "metis", "g.graph", "--out", "new"], ["g.graph", "4", "6"]),
    ("METIS node id 0", file_of("g.graph", "2 1\n0\n1\n"),
     ["import", "metis", "g.graph", "--out", "new"], ["g.graph", "2", "0"]),
    ("npy folder without edges", file_of("arrays/labels.npy", npy("<i4", [1], b"\0\0\0\0")),
     ["import", "npy", "arrays", "--out", "new"], ["edge_index.npy"]),
    ("npy edges as text", file_of("arrays/edge_index.npy", npy("<U1", [2, 1], b"\0" * 8)),
     ["import", "npy", "arrays", "--out", "new"], ["edge_index.npy", "U1"]),
    ("npy edges of three rows", file_of("arrays/edge_index.npy", npy("<i8", [3, 1], b"\0" * 24)),
     ["import", "npy", "arrays", "--out", "new"], ["edge_index.npy", "3"]),
    ("npy shape that overflows",
     file_of("arrays/edge_index.npy", npy("<i8", [2, 2**62], b"\0" * 16)),
     ["import", "npy", "arrays", "--out", "new"], ["edge_index.npy"]),
    ("negative relation", typed_arrays(edge_type=npy("<i4", [2], struct.pack("<2i", 0, -1))), ARRAYS,
     ["edge_type.npy", "element 1", "-1", "0 to 65535"]),
    ("relations of other edges", typed_arrays(edge_type=npy("|u1", [3], b"\0" * 3)), ARRAYS,
     ["edge_type.npy", "(3)", "(2)"]),
    ("NaN of an edge", typed_arrays(edge_attr=npy("<f4", [2, 1], b"\0" * 4 + NAN)), ARRAYS,
     ["edge_attr.npy", "edge 1", "nan"]),
    ("negative type of a node", typed_arrays(node_type=npy("<i4", [3], struct.pack("<3i", 0, 0, -9))),
     ARRAYS, ["node_type.npy", "entry 2", "-9"]),
    ("types by two names", typed_arrays(edge_types=npy("|u1", [2], b"\0" * 2)), ARRAYS,
     ["edge_types.npy", "edge_type.npy"]),
    ("reverses without relations", file_of("g.txt", "0 1\n"),
     ["import", "edges", "g.txt", "--reverse-relations", "--out", "new"],
     ["--reverse-relations", "no relations"]),
    ("relation column of arrays", typed_arrays(), ARRAYS + ["--relation-column", "3"],
     ["--relation-column", "edges", "npy"]),
    ("fifth column", file_of("g.txt", "0 1 2\n"),
     ["import", "edges", "g.txt", "--relation-column", "5", "--out", "new"],
     ["--relation-column", "5"]),
    ("relation that is missing", file_of("g.txt", "0 1 2\n1 2\n"),
     ["import", "edges", "g.txt", "--relation-column", "3", "--out", "new"],
     ["g.txt", "line 2", "relation"]),
    ("relation between unknown types", typed_ogb("relations/author___in___city/edge.csv.gz", "0,0\n"),
     TYPED_OGB, ["author___in___city", "author, paper"]),
    ("paper beyond its type", typed_ogb("relations/author___writes___paper/edge.csv.gz", "0,2\n"),
     TYPED_OGB, ["edge.csv.gz", "line 1", "2", "0 to 1"]),
    ("relations that classes don't divide", nothing,
     ["generate", "relational", "--relations", "3", "--classes", "2", "--out", "new"],
     ["--relations 3", "--classes 2"]),
    ("pickle that calls a program",
     lambda folder: [write(os.path.join(folder, f"p/ind.x.{part}"),
                           b"cos\nsystem\n(S'touch hacked'\ntR.")
                     for part in ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")],
     ["import", "planetoid", "p/ind.x", "--out", "new"], ["ind.x"]),
    # dataset folders
    ("no dataset", nothing, ["info", "nowhere"], ["nowhere"]),
    ("dataset.json is no JSON", file_of("data/dataset.json", "{"), ["info", "data"],
     ["dataset.json"]),
    ("dataset.json lacks a field", file_of("data/dataset.json", "{}"), TRAIN, ["dataset.json"]),
    ("wrong node count", lambda folder: edit_json(os.path.join(folder, "data/dataset.json"),
                                                  nodes=300, seal=None), TRAIN, ["200", "30"]),
    ("wrong dtype", as_float64, TRAIN, ["features.npy", "<f8", "<f4"]),
    ("Fortran order", as_fortran, TRAIN, ["features.npy", "ortran"]),
    ("short labels", shorter_labels, TRAIN, ["labels.npy", "199", "200"]),
    ("truncated npy", truncated_npy, TRAIN, ["features.npy"]),
    ("not a npy", file_of("data/labels.npy", "labels"), TRAIN, ["labels.npy"]),
    ("column out of range", npy_data("col_idx.npy", 0, struct.pack("<i", 5000)), TRAIN,
     ["col_idx.npy", "5000", "199"]),
    ("edge types of another length",
     extra_array("edge_types.npy", lambda edges: npy("<i4", [7], b"\0" * 28)), TRAIN,
     ["edge_types.npy", "shape (7)"]),
    ("negative edge type", extra_array("edge_types.npy", types_with(3, -4)), TRAIN,
     ["edge_types.npy", "entry 3", "-4", "0 to 65535"]),
    ("edge type beyond those stated", extra_array("edge_types.npy", types_with(3, 9), relations=2),
     TRAIN, ["edge_types.npy", "9", "0 to 1"]),
    ("fractional edge types",
     extra_array("edge_types.npy", lambda edges: npy("<f4", [edges], b"\0" * 4 * edges)), TRAIN,
     ["edge_types.npy", "<f4", "integers"]),
    ("edge type of one direction only", extra_array("edge_types.npy", types_with(0, 1)), TRAIN,
     ["type", "'directed' must be true"]),
    ("relations without their array", extra_array("note.txt", lambda edges: b"", relations=2),
     TRAIN, ["dataset.json", "relations", "2"]),
    ("NaN among features of edges",
     extra_array("edge_features.npy",
                 lambda edges: npy("<f4", [edges, 1], NAN + b"\0" * 4 * (edges - 1))), TRAIN,
     ["edge_features.npy", "row 0", "nan"]),
    ("features of too few edges",
     extra_array("edge_features.npy", lambda edges: npy("<f4", [3, 1], b"\0" * 12)), TRAIN,
     ["edge_features.npy", "shape (3, 1)"]),
    ("negative node type",
     extra_array("node_types.npy",
                 lambda edges: npy("<i4", [200], struct.pack("<200i", -1, *[0] * 199))), TRAIN,
     ["node_types.npy", "entry 0", "-1"]),
    ("node types of another length",
     extra_array("node_types.npy", lambda edges: npy("|u1", [199], b"\0" * 199)), TRAIN,
     ["node_types.npy", "199", "200"]),
    ("NaN in the features", npy_data("features.npy", 36, NAN), TRAIN, ["features.npy", "nan"]),
    ("asymmetric undirected graph", npy_data("col_idx.npy", 0, struct.pack("<i", 0)), TRAIN,
     ["col_idx.npy", "'directed'"]),
    ("changed since it was written",
     npy_data("features.npy", 0, struct.pack("<f", 42), checksums=True), TRAIN,
     ["features.npy", "checksum"]),
    ("label out of range", npy_data("labels.npy", 0, struct.pack("<i", 77)), TRAIN,
     ["labels.npy", "77"]),
    ("no training node", no_training_node, TRAIN, ["training node"]),
    ("infinite number to predict", numbers_to_predict(math.inf), TRAIN,
     ["labels.npy", "row 3", "inf", "NaN"]),
    # links
    ("links held out into nowhere", nothing, ["split", "data", "--links"], ["--links", "--out"]),
    ("no edge held out", nothing,
     ["split", "data", "--links", "--valid", "1e-9", "--out", "new"], ["--valid", "no edge"]),
    ("no edge left", nothing,
     ["split", "data", "--links", "--valid", "0.5", "--test", "0.5", "--out", "new"],
     ["--valid", "--test", "left"]),
    ("two negatives of an edge", nothing,
     ["split", "data", "--links", "--negatives", "2", "--out", "new"], ["--negatives 2", "3"]),
    ("neither shares nor links", nothing, ["split", "data"], ["--split", "--links"]),
    ("links beside labels", extra_array("links_train.npy", lambda edges: npy("<i8", [0, 2], b"")),
     TRAIN, ["links_valid.npy", "missing"]),
    ("negatives without links", nothing, TRAIN + ["--negatives", "3"],
     ["--negatives", "single-label", "link-prediction"]),
    ("decoder without links", nothing, TRAIN + ["--decoder", "mlp"],
     ["--decoder mlp", "single-label", "link-prediction"]),
    ("layers of no decoder", nothing, TRAIN + ["--decoder-layers", "2"],
     ["--decoder-layers", "--decoder mlp", "dot"]),
    ("no negatives", nothing, TRAIN + ["--negatives", "0"], ["--negatives", "0", "1 to"]),
    ("metric of another task", nothing, TRAIN + ["--metric", "hits@10"],
     ["--metric hits@10", "single-label", "accuracy, f1-macro", "log-loss"]),
    ("no metric", nothing, TRAIN + ["--metric", "f1"], ["'f1' is no metric", "f1-macro", "hits@K"]),
    ("hits at no number", nothing, TRAIN + ["--hits-at", "10,ten"], ["--hits-at", "10,ten", "10,20,50"]),
    ("hits without links", nothing, TRAIN + ["--hits-at", "3"],
     ["--hits-at", "single-label", "link-prediction"]),
    # losses
    ("classes weighted in a regression", numbers_to_predict(0.5),
     TRAIN + ["--class-weights", "balanced"], ["--class-weights", "regression", "single-label"]),
    ("labels smoothed in a regression", numbers_to_predict(0.5),
     TRAIN + ["--label-smoothing", "0.1"], ["--label-smoothing", "regression", "single-label"]),
    ("cross-entropy of numbers", numbers_to_predict(0.5), TRAIN + ["--loss", "cross-entropy"],
     ["--loss", "regression", "mse", "mae"]),
    ("focal loss of numbers", numbers_to_predict(0.5), TRAIN + ["--loss", "focal"],
     ["--loss focal", "regression", "mse", "mae"]),
    ("power of another loss", nothing, TRAIN + ["--focal-gamma", "3"],
     ["--focal-gamma", "--loss focal"]),
    ("squared error of classes", nothing, TRAIN + ["--loss", "mse"],
     ["--loss mse", "single-label", "cross-entropy"]),
    ("unknown loss", nothing, TRAIN + ["--loss", "hinge"], ["--loss", "hinge", "mae"]),
    ("all of a label smoothed away", nothing, TRAIN + ["--label-smoothing", "1"],
     ["--label-smoothing", "1", "0.999"]),
    ("no file of class weights", nothing, TRAIN + ["--class-weights", "nowhere.npy"],
     ["nowhere.npy"]),
    ("class weights for other classes",
     file_of("w.npy", npy("<f4", [3], struct.pack("<3f", 1, 1, 1))),
     TRAIN + ["--class-weights", "w.npy"], ["w.npy", "3", "4"]),
    ("negative class weight", file_of("w.npy", npy("<f8", [4], struct.pack("<4d", 1, -2, 1, 1))),
     TRAIN + ["--class-weights", "w.npy"], ["w.npy", "-2", "class 1", "0 or more"]),
    ("class weights that are whole numbers", file_of("w.npy", npy("<i4", [4], b"\0" * 16)),
     TRAIN + ["--class-weights", "w.npy"], ["w.npy", "<i4", "<f4"]),
    ("no class has a weight", file_of("w.npy", npy("<f4", [4], b"\0" * 16)),
     TRAIN + ["--class-weights", "w.npy"], ["--class-weights", "weight 0"]),
    # partitions
    ("more parts than nodes", nothing, ["partition", "data", "--parts", "201"], ["201", "200"]),
    ("zero parts", nothing, ["partition", "data", "--parts", "0"], ["0"]),
    ("weights for other parts", nothing,
     ["partition", "data", "--parts", "3", "--weights", "1,2"], ["--weights", "2", "3"]),
    ("weights that no float holds", nothing,
     ["partition", "data", "--parts", "2", "--weights", "1e300,1"], ["--weights", "1e+300", "1000000"]),
    ("islands for other parts", nothing,
     ["partition", "data", "--parts", "3", "--islands", "2,2"], ["--islands", "2,2", "sum to 3"]),
    ("a part twice", nothing,
     ["partition", "data", "--parts", "3", "--part-order", "0,2,2"], ["--part-order", "2", "twice"]),
    ("an order of too few parts", nothing,
     ["partition", "data", "--parts", "3", "--part-order", "0"],
     ["--part-order: 1 number for 3 parts; allowed is each of 0 to 2 once"]),
    ("a part that is no number", nothing, TRAIN + ["--part-order", "a,0"],
     ["--part-order: value a", "a whole number from 0 to 4095"]),
    ("an island that is no number", nothing, TRAIN + ["--islands", "2,x"],
     ["--islands: value x", "a whole number from 1 to 4096"]),
    ("a share that is no number", nothing, TRAIN + ["--weights", "1,-1"],
     ["--weights: value -1", "a number above 0"]),
    ("negative marginal cost", nothing,
     ["partition", "data", "--parts", "3", "--marginal-cost", "-1"], ["--marginal-cost", "-1"]),
    ("unknown method", nothing, ["partition", "data", "--parts", "2", "--method", "kahip"],
     ["kahip", "auto", "metis", "communities", "random", "contiguous", "file"]),
    # runs
    ("run folder in use", finished_run, TRAIN[:-1] + ["run"], ["run", "--resume"]),
    ("nothing to resume in a folder of others", lambda folder: write(
        os.path.join(folder, "new-run", "notes.txt"), "mine"), TRAIN + ["--resume"],
     ["new-run", "notes.txt"]),
    ("run folder is a dataset", nothing, TRAIN[:-1] + ["data"], ["data", "dataset folder"]),
    ("weights that overflow", nothing, ["train", "data", "--run-dir", "none", "--epochs", "1",
                                        "--hidden", "4", "--lr", "1e38"], ["epoch 1", "inf", "--lr"], 1),
    ("edited under its partition", edited_after_partition, TRAIN, ["features.npy", "checksum"]),
    ("trace without a run folder", nothing, ["train", "data", "--trace", "--run-dir", "none"],
     ["--run-dir"]),
    ("rate that is no number", nothing, ["train", "data", "--lr", "nan"], ["--lr", "nan", "above 0"]),
    ("negative seed", nothing, ["train", "data", "--seed", "-1"], ["--seed", "-1", "0 to"]),
    ("prediction into a folder", finished_run, ["predict", "run", "data", "--out", "."],
     ["--out", "file"]),
    ("bench figures into nowhere", nothing, ["bench", "data", "--out", "nowhere/b.json"],
     ["--out", "nowhere"]),
    ("prediction of no run", nothing, ["predict", "nowhere", "data", "--out", "new.npy"],
     ["nowhere"]),
    ("prediction by a damaged model", damaged_model, ["predict", "run", "data", "--out", "new.npy"],
     ["model.safetensors"]),
    ("prediction of an unknown kind", finished_run,
     ["predict", "run", "data", "--what", "futures", "--out", "new.npy"],
     ["futures", "labels", "embeddings"]),
    ("prediction on another graph", other_features,
     ["predict", "run", "other", "--out", "new.npy"], ["8", "5"]),
    ("bench of nothing", nothing, ["bench", "nowhere"], ["nowhere"]),
    ("merge of no run", nothing, ["trace", "merge", "nowhere"], ["nowhere", "trace.json"]),
    ("merge of a run without a trace", finished_run, ["trace", "merge", "run"], ["trace.json"]),
    ("merge of a trace that is no JSON", file_of("run/trace.json", "{"), ["trace", "merge", "run"],
     ["trace.json", "byte"]),
    ("merge of somebody else's trace", file_of("run/trace.json", '{"traceEvents": []}'),
     ["trace", "merge", "run"], ["trace.json", "no trace of atoll train --trace"]),
    ("merge of a trace with a bad span",
     traced_run(lambda trace: trace["traceEvents"][-1].update(dur=-1)), ["trace", "merge", "run"],
     ["trace.json: event ", "'dur' is -1"]),
    ("merge of a trace that lacks a packet", traced_run(lose_a_packet), ["trace", "merge", "run"],
     ["trace.json: epoch 1, layer ", "damaged"]),
    ("merge of a trace whose clock was set", traced_run(reverse_time), ["trace", "merge", "run"],
     ["trace.json: the clock of host ", "contradicts itself"]),
    ("merge of an epoch that was not traced", traced_run(lambda trace: None),
     ["trace", "merge", "run", "--epoch", "9"], ["no epoch 9", "1 to 2"]),
    ("merge to nowhere", traced_run(lambda trace: None),
     ["trace", "merge", "run", "--out", "nowhere/t.json"], ["--out", "nowhere"]),
    ("trace of an unknown kind", nothing, ["trace", "mege", "run"], ["mege", "merge"]),
    ("negative epoch", nothing, ["trace", "merge", "run", "--epoch", "-1"], ["--epoch", "-1"]),
    ("report of no run", nothing, ["report", "nowhere", "--out", "new.html"], ["nowhere"]),
    ("report of garbled metrics", garbled_metrics, ["report", "run", "--out", "new.html"],
     ["metrics.jsonl:2"]),
    # topology files
    ("missing topology", nothing, SHOW, ["t.json"]),
    ("topology that is no JSON", file_of("t.json", '{"format": 1,'), SHOW, ["t.json", "byte 14"]),
    ("topology that is a list", file_of("t.json", "[1]"), SHOW, ["t.json", "[1]", "hosts"]),
    ("topology with a number beyond doubles", file_of("t.json", '{"format": 1e999}'), SHOW,
     ["t.json"]),
    ("topology of another format", topology(lambda t: t.update(format=2)), SHOW,
     ["t.json", "'format' is 2", "allowed are 1"]),
    ("topology with a misspelt field", topology(lambda t: t["ranks"][0].update(memory=4)), SHOW,
     ["t.json", "ranks[0]", "'memory'", "memory_gib"]),
    ("topology that lacks a field", topology(lambda t: t["ranks"][1].pop("memory_gib")), SHOW,
     ["t.json", "ranks[1]", "'memory_gib' is missing"]),
    ("topology with memory of words", topology(lambda t: t["ranks"][1].update(memory_gib="4 GB")),
     SHOW, ["t.json", "ranks[1]", "\"4 GB\"", "above 0"]),
    ("topology without memory", topology(lambda t: t["ranks"][1].update(memory_gib=0)), SHOW,
     ["t.json", "ranks[1]", "'memory_gib' is 0", "above 0"]),
    ("topology with a NaN", topology(lambda t: t["ranks"][1].update(memory_gib=float("nan"))),
     SHOW, ["t.json", "not valid JSON"]),
    ("topology with a rate at no columns", topology(lambda t: t["ranks"][0].update(
        spmm_gb_per_s={"0": 4})), SHOW, ["t.json", "ranks[0].spmm_gb_per_s", "'0'", "from 1"]),
    ("topology with a dead card", topology(lambda t: t["hosts"][1].update(send_mbit_per_s=0)),
     SHOW, ["t.json", "hosts[1]", "'send_mbit_per_s' is 0", "null for no limit"]),
    ("topology with a dead link", topology(lambda t: t["links"]["between_hosts"].update(
        gbit_per_s=0)), SHOW, ["t.json", "links.between_hosts", "'gbit_per_s' is 0", "above 0"]),
    ("topology in two pieces", topology(lambda t: t["links"].pop("between_hosts")), SHOW,
     ["t.json", "rank 0 to rank 1", "'between_hosts'"]),
    ("topology with an idle host", topology(lambda t: t["hosts"].append({"name": "c"})), SHOW,
     ["t.json", "'c' has no rank"]),
    ("topology with an unknown host", topology(lambda t: t["ranks"][0].update(host="x")), SHOW,
     ["t.json", "ranks[0]", "\"x\"", "a, b"]),
    ("topology with too many ranks", topology(lambda t: t["ranks"][0].update(count=10**9)), SHOW,
     ["t.json", "ranks[0]", "1000000000", "1 to 4096"]),
]

# The same under mpirun -n 2: here every rank sees the error or is told of it.
MPI_CASES = [case for case in CASES if case[0] in (
    "unknown model", "TOML key", "no dataset", "wrong dtype", "column out of range",
    "no training node", "truncated npy", "run folder in use",
    "nothing to resume in a folder of others")] + [
    ("missing dataset", nothing, ["train", "nowhere"], ["nowhere"]),
    ("partition of another dataset", changed_under_partition, TRAIN, ["checksum"]),
    ("damaged shard of rank 1", damaged_shard, TRAIN, ["part-1"]),
    ("calibration without a link", calibration(lambda exchange: exchange["links"].pop()), MEASURED,
     ["slow.json", "from rank 1 to rank 0"]),
    ("calibration with a negative time",
     calibration(lambda exchange: exchange["links"][0].update(gamma_s=-1)), MEASURED,
     ["slow.json", "'gamma_s' is -1", "at least 0"]),
    ("weights that overflow in messages", nothing,
     ["train", "data", "--epochs", "3", "--hidden", "4", "--lr", "1e30", "--exchange", "quantized",
      "--bits", "4", "--eval-every", "0", "--run-dir", "none"], ["layer ", "messages", "node ", " on rank ", "--lr"], 1),
]


def full_disk(folder):
    """A file system of 64 KiB at folder/full; None if this user may not mount one."""
    path = os.path.join(folder, "full")
    os.mkdir(path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path],
                             capture_output=True, check=False)
    return path if mounted.returncode == 0 else None


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Workplace()
        cls.original = cls.place.__enter__()
        cls.addClassCleanup(cls.place.cleanup)

    def check(self, case, ranks):
        name, setup, command, expected, code = [*case, 2][:5]
        with self.subTest(name, ranks=ranks), tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(self.original, "data"), os.path.join(folder, "data"))
            setup(folder)
            before = list_tree(folder)
            result = run(command, folder, ranks)
            self.assertEqual(result.returncode, code, result.stderr + result.stdout)
            self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
            message = result.stderr[result.stderr.index("atoll: error:"):]
            for part in expected:
                self.assertIn(part, message)
            # A correct partition may stay: it is complete, and the next run can use it.
            after = {entry for entry in list_tree(folder) - before if "/parts" not in
                     (entry if isinstance(entry, str) else entry[0])}
            self.assertEqual(after, set(), "left behind")

    def test_one_process(self):
        self.assertGreaterEqual(len(CASES), 30)
        for case in CASES:
            self.check(case, ranks=0)

    def test_under_mpirun(self):
        for case in MPI_CASES:
            self.check(case, ranks=2)

    def test_unreadable_file(self):
        if os.geteuid() == 0:
            self.skipTest("root reads everything")
        self.check(("unreadable", lambda folder: os.chmod(
            os.path.join(folder, "data/col_idx.npy"), 0), TRAIN, ["col_idx.npy"]), ranks=0)

    def test_full_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            full = full_disk(folder)
            if full is None:
                self.skipTest("this user may not mount a small file system")
            try:
                result = run(["generate", "sbm", "--out", os.path.join(full, "data")], folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("full", result.stderr)
                self.assertRegex(result.stderr, "(?i)no space")
                self.assertEqual(os.listdir(full), [])
            finally:
                subprocess.run(["umount", full], check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
