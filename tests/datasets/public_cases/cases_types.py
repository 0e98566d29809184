"""Types of nodes with different numbers of features, as in ogbn-mag, where only papers have some:
from OGB's files, from arrays by type, and from a HeteroData."""

import gzip
import json
import os
import types
import unittest

import numpy as np

import atoll
from cases_proteins import write_text
from support import Case

COUNTS = {"author": 30, "field": 6, "paper": 60}
WIDTHS = {"author": 3, "field": 0, "paper": 8}
FIRST = {"author": 0, "field": 30, "paper": 36}
RELATIONS = {("author", "writes", "paper"): 150, ("paper", "cites", "paper"): 150,
             ("paper", "has", "field"): 60}
TRAIN = ["--model", "sage", "--input-layer", "typed", "--layers", 2, "--hidden", 16, "--dropout", 0,
         "--threads", 1, "--lr", .02]


def graph(seed=0):
    """Arrays by type: "features" and "edges" by name, "labels" of papers, which follow from those
    of papers and authors."""
    random = np.random.default_rng(seed)
    features = {name: random.normal(size=(COUNTS[name], width)).astype(np.float32)
                for name, width in WIDTHS.items() if width}
    edges = {relation: np.stack([random.integers(0, COUNTS[relation[0]], count),
                                 random.integers(0, COUNTS[relation[2]], count)])
             for relation, count in RELATIONS.items()}
    labels = (features["paper"][:, 0] > 0).astype(np.int64) + (features["paper"][:, 1] > 0)
    return {"features": features, "edges": edges, "labels": labels}


def whole(data):
    """The same with nodes one type after the other, as arrays by PyTorch Geometric's names, and the
    features padded with zeros."""
    names = list(COUNTS)
    x = np.zeros((sum(COUNTS.values()), max(WIDTHS.values())), np.float32)
    for name, rows in data["features"].items():
        x[FIRST[name]:FIRST[name] + COUNTS[name], :rows.shape[1]] = rows
    edges = [pairs + np.array([[FIRST[kind[0]]], [FIRST[kind[2]]]])
             for kind, pairs in data["edges"].items()]
    y = np.full(len(x), -1)
    y[FIRST["paper"]:] = data["labels"]
    ids = np.arange(len(x))
    paper = ids >= FIRST["paper"]
    return {"edge_index": np.concatenate(edges, axis=1), "x": x, "y": y,
            "edge_type": np.repeat(np.arange(len(edges)), [len(e[0]) for e in edges]),
            "node_type": np.repeat(np.arange(len(names)), list(COUNTS.values())),
            "train_mask": paper & (ids % 3 == 0), "val_mask": paper & (ids % 3 == 1),
            "test_mask": paper & (ids % 3 == 2)}


def by_type(arrays):
    """Instead of x, an array for each type that has features."""
    given = {key: value for key, value in arrays.items() if key != "x"}
    for kind, (name, width) in enumerate(WIDTHS.items()):
        if width:
            given[f"x_{kind}"] = arrays["x"][arrays["node_type"] == kind, :width]
    return given


def write_mag(folder, data):
    """The folder of ogbn-mag. Its relations are numbered by their names."""
    raw = f"{folder}/raw"
    os.makedirs(raw)
    with gzip.open(f"{raw}/num-node-dict.csv.gz", "wt") as file:
        file.write(",".join(COUNTS) + "\n" + ",".join(map(str, COUNTS.values())) + "\n")
    for kind, pairs in data["edges"].items():
        write_text(f"{raw}/relations/{'___'.join(kind)}/edge.csv.gz", pairs.T)
    for name, rows in data["features"].items():
        write_text(f"{raw}/node-feat/{name}/node-feat.csv.gz", rows)
    write_text(f"{raw}/node-label/paper/node-label.csv.gz", data["labels"])
    ids = np.arange(COUNTS["paper"])
    for value, name in enumerate(("train", "valid", "test")):
        write_text(f"{folder}/split/time/paper/{name}.csv.gz",
                   ids[(ids + FIRST["paper"]) % 3 == value])
    return folder


def hetero(data):
    """The attributes that a HeteroData offers."""
    ids = np.arange(COUNTS["paper"]) + FIRST["paper"]
    stores = {name: types.SimpleNamespace(num_nodes=count) for name, count in COUNTS.items()}
    for name, rows in data["features"].items():
        stores[name].x = rows
    paper = stores["paper"]
    paper.y = data["labels"]
    for value, name in enumerate(("train_mask", "val_mask", "test_mask")):
        setattr(paper, name, ids % 3 == value)
    stores.update({kind: types.SimpleNamespace(edge_index=pairs)
                   for kind, pairs in data["edges"].items()})

    class Graph:
        node_types, edge_types = list(COUNTS), list(RELATIONS)

        def __getitem__(self, key):
            return stores[key]

    return Graph()


