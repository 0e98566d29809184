"""Arrays as NumPy leaves them: in Fortran order, big-endian, non-contiguous; in files, archives and
pickles."""

import json
import os
import pickle
import unittest

import numpy as np

import atoll
from support import Case, graph


def big_endian(array):
    return array.astype(array.dtype.newbyteorder(">"))


class Layouts(Case):
    def setUp(self):
        super().setUp()
        self.arrays = {**graph(nodes=30, features=5, splits=3),
                       "edge_attr": np.arange(2.0 * 90).reshape(-1, 2)}
        edges = self.arrays["edge_index"].shape[1]
        self.arrays["edge_attr"] = self.arrays["edge_attr"][:edges]
        self.same = ("--directed", "--keep-self-loops")
        np.savez("plain.npz", **self.arrays)
        self.plain = self.make("npy", "plain.npz", *self.same, out="plain")

    def changed(self, change):
        return {name: change(array) for name, array in self.arrays.items()}

    def check(self, arrays):
        np.savez("whole.npz", **arrays)
        self.assert_same(self.plain, self.make("npy", "whole.npz", *self.same, out="whole"))
        np.savez_compressed("packed.npz", **arrays)
        self.assert_same(self.plain, self.make("npy", "packed.npz", *self.same, out="packed"))
        folder = self.save("folder", **arrays)
        self.assert_same(self.plain, self.make("npy", folder, *self.same, out="files"))
        made = self.python(atoll.Dataset.from_arrays, **arrays, directed=True, keep_self_loops=True)
        self.assert_same(self.plain, made)

    def test_fortran_order(self):
        arrays = self.changed(np.asfortranarray)
        self.assertFalse(arrays["edge_index"].flags.c_contiguous)
        self.check(arrays)

    def test_edges_that_a_mask_selects(self):
        edges = self.arrays["edge_index"]
        twice = np.repeat(edges, 2, axis=1)
        chosen = twice[:, np.arange(twice.shape[1]) % 2 == 0]
        self.assertFalse(chosen.flags.c_contiguous)  # how NumPy lays out what it selects
        self.check({**self.arrays, "edge_index": chosen})

    def test_edges_turned_around(self):
        pairs = np.ascontiguousarray(self.arrays["edge_index"].T)
        self.check({**self.arrays, "edge_index": pairs.T})

    def test_big_endian(self):
        self.check({name: array if array.dtype == bool else big_endian(array)
                    for name, array in self.arrays.items()})

    def test_big_endian_in_fortran_order(self):
        self.check({name: array if array.dtype == bool else big_endian(np.asfortranarray(array))
                    for name, array in self.arrays.items()})

    def test_views(self):
        self.check(self.changed(lambda array: np.repeat(array, 2, axis=-1)[..., ::2]))

    def test_several_labels_in_fortran_order(self):
        labels = np.random.default_rng(0).integers(0, 2, (30, 4))
        for name, array in (("c", labels), ("f", np.asfortranarray(labels))):
            np.savez(f"{name}.npz", **{**self.arrays, "y": array})
            made = self.make("npy", f"{name}.npz", *self.same, out=f"made-{name}")
            np.testing.assert_array_equal(made.labels, labels)

    def test_a_split_in_fortran_order(self):
        split = np.random.default_rng(0).integers(0, 3, (3, 30))
        arrays = {name: self.arrays[name] for name in ("edge_index", "x", "y")}
        np.savez("split.npz", **arrays, split=np.asfortranarray(split))
        np.testing.assert_array_equal(self.make("npy", "split.npz").split, split)

    def test_more_than_a_block(self):
        x = np.asfortranarray(np.random.default_rng(0).random((30000, 160)))  # 38 MB
        edges = np.stack([np.arange(30000), np.roll(np.arange(30000), 1)])
        np.savez("large.npz", edge_index=edges, x=x)
        made = self.make("npy", "large.npz")
        np.testing.assert_array_equal(made.features, x.astype(np.float32))

    def test_three_dimensions_are_refused(self):
        self.save("in", **{**self.arrays, "x": np.asfortranarray(np.ones((30, 2, 2)))})
        self.refuse("import", "npy", "in", "--out", "data",
                    says=["x.npy: 3 dimensions in Fortran order; allowed are at most 2"])

    def test_a_damaged_archive(self):
        np.savez("bad.npz", **{**self.arrays, "x": np.asfortranarray(self.arrays["x"])})
        with open("bad.npz", "rb") as file:
            content = bytearray(file.read())
        at = content.find(np.asfortranarray(self.arrays["x"]).tobytes("A"))
        content[at + 100] ^= 0xFF
        with open("bad.npz", "wb") as file:
            file.write(content)
        self.refuse("import", "npy", "bad.npz", "--out", "data",
                    says=["bad.npz[x]: damaged archive"])


class OtherFormats(Case):
    def test_features_of_graphsaint(self):
        nodes, x = 8, np.random.default_rng(0).random((8, 3))
        os.mkdir("saint")
        for name, array in (("a", x), ("b", np.asfortranarray(x)),
                            ("c", big_endian(np.asfortranarray(x)))):
            np.savez("saint/adj_full.npz", data=np.ones(nodes), indices=np.roll(np.arange(8), 1),
                     indptr=np.arange(9), shape=np.array([8, 8]), format=b"csr")
            np.save("saint/feats.npy", array)
            with open("saint/class_map.json", "w", encoding="utf-8") as file:
                json.dump({str(node): node % 2 for node in range(nodes)}, file)
            with open("saint/role.json", "w", encoding="utf-8") as file:
                json.dump({"tr": [0, 1, 2, 3], "va": [4, 5], "te": [6, 7]}, file)
            made = self.make("graphsaint", "saint", out=name)
            np.testing.assert_array_equal(made.features, x.astype(np.float32))

    def test_pickles_of_planetoid(self):
        random = np.random.default_rng(1)
        allx, tx = random.random((6, 3)), random.random((2, 3))
        labels = np.eye(2)[random.integers(0, 2, 8)]
        parts = {"allx": allx, "ally": labels[:6], "tx": tx, "ty": labels[6:], "y": labels[:2]}
        expected = np.concatenate([allx, tx]).astype(np.float32)
        for name, change in (("c", np.ascontiguousarray), ("f", np.asfortranarray),
                             ("big", lambda array: big_endian(np.asfortranarray(array)))):
            os.mkdir(name)
            for part, array in parts.items():
                with open(f"{name}/ind.own.{part}", "wb") as file:
                    pickle.dump(change(array), file, protocol=3)
            with open(f"{name}/ind.own.graph", "wb") as file:
                pickle.dump({node: [(node + 1) % 8] for node in range(8)}, file, protocol=2)
            with open(f"{name}/ind.own.test.index", "w", encoding="ascii") as file:
                file.write("6\n7\n")
            made = self.make("planetoid", f"{name}/ind.own", out=f"made-{name}")
            np.testing.assert_array_equal(made.features, expected)
            np.testing.assert_array_equal(made.labels, labels.argmax(axis=1))


if __name__ == "__main__":
    unittest.main()
