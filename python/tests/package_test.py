"""The Python package, in process where its compiled part is there, else by the program that
ATOLL_PROGRAM names. pytest runs it on an installed wheel, ctest on the source tree."""

import importlib.util
import inspect
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
import warnings

from work_folder import WorkFolder

import numpy as np

import atoll
from atoll import _errors, _functions, _program
from atoll.run import Interrupted

NODES, FEATURES, CLASSES = 120, 8, 3
QUICK = {"layers": 2, "hidden": 16, "epochs": 5, "threads": 1, "progress": None}


def has(*packages):
    return all(importlib.util.find_spec(package) is not None for package in packages)


def arrays(seed=1):
    """A small directed graph whose classes its features tell."""
    random = np.random.default_rng(seed)
    y = random.integers(0, CLASSES, NODES)
    x = random.normal(size=(NODES, FEATURES)).astype(np.float32)
    x[np.arange(NODES), y] += 2
    edge_index = np.unique(random.integers(0, NODES, (2, 5 * NODES)), axis=1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    part = random.integers(0, 3, NODES)
    return {"edge_index": edge_index, "x": x, "y": y, "train_mask": part == 0,
            "val_mask": part == 1, "test_mask": part == 2}


class DatasetTest(WorkFolder):
    def test_arrays_come_back(self):
        given = arrays()
        dataset = atoll.Dataset.from_arrays(**given, directed=True, path="data")
        self.assertEqual((dataset.num_nodes, dataset.num_edges), (NODES, given["edge_index"].shape[1]))
        self.assertTrue(dataset.directed)
        np.testing.assert_array_equal(dataset.x, given["x"])
        np.testing.assert_array_equal(dataset.y, given["y"])
        for mask in ("train_mask", "val_mask", "test_mask"):
            np.testing.assert_array_equal(getattr(dataset, mask), given[mask])
        key = given["edge_index"][1] * NODES + given["edge_index"][0]
        np.testing.assert_array_equal(dataset.edge_index, given["edge_index"][:, np.argsort(key)])
        self.assertEqual(atoll.Dataset("data").num_classes, CLASSES)
        self.assertIn("120 nodes", repr(dataset))
        self.assertIn("120", dataset.info())

    def test_the_same_arrays_are_the_same_graph_as_on_the_command_line(self):
        given = arrays()
        loops = np.array([[3, 3, 7], [3, 3, 7]])
        edges = np.concatenate([given["edge_index"], loops], axis=1)
        weights = np.random.default_rng(3).random(edges.shape[1]).astype(np.float32)
        os.mkdir("arrays")
        np.save("arrays/edge_index.npy", edges)
        np.save("arrays/edge_weight.npy", weights)
        for options in ({}, {"directed": True}, {"keep_self_loops": True},
                        {"directed": True, "keep_self_loops": True}):
            with self.subTest(options):
                ours = atoll.Dataset.from_arrays(edges, edge_weight=weights, **options)
                flags = [f"--{name.replace('_', '-')}" for name in options]
                folder = "-".join(["by-cli", *options])
                subprocess.run([atoll.program_path(), "import", "npy", "arrays", "--out", folder,
                                *flags], check=True, capture_output=True)
                theirs = atoll.Dataset(folder)
                self.assertEqual(ours.directed, theirs.directed)
                self.assertEqual(ours.directed, options.get("directed", False))
                for name in ("row_ptr", "col_idx", "edge_weights"):
                    np.testing.assert_array_equal(ours._read(name), theirs._read(name))
                kept = (ours.edge_index[0] == ours.edge_index[1]).sum()
                self.assertEqual(kept, 2 if "keep_self_loops" in options else 0)
        both = np.concatenate([edges, edges[::-1]], axis=1)
        both = np.unique(both[:, both[0] != both[1]], axis=1)
        self.assertEqual(atoll.Dataset.from_arrays(edges).num_edges, both.shape[1])

    def test_several_splits_weights_types_and_features_of_edges(self):
        given = arrays()
        random = np.random.default_rng(2)
        edges = given["edge_index"].shape[1]
        for mask in ("train_mask", "val_mask", "test_mask"):
            given[mask] = np.stack([given[mask], given[mask][::-1]], axis=1)
        dataset = atoll.Dataset.from_arrays(
            **given, edge_weight=random.random(edges), edge_attr=random.random((edges, 2)),
            edge_type=random.integers(0, 3, edges), node_type=random.integers(0, 2, NODES))
        self.assertEqual(dataset.train_mask.shape, (NODES, 2))
        np.testing.assert_array_equal(dataset.test_mask, given["test_mask"])
        run = atoll.train(dataset, "rgcn", split_index=1, **QUICK)
        self.assertEqual(run.summary["epochs"], 5)

    def test_a_temporary_folder_goes_with_its_dataset(self):
        dataset = atoll.Dataset.from_arrays(**arrays())
        path = dataset.path
        self.assertTrue(os.path.exists(path))
        del dataset
        self.assertFalse(os.path.exists(os.path.dirname(path)))

    def test_a_temporary_folder_stays_beside_its_run(self):
        dataset = atoll.Dataset.from_arrays(**arrays())
        before, x = dataset.path, dataset.x
        run = atoll.train(dataset, run_dir="some/where", **QUICK)
        self.assertFalse(os.path.exists(os.path.dirname(before)))
        self.assertEqual(os.path.relpath(os.path.dirname(dataset.path)), "some/.atoll")
        np.testing.assert_array_equal(x, dataset.x)
        labels = run.predict()
        path = run.path
        del dataset, run
        # A new process.
        code = ("import sys, numpy, atoll; run = atoll.Run.load(sys.argv[1]); "
                "numpy.save('labels.npy', run.predict()); "
                "run.resume(epochs=7, progress=None); print(run.dataset, run.epochs)")
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path))
                                for path in sys.path)
        result = subprocess.run([sys.executable, "-c", code, path], text=True, check=True,
                                capture_output=True, env=dict(os.environ, PYTHONPATH=paths))
        self.assertIn("120 nodes", result.stdout)
        self.assertTrue(result.stdout.endswith(" 7\n"), result.stdout)
        np.testing.assert_array_equal(np.load("labels.npy"), labels)

    def test_probabilities_by_task(self):
        given = arrays()
        several = np.stack([given["y"] == 0, given["y"] == 1], axis=1).astype(np.int64)
        for options in ({"y": several}, {"y": several[:, 0], "task": "binary"}):
            run = atoll.train(atoll.Dataset.from_arrays(**{**given, **options}), **QUICK)
            np.testing.assert_allclose(run.predict("probabilities"),
                                       1 / (1 + np.exp(-run.predict("logits"))), rtol=1e-5)
        numbers = {**given, "y": given["x"][:, 0] + 0.25}
        run = atoll.train(atoll.Dataset.from_arrays(**numbers), **QUICK)
        with self.assertRaisesRegex(atoll.InputError, "the task is regression"):
            run.predict("probabilities")

    def test_names_of_classes_stay_with_the_run(self):
        edges, nodes, _ = tables()
        run = atoll.train(atoll.Dataset.from_tables(edges, TablesTest.as_arrays(nodes),
                                                    **TablesTest.NAMES), run_dir="run", **QUICK)
        del run
        dataset = atoll.Run.load("run").dataset
        self.assertEqual(dataset.classes, ["blue", "green", "red"])
        self.assertIn("validation   ok", subprocess.run(
            [atoll.program_path(), "info", dataset.path, "--validate"], check=True, text=True,
            capture_output=True).stdout)

    def test_equal_datasets_are_kept_once(self):
        for seed, kept in ((1, 1), (1, 1), (2, 2)):
            atoll.train(atoll.Dataset.from_arrays(**arrays(seed)), **QUICK)
            self.assertEqual(len(os.listdir("runs/.atoll")), kept)
        self.assertEqual(sorted(os.listdir("runs")),
                         [".atoll", "arrays-gcn-1", "arrays-gcn-2", "arrays-gcn-3"])
        atoll.train(atoll.Dataset.from_arrays(**arrays(), directed=True), **QUICK)
        self.assertEqual(len(os.listdir("runs/.atoll")), 3)

    def test_a_dataset_that_has_moved_is_named(self):
        dataset = atoll.Dataset.from_arrays(**arrays(), path="data")
        run = atoll.train(dataset, run_dir="run", **QUICK)
        labels = run.predict()
        os.rename("data", "elsewhere")
        with self.assertRaisesRegex(atoll.InputError, "data: the dataset of the run .* dataset="):
            atoll.Run.load("run").predict()
        with self.assertRaisesRegex(atoll.InputError, "dataset="):
            atoll.Run.load("run").resume(epochs=6)
        np.testing.assert_array_equal(atoll.Run.load("run", dataset="elsewhere").predict(), labels)
        run = atoll.Run.load("run").resume(dataset="elsewhere", epochs=6, progress=None)
        self.assertEqual(run.epochs, 6)
        self.assertEqual(run.dataset.path, os.path.abspath("elsewhere"))
        atoll.Dataset.from_arrays(**arrays(2), path="other")
        with self.assertRaisesRegex(atoll.InputError, "checkpoint|dataset"):
            run.resume(dataset="other", epochs=8, progress=None)

    def test_what_is_wrong_with_arrays_is_named(self):
        good = arrays()
        for change, text in (
                ({"edge_index": good["edge_index"].T}, r"edge_index: it is int64 \[\d+, 2\]"),
                ({"edge_index": good["edge_index"].astype(float)}, "edge_index: it is float64"),
                ({"x": good["x"][:-1]}, "y: it has 120 rows, but there are 119 nodes"),
                ({"train_mask": np.full(NODES, 0.5)}, r"train_mask: element 0 is 0.5; an integer"),
                ({"val_mask": good["train_mask"]},
                 r"^val_mask: node \d+ is in it and in the training set"),
                ({"split": "0.5,0.2,0.3"}, "split: there are masks, too"),
                ({"y": np.array(["a"] * NODES)}, "y: its type is <U1"),
                ({"x": [[1, 2], [3]]}, "^x: it is list, which can't be a NumPy array .*same length"),
                ({"x": [[[1], [2, 3]]]}, "^x: it is list, which can't be a NumPy array"),
                ({"edge_weight": np.ones(3)}, "edge_weight: it has 3 rows, but there are"),
                ({"edge_index": good["edge_index"] + NODES}, str(NODES))):
            with self.subTest(text), self.assertRaisesRegex(atoll.InputError, text):
                atoll.Dataset.from_arrays(**{**good, **change})
        with self.assertRaisesRegex(atoll.InputError, "no dataset.json"):
            atoll.Dataset("nothing")
        for wrong in (None, 3, b"nothing"):
            with self.assertRaisesRegex(atoll.InputError, f"^path: found {wrong!r}; allowed are a"):
                atoll.Dataset(wrong)
        self.assertEqual(os.listdir("."), [])

    def test_objects_with_the_attributes_of_pyg(self):
        given = arrays()
        dataset = atoll.Dataset.from_pyg(types.SimpleNamespace(**given, num_nodes=NODES))
        np.testing.assert_array_equal(dataset.x, given["x"])
        with self.assertRaisesRegex(atoll.InputError, "no edge_index"):
            atoll.Dataset.from_pyg(types.SimpleNamespace())

    def test_metis_text_gives_the_same_graph(self):
        given = arrays()
        given["edge_index"] = np.concatenate([given["edge_index"], [[5], [5]]], axis=1)
        atoll.Dataset.from_arrays(**given).to_metis("graph.metis")
        back = atoll.Dataset.import_("metis", "graph.metis")
        plain = atoll.Dataset.from_arrays(given["edge_index"][:, :-1], num_nodes=NODES)
        np.testing.assert_array_equal(back.edge_index, plain.edge_index)

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_tensors(self):
        import torch
        given = {key: torch.from_numpy(value) for key, value in arrays().items()}
        given["y"] = given["y"][:, None]  # as OGB has it
        dataset = atoll.Dataset.from_arrays(**given)
        np.testing.assert_array_equal(dataset.y, given["y"][:, 0].numpy())
        for x, text in ((given["x"].to_sparse(), "Sparse"), (given["x"].bfloat16(), "bfloat16")):
            with self.assertRaisesRegex(atoll.InputError, f"^x: it is torch.*{text}.*allowed are"):
                atoll.Dataset.from_arrays(**{**given, "x": x})

    def test_datasets_grow(self):
        given = arrays()
        base = atoll.Dataset.from_arrays(**given, directed=True, path="data")
        new = {"edge_index": np.array([[NODES, 0], [1, NODES]]),
               "x": np.full((1, FEATURES), 7, np.float32), "y": [2], "split": [1]}
        grown = base.append(**new)
        self.assertEqual(os.path.basename(grown.path), "data@2")
        self.assertEqual((grown.num_nodes, grown.num_edges), (NODES + 1, base.num_edges + 2))
        np.testing.assert_array_equal(grown.x, np.concatenate([given["x"], new["x"]]))
        np.testing.assert_array_equal(grown.y, [*given["y"], 2])
        np.testing.assert_array_equal(grown.val_mask, [*given["val_mask"], True])
        third = grown.append(remove_nodes=[5], change_features=([0], np.zeros((1, FEATURES))))
        self.assertEqual(os.path.basename(third.path), "data@3")
        self.assertFalse((third.edge_index == 5).any())
        masked = grown.append(remove_nodes=np.arange(NODES + 1) == 5, path="masked")
        self.assertEqual(masked.num_edges, third.num_edges)
        with self.assertRaisesRegex(atoll.InputError, "remove_nodes: .* a mask of all 121 nodes"):
            grown.append(remove_nodes=np.ones(5, bool))
        self.assertIsNone(masked._whole)  # its size is known without its arrays
        self.assertEqual((third.y[5], third.x[0].any()), (-1, False))
        whole = third.compact("whole")
        np.testing.assert_array_equal(whole.edge_index, third.edge_index)
        self.assertIn("data@2", third.info())
        with self.assertRaisesRegex(atoll.InputError, "^edges: node id 120"):
            base.append(np.array([[0], [NODES]]))
        # A temporary dataset grows into a whole one.
        temporary = atoll.Dataset.from_arrays(**given)
        other = temporary.append(**new)
        del temporary
        self.assertEqual(other.num_nodes, NODES + 1)
        trained = atoll.Dataset.from_arrays(**given)
        atoll.train(trained, "gcn", run_dir="beside", **QUICK)
        trained.append(**new)
        self.assertFalse([name for name in os.listdir(os.path.dirname(trained.path)) if "@" in name])
        other = atoll.Dataset.from_arrays(**given).append(**new, path="named")
        self.assertEqual(atoll.Dataset("named").num_nodes, NODES + 1)

    def test_files_and_generated_graphs(self):
        with open("edges.txt", "w", encoding="utf-8") as file:
            file.write("0 1\n1 2\n2 0\n")
        dataset = atoll.Dataset.import_("edges", "edges.txt", directed=True)
        self.assertEqual(dataset.num_edges, 3)
        self.assertTrue(dataset.directed)
        made = atoll.Dataset.generate("sbm", nodes=100, classes=4, features=5, path="sbm")
        self.assertEqual((made.num_nodes, made.num_features), (100, 5))
        with self.assertRaisesRegex(atoll.InputError, "nodos"):
            atoll.Dataset.generate("sbm", nodos=100)