class Types(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = graph()
        cls.arrays = whole(cls.data)

    def check(self, made):
        np.testing.assert_allclose(made.features, self.arrays["x"], atol=1e-6)
        np.testing.assert_array_equal(made.node_types, self.arrays["node_type"])
        np.testing.assert_array_equal(made.labels, self.arrays["y"])
        self.assertEqual(made.fields["features_by_type"], list(WIDTHS.values()))

    def test_ogb_and_what_padding_costs(self):
        made = self.make("ogb", write_mag("mag", self.data))
        self.check(made)
        cost = ("3, 0, 8; 8 columns are stored for each node: 3.00 KiB, of which 792 B are zeros")
        self.assertIn(f"features by type of nodes: {cost}", self.output)
        self.assertIn(cost, self.succeed("info", "data"))

    def test_arrays_by_type(self):
        given = by_type(self.arrays)
        np.savez("mine.npz", **given)
        self.check(self.make("npy", "mine.npz", out="archive"))
        self.assertNotIn("not read", self.warned)
        folder = self.save("set", **given)
        made = self.make("npy", folder, out="folder")
        self.check(made)
        x = [given.get(f"x_{kind}") for kind in range(3)]
        given = {key: value for key, value in given.items() if not key.startswith("x_")}
        self.assert_same(made, self.python(atoll.Dataset.from_arrays, x=x, **given))
        x = {kind: rows for kind, rows in enumerate(x) if rows is not None}
        self.assert_same(made, self.python(atoll.Dataset.from_arrays, x=x, **given))

    def test_mixed_order_of_types(self):
        """Rows belong to the nodes of a type in ascending order, wherever those are."""
        order = np.random.default_rng(1).permutation(len(self.arrays["x"]))
        place = np.argsort(order)
        mixed = {key: value[order] if len(value) == len(order) else value
                 for key, value in self.arrays.items()}
        mixed["edge_index"] = place[self.arrays["edge_index"]]
        np.savez("mine.npz", **by_type(mixed))
        made = self.make("npy", "mine.npz")
        np.testing.assert_array_equal(made.features, mixed["x"])

    def test_hetero_data(self):
        made = self.python(atoll.Dataset.from_pyg, hetero(self.data))
        self.check(made)
        np.savez("mine.npz", **by_type(self.arrays))
        self.assert_same(self.make("npy", "mine.npz"), made)

    def test_all_types_alike(self):
        """Then nothing is padded."""
        given = by_type({**self.arrays, "x": self.arrays["x"][:, :3]})
        given["x_1"], given["x_2"] = np.ones((COUNTS["field"], 3)), given["x_2"][:, :3]
        np.savez("mine.npz", **given)
        made = self.make("npy", "mine.npz")
        self.assertNotIn("features_by_type", made.fields)
        self.assertEqual(made.features.shape[1], 3)

    def test_refusals(self):
        given = by_type(self.arrays)
        for change, says in (
                ({"node_type": None}, "x_0 is there, but neither node_types nor node_type"),
                ({"x": self.arrays["x"]}, "x_0 and features of all nodes are there"),
                ({"features_0": given["x_0"]}, "features_0 and x_0 are there; keep one"),
                ({"x_2": given["x_2"][:-1]}, "59, 8")):
            arrays = {key: value for key, value in {**given, **change}.items()
                      if value is not None}
            np.savez("mine.npz", **arrays)
            self.refuse("import", "npy", "mine.npz", "--out", "data", says=says)
        kept = {key: value for key, value in given.items() if not key.startswith("x_")}
        self.python_refuses(atoll.Dataset.from_arrays, x={0: given["x_0"][1:]}, **kept,
                            says="x[0]: it has 29 rows, but there are 30 nodes of type 0")
        self.python_refuses(atoll.Dataset.from_arrays, x={3: given["x_0"]}, **kept,
                            says="x: it has features of type 3; node_type has the types 0 to 2")
        del kept["node_type"]
        self.python_refuses(atoll.Dataset.from_arrays, x={0: given["x_0"]}, **kept,
                            says="x: features by type need node_type")

    def test_widths_edited_by_hand(self):
        np.savez("mine.npz", **by_type(self.arrays))
        made = self.make("npy", "mine.npz")
        file = os.path.join(made.path, "dataset.json")
        for widths, says in (([3, 8], "has 2 numbers; allowed is one per type of nodes, 3"),
                             ([3, 0, 9], "holds 9; allowed are 0 to 8"),
                             ([3, 0, 7], "the largest of 'features_by_type' is 7, but there are 8"),
                             ([2, 0, 8], "feature 2 of node 0 is")):
            fields = {key: value for key, value in made.fields.items() if key != "seal"}
            with open(file, "w", encoding="utf-8") as text:
                json.dump({**fields, "features_by_type": widths}, text)
            self.refuse("info", "data", "--validate", says=says)

    def losses(self, run):
        with open(f"{run}/metrics.jsonl", encoding="utf-8") as lines:
            return np.array([json.loads(line)["loss"] for line in lines])

    def test_trained_on_any_number_of_ranks(self):
        """A weight per type of its own height; the same losses on 1 and 3 ranks, resumed, and of
        zeros that are there without the widths being known."""
        self.make("ogb", write_mag("mag", self.data))
        self.succeed("train", "data", *TRAIN, "--epochs", 20, "--run-dir", "one")
        self.succeed("train", "data", *TRAIN, "--epochs", 20, "--ranks", 3, "--run-dir", "three")
        np.testing.assert_allclose(self.losses("three"), self.losses("one"), rtol=1e-4)
        self.succeed("train", "data", *TRAIN, "--epochs", 10, "--ranks", 2, "--run-dir", "two")
        self.succeed("train", "data", *TRAIN, "--epochs", 20, "--ranks", 2, "--run-dir", "two",
                     "--resume")
        np.testing.assert_allclose(self.losses("two"), self.losses("one"), rtol=1e-4)
        self.assertLess(self.losses("one")[-1], self.losses("one")[0] / 2)
        weights = self.weights("one/model.safetensors")
        self.assertEqual(weights["input.weight"].shape, (3 + 0 + 8, 16))
        self.assertEqual(weights["input.bias"].shape, (3, 16))
        self.succeed("predict", "one", "data", "--what", "logits", "--out", "a.npy")
        self.succeed("predict", "three", "data", "--what", "logits", "--out", "b.npy")
        np.testing.assert_allclose(np.load("b.npy"), np.load("a.npy"), atol=1e-3)

    def weights(self, path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
            data = file.read()
        header.pop("__metadata__", None)
        return {name: np.frombuffer(data[slice(*of["data_offsets"])], np.float32).reshape(
            of["shape"]) for name, of in header.items() if of["dtype"] == "F32"}

    def test_export_and_back(self):
        """HeteroLinear has equally many rows for each type, the others 0."""
        self.make("ogb", write_mag("mag", self.data))
        self.succeed("train", "data", *TRAIN, "--epochs", 2, "--run-dir", "run")
        self.succeed("export", "run", "--to", "pyg", "--out", "pyg")
        own = self.weights("run/model.safetensors")["input.weight"]
        theirs = self.weights("pyg/model.safetensors")["input.weight"]
        self.assertEqual(theirs.shape, (3, 8, 16))
        np.testing.assert_array_equal(theirs[0], np.pad(own[:3], ((0, 5), (0, 0))))
        np.testing.assert_array_equal(theirs[1], np.zeros((8, 16)))
        np.testing.assert_array_equal(theirs[2], own[3:])
        with open("pyg/model.json", encoding="utf-8") as text:
            described = json.load(text)
        self.assertEqual((described["features"], described["node-types"]), (8, 3))
        self.assertEqual(described["input"], {"columns": 16, "activation": "relu", "dropout": 0.0,
                                              "typed": True})
        self.succeed("train", "data", *TRAIN[:-2], "--epochs", 1, "--lr", 1e-9, "--init",
                     "pyg/model.safetensors", "--run-dir", "again")
        np.testing.assert_allclose(self.weights("again/model.safetensors")["input.weight"], own,
                                   atol=1e-6)

    def test_another_dataset(self):
        self.make("ogb", write_mag("mag", self.data))
        self.succeed("train", "data", *TRAIN, "--epochs", 1, "--run-dir", "run")
        np.savez("mine.npz", **self.arrays)
        self.make("npy", "mine.npz", out="padded")
        self.refuse("predict", "run", "padded", "--out", "labels.npy",
                    says="its types of nodes have equally many features, the model in "
                         "run/model.safetensors needs 3, 0, 8")

    def test_models_that_mix_columns_are_warned_of(self):
        self.make("ogb", write_mag("mag", self.data))
        self.succeed("train", "data", "--model", "gcn", "--layers", 2, "--hidden", 8, "--epochs", 1)
        self.assertIn("types of nodes have 3, 0, 8 features, but this model has the same weights "
                      "for all types; see --input-layer typed", self.warned)


if __name__ == "__main__":
    unittest.main()
