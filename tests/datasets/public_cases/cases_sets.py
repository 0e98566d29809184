"""Training, validation and test nodes: masks of every type, lists of ids, under either name."""

import unittest

import numpy as np

import atoll
from support import Case, graph

NODES = 12
SPLIT = np.arange(NODES) % 3
IDS = [np.flatnonzero(SPLIT == value) for value in range(3)]
MASKS = [SPLIT == value for value in range(3)]
NAMES = {"mask": ("train_mask", "val_mask", "test_mask"),
         "idx": ("train_idx", "val_idx", "test_idx")}


class Sets(Case):
    def arrays(self, names, sets, nodes=NODES):
        arrays = {key: value for key, value in graph(nodes).items() if not key.endswith("_mask")}
        return {**arrays, **dict(zip(names, sets))}

    def check(self, sets, split=SPLIT, says=None, warned=False):
        """That the sets are taken for `split` under all names, by both ways."""
        for kind, names in NAMES.items():
            with self.subTest(kind=kind):
                arrays = self.arrays(names, sets, len(split))
                np.savez("mine.npz", **arrays)
                made = self.make("npy", "mine.npz", out=f"{kind}{self.count()}")
                np.testing.assert_array_equal(made.split, split)
                if says:
                    self.assertEqual(self.output.count(says), len(sets), self.output)
                self.assertEqual("taken for" in self.warned, warned and kind == "idx")
        arrays = self.arrays(NAMES["mask"], sets, len(split))
        made = self.python(atoll.Dataset.from_arrays, **arrays)
        np.testing.assert_array_equal(made.split, split)
        self.assertNotIn("/", self.warned)

    def count(self):
        self.made = getattr(self, "made", 0) + 1
        return self.made

    def refused(self, sets, says, names=NAMES["mask"]):
        np.savez("mine.npz", **self.arrays(names, sets))
        self.refuse("import", "npy", "mine.npz", "--out", "data", says=says)
        arrays = self.arrays(NAMES["mask"], sets)
        message = self.python_refuses(atoll.Dataset.from_arrays, **arrays)
        self.assertRegex(message, "^(train|val|test)_mask: ")

    def test_booleans(self):
        self.check(MASKS, says="taken for a mask (booleans for each of the 12 nodes), with 4 nodes")

    def test_booleans_in_a_column(self):
        self.check([mask[:, None] for mask in MASKS])

    def test_zeros_and_ones(self):
        for kind in (np.uint8, np.int64, np.float64):
            self.check([mask.astype(kind) for mask in MASKS], warned=True,
                       says="taken for a mask (0 and 1 for each of the 12 nodes), with 4 nodes")

    def test_zeros_and_ones_in_a_column(self):
        self.check([mask.astype(np.int32)[:, None] for mask in MASKS], warned=True)

    def test_ids(self):
        for kind in (np.int64, np.int32, np.uint8):
            self.check([ids.astype(kind) for ids in IDS], says="taken for a list of 4 node ids")

    def test_ids_in_a_column_or_row(self):
        self.check([ids[:, None] for ids in IDS])
        self.check([ids[None, :] for ids in IDS])

    def test_ids_of_all_nodes(self):
        everything = np.random.default_rng(0).permutation(NODES)
        self.check([everything], np.zeros(NODES), says="taken for a list of 12 node ids")

    def test_the_first_two_nodes(self):
        self.check([np.array([0, 1]), np.array([2])], np.array([0, 0, 1] + [255] * 9),
                   says="taken for a list of")

    def test_an_empty_set(self):
        empty = np.array([], np.int64)
        self.check([np.arange(11), np.array([11]), empty], np.array([0] * 11 + [1]))
        self.check([np.ones(NODES, bool), np.zeros(NODES, bool)], np.zeros(NODES))

    def test_several_splits(self):
        masks = [np.stack([mask, mask[::-1]], axis=1) for mask in MASKS]
        both = np.stack([SPLIT, SPLIT[::-1]])
        for kind in (bool, np.uint8):
            arrays = self.arrays(NAMES["mask"], [mask.astype(kind) for mask in masks])
            np.savez("mine.npz", **arrays)
            made = self.make("npy", "mine.npz", out=f"several{self.count()}")
            np.testing.assert_array_equal(made.split, both)
            made = self.python(atoll.Dataset.from_arrays, **arrays)
            np.testing.assert_array_equal(made.split, both)

    def test_graphs_of_two_nodes_go_by_the_name(self):
        edges = np.array([[0, 1], [1, 0]])
        for name, expected in (("train_mask", [255, 0]), ("train_idx", [0, 0])):
            np.savez("two.npz", edge_index=edges, **{name: np.array([0, 1])})
            made = self.make("npy", "two.npz", "--nodes", "2", out=name)
            self.assertEqual(made.split.tolist(), expected)
            self.assertIn("taken for", self.warned)

    def test_a_list_does_not_say_how_many_nodes_there_are(self):
        edges = np.array([[0, 8], [8, 0]])
        np.savez("list.npz", edge_index=edges, train_mask=np.array([8, 0]))
        self.assertEqual(self.make("npy", "list.npz").fields["nodes"], 9)
        np.savez("mask.npz", edge_index=edges, train_idx=np.arange(20) < 5)
        self.assertEqual(self.make("npy", "mask.npz", out="mask").fields["nodes"], 20)

    def test_a_mask_of_another_graph(self):
        self.refused([np.ones(13, bool)], "13 booleans found; a mask has one for each of the 12")
        self.refused([np.ones(13, np.int64)], "13 elements, all of them 0 or 1, found")
        self.refused([np.zeros(3, np.uint8)], "3 elements, all of them 0 or 1, found")

    def test_a_mask_of_0_and_255(self):
        nodes = 400
        mask = np.where(np.arange(nodes) % 2, 255, 0).astype(np.uint8)
        np.savez("mine.npz", **self.arrays(["train_mask"], [mask], nodes))
        self.refuse("import", "npy", "mine.npz", "--out", "data",
                    says=["node 0 is there twice, the second time at element 2",
                          "a mask of 0 and 1"])

    def test_ids_that_are_wrong(self):
        self.refused([np.array([0, 5, 5])], "node 5 is there twice, the second time at element 2")
        self.refused([np.array([0, 12])], "node id 12 at element 1; allowed are 0 to 11")
        self.refused([np.array([-1, 3])], "node id -1 at element 0; allowed are 0 to 11")
        self.refused([np.array([0, 2.5])], "element 1 is 2.5; an integer is expected")
        self.refused([np.array([3.0, np.nan])], "element 1 is nan; an integer is expected")

    def test_a_node_in_two_sets(self):
        self.refused([MASKS[0], IDS[0][:1]], "node 0 is in it and in the training set")

    def test_booleans_as_split(self):
        np.savez("mine.npz", **self.arrays(["split"], [MASKS[0]]))
        self.refuse("import", "npy", "mine.npz", "--out", "data",
                    says="mine.npz[split]: its elements are booleans; allowed are 0 train")

    def test_a_split_in_a_column(self):
        np.savez("mine.npz", **self.arrays(["split"], [SPLIT[:, None]]))
        np.testing.assert_array_equal(self.make("npy", "mine.npz").split, SPLIT)

    def test_columns_of_a_table(self):
        edges = {"source": np.arange(6), "target": np.roll(np.arange(6), 1)}

        def table(values):
            return {"x": np.arange(6.0), "train_mask": np.array(values)}
        for values in ([True, False] * 3, [1, 0] * 3, [1.0, 0.0] * 3):
            made = self.python(atoll.Dataset.from_tables, edges, table(values))
            self.assertEqual(made.split.tolist(), [0, 255] * 3)
        for values, says in ((["True", "False"] * 3, "has 'True' in row 0"),
                             ([1.0, np.nan] * 3, "has nan in row 1"),
                             ([1, 2] * 3, "has 2 in row 1")):
            self.python_refuses(atoll.Dataset.from_tables, edges, table(values),
                                says=["nodes: column 'train_mask' ", says])


if __name__ == "__main__":
    unittest.main()