def tables():
    """The same graph in words: (edges, nodes, arrays)."""
    given = arrays()
    names = np.array([f"user-{node * 7919 % NODES}" for node in range(NODES)])
    words = np.array(["blue", "green", "red"])
    sets = np.select([given["train_mask"], given["val_mask"], given["test_mask"]],
                     ["train", "valid", "test"], "").astype(object)
    edges = {"source": names[given["edge_index"][0]], "target": names[given["edge_index"][1]],
             "count": np.arange(given["edge_index"].shape[1]) % 5 + 1}
    nodes = {"user": names, "segment": words[given["y"]], "part": sets,
             "age": given["x"][:, 0], "embedding": list(given["x"][:, 1:])}
    return edges, nodes, given


class TablesTest(WorkFolder):
    NAMES = {"id": "user", "label": "segment", "split": "part", "features": ["age", "embedding"]}

    def check(self, edges, nodes, given, **options):
        dataset = atoll.Dataset.from_tables(edges, nodes, **self.NAMES, directed=True, **options)
        same = atoll.Dataset.from_arrays(**given, directed=True)
        for name in ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask"):
            np.testing.assert_array_equal(getattr(dataset, name), getattr(same, name), name)
        self.assertEqual(dataset.classes, ["blue", "green", "red"])
        return dataset

    @staticmethod
    def as_arrays(nodes):
        return {**nodes, "embedding": np.stack(nodes["embedding"])}

    def test_dictionaries_of_arrays(self):
        edges, nodes, given = tables()
        self.check(edges, self.as_arrays(nodes), given)
        weighted = self.check(edges, self.as_arrays(nodes), given, weight="count")
        self.assertTrue(os.path.exists(os.path.join(weighted.path, "edge_weights.npy")))
        plain = {"source": given["edge_index"][0], "target": given["edge_index"][1]}
        self.assertEqual(atoll.Dataset.from_tables(plain, directed=True).num_edges,
                         given["edge_index"].shape[1])

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_data_frames(self):
        import pandas
        edges, nodes, given = tables()
        self.check(pandas.DataFrame(edges), pandas.DataFrame(nodes), given)

    @unittest.skipUnless(has("pyarrow"), "pyarrow is not installed")
    def test_parquet(self):
        import pyarrow
        import pyarrow.parquet
        edges, nodes, given = tables()
        pyarrow.parquet.write_table(pyarrow.table(edges), "edges.parquet")
        pyarrow.parquet.write_table(pyarrow.table(nodes), "nodes.parquet")
        self.check("edges.parquet", "nodes.parquet", given)
        self.check(pyarrow.table(edges), pyarrow.table(nodes), given)
        with open("nodes.parquet", "wb") as file:
            file.write(b"no table")
        with self.assertRaisesRegex(atoll.InputError, "nodes.parquet"):
            self.check("edges.parquet", "nodes.parquet", given)

    def test_numbers_are_features_unless_they_are_named(self):
        edges, nodes, given = tables()
        nodes = {"mass": given["x"][:, 0], "class": given["y"], "train_mask": given["train_mask"]}
        edges = {"from": given["edge_index"][0], "to": given["edge_index"][1]}
        dataset = atoll.Dataset.from_tables(edges, nodes, source="from", target="to", label="class")
        np.testing.assert_array_equal(dataset.x, given["x"][:, :1])
        np.testing.assert_array_equal(dataset.train_mask, given["train_mask"])
        self.assertIsNone(dataset.classes)
        nodes["town"] = np.array(["here"] * len(given["y"]))
        edges["since"] = np.arange(len(edges["to"]))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            atoll.Dataset.from_tables(edges, nodes, source="from", target="to", label="class")
        self.assertEqual([str(warning.message) for warning in said],
                         ["edges: not read: since", "nodes: not read: town"])

    def test_what_is_wrong_with_tables_is_named(self):
        edges, nodes, given = tables()
        nodes = self.as_arrays(nodes)
        stranger = np.where(np.arange(len(edges["target"])) == 3, "nobody", edges["target"])
        holes = np.where(np.arange(NODES) == 5, np.nan, nodes["age"])
        twice = np.where(np.arange(NODES) == 5, nodes["user"][0], nodes["user"])
        parts = np.where(np.arange(NODES) == 5, "exam", nodes["part"])
        for wrong, words in (
                (({**edges, "target": stranger}, nodes), ["'nobody'", "row 3", "'user'"]),
                ((edges, {**nodes, "age": holes}), ["'age'", "row 5"]),
                ((edges, {**nodes, "user": twice}), ["'user'", "twice"]),
                ((edges, {**nodes, "part": parts}), ["'exam'", "row 5", "train"]),
                ((edges, {**nodes, "age": nodes["segment"]}), ["'age'", "numbers"]),
                (({"source": edges["source"]}, nodes), ["no column 'target'", "source"]),
                (({**edges, "target": edges["target"][1:]}, nodes), ["'target'", "rows", "'source'"]),
                ((edges, {**nodes, "age": nodes["age"][1:]}), ["'age'", "119 rows", "120"]),
                ((edges, {**nodes, "age": [[1, 2]] * 119 + [[3]]}), ["'age'", "1 to 2 numbers"]),
                ((edges, {**nodes, "age": [[1, 2]] * 119 + [None]}), ["'age'", "None in row 119"]),
                ((7, nodes), ["int", "DataFrame"]), ((edges, None), ["id", "no such table"])):
            with self.assertRaises(atoll.InputError) as raised:
                atoll.Dataset.from_tables(*wrong, **self.NAMES)
            for word in words:
                self.assertIn(word, str(raised.exception))
        with self.assertRaisesRegex(atoll.InputError, "id=..."):
            atoll.Dataset.from_tables(edges)
        pairs = {"source": [0, 1], "target": [1, 0]}
        for weights in (["heavy", "light"], [1j, 2]):
            with self.assertRaisesRegex(atoll.InputError, "edges: column 'w' is .*must be numbers"):
                atoll.Dataset.from_tables({**pairs, "w": weights}, weight="w")


