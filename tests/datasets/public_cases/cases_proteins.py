"""ogbn-proteins: features of edges and none of nodes, many labels per node, a split by species. Its
folders hold what OGB's archive does, text in gzip, and come out of a small graph whose labels
follow from the features of edges."""

import gzip
import json
import os
import unittest

import numpy as np

import atoll
from support import Case

NODES, TASKS, COLUMNS = 300, 6, 8
SPECIES = np.array([3702, 4932, 6239, 7227])


def proteins(seed=0):
    """Arrays of a graph of proteins: edge_index [2, E] (each pair once), edge_attr [E, 8] in
    (0, 1), y [N, 6] of 0 and 1, species [N], train, valid and test ids by species."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 10, NODES)
    hidden = random.normal(size=(10, COLUMNS))[group] + .5 * random.normal(size=(NODES, COLUMNS))
    species = np.repeat(SPECIES, NODES // len(SPECIES))
    first, second = random.integers(0, NODES, (2, 40 * NODES))
    kept = (first != second) & ((group[first] == group[second]) | (random.random(40 * NODES) < .05))
    pairs = set(zip(np.minimum(first, second)[kept].tolist(),
                    np.maximum(first, second)[kept].tolist()))
    edges = random.permutation(np.array(sorted(pairs)))
    edges = np.where(random.random(len(edges))[:, None] < .5, edges, edges[:, ::-1]).T
    noise = random.normal(size=(edges.shape[1], COLUMNS))
    attributes = 1 / (1 + np.exp(-(hidden[edges[0]] + hidden[edges[1]] + .3 * noise)))
    labels = (hidden @ random.normal(size=(COLUMNS, TASKS)) > 0).astype(np.int64)
    sets = [np.flatnonzero(np.isin(species, part)) for part in (SPECIES[:2], SPECIES[2:3],
                                                              SPECIES[3:])]
    return {"edge_index": np.ascontiguousarray(edges), "edge_attr": attributes.round(3),
            "y": labels, "species": species, "sets": sets}


def write_text(path, rows):
    """Rows of numbers as OGB writes them."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with gzip.open(path, "wt", compresslevel=1) as file:
        for row in np.asarray(rows).reshape(len(rows), -1).tolist():
            file.write(",".join(map(str, row)) + "\n")


def write_split(folder, sets):
    for name, ids in zip(("train", "valid", "test"), sets):
        write_text(f"{folder}/split/species/{name}.csv.gz", ids)


def write_proteins(folder, data):
    """The folder of ogbn-proteins, as text."""
    for name, rows in (("edge", data["edge_index"].T), ("edge-feat", data["edge_attr"]),
                       ("node-label", data["y"]), ("num-node-list", [NODES]),
                       ("num-edge-list", [data["edge_index"].shape[1]]),
                       ("node_species", data["species"])):
        write_text(f"{folder}/raw/{name}.csv.gz", rows)
    write_split(folder, data["sets"])
    return folder


def write_binary(folder, data):
    """The same as OGB stores its large sets."""
    os.makedirs(f"{folder}/raw", exist_ok=True)
    np.savez(f"{folder}/raw/data.npz", edge_index=data["edge_index"],
             edge_feat=data["edge_attr"].astype(np.float32),
             num_nodes_list=np.array([NODES]), num_edges_list=np.array([len(data["edge_attr"])]))
    np.savez(f"{folder}/raw/node-label.npz", node_label=data["y"])
    write_split(folder, data["sets"])
    return folder


def means(folder):
    """The features that --features edges should make for a Folder."""
    counts = np.diff(folder.row_ptr)
    sums = np.zeros((len(counts), folder.edge_features.shape[1]))
    np.add.at(sums, np.repeat(np.arange(len(counts)), counts), folder.edge_features)
    return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)


def roc_auc(scores, labels):
    """The mean over tasks of the share of pairs of a positive and a negative in the right order."""
    areas = []
    for score, label in zip(scores.T, labels.T):
        differences = score[label == 1][:, None] - score[label == 0][None, :]
        areas.append(np.mean(differences > 0) + np.mean(differences == 0) / 2)
    return np.mean(areas)


