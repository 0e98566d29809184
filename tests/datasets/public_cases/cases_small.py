"""Tables without rows, sets of OGB with several splits, sets of many graphs."""

import json
import pathlib
import re
import unittest

import numpy as np

import atoll
import cli_support
from atoll import ogb_files
from support import QUICK, ROOT, Case, graph


class WithoutRows(Case):
    EDGES = {"source": [], "target": []}

    def test_a_table_of_edges(self):
        for edges in (self.EDGES, {key: np.zeros(0, np.int64) for key in self.EDGES},
                      {key: np.zeros(0, object) for key in self.EDGES}):
            made = self.python(atoll.Dataset.from_tables, edges, {"x": [1.0, 2.0]})
            self.assertEqual((made.fields["nodes"], made.fields["edges"]), (2, 0))
            made = self.python(atoll.Dataset.from_tables, edges, {"id": ["a", "b"]}, id="id")
            self.assertEqual((made.fields["nodes"], made.fields["edges"]), (2, 0))

    def test_a_table_of_nodes(self):
        edges = {"source": [0], "target": [1]}
        self.python_refuses(atoll.Dataset.from_tables, edges, {"x": []},
                            says="there are no rows in it; a graph has at least one node")
        self.python_refuses(atoll.Dataset.from_tables, {"source": ["a"], "target": ["b"]},
                            {"id": np.zeros(0, "U1")}, id="id",
                            says="column 'source' has 'a' in row 0, but the table of nodes has no")
        self.python_refuses(atoll.Dataset.from_tables, self.EDGES, {"x": []},
                            says="a graph has at least one node")

    def test_ids_of_another_type(self):
        self.python_refuses(atoll.Dataset.from_tables, {"source": ["a"], "target": ["b"]},
                            {"id": [1, 2]}, id="id", says="column 'id' of the nodes has numbers")
        made = self.python(atoll.Dataset.from_tables, {"source": [1], "target": [2]},
                           {"id": ["1", "2"]}, id="id")
        self.assertEqual(made.fields["nodes"], 2)

    def test_arrays(self):
        none = np.zeros((2, 0), np.int64)
        np.savez("edges.npz", edge_index=none, x=np.ones((3, 2)))
        program = self.make("npy", "edges.npz", "--directed")
        package = self.python(atoll.Dataset.from_arrays, none, x=np.ones((3, 2)), directed=True)
        self.assert_same(program, package)
        self.assertEqual((program.fields["nodes"], program.fields["edges"]), (3, 0))
        np.savez("nodes.npz", edge_index=none, x=np.ones((0, 2)))
        says = "x{}: there are no rows in it; a graph has at least one node"
        self.refuse("import", "npy", "nodes.npz", "--out", "other", says=says.format("]"))
        self.python_refuses(atoll.Dataset.from_arrays, none, x=np.ones((0, 2)),
                            says=says.format(""))

    def test_labels_without_columns(self):
        for kind in (np.int64, np.float64):
            np.savez("mine.npz", **{**graph(), "y": np.zeros((12, 0), kind)})
            self.refuse("import", "npy", "mine.npz", "--out", "data",
                        says="mine.npz[y]: 0 ")

    def test_text(self):
        for text in ("", "source,target\n", "# nothing\n"):
            cli_support.write("edges.csv", text)
            self.refuse("import", "edges", "edges.csv", "--out", "data", says="edges.csv: ")
            made = self.make("edges", "edges.csv", "--nodes", "3", out=f"data{len(text)}")
            self.assertEqual((made.fields["nodes"], made.fields["edges"]), (3, 0))


