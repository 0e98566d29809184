"""Predictions as a table of text: the ids that nodes have in the source, classes by name,
probabilities; and files of other kinds."""

import csv
import importlib.util
import json
import pathlib
import unittest
from unittest import mock

import atoll
import numpy as np
from support import QUICK, Case, graph


def softmax(logits):
    raised = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


class PredictionTableTest(Case):
    def table(self, *words, out="out.csv", ranks=0):
        self.succeed("predict", "run", "data", "--threads", "1", "--out", out, *words, ranks=ranks)
        with open(out, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        return header, rows

    def logits(self, *words):
        self.succeed("predict", "run", "data", "--threads", "1", "--what", "logits", "--out",
                     "logits.npy", *words)
        return np.load("logits.npy")

    def trained(self, made=None, task=(), **more):
        made = {**graph(), **(made or {})}
        atoll.Dataset.from_arrays(**made, path="data", **more)
        self.succeed("train", "data", *QUICK, *task, "--run-dir", "run")

    def test_classes_have_probabilities(self):
        self.trained()
        header, rows = self.table()
        self.assertEqual(header, ["node", "class", *[f"probability_{c}" for c in range(3)]])
        logits = self.logits()
        self.assertEqual([int(row[0]) for row in rows], list(range(12)))
        self.assertEqual([int(row[1]) for row in rows], list(logits.argmax(1)))
        found = np.array([[float(field) for field in row[2:]] for row in rows])
        np.testing.assert_allclose(found, softmax(logits), atol=1e-7)
        self.assertEqual(self.table(ranks=2)[1], self.table("--transport", "local", "--ranks", "2")[1])

    def test_classes_have_their_names(self):
        names = ["x, y", 'a "b"', "plain"]
        self.trained()
        pathlib.Path("data", "class_names.json").write_text(json.dumps(names), encoding="utf-8")
        header, rows = self.table()
        self.assertEqual(header, ["node", "class", "name", *[f"probability_{n}" for n in names]])
        self.assertTrue(all(row[2] == names[int(row[1])] for row in rows))

    def test_nodes_have_the_ids_of_their_source(self):
        made = graph()
        ids = [f"n{k:02}" for k in range(12)]
        pathlib.Path("in").mkdir()
        write = {"edges.csv": ["source,target", *[f"{ids[u]},{ids[v]}" for u, v in
                                                  made["edge_index"].T]],
                 "features.csv": ["id,a,b", *[f"{name},{x[0]},{x[1]}" for name, x in
                                              zip(ids, made["x"])]],
                 "labels.csv": ["id,label", *[f"{name},{'pqr'[y]}" for name, y in
                                              zip(ids, made["y"])]]}
        for name, lines in write.items():
            pathlib.Path("in", name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.succeed("import", "edges", "in", "--renumber", "--split", ".5,.25,.25",
                     "--out", "data")
        self.succeed("train", "data", *QUICK, "--run-dir", "run")
        header, rows = self.table()
        self.assertEqual(header[:4], ["node", "class", "name", "probability_p"])
        self.assertEqual([row[0] for row in rows], ids)
        self.assertTrue(all(row[2] == "pqr"[int(row[1])] for row in rows))

    def test_two_classes_several_labels_and_numbers(self):
        y = np.arange(12) % 2
        self.trained({"y": np.stack([y, 1 - y], axis=1)})
        header, rows = self.table()
        self.assertEqual(header, ["node", "label_0", "label_1", "probability_0", "probability_1"])
        logits = self.logits()
        for row, logit in zip(rows, logits):
            self.assertEqual([int(field) for field in row[1:3]], [int(value > 0) for value in logit])
            np.testing.assert_allclose([float(field) for field in row[3:]],
                                       1 / (1 + np.exp(-logit.astype(np.float64))), atol=1e-7)

    def test_numbers(self):
        self.trained({"y": np.linspace(0.1, 1.3, 12).astype(np.float32)})
        header, rows = self.table()
        self.assertEqual(header, ["node", "value_0"])
        logits = self.logits()
        self.assertEqual([np.float32(row[1]) for row in rows], list(logits[:, 0]))
        header, rows = self.table("--what", "embeddings")
        self.assertEqual(header, ["node", *[f"embedding_{c}" for c in range(8)]])

    def test_other_suffixes_are_refused(self):
        self.trained()
        for name in ("labels", "labels.txt", "labels.parquet", "labels.csv.gz"):
            result = self.atoll("predict", "run", "data", "--out", name)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"--out {name}: allowed are names that end in .npy or .csv",
                          result.stderr)
            self.assertFalse(pathlib.Path(name).exists())

    def test_python_writes_files(self):
        self.trained()
        run = atoll.Run("run")
        run.predict(path="python.csv")
        self.table()
        self.assertEqual(pathlib.Path("python.csv").read_bytes(),
                         pathlib.Path("out.csv").read_bytes())
        run.predict("probabilities", path="p.npy")
        np.testing.assert_array_equal(np.load("p.npy"), run.predict("probabilities"))
        with self.assertRaisesRegex(atoll.InputError, r"end in .npy, .csv or .parquet"):
            run.predict(path="labels.txt")
        with mock.patch.object(importlib.util, "find_spec", return_value=None), \
                self.assertRaisesRegex(atoll.InputError, "needs the package pyarrow.* ends in .csv"):
            run.predict(path="labels.parquet")

    @unittest.skipIf(importlib.util.find_spec("pyarrow") is None, "pyarrow is not installed")
    def test_python_writes_parquet(self):
        import pyarrow.parquet
        self.trained()
        atoll.Run("run").predict(path="labels.parquet")
        header, rows = self.table()
        table = pyarrow.parquet.read_table("labels.parquet")
        self.assertEqual(table.column_names, header)
        self.assertEqual(table["class"].to_pylist(), [int(row[1]) for row in rows])


if __name__ == "__main__":
    unittest.main()