class Proteins(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = proteins()

    def check_edges(self, made):
        """That each stored edge has the features of its pair in the source."""
        of_pair = {frozenset(pair): row for pair, row in zip(self.data["edge_index"].T.tolist(),
                                                             self.data["edge_attr"])}
        targets = np.repeat(np.arange(NODES), np.diff(made.row_ptr)).tolist()
        self.assertEqual(len(targets), 2 * len(of_pair))
        expected = [of_pair[frozenset(pair)] for pair in zip(made.col_idx.tolist(), targets)]
        np.testing.assert_allclose(made.edge_features, expected, atol=1e-6)

    def test_text_is_read_whole(self):
        made = self.make("ogb", write_proteins("ogbn_proteins", self.data), "--features", "edges")
        self.check_edges(made)
        np.testing.assert_allclose(made.features, means(made), atol=1e-6)
        np.testing.assert_array_equal(made.labels, self.data["y"])
        np.testing.assert_array_equal(SPECIES[made.node_types], self.data["species"])
        self.assertEqual(made.fields["provenance"]["node_types"], SPECIES.tolist())
        self.assertEqual(made.fields["provenance"]["split_scheme"], "species")
        self.assertEqual(made.fields["provenance"]["features"], "edges")
        for value, ids in enumerate(self.data["sets"]):
            np.testing.assert_array_equal(np.flatnonzero(made.split == value), ids)

    def test_binary_is_the_same(self):
        text = self.make("ogb", write_proteins("text", self.data), "--features", "edges", out="a")
        binary = self.make("ogb", write_binary("binary", self.data), "--features", "edges", out="b")
        for name in ("row_ptr", "col_idx", "edge_features", "features", "labels", "split"):
            np.testing.assert_array_equal(getattr(text, name), getattr(binary, name), name)

    def test_directed(self):
        made = self.make("ogb", write_proteins("set", self.data), "--features", "edges",
                         "--directed")
        self.assertEqual(len(made.edge_features), len(self.data["edge_attr"]))
        np.testing.assert_allclose(made.features, means(made), atol=1e-6)

    def test_by_arrays_and_python(self):
        data = self.data
        given = {"edge_index": data["edge_index"], "edge_attr": data["edge_attr"]}
        np.savez("mine.npz", **given, y=data["y"])
        made = self.make("npy", "mine.npz", "--features", "edges")
        np.testing.assert_allclose(made.features, means(made), atol=1e-6)
        by_python = self.python(atoll.Dataset.from_arrays, **given, y=data["y"], features="edges")
        self.assert_same(made, by_python)

    def test_damaged_features_of_edges(self):
        edges = self.data["edge_index"].shape[1]
        folder = write_proteins("set", {**self.data, "edge_attr": self.data["edge_attr"][:-1]})
        self.refuse("import", "ogb", folder, "--out", "data",
                    says=(f"edge-feat.csv.gz: {edges - 1} lines found, {edges} expected (one per "
                          "edge)",))
        rows = self.data["edge_attr"].tolist()
        for bad, says in (([.5] * 7, "line 3, column 28: 7 features found, 8 expected"),
                          ([.5] * 7 + ["x"], "feature expected (a number), 'x' found")):
            rows[2] = bad
            with gzip.open("set/raw/edge-feat.csv.gz", "wt") as file:
                file.writelines(",".join(map(str, row)) + "\n" for row in rows)
            self.refuse("import", "ogb", folder, "--out", "data", says=("edge-feat.csv.gz", says))
        os.remove("set/raw/edge-feat.csv.gz")
        self.refuse("import", "ogb", folder, "--out", "data", "--features", "edges",
                    says="--features edges: the edges of 'set' have no features")

    def test_features_of_nodes_are_there(self):
        given = {key: self.data[key] for key in ("edge_index", "edge_attr", "y")}
        np.savez("mine.npz", **given, x=np.ones((NODES, 3)))
        self.refuse("import", "npy", "mine.npz", "--out", "data", "--features", "edges",
                    says="--features edges: mine.npz[x] has 3 features for each node")

    def test_from_files_to_roc_auc(self):
        """Two ranks, on the labels of species that training has not seen."""
        made = self.make("ogb", write_proteins("set", self.data), "--features", "edges")
        self.succeed("partition", "data", "--parts", 2)
        test = made.split == 2
        for model in (["sage"], ["gcn"], ["gatv2", "--edge-scores", "on", "--heads", "2"]):
            with self.subTest(model=model[0]):
                run, out = f"run-{model[0]}", f"{model[0]}.npy"
                self.succeed("train", "data", "--model", *model, "--ranks", 2, "--layers", 2,
                             "--hidden", 32, "--epochs", 60, "--lr", .01, "--dropout", 0,
                             "--threads", 1, "--metric", "roc-auc", "--run-dir", run)
                self.succeed("predict", run, "data", "--what", "logits", "--out", out)
                area = roc_auc(np.load(out)[test], made.labels[test])
                self.assertGreater(area, .8, model)
                with open(f"{run}/summary.json", encoding="utf-8") as file:
                    summary = json.load(file)
                self.assertEqual(summary["metric"], "ROC-AUC")
                self.assertAlmostEqual(summary["test"], area, places=6)


if __name__ == "__main__":
    unittest.main()