class SplitsOfOgb(Case):
    def setUp(self):
        super().setUp()
        cli_support.make_ogb("set")
        for name, nodes in (("train", "5\n4\n3\n"), ("valid", "2\n1\n"), ("test", "0\n")):
            cli_support.write_gz(f"set/split/random/{name}.csv.gz", nodes)

    def test_one_of_two(self):
        made = self.make("ogb", "set", "--split-name", "random")
        self.assertEqual(made.split.tolist(), [2, 1, 1, 0, 0, 0])
        self.assertEqual(made.fields["provenance"]["split_scheme"], "random")
        made = self.make("ogb", "set", "--split-name", "time", out="time")
        self.assertEqual(made.split.tolist(), [0, 1, 2, 0, 1, 2])
        package = self.python(atoll.Dataset.import_, "ogb", "set", split_name="time")
        self.assert_same(made, package)

    def test_which_are_there_is_said(self):
        says = ["2 splits (folders) found; name one of them", "random, time"]
        self.refuse("import", "ogb", "set", "--out", "data", says=says)
        self.python_refuses(atoll.Dataset.import_, "ogb", "set", says=says)
        self.refuse("import", "ogb", "set", "--split-name", "tiem", "--out", "data",
                    says=["--split-name tiem: ", "allowed are random, time"])

    def test_a_split_of_pytorch_beside_one_of_text(self):
        """The package needs PyTorch for the former only."""
        cli_support.write("set/split/pt/split_dict.pt", "")
        self.assertTrue(ogb_files.needs_pytorch("set", "pt"))
        self.assertFalse(ogb_files.needs_pytorch("set", "time"))
        self.assertFalse(ogb_files.needs_pytorch("set"))
        made = self.python(atoll.Dataset.import_, "ogb", "set", split_name="time")
        self.assertEqual(made.split.tolist(), [0, 1, 2, 0, 1, 2])

    def test_neither_of_them(self):
        made = self.make("ogb", "set", "--split", "0.5,0.25,0.25")
        self.assertEqual(sorted(made.split.tolist())[0], 0)

    def test_formats_without_splits(self):
        np.savez("mine.npz", **graph())
        self.refuse("import", "npy", "mine.npz", "--split-name", "time", "--out", "data",
                    says="--split-name: only sets of format ogb")


class ManyGraphs(Case):
    """As in PPI: the lines of docs/formats.md join the graphs."""

    def test_the_split_is_by_graph(self):
        text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
        code, = re.findall(r"```python\n(import numpy as np\n\ndef join_graphs.*?)```", text, re.S)
        names = {}
        exec(code, names)
        graphs = []
        for seed, nodes in enumerate((8, 12, 10, 9)):
            one = graph(nodes, features=3, seed=seed)
            random = np.random.default_rng(seed)
            graphs.append({"edge_index": one["edge_index"], "x": one["x"],
                           "y": random.integers(0, 2, (nodes, 5)).astype(np.float32)})
        arrays = names["join_graphs"](graphs[:2], graphs[2:3], graphs[3:])
        np.savez("ppi.npz", **arrays)
        self.refuse("import", "npy", "ppi.npz", "--out", "data", says="--task multi-label")
        made = self.make("npy", "ppi.npz", "--task", "multi-label", "--directed",
                         "--keep-self-loops")
        package = self.python(atoll.Dataset.from_arrays, **arrays, task="multi-label",
                              directed=True, keep_self_loops=True)
        self.assert_same(made, package)
        self.assertEqual(made.split.tolist(), [0] * 20 + [1] * 10 + [2] * 9)
        np.testing.assert_array_equal(made.labels, np.concatenate([one["y"] for one in graphs]))
        bounds = [0, 8, 20, 30, 39]
        of_graph = np.searchsorted(bounds, np.arange(39), side="right")
        self.assertTrue(all(of_graph[u] == of_graph[v] for u, v in made.edges()))
        for number, one in enumerate(graphs):
            pairs = {(u + bounds[number], v + bounds[number]) for u, v in one["edge_index"].T}
            own = {(u, v) for u, v in made.edges() if of_graph[u] == number + 1}
            self.assertEqual(own, pairs)
        self.succeed("train", "data", *QUICK, "--run-dir", "run")
        summary = json.loads(pathlib.Path("run", "summary.json").read_text(encoding="utf-8"))
        self.assertEqual(summary["epochs"], 2)


if __name__ == "__main__":
    unittest.main()