class TrainTest(WorkFolder):
    def setUp(self):
        super().setUp()
        self.dataset = atoll.Dataset.from_arrays(**arrays(), directed=True, path="data")

    def test_a_run_from_end_to_end(self):
        seen = []
        run = atoll.train(self.dataset, "gcn", **{**QUICK, "progress": seen.append})
        self.assertEqual([record["epoch"] for record in seen], [1, 2, 3, 4, 5])
        self.assertEqual(run.summary["epochs"], 5)
        self.assertEqual(os.path.relpath(run.path), "runs/data-gcn-1")
        self.assertEqual(list(run.metrics["epoch"]), [1, 2, 3, 4, 5])
        self.assertEqual(run.metrics["loss"][-1], seen[-1]["loss"])
        self.assertEqual(run.phases.rows, 5)
        logits = run.predict("logits")
        self.assertEqual((logits.shape, logits.dtype), ((NODES, CLASSES), np.float32))
        np.testing.assert_array_equal(run.predict(), logits.argmax(1))
        probabilities = run.predict("probabilities")
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
        np.testing.assert_allclose(np.log(probabilities[:, :1] / probabilities),
                                   logits[:, :1] - logits, atol=1e-5)
        self.assertEqual(run.predict("embeddings").shape, (NODES, 16))
        logits[0] = 0  # it is the caller's
        self.assertIn("<svg", run.report().html)
        self.assertIn("<iframe", run.report()._repr_html_())
        self.assertIn("runs/data-gcn-1", repr(atoll.Run(run.path)))
        self.assertIn("<table>", run.metrics._repr_html_())

    def test_predictions_of_some_nodes(self):
        run = atoll.train(self.dataset, "sage", **QUICK)
        logits = run.predict("logits")
        mask = np.zeros(NODES, bool)
        mask[[2, 50]] = True
        for nodes, numbers in (([7, 3, 7], [7, 3, 7]), (np.array([5]), [5]), (11, [11]),
                               (range(4), [0, 1, 2, 3]), (mask, [2, 50])):
            np.testing.assert_allclose(run.predict("logits", nodes=nodes), logits[numbers],
                                       rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(run.predict(nodes=[9, 1]), logits[[9, 1]].argmax(1))
        self.assertEqual(run.predict("probabilities", nodes=[9, 1]).shape, (2, CLASSES))
        run.predict(nodes=[9, 1], path="some.npy")
        np.testing.assert_array_equal(np.load("some.ids.npy"), [9, 1])
        run.predict("probabilities", nodes=[9, 1, 9], path="shares.npy")
        np.testing.assert_array_equal(np.load("shares.ids.npy"), [9, 1, 9])
        np.testing.assert_allclose(np.load("shares.npy"), run.predict("probabilities")[[9, 1, 9]],
                                   rtol=1e-5, atol=1e-5)
        with self.assertRaisesRegex(atoll.InputError, "shares.npy: the ids of its rows"):
            run.predict("probabilities", nodes="shares.ids.npy", path="shares.npy")
        run.predict("probabilities", path="shares.npy")
        self.assertEqual(np.load("shares.npy").shape, (NODES, CLASSES))
        self.assertFalse(os.path.exists("shares.ids.npy"))
        given = arrays()
        new = {"edge_index": np.array([[0, 3, NODES], [NODES, NODES + 1, NODES + 1]]),
               "x": given["x"][:2] + 1, "y": np.array([-1, -1])}
        grown = atoll.Dataset.from_arrays(
            np.concatenate([given["edge_index"], new["edge_index"]], axis=1),
            np.concatenate([given["x"], new["x"]]), np.concatenate([given["y"], new["y"]]),
            directed=True, path="grown")
        found = run.predict("logits", grown, nodes="new")
        self.assertEqual(found.shape, (2, CLASSES))
        np.testing.assert_allclose(found, run.predict("logits", grown)[NODES:], rtol=1e-5, atol=1e-5)
        for nodes, words in (([NODES], "nodes: entry 0 is 120"), ([], "lists no node"),
                             (np.ones(5, bool), "a mask of all 120 nodes"), ("", "lists no node"),
                             ("new", "nodes.new: the dataset has 120 nodes"),
                             ([0.5], "nodes: it is float64"), ([[1]], "whole numbers")):
            with self.assertRaisesRegex(atoll.InputError, words):
                run.predict(nodes=nodes)

    def test_ranks_give_the_same_losses(self):
        one = atoll.train(self.dataset, "gat", heads=2, **QUICK)
        for launcher in ("threads", "mpirun"):
            two = atoll.train(self.dataset, "gat", heads=2, ranks=2, launcher=launcher, **QUICK)
            self.assertEqual(two.summary["ranks"], 2)
            np.testing.assert_allclose(two.metrics["loss"], one.metrics["loss"], rtol=1e-4)

    def test_messages_of_an_exchange_mode(self):
        options = {**QUICK, "epochs": 9, "ranks": 2}
        run = atoll.train(self.dataset, exchange="periodic", every=4, stagger=True, bits=8, **options)
        self.assertEqual(run.metrics["share_sent"][0], 1)
        # Every message has had its turn in epochs 2 to 5.
        self.assertEqual(run.metrics["rows_sent"][1:5].sum(), run.metrics["rows_sent"][0])
        np.testing.assert_allclose(run.metrics["mean_bits"], 8 * run.metrics["share_sent"])
        self.assertAlmostEqual(run.summary["rows_sent_per_epoch"], run.metrics["rows_sent"].mean())
        self.assertAlmostEqual(run.summary["share_sent"], run.metrics["share_sent"].mean())
        late = atoll.train(self.dataset, exchange="stale", shift=True, **options)
        self.assertEqual(set(late.metrics["share_sent"]), {1})
        exact = atoll.train(self.dataset, **options)
        self.assertNotIn("share_sent", exact.metrics)
        self.assertNotIn("share_sent", exact.summary)
        with self.assertRaisesRegex(atoll.InputError, "^rate=0.5: .* periodic; it is for exchange sampled"):
            atoll.train(self.dataset, exchange="periodic", rate=0.5, **options)

    def test_a_supervised_run(self):
        launcher = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
        if "(Open" not in launcher.stdout:
            self.skipTest("needs Open MPI")
        run = atoll.train(self.dataset, launcher={"restarts": 1}, ranks=2, run_dir="supervised",
                          **QUICK)
        self.assertEqual(run.summary["ranks"], 2)
        self.assertTrue(os.path.exists("supervised/events.jsonl"))

    def test_a_model_as_a_dictionary(self):
        model = {"layer": [{"convolution": "gcn", "columns": 8, "norm": "layer", "repeat": 2},
                           {"convolution": "sage", "columns": 4}],
                 "head": {"layer": "linear", "jump": "concatenate"}}
        model["layer"][0]["norm_place"] = "before"
        run = atoll.train(self.dataset, model, epochs=3, progress=None, threads=1)
        self.assertEqual(run.summary["epochs"], 3)
        self.assertEqual(run.predict("logits").shape, (NODES, CLASSES))
        for wrong, text in (({"layers": []}, "unknown key 'layers'; allowed are input, layer, head"),
                            ({"layer": []}, "'layer' is "),
                            ({"layer": [{"columns": [1]}]}, r"layer\[0\]\['columns'\] is \[1\]"),
                            ({"layer": [{"convolution": "gcm"}]}, r"^model: .*gcm")):
            with self.subTest(text), self.assertRaisesRegex(atoll.InputError, text):
                atoll.train(self.dataset, wrong, progress=None)

    def test_a_resumed_run_is_the_same(self):
        whole = atoll.train(self.dataset, run_dir="whole", **{**QUICK, "epochs": 6})
        part = atoll.train(self.dataset, run_dir="part", **{**QUICK, "epochs": 3})
        part = part.resume(epochs=6, progress=None)
        self.assertEqual(list(part.metrics["loss"]), list(whole.metrics["loss"]))
        with open("whole/model.safetensors", "rb") as one, open("part/model.safetensors", "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_what_is_wrong_is_an_exception(self):
        for options, text in (({"hiden": 3}, "unknown option 'hiden' .did you mean 'hidden'"),
                              ({"hidden_channels": 3}, "'hidden_channels' .did you mean 'hidden'"),
                              ({"num_layers": 3}, "did you mean 'layers'"),
                              ({"callbacks": [print]}, "did you mean 'progress'"),
                              ({"learning_rate": 0.1}, "did you mean 'lr'"),
                              ({"zzz": 1}, r"'zzz'; atoll.options\(\) lists all"),
                              ({"dropout": 2}, "^dropout"),
                              ({"patience": 3, "eval_every": 0}, "^patience=3: .* eval_every must"),
                              ({"class_weights": [1, 2]}, r"^class_weights: shape \(2\) found"),
                              ({"class_weights": [[1, 2]]}, "a number per class"),
                              ({"seeds": 3}, r"seeds is 3; allowed .* seeds=range\(3\)"),
                              ({"seeds": [1, 1]}, "different numbers"),
                              ({"seeds": [1], "seed": 2}, "only one of the two"),
                              ({"model": "gnn"}, "gcn"), ({"ranks": NODES + 1}, "ranks"),
                              ({"progress": 3}, "^progress: found 3; allowed are True"),
                              ({"launcher": "mpi"}, "launcher is 'mpi'; allowed are")):
            with self.subTest(text), self.assertRaisesRegex(atoll.InputError, text) as caught:
                atoll.train(self.dataset, **{**QUICK, **options})
            self.assertEqual(caught.exception.exit_code, 2)
            self.assertNotIn("--", str(caught.exception))
        shutil.rmtree("runs/.atoll")  # the class weights
        for wrong in (3, None):
            with self.assertRaisesRegex(atoll.InputError, f"^dataset: found {wrong}; allowed are"):
                atoll.train(wrong)
        # Nothing stays of a run that has not begun.
        self.assertEqual(os.listdir("runs"), [])
        with self.assertRaisesRegex(atoll.InputError, "no run folder"):
            atoll.Run("data")

    def test_a_run_that_replaces_another(self):
        for epochs in (5, 8):
            seen = []
            atoll.train(self.dataset, run_dir="again", overwrite=True,
                        **{**QUICK, "epochs": epochs, "progress": seen.append})
            self.assertEqual([record["epoch"] for record in seen], list(range(1, epochs + 1)))

    def test_switches_and_flags(self):
        run = atoll.train(self.dataset, overlap=False, trace=True, run_dir="traced", **QUICK)
        with open("traced/config.toml", encoding="utf-8") as file:
            self.assertIn("overlap = 'off'", file.read())
        self.assertTrue(any("trace" in name for name in os.listdir(run.path)))
        values = {"trace": True, "overwrite": False, "tf32": False, "edge_scores": True}
        self.assertEqual(_program.option_words("train", values),
                         ["--trace", "--tf32=off", "--edge-scores=on"])
        self.assertEqual(_program.option_words("import", {"directed": True}), ["--directed"])
        run = atoll.train(self.dataset, inductive=True, **QUICK)
        self.assertEqual(run.summary["inductive"], "train")
        run = atoll.train(self.dataset, inductive=False, **QUICK)
        self.assertNotIn("inductive", run.summary)

    def test_a_progress_function_that_fails_interrupts_the_run(self):
        def fail(record):
            raise ZeroDivisionError
        for launcher in ("threads", "mpirun"):
            with self.subTest(launcher):
                with self.assertLogs("atoll", "WARNING") as logged, \
                        self.assertRaises(ZeroDivisionError) as caught:
                    atoll.train(self.dataset, run_dir=launcher, launcher=launcher,
                                **{**QUICK, "epochs": 100000, "progress": fail})
                run = atoll.Run(launcher)
                self.assertEqual(run.epochs, 1)
                self.assertEqual(run.status, "interrupted")
                self.assertIn("interrupted", repr(run))
                self.assertIn("resume()", logged.output[0])
                if sys.version_info >= (3, 11):
                    self.assertIn("resume()", caught.exception.__notes__[0])
                done = run.epochs
                run = run.resume(epochs=done + 2, progress=None)
                self.assertEqual((run.epochs, run.status), (done + 2, "finished"))

    def test_a_progress_function_that_returns_false_stops(self):
        for launcher, ranks in (("threads", 1), ("threads", 2), ("mpirun", 2)):
            with self.subTest(launcher=launcher, ranks=ranks):
                seen = []
                name = f"{launcher}-{ranks}"
                run = atoll.train(self.dataset, run_dir=name, launcher=launcher, ranks=ranks, **{
                    **QUICK, "epochs": 100000,
                    "progress": lambda record: seen.append(record) or record["epoch"] < 20})
                self.assertEqual([record["epoch"] for record in seen], list(range(1, 21)))
                self.assertEqual(run.status, "stopped")
                self.assertEqual((run.summary["epochs"], run.epochs), (20, 20))
                self.assertTrue(all("valid" in record for record in seen))
                self.assertEqual(run.predict().shape, (NODES,))
                self.assertEqual(list(run.metrics["epoch"]), list(range(1, run.epochs + 1)))
                done = run.epochs
                self.assertEqual(run.resume(epochs=done + 3, progress=None).epochs, done + 3)

    def test_booleans_of_numpy_are_booleans(self):
        run = atoll.train(self.dataset, **{
            **QUICK, "progress": lambda record: np.bool_(record["epoch"] < 3)})
        self.assertEqual((run.epochs, run.status), (3, "stopped"))

    def test_patience_is_said(self):
        with self.assertLogs("atoll", "INFO") as logged:
            run = atoll.train(self.dataset, run_dir="run",
                              **{**QUICK, "epochs": 500, "patience": 3})
        self.assertLess(run.epochs, 500)
        self.assertEqual(run.status, "patience")
        self.assertIn(f"ended by patience after epoch {run.epochs}", run.ending)
        self.assertIn(f"INFO:atoll:{run.ending}", logged.output)
        self.assertIn("(patience)", repr(run))
        done = run.epochs
        with self.assertWarnsRegex(UserWarning, "by patience .* change nothing"):
            self.assertEqual(run.resume(epochs=600).epochs, done)
        run = run.resume(epochs=done + 4, patience=0, progress=None)
        self.assertEqual((run.epochs, run.status, run.ending), (done + 4, "finished", None))
        with self.assertWarnsRegex(UserWarning, f"has done its {done + 4} epochs"):
            run.resume()

    def test_the_end_of_its_time_is_said(self):
        run = atoll.train(self.dataset, max_time="1s", **{**QUICK, "epochs": 1000000})
        self.assertLess(run.epochs, 1000000)
        self.assertEqual(run.status, "max-time")
        self.assertIn("(max-time)", repr(run))

    def test_a_target_is_said(self):
        whole = atoll.train(self.dataset, **{**QUICK, "epochs": 40})
        wanted = float(np.max(whole.metrics["valid"]))
        first = int(np.argmax(np.asarray(whole.metrics["valid"]) >= wanted)) + 1
        run = atoll.train(self.dataset, run_dir="run", target=wanted, **{**QUICK, "epochs": 500})
        self.assertEqual((run.epochs, run.summary["target_reached"]), (first, first))
        self.assertEqual(run.status, "target")
        self.assertEqual(run.ending, f"ended by target {wanted} at epoch {first}")
        self.assertIn("(target)", repr(run))
        with self.assertWarnsRegex(UserWarning, "by target .* change nothing"):
            self.assertEqual(run.resume(epochs=600).epochs, first)
        run = run.resume(epochs=first + 3, target="none", progress=None)
        self.assertEqual((run.epochs, run.status), (first + 3, "finished"))
        self.assertNotIn("target_reached", run.summary)

    def test_several_seeds_give_mean_and_deviation(self):
        runs = atoll.train(self.dataset, seeds=range(3), run_dir="runs", **QUICK)
        self.assertEqual(sorted(os.listdir("runs")), ["seed-0", "seed-1", "seed-2"])
        tests = [run.summary["test"] for run in runs]
        self.assertEqual(len(set(run.summary["loss"] for run in runs)), 3)
        self.assertAlmostEqual(runs.mean["test"], np.mean(tests), 12)
        self.assertAlmostEqual(runs.deviation["test"], np.std(tests, ddof=1), 12)
        self.assertEqual(list(runs.table["seed"]), [0, 1, 2])
        self.assertEqual(list(runs.table["test"]), tests)
        self.assertIn("3 seeds", repr(runs))
        self.assertIn("±", repr(runs))
        self.assertIn("<svg", runs.report(path="report.html").html)
        alone = atoll.train(self.dataset, seed=1, **QUICK)
        self.assertEqual(list(alone.metrics["loss"]), list(runs[1].metrics["loss"]))
        one = atoll.train(self.dataset, seeds=[5], **QUICK)
        self.assertEqual(one[0].summary["test"], one.mean["test"])
        self.assertTrue(np.isnan(one.deviation["test"]))

    def test_class_weights_are_arrays(self):
        weights = np.array([1.0, 2.0, 0.5])
        np.save("weights.npy", weights.astype(np.float32))
        by_file = atoll.train(self.dataset, class_weights="weights.npy", **QUICK)
        for value in (weights, [1, 2, 0.5]):
            run = atoll.train(self.dataset, class_weights=value, **QUICK)
            self.assertEqual(list(run.metrics["loss"]), list(by_file.metrics["loss"]))
        self.assertEqual(run.resume(epochs=6, progress=None).epochs, 6)

    def test_narrow_heads_are_warned_of(self):
        with self.assertWarnsRegex(UserWarning, "with 8 heads and hidden 8 each head has 1 column, "):
            atoll.train(self.dataset, "gat", **{**QUICK, "hidden": 8}, heads=8)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            atoll.train(self.dataset, "gat", **{**QUICK, "hidden": 32}, heads=8)
        with self.assertWarnsRegex(UserWarning, r"layer 0 \(gat\): with 4 heads and columns 8 "):
            atoll.train(self.dataset, {"layer": [{"convolution": "gat", "columns": 8, "heads": 4}],
                                       "head": {"layer": "linear"}},
                        **{key: value for key, value in QUICK.items() if key != "hidden"
                           and key != "layers"})

    def interrupt_soon(self, folder):
        # A shell's background jobs ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def send():
            while not os.path.exists(os.path.join(folder, "metrics.jsonl")):
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send, daemon=True).start()

    def test_ctrl_c_keeps_the_run(self):
        for launcher in ("threads", "mpirun"):
            with self.subTest(launcher):
                self.interrupt_soon(launcher)
                with self.assertRaises(Interrupted) as caught:
                    atoll.train(self.dataset, run_dir=launcher, launcher=launcher, ranks=2,
                                **{**QUICK, "epochs": 100000})
                run = caught.exception.run
                self.assertIn("resume()", str(caught.exception))
                self.assertEqual(run.summary, {})
                done = run.epochs
                self.assertLess(done, 100000)
                longer = run.resume(epochs=done + 2, progress=None)
                self.assertEqual(list(longer.metrics["epoch"]), list(range(1, done + 3)))

    @unittest.skipIf(_program._engine is None, "the compiled part is not there")
    def test_python_may_end_while_a_thread_trains(self):
        code = ("import sys, threading, atoll\nfrom atoll import _program\n"
                "_program.LAST_WAIT = float(sys.argv[2])\nbegun = threading.Event()\n"
                "threading.Thread(daemon=True, target=lambda: atoll.train('data', run_dir=sys.argv[1], "
                "epochs=10**6, layers=2, hidden=16, progress=lambda record: begun.set())).start()\n"
                "begun.wait()\nsys.exit(7)\n")
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path))
                                for path in sys.path)
        for folder, wait in (("kept", 60), ("left", 0)):
            result = subprocess.run([sys.executable, "-c", code, folder, str(wait)], text=True,
                                    capture_output=True, timeout=120,
                                    env=dict(os.environ, PYTHONPATH=paths))
            self.assertEqual(result.returncode, 7, result.stderr)
            self.assertIn("stopping after this epoch", result.stderr)
            self.assertNotIn("terminate called", result.stderr)
        self.assertTrue(os.listdir("kept/checkpoint"))
        run = atoll.Run("kept")
        self.assertEqual(run.status, "interrupted")
        self.assertEqual(run.resume(epochs=run.epochs + 2, progress=None).status, "finished")

    @unittest.skipIf(_program._engine is None, "the compiled part is not there")
    def test_one_command_at_a_time(self):
        threading_errors = []

        def other():
            try:
                self.dataset.info()
            except atoll.InputError as error:
                threading_errors.append(str(error))
        started = threading.Event()

        def begin(record):
            if not started.is_set():
                started.set()
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
        atoll.train(self.dataset, **{**QUICK, "epochs": 20000, "progress": begin, "max_time": "2s"})
        self.assertEqual(len(threading_errors), 1)
        self.assertIn("one can at a time", threading_errors[0])

    def test_options_are_listed(self):
        table = atoll.options()
        self.assertIn("attention_dropout", list(table["option"]))
        self.assertIn("hidden", repr(table) + " ".join(table["option"]))
        self.assertIn("to", list(atoll.options("export")["option"]))
        with self.assertRaisesRegex(atoll.InputError, "'trian'; allowed are import, .*train"):
            atoll.options("trian")
        # Other libraries' names of an option lead to one that is there.
        arguments = inspect.signature(atoll.train).parameters
        self.assertLessEqual(set(_errors.OTHER_NAMES), {*table["option"], *arguments})

    def test_nothing_is_asked_of_the_program_by_importing(self):
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path))
                                for path in sys.path)
        subprocess.run([sys.executable, "-c", "import atoll"], check=True,
                       env=dict(os.environ, PYTHONPATH=paths, ATOLL_PROGRAM="/nowhere"))

    @unittest.skipIf(_program._engine is None, "the compiled part is not there")
    def test_the_program_is_carried_along(self):
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path))
                                for path in sys.path)
        result = subprocess.run([sys.executable, "-c", "from atoll._program import main; main()",
                                 "--version"], capture_output=True, text=True, check=True,
                                env=dict(os.environ, PYTHONPATH=paths))
        self.assertIn("atoll", result.stdout)

    def test_one_split_and_the_history(self):
        run = atoll.train(self.dataset, "gcn", **QUICK)
        self.assertEqual(run.evaluate(split="valid"), run.evaluate()["valid"])
        with self.assertRaisesRegex(atoll.InputError, "'train', 'valid', 'test'"):
            run.evaluate(split="validation")
        history = run.history
        self.assertEqual(list(history["loss"]), list(run.metrics["loss"]))
        self.assertEqual(isinstance(history, atoll.Table), not has("pandas"))

    def test_a_progress_function_sets_the_rate(self):
        def at_the_third(record):
            return {"lr": 0.001} if record["epoch"] == 2 else None
        whole = atoll.train(self.dataset, "gcn", **{**QUICK, "epochs": 6, "progress": at_the_third})
        usual = atoll.train(self.dataset, "gcn", **{**QUICK, "epochs": 6})
        np.testing.assert_array_equal(whole.metrics["loss"][:3], usual.metrics["loss"][:3])
        self.assertNotEqual(whole.metrics["loss"][3], usual.metrics["loss"][3])
        np.testing.assert_array_equal(whole.metrics["lr"], [np.nan, np.nan] + [0.001] * 4)
        # A resumed run goes on with it.
        run = atoll.train(self.dataset, "gcn", **{**QUICK, "epochs": 4, "progress": at_the_third})
        run = run.resume(epochs=6, progress=None)
        np.testing.assert_array_equal(run.metrics["loss"], whole.metrics["loss"])
        rates = atoll.train(self.dataset, "gcn", **{
            **QUICK, "progress": lambda record: {"lr": np.float32(0.5)}}).metrics["lr"]
        np.testing.assert_array_equal(rates[1:], [0.5] * 4)
        for wrong in ({"lr": 0}, {"lr": "0.1"}, {"lr": True}, {"lr": np.inf}, {"rate": 0.1}, {}, 0,
                      "stop", [False]):
            with self.assertRaisesRegex(atoll.InputError, "progress: it returned"):
                atoll.train(self.dataset, "gcn", **{**QUICK, "progress": lambda record: wrong})

    @unittest.skipUnless(has("torch", "torch_geometric", "safetensors"), "PyG is not installed")
    def test_pyg_gives_our_logits(self):
        import torch
        for model in ("gcn", "sage", "gat", "gatv2", "gin", "gcnii", "appnp", "sgc"):
            with self.subTest(model):
                run = atoll.train(self.dataset, model, run_dir=model, **QUICK)
                module = run.to_pyg()
                with torch.no_grad():
                    logits = module(torch.from_numpy(np.array(self.dataset.x)),
                                    torch.from_numpy(self.dataset.edge_index)).numpy()
                ours = run.predict("logits")
                self.assertLess(np.abs(logits - ours).max(), 1e-4 * np.abs(ours).max())
                shared = torch.from_dlpack(ours)
                self.assertEqual(shared.data_ptr(), ours.ctypes.data)

    @unittest.skipUnless(has("tensorboardX"), "tensorboardX is not installed")
    def test_tensorboard(self):
        run = atoll.train(self.dataset, **QUICK)
        run.to_tensorboard("board")
        self.assertTrue(any("tfevents" in name for name in os.listdir("board")))

    def test_failures_of_the_machine_are_exceptions(self):
        os.environ["ATOLL_VECTORS"] = "avx"
        try:
            with self.assertRaisesRegex(atoll.AtollError, "ATOLL_VECTORS"):
                atoll.train(self.dataset, **QUICK)
        finally:
            del os.environ["ATOLL_VECTORS"]

    def test_warnings_of_the_engine_are_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            atoll.train(self.dataset, snapshot_every=1, snapshot_dir="/proc", **QUICK)
        self.assertTrue(any("snapshot" in str(warning.message) for warning in caught), caught)


