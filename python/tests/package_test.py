"""The Python package, in process where its compiled part is there, else by the program that
ATOLL_PROGRAM names. pytest runs it on an installed wheel, ctest on the source tree."""

import importlib.util
import os
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
from atoll import _program
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
        dataset = atoll.Dataset.from_arrays(**given, path="data")
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

    def test_symmetric_edges_are_an_undirected_graph(self):
        given = arrays()
        both = np.concatenate([given["edge_index"], given["edge_index"][::-1]], axis=1)
        dataset = atoll.Dataset.from_arrays(**{**given, "edge_index": both})
        self.assertFalse(dataset.directed)
        self.assertEqual(dataset.num_edges, np.unique(both, axis=1).shape[1])
        made = atoll.Dataset.from_arrays(**given, undirected=True)
        np.testing.assert_array_equal(made.edge_index, dataset.edge_index)

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
                ({"edge_weight": np.ones(3)}, "edge_weight: it has 3 rows, but there are"),
                ({"edge_index": good["edge_index"] + NODES}, str(NODES))):
            with self.subTest(text), self.assertRaisesRegex(atoll.InputError, text):
                atoll.Dataset.from_arrays(**{**good, **change})
        with self.assertRaisesRegex(atoll.InputError, "no dataset.json"):
            atoll.Dataset("nothing")
        self.assertEqual(os.listdir("."), [])

    def test_objects_with_the_attributes_of_pyg(self):
        given = arrays()
        dataset = atoll.Dataset.from_pyg(types.SimpleNamespace(**given, num_nodes=NODES))
        np.testing.assert_array_equal(dataset.x, given["x"])
        with self.assertRaisesRegex(atoll.InputError, "HeteroData"):
            atoll.Dataset.from_pyg(types.SimpleNamespace(edge_index={}))

    def test_metis_text_gives_the_same_graph(self):
        given = arrays()
        given["edge_index"] = np.concatenate([given["edge_index"], [[5], [5]]], axis=1)
        atoll.Dataset.from_arrays(**given).to_metis("graph.metis")
        back = atoll.Dataset.import_("metis", "graph.metis")
        plain = atoll.Dataset.from_arrays(given["edge_index"][:, :-1], undirected=True,
                                          num_nodes=NODES)
        np.testing.assert_array_equal(back.edge_index, plain.edge_index)

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_tensors(self):
        import torch
        given = {key: torch.from_numpy(value) for key, value in arrays().items()}
        given["y"] = given["y"][:, None]  # as OGB has it
        dataset = atoll.Dataset.from_arrays(**given)
        np.testing.assert_array_equal(dataset.y, given["y"][:, 0].numpy())

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
        dataset = atoll.Dataset.from_tables(edges, nodes, **self.NAMES, **options)
        same = atoll.Dataset.from_arrays(**given)
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
        self.assertEqual(atoll.Dataset.from_tables(plain).num_edges, given["edge_index"].shape[1])

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
                ((7, nodes), ["int", "DataFrame"]), ((edges, None), ["id", "no such table"])):
            with self.assertRaises(atoll.InputError) as raised:
                atoll.Dataset.from_tables(*wrong, **self.NAMES)
            for word in words:
                self.assertIn(word, str(raised.exception))
        with self.assertRaisesRegex(atoll.InputError, "id=..."):
            atoll.Dataset.from_tables(edges)


class TrainTest(WorkFolder):
    def setUp(self):
        super().setUp()
        self.dataset = atoll.Dataset.from_arrays(**arrays(), path="data")

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
        self.assertEqual(run.predict("embeddings").shape, (NODES, 16))
        logits[0] = 0  # it is the caller's
        self.assertIn("<svg", run.report().html)
        self.assertIn("<iframe", run.report()._repr_html_())
        self.assertIn("runs/data-gcn-1", repr(atoll.Run(run.path)))
        self.assertIn("<table>", run.metrics._repr_html_())

    def test_ranks_give_the_same_losses(self):
        one = atoll.train(self.dataset, "gat", heads=2, **QUICK)
        for launcher in ("threads", "mpirun"):
            two = atoll.train(self.dataset, "gat", heads=2, ranks=2, launcher=launcher, **QUICK)
            self.assertEqual(two.summary["ranks"], 2)
            np.testing.assert_allclose(two.metrics["loss"], one.metrics["loss"], rtol=1e-4)

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
        run = atoll.train(self.dataset, model, epochs=3, progress=None, threads=1)
        self.assertEqual(run.summary["epochs"], 3)
        self.assertEqual(run.predict("logits").shape, (NODES, CLASSES))
        for wrong, text in (({"layers": []}, "unknown key 'layers'; allowed are input, layer, head"),
                            ({"layer": []}, "'layer' is "),
                            ({"layer": [{"columns": [1]}]}, r"layer\[0\]\['columns'\] is \[1\]"),
                            ({"layer": [{"convolution": "gcm"}]}, "gcm")):
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
        for options, text in (({"hiden": 3}, "hiden"), ({"dropout": 2}, "dropout"),
                              ({"model": "gnn"}, "gcn"), ({"ranks": NODES + 1}, "ranks"),
                              ({"launcher": "mpi"}, "launcher is 'mpi'; allowed are")):
            with self.subTest(text), self.assertRaisesRegex(atoll.InputError, text) as caught:
                atoll.train(self.dataset, **{**QUICK, **options})
            self.assertEqual(caught.exception.exit_code, 2)
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

    def test_a_progress_function_that_fails_ends_the_run(self):
        def fail(record):
            raise ZeroDivisionError
        with self.assertRaises(ZeroDivisionError):
            atoll.train(self.dataset, run_dir="failed", **{**QUICK, "epochs": 100000,
                                                           "progress": fail})
        self.assertLess(atoll.Run("failed").epochs, 100000)

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

    @unittest.skipIf(_program._engine is None, "the compiled part is not there")
    def test_options_are_listed(self):
        table = atoll.options()
        self.assertIn("attention_dropout", list(table["option"]))
        self.assertIn("hidden", repr(table) + " ".join(table["option"]))

    @unittest.skipIf(_program._engine is None, "the compiled part is not there")
    def test_the_program_is_carried_along(self):
        paths = os.pathsep.join(os.path.abspath(os.path.join(self._before, path))
                                for path in sys.path)
        result = subprocess.run([sys.executable, "-c", "from atoll._program import main; main()",
                                 "--version"], capture_output=True, text=True, check=True,
                                env=dict(os.environ, PYTHONPATH=paths))
        self.assertIn("atoll", result.stdout)

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
