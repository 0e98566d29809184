"""Graphs whose nodes have no features: made of the graph, drawn, or trained."""

import json
import pathlib
import struct
import types
import unittest

import numpy as np

import atoll
from support import Case, graph

TRAIN = ["--model", "sage", "--layers", "2", "--hidden", "16", "--dropout", "0", "--threads", "1"]


def tensors(path):
    """The f32 matrices of a safetensors file, by name."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: np.frombuffer(data[8 + length:][slice(*entry["data_offsets"])],
                                np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


class Featureless(Case):
    def write(self, name="bare", **changes):
        arrays = {**graph(nodes=30), **changes}
        arrays.pop("x")
        return self.save(name, **arrays)

    def losses(self, run):
        lines = pathlib.Path(run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["loss"] for line in lines]


class Made(Featureless):
    def test_degree(self):
        made = self.make("npy", self.write(), "--features", "degree")
        np.testing.assert_allclose(made.features[:, 0], np.log1p(np.diff(made.row_ptr)), rtol=1e-6)
        self.assertEqual(made.fields["features"], 1)
        directed = self.make("npy", "bare", "--features", "degree", "--directed", out="directed")
        out = np.bincount(directed.col_idx, minlength=30)
        np.testing.assert_allclose(
            directed.features, np.log1p(np.stack([np.diff(directed.row_ptr), out], axis=1)),
            rtol=1e-6)

    def test_constant_and_random(self):
        source = self.write()
        ones = self.make("npy", source, "--features", "constant")
        np.testing.assert_array_equal(ones.features, np.ones((30, 1), np.float32))
        drawn = [self.make("npy", source, "--features", "random:200", "--seed", seed, out=f"r{k}")
                 for k, seed in enumerate((1, 1, 2))]
        np.testing.assert_array_equal(drawn[0].features, drawn[1].features)
        self.assertTrue((drawn[0].features != drawn[2].features).all())
        self.assertLess(abs(drawn[0].features.mean()), 0.05)
        self.assertLess(abs(drawn[0].features.std() - 1), 0.05)

    def oracle(self, folder, columns):
        nodes = len(folder.row_ptr) - 1
        a = np.zeros((nodes, nodes))
        for source, target in folder.edges():
            a[source, target] = a[target, source] = source != target
        degrees = a.sum(axis=1)
        roots = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0)
        values, vectors = np.linalg.eigh(np.diag((degrees > 0) * 1.0) - roots[:, None] * a * roots)
        order = [k for k in np.argsort(values) if values[k] > 1e-9][:columns]
        return a, roots, values[order], vectors[:, order]

    def test_positional(self):
        arrays = graph(nodes=60, seed=4)
        # A second component, and a node without edges.
        more = np.array([[60, 61, 62, 60], [61, 62, 60, 63]])
        edges = np.concatenate([arrays["edge_index"], more], axis=1)
        for directed in ([], ["--directed"]):
            source = self.save("parts", edge_index=edges)
            made = self.make("npy", source, "--nodes", 65, "--features", "positional:6", *directed,
                             out="two" + "d" * len(directed))
            _, _, _, vectors = self.oracle(made, 6)
            found = made.features / np.sqrt(65)
            largest = np.abs(vectors).argmax(axis=0)
            vectors = vectors * np.sign(vectors[largest, range(6)])
            np.testing.assert_allclose(found, vectors, atol=1e-5)
            self.assertFalse(made.features[64].any())
        self.refuse("import", "npy", source, "--nodes", 65, "--features", "positional:64", "--out",
                    "no", says=["positional:64", "allowed are up to 62"])

    def test_positional_of_all_columns(self):
        ring = np.stack([np.arange(9), (np.arange(9) + 1) % 9])
        made = self.make("npy", self.save("ring", edge_index=ring), "--features", "positional:8")
        x = made.features.astype(float)
        np.testing.assert_allclose(x.T @ x, 9 * np.eye(8), atol=1e-4)
        np.testing.assert_allclose(x.sum(axis=0), 0, atol=1e-4)

    def test_a_dataset_that_is_there(self):
        bare = self.make("npy", self.write(), out="bare-set")
        self.assertIsNone(bare.features)
        self.refuse("train", "bare-set", *TRAIN, "--epochs", 1,
                    says=["the dataset has no features", "--features trained:64",
                          "atoll features bare-set degree", "constant", "random:64",
                          "positional:16", "features.npy"])
        self.refuse("train", "bare-set", *TRAIN, "--features", "degree",
                    says=["trained:D", "atoll features DATASET degree"])
        self.succeed("features", "bare-set", "degree")
        imported = self.make("npy", "bare", "--features", "degree", out="imported")
        np.testing.assert_array_equal(np.load("bare-set/features.npy"), imported.features)
        self.succeed("info", "bare-set", "--validate")
        self.succeed("train", "bare-set", *TRAIN, "--epochs", 1, "--run-dir", "run")
        self.refuse("features", "bare-set", "constant", says=["has 1 features", "--replace"])
        self.succeed("features", "bare-set", "random:3", "--replace")
        self.succeed("info", "bare-set", "--validate")
        self.refuse("features", "bare-set", "trained:8", "--replace", says=["atoll train"])
        self.refuse("features", "bare-set", "degrees", "--replace", says=["allowed are degree"])

    def test_features_that_are_there(self):
        source = self.save("full", **graph())
        self.refuse("import", "npy", source, "--features", "degree", "--out", "no",
                    says=["--features degree", "has 4 features", "leave the option out"])
        self.refuse("import", "npy", source, "--features", "trained:4", "--out", "no",
                    says=["--features trained:4", "atoll train"])
        self.make("npy", source)
        self.refuse("train", "data", *TRAIN, "--features", "trained:4",
                    says=["--features trained:4", "the dataset has 4 features"])

    def test_python(self):
        arrays = graph(nodes=30)
        x = arrays.pop("x")
        program = self.make("npy", self.write(), "--features", "degree")
        self.assert_same(program, self.python(atoll.Dataset.from_arrays, **arrays,
                                              features="degree"))
        self.python_refuses(atoll.Dataset.from_arrays, **arrays, x=x, features="degree",
                            says="x is given, too")
        self.python_refuses(atoll.Dataset.from_arrays, **arrays, features="degrees",
                            says="allowed are degree, constant")
        data = types.SimpleNamespace(**arrays, num_nodes=30)
        self.assert_same(program, self.python(atoll.Dataset.from_pyg, data, features="degree"))
        edges = dict(zip(("source", "target"), arrays["edge_index"]))
        nodes = {"label": arrays["y"]}
        made = self.python(atoll.Dataset.from_tables, edges, nodes, label="label",
                           features="constant")
        np.testing.assert_array_equal(made.features, np.ones((30, 1), np.float32))
        made = self.python(atoll.Dataset.from_tables, edges,
                           {**nodes, "degree": np.arange(30.0)}, label="label", features="degree")
        np.testing.assert_array_equal(made.features[:, 0], np.arange(30))
        bare = atoll.Dataset.from_arrays(**arrays)
        self.python_refuses(lambda: atoll.train(bare, epochs=1, run_dir="no", progress=False),
                            says=["features trained:64", "positional:16"])


class Trained(Featureless):
    def setUp(self):
        super().setUp()
        self.succeed("generate", "sbm", "--nodes", 400, "--degree", 12, "--classes", 4,
                     "--features", 0, "--seed", 1, "--out", "sbm")

    def train(self, run, *words):
        usual = TRAIN[2:] if "--model" in words else TRAIN
        self.succeed("train", "sbm", *usual, "--features", "trained:5", "--run-dir", run, *words)
        return tensors(f"{run}/model.safetensors")

    def test_any_number_of_ranks(self):
        for clip in ([], ["--clip-norm", "0.05"]):
            words = ["--epochs", 5, "--weight-decay", "1e-4", *clip]
            name = "c" * len(clip)
            first = self.train("one" + name, *words)["input.nodes"]
            self.assertEqual(first.shape, (400, 5))
            for ranks in (2, 3):
                run = f"r{ranks}{name}"
                rows = self.train(run, *words, "--ranks", ranks)["input.nodes"]
                np.testing.assert_allclose(self.losses(run), self.losses("one" + name), rtol=1e-4)
                self.assertLess(abs(self.losses(run)[0] / self.losses("one" + name)[0] - 1), 1e-6)
                np.testing.assert_allclose(rows, first, atol=2e-3)

    def test_one_layer_by_hand(self):
        """A step of Adam moves a number by the learning rate, against its gradient's sign."""
        start = self.train("start", "--epochs", 1, "--lr", "1e-9")["input.nodes"]
        moved = self.train("moved", "--epochs", 1, "--lr", "0.01")["input.nodes"]
        self.assertLess(np.abs(start).max(), 1 + 1e-6)  # U(-1, 1): sqrt(6 / (1 + 5))
        self.assertLess(abs(start.std() - 1 / np.sqrt(3)), 0.03)
        steps = np.abs(moved - start)
        self.assertGreater((np.abs(steps - 0.01) < 1e-4).mean(), 0.9)

    def test_resume_to_the_bit(self):
        for ranks in (1, 2):
            words = ["--ranks", ranks, "--lr", "0.02"]
            self.train(f"whole{ranks}", "--epochs", 6, *words)
            self.train(f"half{ranks}", "--epochs", 3, "--checkpoint-every", 3, *words)
            self.train(f"half{ranks}", "--epochs", 6, *words, "--resume")
            whole, half = (tensors(f"{name}{ranks}/model.safetensors") for name in ("whole", "half"))
            for name, tensor in whole.items():
                np.testing.assert_array_equal(half[name], tensor, name)
            self.assertEqual(self.losses(f"half{ranks}"), self.losses(f"whole{ranks}"))

    def test_prediction_and_export(self):
        self.train("run", "--epochs", 20, "--lr", "0.02", "--ranks", 2)
        self.succeed("predict", "run", "sbm", "--what", "logits", "--out", "one.npy")
        self.succeed("predict", "run", "sbm", "--what", "logits", "--out", "three.npy", "--ranks", 3)
        np.testing.assert_allclose(np.load("one.npy"), np.load("three.npy"), atol=1e-4)
        self.succeed("generate", "sbm", "--nodes", 300, "--classes", 4, "--features", 0, "--out",
                     "other")
        self.refuse("predict", "run", "other", "--out", "no.npy",
                    says=["it has 300 nodes", "trained features of 400"])
        self.succeed("export", "run", "--out", "pyg")
        exported = tensors("pyg/model.safetensors")["nodes.weight"]
        np.testing.assert_array_equal(exported, tensors("run/model.safetensors")["input.nodes"])
        described = json.loads(pathlib.Path("pyg/model.json").read_text(encoding="utf-8"))
        self.assertEqual((described["trained-nodes"], described["features"]), (400, 5))
        # Both kinds of weights are taken back.
        for init in ("run", "pyg"):
            self.train("again-" + init, "--epochs", 1, "--lr", "1e-9", "--init",
                       f"{init}/model.safetensors")
            np.testing.assert_allclose(
                tensors(f"again-{init}/model.safetensors")["input.nodes"], exported, atol=1e-7)

    def test_other_ways_to_compute(self):
        exact = self.losses_of("exact")
        for name, words in {"dropout": ["--input-dropout", "0.2", "--memory", "1GiB"],
                            "bf16": ["--dtype", "bf16"], "quantized": ["--bits", "8"],
                            "gat": ["--model", "gat", "--heads", "4"],
                            "linear": ["--input-layer", "linear"]}.items():
            losses = self.losses_of(name, *words)
            self.assertLess(losses[-1], losses[0], name)
            if name in ("bf16", "quantized"):
                np.testing.assert_allclose(losses, exact, rtol=0.05)

    def losses_of(self, name, *words):
        self.train(name, "--epochs", 5, "--ranks", 2, *words)
        return self.losses(name)

    def test_better_than_degrees(self):
        """Communities do not show in degrees; trained rows find them."""
        words = [*TRAIN, "--epochs", 60, "--lr", "0.02", "--seed", 1]
        self.succeed("train", "sbm", *words, "--features", "trained:16", "--run-dir", "trained")
        self.succeed("features", "sbm", "degree")
        self.succeed("train", "sbm", *words, "--run-dir", "degree")
        trained, degree = (json.loads(pathlib.Path(run, "summary.json").read_text())["test"]
                           for run in ("trained", "degree"))
        self.assertGreater(trained, degree + 0.2, (trained, degree))


if __name__ == "__main__":
    unittest.main()