def cross_entropy(logits, labels):
    share = np.exp(logits - logits.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    gradient = share.copy()
    gradient[rows, labels] -= 1
    return -np.log(share[rows, labels]), gradient


def accuracy(logits, labels):
    return float(np.mean(logits.argmax(1) == labels))


def share_of_errors(logits, labels):
    return 1 - accuracy(logits, labels)


share_of_errors.lower_is_better = True


@unittest.skipIf(_program._engine is None, "the compiled part is not there")
class FunctionsTest(WorkFolder):
    """Losses and metrics that are functions."""

    def setUp(self):
        super().setUp()
        self.dataset = atoll.Dataset.from_arrays(**arrays(), path="data")

    def train(self, **options):
        return atoll.train(self.dataset, "gcn", **{**QUICK, **options})

    def expect_same(self, run, other):
        np.testing.assert_allclose(run.metrics["loss"], other.metrics["loss"], rtol=1e-4)
        np.testing.assert_allclose(run.metrics["valid_loss"], other.metrics["valid_loss"], rtol=1e-4)

    def test_a_loss_of_the_same_definition(self):
        usual = self.train()
        for ranks in (1, 3):
            run = self.train(ranks=ranks, loss=cross_entropy, metric=accuracy)
            self.expect_same(run, usual)
            np.testing.assert_allclose(run.metrics["valid"], usual.metrics["valid"], atol=1e-6)
            self.assertEqual(run.summary["metric"], "python-accuracy")
            self.assertAlmostEqual(run.summary["python-accuracy"]["test"], run.summary["accuracy"]["test"])

    def test_the_lowest_may_be_best(self):
        run = self.train(metric=share_of_errors, epochs=10)
        valid = run.metrics["valid"]
        self.assertEqual(run.summary["best_epoch"], int(valid.argmin()) + 1)

    def test_numbers_are_columns(self):
        given = {**arrays(), "y": np.random.default_rng(2).normal(size=NODES).astype(np.float32)}
        shapes = set()

        def squares(logits, labels):
            shapes.add((logits.shape[1:], labels.shape[1:]))
            return (logits - labels) ** 2, 2 * (logits - labels)
        dataset = atoll.Dataset.from_arrays(**given, task="regression", path="numbers")
        self.expect_same(atoll.train(dataset, "gcn", loss=squares, **QUICK),
                         atoll.train(dataset, "gcn", **QUICK))
        self.assertEqual(shapes, {((1,), (1,))})

    def test_what_a_function_raises_comes_back(self):
        def broken(logits, labels):
            raise KeyError("no such thing")
        for ranks in (1, 2):
            with self.assertRaisesRegex(KeyError, "no such thing"):
                self.train(ranks=ranks, loss=broken)
        with self.assertRaisesRegex(KeyError, "no such thing"):
            self.train(metric=broken)

    def test_what_a_function_returns_is_checked(self):
        def case(function, text, **options):
            with self.assertRaisesRegex(atoll.InputError, text):
                self.train(loss=function, **options)
        case(lambda logits, labels: 3.0, "must return .value, gradient.")
        case(lambda logits, labels: (0.0, logits[:1]), r"shape \[1, 3\]; the logits have")
        case(lambda logits, labels: (0.0, np.where(logits == logits[2, 1], np.nan, logits)),
             "gradient of row 2, column 1, is nan")
        with self.assertRaisesRegex(atoll.InputError, "must return a number"):
            self.train(metric=lambda logits, labels: logits)
        case(cross_entropy, "computes all of the loss", class_weights="balanced")

    def test_resumed_runs_want_their_functions_again(self):
        whole = self.train(loss=cross_entropy, metric=accuracy, epochs=6)
        run = self.train(loss=cross_entropy, metric=accuracy, epochs=3)
        with self.assertRaisesRegex(atoll.InputError, r"function cross_entropy of Python; .*loss=cross"):
            run.resume(epochs=6, progress=None, metric=accuracy)
        run = run.resume(epochs=6, progress=None, loss=cross_entropy, metric=accuracy)
        np.testing.assert_array_equal(run.metrics["loss"], whole.metrics["loss"])
        # The model needs none.
        self.assertEqual(len(run.predict()), NODES)
        self.assertIn("accuracy", run.evaluate()["test"])

    def test_a_progress_function_stops_with_a_function_as_loss(self):
        run = self.train(loss=cross_entropy, epochs=50, progress=lambda record: record["epoch"] < 3)
        self.assertEqual((run.epochs, run.status), (3, "stopped"))

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not there")
    def test_ranks_that_are_processes_import_them(self):
        usual = self.train()
        # The functions are of this very file, which the ranks run under another name.
        run = self.train(ranks=2, launcher="mpirun", loss=cross_entropy, metric=accuracy)
        self.expect_same(run, usual)
        with self.assertRaisesRegex(atoll.InputError, "must find the function by its name"):
            self.train(ranks=2, launcher="mpirun", loss=lambda logits, labels: None)
        # Its name is that of the function inside, which other ranks would find.
        with self.assertRaisesRegex(atoll.InputError, "another object has this name"):
            self.train(ranks=2, launcher="mpirun", loss=atoll.autograd(cross_entropy))
        with self.assertRaisesRegex(atoll.InputError, "must return .value, gradient."):
            self.train(ranks=2, launcher="mpirun", loss=accuracy)
        with self.assertRaisesRegex(atoll.InputError, "can't be taken to the ranks"):
            self.train(launcher={"hosts": "localhost"}, loss=cross_entropy)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not there")
    def test_scripts_do_not_start_themselves(self):
        with open("script.py", "w", encoding="utf-8") as script:
            script.write("import atoll\n"
                         "def loss(logits, labels):\n    return 0.0, 0 * logits\n"
                         "atoll.train('data', 'gcn', ranks=2, launcher='mpirun', loss=loss, epochs=2,\n"
                         "            progress=None)\n")
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path)) for path in sys.path)
        result = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=120,
                                env={**os.environ, "PYTHONPATH": paths}, check=False)
        self.assertIn("put that under: if __name__ == '__main__':", result.stderr)
        self.assertIn("InputError", result.stderr)

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_pytorch_finds_gradients(self):
        import torch.nn.functional

        @atoll.autograd
        def loss(logits, labels):
            return torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        self.expect_same(self.train(loss=loss), self.train())


