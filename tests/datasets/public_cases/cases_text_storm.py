"""Mutated edge lists, tables of nodes and matrices of SciPy. Whatever is accepted without a warning
must have the values that a plain reading in Python finds; everything else must be refused by an
error that names the file. 200 inputs; the seed makes others (ATOLL_STORM_SEED)."""

import csv
import io
import os
import pathlib
import random
import re
import shutil
import unittest
import zipfile

import numpy as np

from support import Case, Folder

COUNT = 200
WORDS = ["-1", "0", "7", "1.5", "nan", "99999999999999999999", ",", ";", "\t", " ", '"', "'", "{",
         "}", "#", "%", "\n", "\r", "\r\n", "\0", "\xe9", "a", "1e+05", "0x1", "TRUE", "-", "+", "."]


def mutated(data, draw):
    """The bytes with one to three small edits."""
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at:at] = draw.choice(WORDS).encode("latin-1")
        elif kind == 2:
            del data[at:at + draw.randint(1, 6)]
        elif kind == 3:
            begin = draw.randrange(len(data) + 1)
            data[at:at] = data[begin:begin + draw.randint(1, 12)]
        else:
            word = draw.choice(WORDS).encode("latin-1")
            data[at:at + len(word)] = word
    return bytes(data)


def lines_of(data):
    """The lines that are not passed over."""
    lines = (line.removesuffix("\r") for line in data.decode("utf-8-sig", "surrogateescape").split("\n"))
    return [line for line in lines if line.strip(" \t") and line.strip(" \t")[0] not in "#%"]


def fields_of(line, separator):
    line = line.replace("\r", " ")  # which csv refuses within a line
    if separator is None:
        line = re.sub(r"[ \t]*(,|[ \t])[ \t]*", ",", line.strip(" \t"))
        separator = ","
    return [field.strip() for field in next(csv.reader(io.StringIO(line), delimiter=separator,
                                                       skipinitialspace=True))]


def rows_below_names(data, separator):
    """Without the first line if it names columns, which a mutation may have made a comment."""
    rows = [fields_of(line, separator) for line in lines_of(data)]
    return rows[any(field[:1].isalpha() for field in rows[0]):]


def number(text):
    if not re.fullmatch(r"-?\d*\.?\d*(e[+-]?\d+)?", text.replace(",", ".")):
        raise ValueError(text)
    return float(text.replace(",", "."))


