"""Labels as people have them: floating-point classes, NaN for "none", one-hot rows, -1 and +1."""

import unittest

import numpy as np

import atoll
from support import Case, graph

NAN = float("nan")


class Labels(Case):
    def arrays(self, y):
        return {**graph(len(y)), "y": y}

    def both(self, y, *words, task=None, splits=()):
        """The Folder of these labels, which is the same by both ways."""
        arrays = {key: value for key, value in self.arrays(y).items() if key not in splits}
        np.savez("mine.npz", **arrays)
        words = [*words, "--directed", "--keep-self-loops"]
        words += ["--task", task] if task else []
        self.made = getattr(self, "made", 0) + 1
        program = self.make("npy", "mine.npz", *words, out=f"data{self.made}")
        warned = self.warned
        package = self.python(atoll.Dataset.from_arrays, **arrays, directed=True,
                              keep_self_loops=True, task=task)
        self.assert_same(program, package)
        self.assertEqual(bool(warned), bool(self.warned))
        self.warned = warned
        return program

    def refused(self, y, *words, task=None, says=()):
        np.savez("mine.npz", **self.arrays(y))
        more = ["--task", task] if task else []
        self.refuse("import", "npy", "mine.npz", "--out", "data", *words, *more,
                    says=["mine.npz[y]: ", *says])
        message = self.python_refuses(atoll.Dataset.from_arrays, **self.arrays(y), task=task)
        self.assertTrue(message.startswith("y: "), message)


class WholeFloats(Labels):
    def test_classes_as_floats(self):
        y = (np.arange(12) % 3).astype(np.float32)
        self.refused(y, says=["all of them whole (0 to 2)", "--task single-label (classes 0 to 2)",
                              "--task regression (numbers to predict)"])
        made = self.both(y, task="single-label")
        np.testing.assert_array_equal(made.labels, y.astype(np.int32))
        self.assertEqual((made.fields["task"], made.fields["classes"]), ("single-label", 3))
        made = self.both(y, task="regression")
        np.testing.assert_array_equal(made.labels, y[:, None] if made.labels.ndim == 2 else y)
        self.assertEqual(made.fields["task"], "regression")

    def test_unlabelled_nodes_as_nan(self):  # papers100M, pandas
        y = np.array([0, 1, NAN, 2] * 3)
        self.refused(y, says=["all of them whole (0 to 2; 3 are NaN)",
                              "--task single-label (classes 0 to 2, NaN: none)"])
        made = self.both(y, task="single-label")
        np.testing.assert_array_equal(made.labels, [0, 1, -1, 2] * 3)

    def test_one_column(self):
        y = np.array([[0], [1], [NAN]] * 4, np.float16)
        self.refused(y, says=["--task binary (the same two classes, reported as ROC-AUC)"])
        made = self.both(y, task="binary")
        np.testing.assert_array_equal(made.labels, [0, 1, -1] * 4)
        self.assertEqual(made.fields["task"], "binary")

    def test_several_columns_of_zeros_and_ones(self):
        y = np.random.default_rng(0).integers(0, 2, (12, 5)).astype(np.float32)
        y[0] = [1, 1, 0, 0, NAN]
        self.refused(y, says=["--task multi-label (5 labels per node, each 0 or 1, NaN: none)",
                              "--task regression (5 numbers to predict per node"])
        made = self.both(y, task="multi-label")
        np.testing.assert_array_equal(made.labels, np.where(np.isnan(y), 255, y))
        self.assertEqual(self.both(y, task="regression").fields["task"], "regression")

    def test_all_zero_or_all_nan(self):
        self.refused(np.zeros(12), says=["all of them whole (0 to 0)"])
        self.refused(np.full(12, NAN), says=["all of them NaN"])

    def test_numbers_are_numbers_without_being_asked(self):
        fractions = np.arange(12) / 2
        negative = -np.arange(12.0)
        for y in (fractions, np.append(fractions[:-1], NAN), negative,
                  np.arange(24.0).reshape(12, 2)):
            made = self.both(y)
            self.assertEqual(made.fields["task"], "regression")
            np.testing.assert_array_equal(np.ravel(made.labels), np.ravel(y).astype(np.float32))

    def test_fractions_are_no_classes(self):
        y = np.array([0, 1, 0.5] * 4)
        self.refused(y, task="single-label", says=["label 0.5 at element 2"])

    def test_infinity(self):
        self.refused(np.array([0, 1, np.inf] * 4), says=["inf at element 2"])