class CheckedLossTest(unittest.TestCase):
    """Without the engine: a loss that is no sum and no loss of each row is refused."""
    LOGITS = np.zeros((4, 3), np.float32)

    def answer(self, function):
        labels = np.zeros(4, np.int32)
        return _functions._Function("loss", function, _functions._checked_loss, [])(self.LOGITS, labels)

    def test_shapes(self):
        for shape in ((), (4,), (4, 1), (4, 3)):
            value, gradient = self.answer(lambda logits, labels: (np.ones(shape), logits))
            self.assertEqual((value, gradient.shape), (np.prod(shape), (4, 3)))
        self.assertEqual(self.answer(lambda logits, labels: ([1.0] * 4, logits.tolist()))[0], 4)
        # A column minus a row.
        self.assertIn("loss: <lambda>: its loss has the shape [4, 4]; allowed are a single number",
                      self.answer(lambda logits, labels: (logits[:, :1] - labels, logits)))
        self.assertIn("shape [1]", self.answer(lambda logits, labels: (np.ones(1), logits)))

    def test_types(self):
        for value, found in ((1j, "complex128"), ("x", "<U1"), (None, "object"),
                             ([[1], [2, 3]], "list, which can't be a NumPy array")):
            self.assertIn(f"its loss is {found}", self.answer(lambda logits, labels: (value, logits)))
        self.assertIn("its gradient is complex64", self.answer(lambda logits, labels: (0, logits * 1j)))

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_tensors(self):
        def row_losses(rows, labels):
            return (rows[:, 0] - labels - 1) ** 2
        self.assertEqual(self.answer(atoll.autograd(row_losses))[0], 4)
        for function, found in ((lambda rows, labels: (rows[:, :1] - labels) ** 2, "shape [4, 4]"),
                                (lambda rows, labels: 3.0, "returned float; it must return a tensor"),
                                (lambda rows, labels: rows * 1j, "torch.complex64")):
            self.assertIn(found, self.answer(atoll.autograd(function)))