def whole(text):
    value = number(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


def plain_edges(data, separator):
    """{(source, target): weight}, or an exception."""
    edges = {}
    for fields in rows_below_names(data, separator):
        if len(fields) not in (2, 3):
            raise ValueError(fields)
        pair = whole(fields[0]), whole(fields[1])
        weight = number(fields[2]) if len(fields) == 3 else None
        if pair[0] != pair[1]:  # an edge that occurs twice has the sum of the weights, if any
            edges[pair] = 1.0 if weight is None else edges.get(pair, 0) + weight
    return edges


def attribute_edges(data):
    edges = {}
    for line in lines_of(data):
        source, target, rest = re.fullmatch(r"\s*(\S+?)[\s,]+(\S+?)[\s,]+(\{.*\})\s*", line).groups()
        weight = re.search(r"""['"]weight['"]: *([^ ,}]*)[ ,}]""", rest)
        pair = whole(source), whole(target)
        if pair[0] != pair[1]:
            edges[pair] = edges.get(pair, 0) + (float(weight.group(1)) if weight else 1.0)
    return edges


def stored_edges(folder):
    """The same of a dataset."""
    weights = folder.edge_weights
    targets = np.repeat(np.arange(len(folder.row_ptr) - 1), np.diff(folder.row_ptr))
    weights = np.ones(len(targets)) if weights is None else weights
    return {(int(s), int(t)): float(w) for s, t, w in zip(folder.col_idx, targets, weights)}


def same(first, second):
    return first.keys() == second.keys() and all(
        np.isclose(first[key], second[key], rtol=1e-6, atol=1e-30) for key in first)


class Storm(Case):
    EDGES = b"0,1\n1,2\n2,3\n3,0\n"

    def texts(self):
        """(file to mutate, other files, options, what a plain reading finds, what was stored)"""
        def labels(data):
            rows = rows_below_names(data, None)
            found = {whole(row[0]): number(row[1]) if row[1] else -1 for row in rows if len(row) == 2}
            if len(found) != len(rows):
                raise ValueError(rows)
            return {node: label for node, label in found.items() if label != -1}

        def features(data):
            rows = [[number(field) for field in row] for row in rows_below_names(data, ";")]
            return {(i, j): value for i, row in enumerate(rows) for j, value in enumerate(row)}

        def named(data):
            rows = [line.split("\t") for line in lines_of(data)]
            rows = rows[rows[0][0] == "source" or rows[0][1:] == ["target"]:]  # else names of nodes
            if any(len(row) != 2 or not all(row) for row in rows):
                raise ValueError(rows)
            return {(a.strip(" "), b.strip(" ")): 1.0 for a, b in rows if a.strip(" ") != b.strip(" ")}

        def stored_names(folder):
            ids = pathlib.Path(folder.path, "node_ids.txt").read_text("utf-8").split("\n")[:-1]
            return {(ids[s], ids[t]): w for (s, t), w in stored_edges(folder).items()}

        return [
            ("edges.csv", b"source,target\n0,1\n1,2\n2,0\n3,1\n", {}, [],
             lambda data: plain_edges(data, None), stored_edges),
            ("edges.csv", b'"from";"to";"weight"\n0;1;0,5\n"1";2;1,25\n2;3;2\n', {}, [],
             lambda data: plain_edges(data, ";"), stored_edges),
            ("edges.txt", b"0 1 2.5\n1.0 2 1\n2 0 3\n", {}, [],
             lambda data: plain_edges(data, None), stored_edges),
            ("edges.edgelist", b"0 1 {'weight': 0.5}\n1 2 {'weight': 2.0}\n2 0 {'weight': 1}\n", {},
             [], attribute_edges, stored_edges),
            ("edges.tsv", b"source\ttarget\nann\tbob b\nbob b\t12\n12\tann\n", {}, ["--renumber"],
             named, stored_names),
            ("labels.csv", b"id,label\n0,1\n2,0\n3,2\n1,\n", {"edges.csv": self.EDGES}, [], labels,
             lambda folder: {i: float(v) for i, v in enumerate(folder.labels)
                             if v != -1 and not np.isnan(v)}),
            ("features.csv", b"a;b\n1;2,5\n3;4\n1;6\n7;8\n", {"edges.csv": self.EDGES}, [], features,
             lambda folder: {(i, j): float(v) for (i, j), v in np.ndenumerate(folder.features)}),
        ]

    def test_text(self):
        draw = random.Random(int(os.environ.get("ATOLL_STORM_SEED", "1")))
        kinds = self.texts()
        accepted = 0
        for k in range(COUNT * 7 // 8):
            name, content, others, words, plain, stored = kinds[k % len(kinds)]
            data = mutated(content, draw) if k >= len(kinds) else content
            accepted += self.check("set", name, {**others, name: data}, ["edges", "set", *words],
                                   lambda: plain(data), stored, must_pass=k < len(kinds))
        self.assertGreater(accepted, COUNT // 10)

    def test_matrices(self):
        draw = random.Random(int(os.environ.get("ATOLL_STORM_SEED", "1")))
        arrays = {"indptr": np.array([0, 1, 2, 4], np.int32),
                  "indices": np.array([1, 2, 0, 1], np.int32), "format": np.array(b"csr"),
                  "shape": np.array([3, 3]), "data": np.array([1.0, 2, 1, 4])}
        np.savez("whole.npz", **arrays)
        with zipfile.ZipFile("whole.npz") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}

        def plain():
            with np.load("set/graph.npz") as file:
                indptr, indices, data = file["indptr"], file["indices"], file["data"]
                ends, edges = indptr.astype(np.int64), {}
                assert (file["format"].item(), file["shape"].tolist()) == (b"csr", [len(ends) - 1] * 2)
                assert len(indices) == len(data) == ends[-1] and ends[0] == 0
                for i in range(len(ends) - 1):
                    for e in range(ends[i], ends[i + 1]):
                        pair = i, whole(str(indices[e]))
                        if pair[0] != pair[1]:
                            edges[pair] = edges.get(pair, 0) + float(data[e])
                return edges

        for k in range(COUNT // 8):
            changed = dict(members)
            if k > 0:
                name = draw.choice(sorted(members))
                changed[name] = mutated(members[name], draw)
            shutil.rmtree("set", ignore_errors=True)
            os.mkdir("set")
            with zipfile.ZipFile("set/graph.npz", "w") as archive:
                for name, content in changed.items():
                    archive.writestr(name, content)
            self.check("set", "graph.npz", {}, ["npy", "set/graph.npz"], plain, stored_edges,
                       must_pass=k == 0)

    def check(self, folder, name, files, words, plain, stored, must_pass):
        """Imports it; whether it was accepted."""
        if files:
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
        for file, content in files.items():
            pathlib.Path(folder, file).write_bytes(content)
        shown = files.get(name, b"")
        shutil.rmtree("new", ignore_errors=True)
        result = self.atoll("import", *words, "--directed", "--out", "new")
        if result.returncode != 0:
            self.assertEqual(result.returncode, 2, (shown, self.output))
            self.assertFalse(must_pass, (shown, self.output))
            self.assertIn("atoll: error: ", result.stderr)
            self.assertIn(folder, result.stderr.split("atoll: error: ")[1], (shown, self.output))
            self.assertFalse(os.path.exists("new"))
            return False
        self.succeed("info", "new", "--validate")
        said = any("warning" in line and " no edge" not in line or "words become numbers" in line
                   for line in result.stderr.splitlines())
        try:
            expected = plain()
        except Exception as error:
            self.assertTrue(said, f"{shown} was accepted, a plain reading fails: {error!r}")
            return True
        found = stored(Folder("new"))
        self.assertTrue(said or same(expected, found), f"{shown}: {expected} and {found}")
        return True


if __name__ == "__main__":
    unittest.main()