class OneHot(Labels):
    def test_integers_are_warned_of(self):
        classes = np.arange(12) % 3
        y = np.eye(3, dtype=np.int64)[classes]
        made = self.both(y)
        self.assertIn("one-hot", self.warned)
        self.assertIn("--task single-label", self.warned)
        self.assertEqual((made.fields["task"], made.fields["classes"]), ("multi-label", 3))
        np.testing.assert_array_equal(made.labels, y)
        made = self.both(y, task="single-label")
        self.assertEqual(self.warned, "")
        np.testing.assert_array_equal(made.labels, classes)

    def test_floats_are_asked_about(self):
        y = np.eye(4)[np.arange(12) % 3]  # the last class has no node
        self.refused(y, says=["--task single-label (one class per node, the column of its only 1)"])
        made = self.both(y, task="single-label")
        np.testing.assert_array_equal(made.labels, np.arange(12) % 3)
        self.assertEqual(made.fields["classes"], 4)

    def test_a_row_without_one_is_no_label(self):
        y = np.eye(3, dtype=np.uint8)[np.arange(12) % 3]
        y[5] = 0
        made = self.both(y, task="single-label")
        self.assertEqual(made.labels.tolist(), [0, 1, 2, 0, 1, -1, 0, 1, 2, 0, 1, 2])

    def test_a_row_of_several_is_named(self):
        y = np.eye(3, dtype=np.int64)[np.arange(12) % 3]
        y[7] = 1
        self.refused(y, task="single-label", says=["node 7 has several of its 3 labels"])
        self.assertEqual(self.both(y).fields["task"], "multi-label")
        self.assertEqual(self.warned, "")

    def test_two_columns_are_binary(self):
        y = np.eye(2, dtype=np.int64)[np.arange(12) % 2]
        made = self.both(y, task="binary")
        np.testing.assert_array_equal(made.labels, np.arange(12) % 2)

    def test_lists_of_graphsaint(self):
        self.assertIn("class_map.json", self.graphsaint())
        self.assertIn("one-hot", self.warned)
        self.graphsaint("--task", "single-label")
        self.assertEqual(self.warned, "")
        np.testing.assert_array_equal(self.last.labels, np.arange(8) % 2)

    def graphsaint(self, *words):
        import json
        import os
        os.makedirs("saint", exist_ok=True)
        np.savez("saint/adj_full.npz", data=np.ones(8), indices=np.roll(np.arange(8), 1),
                 indptr=np.arange(9), shape=np.array([8, 8]))
        np.save("saint/feats.npy", np.ones((8, 2)))
        with open("saint/class_map.json", "w", encoding="utf-8") as file:
            json.dump({str(node): [1 - node % 2, node % 2] for node in range(8)}, file)
        with open("saint/role.json", "w", encoding="utf-8") as file:
            json.dump({"tr": [0, 1], "va": [2], "te": [3]}, file)
        self.last = self.make("graphsaint", "saint", *words, out=f"saint-{len(words)}")
        return self.output


class Signs(Labels):
    def test_minus_one_and_one_are_two_classes(self):
        for y in (np.array([-1, 1, 1] * 4), np.array([[-1], [1], [1]] * 4, np.int8)):
            made = self.both(y)
            self.assertIn("the labels are -1 and +1; they are read as two classes", self.warned)
            self.assertEqual(made.labels.tolist(), [0, 1, 1] * 4)
            self.assertEqual(made.fields["classes"], 2)

    def test_floats(self):
        y = np.array([-1, 1, NAN] * 4)
        self.refused(y, says=["--task single-label (classes 0 to 1, -1: 0, NaN: none)"])
        made = self.both(y, task="binary")
        self.assertEqual(made.labels.tolist(), [0, 1, -1] * 4)

    def test_several_labels(self):
        y = np.where(np.random.default_rng(0).random((12, 3)) < .5, -1, 1)
        np.testing.assert_array_equal(self.both(y).labels, y > 0)
        self.assertIn("-1 and +1", self.warned)

    def test_minus_one_is_none_beside_other_classes(self):
        made = self.both(np.array([-1, 0, 1] * 4))
        self.assertEqual(made.labels.tolist(), [-1, 0, 1] * 4)
        self.assertEqual(self.warned, "")

    def test_text_of_ogb(self):
        import cli_support
        cli_support.make_ogb("set", node_label="1\n-1\n1\n-1\n-1\n1\n")
        made = self.make("ogb", "set")
        self.assertIn("-1 and +1", self.warned)
        self.assertEqual(made.labels.tolist(), [1, 0, 1, 0, 0, 1])


class Numbering(Labels):
    def test_classes_from_one(self):
        self.both(np.arange(12) % 3 + 1)
        self.assertIn("no node has class 0", self.warned)

    def test_255_for_none(self):
        y = np.where(np.arange(12) % 4 == 3, -1, np.arange(12) % 4).astype(np.uint8)
        self.both(y)
        self.assertIn('if 255 stands for "no label", write -1 instead', self.warned)

    def test_booleans(self):
        y = np.arange(12) % 2 == 1
        self.assertEqual(self.both(y).labels.tolist(), [0, 1] * 6)

    def test_the_table_of_pandas(self):
        """A column of classes with gaps is one of floats there."""
        table = {"id": np.arange(6), "label": np.array([0, 1, NAN, 1, 0, 1]),
                 "split": np.array(["train", "train", "", "valid", "test", "test"])}
        edges = {"source": np.arange(6), "target": np.roll(np.arange(6), 1)}
        keywords = {"id": "id", "label": "label", "split": "split"}
        self.python_refuses(atoll.Dataset.from_tables, edges, table, **keywords,
                            says=["all of them whole", "single-label"])
        made = self.python(atoll.Dataset.from_tables, edges, table, **keywords,
                           task="single-label")
        self.assertEqual(made.labels.tolist(), [0, 1, -1, 1, 0, 1])


if __name__ == "__main__":
    unittest.main()