class GraphsTest(WorkFolder):
    """Graphs of other libraries give what from_arrays() gives."""

    def same(self, one, two):
        self.assertEqual(one.directed, two.directed)
        for name in ("x", "y", "edge_index", "train_mask"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), name)

    def dgl_graph(self, given, **edges):
        """Has what is used of a DGLGraph."""
        names = {"x": "feat", "y": "label"}
        return types.SimpleNamespace(
            edges=lambda order: tuple(given["edge_index"]), num_nodes=lambda: NODES,
            canonical_etypes=[("_N", "_E", "_N")], edata=edges,
            ndata={names.get(name, name): value for name, value in given.items()
                   if name != "edge_index"})

    def test_dgl(self):
        given = arrays()
        same = atoll.Dataset.from_arrays(**given)
        self.same(atoll.Dataset.from_dgl(self.dgl_graph(given)), same)
        self.same(atoll.Dataset.from_dgl(self.dgl_graph(given), directed=True),
                  atoll.Dataset.from_arrays(**given, directed=True))
        bytes_ = {name: value.astype(np.uint8) if value.dtype == bool else value
                  for name, value in given.items()}
        self.same(atoll.Dataset.from_dgl(self.dgl_graph(bytes_)), same)
        edges = given["edge_index"].shape[1]
        random = np.random.default_rng(2)
        data = {"w": random.random(edges), "kind": random.integers(0, 3, edges)}
        typed = atoll.Dataset.from_dgl(self.dgl_graph(given, **data), weight="w", edge_type="kind")
        same = atoll.Dataset.from_arrays(**given, edge_weight=data["w"], edge_type=data["kind"])
        for name in ("edge_weights", "edge_types"):
            np.testing.assert_array_equal(typed._read(name), same._read(name))
        with self.assertRaisesRegex(atoll.InputError, "label is 'class', which graph.ndata does not "
                                    "have; it has feat"):
            atoll.Dataset.from_dgl(self.dgl_graph(given), label="class")
        several = self.dgl_graph(given)
        several.canonical_etypes = [("a", "b", "a"), ("a", "c", "a")]
        with self.assertRaisesRegex(atoll.InputError, "to_homogeneous"):
            atoll.Dataset.from_dgl(several)
        with self.assertRaisesRegex(atoll.InputError, "DGLGraph"):
            atoll.Dataset.from_dgl(7)

    @unittest.skipUnless(has("scipy"), "scipy is not installed")
    def test_scipy(self):
        import scipy.sparse
        given = arrays()
        edges = given.pop("edge_index")
        values = np.random.default_rng(2).random(edges.shape[1]).astype(np.float32) + 0.5
        plain = atoll.Dataset.from_arrays(edges, **given, directed=True)
        weighted = atoll.Dataset.from_arrays(edges, **given, directed=True, edge_weight=values)
        for kind in ("csr_matrix", "csc_array", "coo_matrix", "lil_array"):
            with self.subTest(kind):
                make = getattr(scipy.sparse, kind)
                ones = make(scipy.sparse.coo_matrix((np.ones(len(values)), edges), (NODES, NODES)))
                dataset = atoll.Dataset.from_scipy(ones, **given, directed=True)
                self.same(dataset, plain)
                self.assertIsNone(dataset._read("edge_weights"))
                matrix = make(scipy.sparse.coo_matrix((values, edges), (NODES, NODES)))
                dataset = atoll.Dataset.from_scipy(matrix, **given, directed=True)
                self.same(dataset, weighted)
                np.testing.assert_array_equal(dataset._read("edge_weights"),
                                              weighted._read("edge_weights"))
                dataset = atoll.Dataset.from_scipy(matrix, **given, directed=True, weighted=False)
                self.assertIsNone(dataset._read("edge_weights"))
        given["x"] = scipy.sparse.csr_matrix(given["x"])
        self.same(atoll.Dataset.from_scipy(ones > 0, **given),
                  atoll.Dataset.from_arrays(edges, **given))
        with self.assertRaisesRegex(atoll.InputError, r"shape is \(2, 3\); allowed is \[N, N\]"):
            atoll.Dataset.from_scipy(scipy.sparse.csr_matrix((2, 3)))
        complex_ = scipy.sparse.csr_matrix(np.full((2, 2), 1j))
        with self.assertRaisesRegex(atoll.InputError, "values of adjacency are complex128; allowed are"):
            atoll.Dataset.from_scipy(complex_)
        self.assertEqual(atoll.Dataset.from_scipy(complex_, weighted=False).num_edges, 2)
        with self.assertRaisesRegex(atoll.InputError, "ndarray"):
            atoll.Dataset.from_scipy(np.ones((3, 3)))

    @unittest.skipUnless(has("networkx"), "networkx is not installed")
    def test_networkx(self):
        import networkx
        given = arrays()
        words = np.array(["blue", "green", "red"])
        graph = networkx.DiGraph()
        for node in range(NODES):
            sets = [name for name in ("train", "val", "test") if given[f"{name}_mask"][node]]
            graph.add_node(f"node {node}", x=list(given["x"][node]), kind=str(words[given["y"][node]]),
                           set=sets[0])
        graph.add_edges_from([(f"node {s}", f"node {t}") for s, t in given["edge_index"].T])
        names = {"features": "x", "label": "kind", "split": "set"}
        dataset = atoll.Dataset.from_networkx(graph, **names)
        self.same(dataset, atoll.Dataset.from_arrays(**given, directed=True))
        self.assertEqual(dataset.classes, ["blue", "green", "red"])
        both = atoll.Dataset.from_arrays(**given)
        self.same(atoll.Dataset.from_networkx(graph, **names, directed=False), both)
        self.same(atoll.Dataset.from_networkx(graph.to_undirected(), **names), both)
        with self.assertRaisesRegex(atoll.InputError, "to_directed"):
            atoll.Dataset.from_networkx(graph.to_undirected(), directed=True)

        weights = networkx.Graph()
        weights.add_edge(0, 1, weight=2.5)
        weights.add_edge(1, 2, kind=1)
        weights.add_node(3, y=1)
        weights.nodes[0]["y"] = 0
        dataset = atoll.Dataset.from_networkx(weights, label="y")
        np.testing.assert_array_equal(dataset._read("edge_weights"), [2.5, 2.5, 1, 1])
        np.testing.assert_array_equal(dataset.y, [0, -1, -1, 1])
        self.assertIsNone(atoll.Dataset.from_networkx(weights, weight=None)._read("edge_weights"))
        self.assertEqual(atoll.Dataset.from_networkx(networkx.path_graph(4)).num_nodes, 4)
        with self.assertRaisesRegex(atoll.InputError, "no edge has the attribute 'length'"):
            atoll.Dataset.from_networkx(weights, weight="length")
        weights.edges[0, 1]["weight"] = "heavy"
        with self.assertRaisesRegex(atoll.InputError, "edge from 0 to 1 has 'heavy' as its 'weight'"):
            atoll.Dataset.from_networkx(weights, label="y")
        del graph.nodes["node 7"]["x"]
        with self.assertRaisesRegex(atoll.InputError, "column 'x' has None in row 7, but a list of"):
            atoll.Dataset.from_networkx(graph, **names)
        with self.assertRaisesRegex(atoll.InputError, "no nodes"):
            atoll.Dataset.from_networkx(networkx.Graph())
        with self.assertRaisesRegex(atoll.InputError, "NetworkX"):
            atoll.Dataset.from_networkx([1, 2])


class TableTest(unittest.TestCase):
    def test_missing_numbers_are_nan(self):
        table = atoll.Table.from_records([{"epoch": 1, "valid": 0.5}, {"epoch": 2, "kind": "a"}])
        self.assertEqual(table.columns, ["epoch", "valid", "kind"])
        self.assertTrue(np.isnan(table["valid"][1]))
        self.assertIsNone(table["kind"][0])
        with self.assertRaisesRegex(KeyError, "there is no column 'loss'; there are epoch, valid"):
            table["loss"]

    def test_long_tables_are_cut(self):
        text = repr(atoll.Table({"a": np.arange(100)}))
        self.assertIn("...", text)
        self.assertIn("(100 rows)", text)
        self.assertLess(len(text.splitlines()), 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
