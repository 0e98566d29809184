"""Edge lists and tables of nodes as people have them: ids with gaps, from 1 and of text; columns by
any name; the separators, quotes and numbers of R, spreadsheets and NetworkX; and files of other
programs, which are named."""

import bz2
import gzip
import json
import os
import pathlib
import struct
import unittest
import zipfile

import numpy as np

import atoll
from support import QUICK, Case, Folder, graph

DIRECTED = "--directed"


class Text(Case):
    def write(self, name, text):
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def edges_of(self, text, *words, name="edges.csv"):
        """The edges (source, target) of a list, imported as a directed graph."""
        self.out = getattr(self, "out", 0) + 1
        folder = self.make("edges", self.write(f"list{self.out}/{name}", text), DIRECTED, *words,
                           out=f"data{self.out}")
        return folder, folder.edges()

    def refused(self, text, says, *words, name="edges.csv"):
        self.out = getattr(self, "out", 0) + 1
        return self.refuse("import", "edges", self.write(f"list{self.out}/{name}", text), "--out",
                           "new", *words, says=says)

    def ids(self, folder):
        return pathlib.Path(folder.path, "node_ids.txt").read_text(encoding="utf-8").split("\n")[:-1]


class Ids(Text):
    def test_gaps_are_said_and_renumbered(self):
        self.refused("35 1033\n1033 1100000\n", ["1100001 nodes, but only 2 edges", "--renumber"])
        text = "35 1033\n1033 1000000\n"
        gaps, _ = self.edges_of(text, name="edges.txt")
        self.assertEqual(gaps.fields["nodes"], 1000001)
        self.check_message(self.warned, ["999998 of 1000001 nodes", "--renumber"])
        self.succeed("info", gaps.path)
        self.assertTrue(self.output.startswith("isolated     999998 of 1000001 nodes (100.0 %)"))
        dense, edges = self.edges_of(text, "--renumber", name="edges.txt")
        self.assertEqual(dense.fields["nodes"], 3)
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.assertEqual(self.ids(dense), ["35", "1033", "1000000"])
        self.assertNotIn("--renumber", self.warned)

    def test_from_python(self):
        self.write("edges.txt", "35 1033\n1033 1100000\n")
        dataset = atoll.Dataset.import_("edges", "edges.txt", renumber=True, directed=True)
        np.testing.assert_array_equal(dataset.node_ids, [35, 1033, 1100000])
        self.assertEqual(dataset.node_ids.dtype, np.int64)
        np.testing.assert_array_equal(dataset.edge_index, [[0, 1], [1, 2]])
        self.write("names.txt", "bob alice\nalice carol\n")
        dataset = atoll.Dataset.import_("edges", "names.txt", renumber=True, directed=True)
        self.assertEqual(dataset.node_ids.tolist(), ["alice", "bob", "carol"])
        self.assertIsNone(atoll.Dataset.generate("rmat", nodes=16, degree=2).node_ids)

    def test_ids_beyond_32_bits(self):
        folder, edges = self.edges_of("1100000000000 5\n-7 1100000000000\n", "--renumber")
        self.assertEqual(edges, [(0, 2), (2, 1)])
        self.assertEqual(self.ids(folder), ["-7", "5", "1100000000000"])
        self.refused("1100000000000 5\n", ["1100000000000", "out of range", "--renumber"])
        folder, _ = self.edges_of("9007199254740993.0,5\n9007199254740992.0,6\n", "--renumber")
        self.assertEqual(self.ids(folder), ["5", "6", "9007199254740992", "9007199254740993"])

    def test_from_one(self):
        folder, _ = self.edges_of("1 2\n2 3\n3 1\n")
        self.assertEqual(folder.fields["nodes"], 4)
        self.check_message(self.warned, ["node 0 has no edge", "--renumber"])
        folder, edges = self.edges_of("1 2\n2 3\n3 1\n", "--renumber")
        self.assertEqual(edges, [(0, 1), (1, 2), (2, 0)])

    def test_from_one_beside_an_array(self):
        self.save("set", x=np.arange(6, dtype=np.float32).reshape(3, 2))
        self.write("set/edges.txt", "1 2\n2 3\n")
        self.refuse("import", "edges", "set", "--out", "new",
                    says=["edges.txt", "'3'", "0 to 2", "--renumber"])
        folder = self.make("edges", "set", "--renumber", DIRECTED)
        self.assertEqual(folder.edges(), [(0, 1), (1, 2)])
        np.testing.assert_array_equal(folder.features, [[0, 1], [2, 3], [4, 5]])

    def test_names(self):
        self.refused("alice,bob\nbob,carol\n", ["'alice', 'bob'", "--source-column", "--renumber"])
        self.refused("0,1\nbob,carol\n", ["line 2", "'bob'", "--renumber"])
        folder, edges = self.edges_of("New York,Bób\nBób,carol\n007,7\n", "--renumber")
        self.assertEqual(self.ids(folder), ["007", "7", "Bób", "New York", "carol"])
        self.assertEqual(edges, [(0, 1), (2, 4), (3, 2)])
        self.check_message(self.warned, ["'New York', 'Bób' was read as an edge"])
        folder, edges = self.edges_of('source\ttarget\n"a ""b"" c"\tx\nx\ty z\n', "--renumber")
        self.assertEqual(self.ids(folder), ['a "b" c', "x", "y z"])
        self.assertEqual(edges, [(0, 1), (1, 2)])

    def test_names_that_are_no_utf8(self):
        self.refused(b"caf\xe9,bar\n", ["caf\\xe9", "UTF-8"], "--renumber")

    def test_whole_numbers_with_a_point(self):
        _, edges = self.edges_of("0.0,1.0\n1.0,2.0\n")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        _, edges = self.edges_of("0 1e+05\n1e+05 2\n", "--nodes", "100001")
        self.assertEqual(edges, [(0, 100000), (100000, 2)])
        folder, _ = self.edges_of("5.0,1e+05\n100000,5\n", "--renumber")
        self.assertEqual(self.ids(folder), ["5", "100000"])
        self.refused("0.5,1\n", ["'0.5'", "node id"])

    def test_arrays_with_gaps(self):
        np.savez("mine.npz", edge_index=np.array([[35, 1033], [1033, 1100000]]))
        folder = self.make("npy", "mine.npz", "--renumber", DIRECTED)
        self.assertEqual(folder.edges(), [(0, 1), (1, 2)])
        self.assertEqual(self.ids(folder), ["35", "1033", "1100000"])
        np.savez("less.npz", edge_index=np.array([[35, 1033], [1033, 1000000]]))
        self.make("npy", "less.npz", out="gaps")
        self.check_message(self.warned, ["999998 of 1000001 nodes", "--renumber"])
        np.savez("hashes.npz", edge_index=np.array([[0, 1], [1, 2**63]], dtype=np.uint64))
        self.refuse("import", "npy", "hashes.npz", "--renumber", "--out", "new",
                    says=["element 3 is more than 2^63 - 1"])
        self.refuse("import", "metis", "mine.npz", "--nodes", "9", "--out", "new",
                    says=["--nodes: sets of format metis state it; allowed with edges and npy"])
        self.refuse("import", "metis", "mine.npz", "--renumber", "--out", "new",
                    says=["--renumber", "edges and npy"])

    def test_ids_survive_a_split_of_links(self):
        text = "".join(f"n{i} n{(i * 7 + k) % 40}\n" for i in range(40) for k in (1, 2, 3))
        folder, _ = self.edges_of(text, "--renumber")
        self.succeed("split", folder.path, "--links", "--out", "links", "--negatives", "0")
        self.assertEqual(self.ids(Folder("links")), self.ids(folder))

    def test_a_damaged_map_is_found(self):
        folder, _ = self.edges_of("a b\nb c\n", "--renumber")
        pathlib.Path(folder.path, "node_ids.txt").write_text("a\nc\nb\n")
        self.assertEqual(self.atoll("info", folder.path).returncode, 2)
        self.check_message(self.output, ["node_ids.txt", "checksum"])


class Columns(Text):
    def test_pairs_of_names(self):
        for first, second in (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"),
                              ("id1", "id2"), ("node_id", "node_id"), ("txId1", "txId2"),
                              ("id_1", "id_2"), ("Source", "Target"), ("node1", "node2")):
            _, edges = self.edges_of(f"{first},{second}\n0,1\n1,2\n")
            self.assertEqual(edges, [(0, 1), (1, 2)], first)

    def test_any_name(self):
        text = "year,cites,paper\n1999,1,0\n2000,2,1\n"
        self.refused(text, ["'year', 'cites', 'paper'", "--source-column"])
        _, edges = self.edges_of(text, "--source-column", "paper", "--target-column", "Cites")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.check_message(self.warned, ["'year'"])
        _, edges = self.edges_of(text, "--source-column", "3", "--target-column", "2")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.refused(text, ["--source-column papr", "'paper'"], "--source-column", "papr")
        self.refused(text, ["--target-column 3", "another option"], "--source-column", "paper",
                     "--target-column", "3")

    def test_order_without_a_header(self):
        folder, edges = self.edges_of("0.5 1 0\n1.5 2 1\n", "--source-column", "3",
                                      "--target-column", "2", "--weight-column", "1")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        np.testing.assert_array_equal(folder.edge_weights, [0.5, 1.5])

    def test_other_weights_in_the_other_direction(self):
        self.write("list/edges.txt", "0 1 2\n1 0 5\n1 2 3\n2 1 3\n")
        folder = self.make("edges", "list/edges.txt", "--weight-column", "3")
        self.check_message(self.warned, [
            "1 pairs of nodes have another weight in each direction, first 0 and 1: 2 and 5",
            "--directed"])
        np.testing.assert_array_equal(folder.edge_weights, [5, 5, 3, 3])
        folder = self.make("edges", "list/edges.txt", "--weight-column", "3", DIRECTED, out="both")
        self.assertNotIn("another weight", self.warned)
        np.testing.assert_array_equal(folder.edge_weights, [5, 2, 3, 3])
        self.write("mine.graph", "2 1 1\n2 4\n1 7\n")
        self.make("metis", "mine.graph", out="cut")
        self.check_message(self.warned, ["first 0 and 1: 7 and 4"])

    def test_gephi(self):
        _, edges = self.edges_of("Source,Target,Type,Id,Label,Weight\n"
                                 "0,1,Undirected,0,,2.5\n1,2,Undirected,1,,1\n")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.check_message(self.warned, ["'Type', 'Id', 'Label'"])

    def test_r(self):
        for text in ('"","from","to"\n"1",0,1\n"2",1,2\n', '"from" "to"\n"1" 0 1\n"2" 1 2\n',
                     '"from";"to";"weight"\n0;1;0,5\n1;2;2\n'):
            folder, edges = self.edges_of(text)
            self.assertEqual(edges, [(0, 1), (1, 2)], text)
        np.testing.assert_array_equal(folder.edge_weights, [0.5, 2])
        _, edges = self.edges_of('"0","1"\n"1","2"\n')
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.refused('"0,1\n', ["quotes"])

    def test_decimal_commas(self):
        for separator in ";\t":
            folder, edges = self.edges_of("0S1S0,5\n1S2S1,25\n".replace("S", separator))
            np.testing.assert_array_equal(folder.edge_weights, [0.5, 1.25])

    def test_networkx(self):
        folder, edges = self.edges_of("0 1 {}\n1 2 {}\n", name="edges.edgelist")
        self.assertEqual(edges, [(0, 1), (1, 2)])
        self.assertIsNone(folder.edge_weights)
        folder, _ = self.edges_of("0 1 {'weight': 0.5}\n1 2 {'weight': 2.0}\n")
        np.testing.assert_array_equal(folder.edge_weights, [0.5, 2])
        folder, _ = self.edges_of("0 1 {'a': 'x', 'weight': 0.5}\n", "--weight-column", "none")
        self.assertIsNone(folder.edge_weights)
        self.refused("0 1 {}\n1 2 {'weight': 2}\n", ["line 2", "the first edge has none"])
        self.refused("0 1 {'weight': 1}\n1 2 {}\n", ["line 2", "no weight"])

    def test_times_are_not_weights(self):
        for values, reason in (((1082040961, 1082155839), "look like times"),
                               (range(2000, 2012), "look like years"),
                               (range(25), "only grow"),
                               (("2004-04-15", "2004-04-16"), "is no number")):
            text = "".join(f"{i} {i + 1} {value}\n" for i, value in enumerate(values))
            self.refused(text, ["column 3", reason, "--weight-column"])
            folder, edges = self.edges_of(text, "--weight-column", "none")
            self.assertIsNone(folder.edge_weights)
            self.assertEqual(len(edges), len(values))
        folder, _ = self.edges_of("0 1 1082040961\n", "--weight-column", "3")
        np.testing.assert_array_equal(folder.edge_weights, [np.float32(1082040961)])

    def test_more_columns_than_are_known(self):
        text = "6,2,4,1289241911.72836\n6,5,2,1289241941.53378\n"
        self.refused(text, ["4 columns", "--weight-column"])
        folder, edges = self.edges_of(text, "--weight-column", "3")
        self.assertEqual(edges, [(6, 2), (6, 5)])
        np.testing.assert_array_equal(folder.edge_weights, [4, 2])
        self.check_message(self.warned, ["1 of 4 columns"])

    def test_dates_with_blanks(self):
        _, edges = self.edges_of("src,dst,date\n0,1,2019-01-01 12:00:00\n1,2,2019-01-02 13:00:00\n")
        self.assertEqual(edges, [(0, 1), (1, 2)])


class Tables(Text):
    def folder_of(self, **files):
        """A new folder with edges.csv, a path 0 - 1 - 2 - 3 unless it is given, and other files."""
        self.sets = getattr(self, "sets", 0) + 1
        folder = f"set{self.sets}"
        self.write(f"{folder}/edges.csv", files.pop("edges", "source,target\n0,1\n1,2\n2,3\n"))
        for name, text in files.items():
            self.write(f"{folder}/{name}.csv", text)
        return folder

    def read(self, *words, **files):
        folder = self.folder_of(**files)
        return self.make("edges", folder, *words, out=f"data-{folder}")

    def test_in_order(self):
        folder = self.read(labels="label\n0\n2\n1\n0\n", features="a,b\n1,2\n3,4\n5,6\n5,8.5\n")
        np.testing.assert_array_equal(folder.labels, [0, 2, 1, 0])
        np.testing.assert_array_equal(folder.features, [[1, 2], [3, 4], [5, 6], [5, 8.5]])
        folder = self.read(labels="0\n2\n1\n0\n", features="1,2\n3,4\n5,6\n5,8.5\n")
        np.testing.assert_array_equal(folder.labels, [0, 2, 1, 0])
        np.testing.assert_array_equal(folder.features, [[1, 2], [3, 4], [5, 6], [5, 8.5]])

    def test_by_id(self):
        for labels in ("node_id,label\n3,1\n0,2\n1,0\n", "3,1\n0,2\n1,0\n", "3 1\n0 2\n1 0\n",
                       "paper,subject\n3,1\n0,2\n1,0\n", "3;1\n0;2\n1;0\n", "3\t1\n0\t2\n1\t0\n"):
            folder = self.read(labels=labels)
            np.testing.assert_array_equal(folder.labels, [2, 0, -1, 1], labels)
            self.check_message(self.output, ["column 1 is the id of the node"])
        folder = self.read(features="x1,x2,id\n30,31,3\n0,1,0\n10,11,1\n20,21,2\n")
        np.testing.assert_array_equal(folder.features, [[0, 1], [10, 11], [20, 21], [30, 31]])

    def test_numbers_as_names_of_columns(self):
        folder = self.read(features=",0,1\n0,1.5,2\n2,3,4\n1,5,6\n3,7,8.5\n")
        np.testing.assert_array_equal(folder.features, [[1.5, 2], [5, 6], [3, 4], [7, 8.5]])
        folder = self.read(features="0,1,2,3\n1,1,1,1.5\n2,2,2,2\n2,2,2,2\n2,2,2,2\n")
        self.assertEqual(folder.features.shape, (4, 4))
        self.check_message(self.warned, ["0 to 3", "names of columns"])
        folder = self.read("--id-column", "none", features="0,1\n1,1\n2,2\n3,2\n")
        self.assertEqual(folder.features.shape, (4, 2))
        self.check_message(self.warned, ["0 to 1", "values"])

    def test_order_where_the_first_column_looks_like_ids(self):
        folder = self.read("--id-column", "none", features="3,1\n2,1\n1,1\n0,1\n")
        np.testing.assert_array_equal(folder.features, [[3, 1], [2, 1], [1, 1], [0, 1]])

    def test_what_may_be_ids_is_asked(self):
        name = self.folder_of(features="a,b\n11,2\n13,4\n15,6\n17,8\n")
        self.refuse("import", "edges", name, "--out", "new", says=["column 1", "--id-column none"])
        folder = self.make("edges", name, "--id-column", "none")
        self.assertEqual(folder.features[:, 0].tolist(), [11, 13, 15, 17])

    def test_an_empty_line_is_a_node_without_a_value(self):
        for labels in ("cat\n\ndog\ncat\n", "label\ncat\n\ndog\ncat\n\n\n",
                       "# of four nodes\n1\n \n2\n1\n"):
            folder = self.read("--classes", "3", labels=labels)
            self.assertEqual(len(set(folder.labels[[0, 3]])), 1, labels)
            self.assertEqual(folder.labels[1], -1, labels)
            self.check_message(self.warned, ["is empty: read as a node without a value"])
            self.assertGreater(folder.labels[2], folder.labels[0], labels)
        folder = self.read(labels="id,label\n0,1\n\n2,0\n")
        np.testing.assert_array_equal(folder.labels, [1, -1, 0, -1])
        self.refuse("import", "edges", self.folder_of(features="1,2.5\n\n2,3\n3,4\n3,5\n"), "--out",
                    "new", says=["features.csv", "line 2 is empty", "2 columns expected"])
        for labels in ("\n# four\n\n0\n1\n0\n1\n", "label\n\n0\n1\n0\n1\n\n"):
            np.testing.assert_array_equal(self.read(labels=labels).labels, [0, 1, 0, 1])
        folder = self.read(features="1\n2\n# half\n3\n4\n")
        np.testing.assert_array_equal(folder.features, [[1], [2], [3], [4]])
        folder = self.read(labels="cat\n#dog\ncat\n#dog\n")
        self.assertEqual(folder.fields["provenance"]["class_names"], ["#dog", "cat"])

    def test_a_first_row_of_a_word(self):
        folder = self.read(labels="y\nn\ny\nn\n")
        np.testing.assert_array_equal(folder.labels, [1, 0, 1, 0])
        folder = self.read(labels="species\ncat\ndog\ncat\ndog\n")
        self.assertEqual(folder.fields["nodes"], 5)
        self.check_message(self.warned, ["first row, 'species'", "call it label"])

    def test_links_that_lead_nowhere(self):
        for name in ("features.npy", "labels.csv"):
            folder = self.folder_of()
            os.symlink("/nowhere/at/all", f"{folder}/{name}")
            self.refuse("import", "edges", folder, "--out", "new", says=[name, "can't open"])

    def test_a_last_node_without_edges(self):
        folder = self.read(labels="0\n1\n0\n1\n0\n")
        self.assertEqual(folder.fields["nodes"], 5)
        folder = self.read(labels="id,label\n5,1\n0,0\n")
        self.assertEqual(folder.fields["nodes"], 6)
        np.testing.assert_array_equal(folder.labels, [0, -1, -1, -1, -1, 1])

    def test_with_renumbering(self):
        folder = self.read("--renumber", edges="a,b\nb,c\n", labels="id,label\nc,1\na,0\nz,1\n",
                           features="c,1\na,2\nz,3\nb,4\n", train_idx="a\nc\n", test_idx="z\n",
                           val_idx="b\n")
        self.assertEqual(self.ids(folder), ["a", "b", "c", "z"])
        np.testing.assert_array_equal(folder.labels, [0, -1, 1, 1])
        np.testing.assert_array_equal(folder.features, [[2], [4], [1], [3]])
        np.testing.assert_array_equal(folder.split, [0, 1, 0, 2])
        self.succeed("train", folder.path, *QUICK, "--run-dir", "run")

    def test_words_are_classes(self):
        folder = self.read(labels="id,class\n0,spam\n1,ham\n2,unknown\n3,spam\n")
        np.testing.assert_array_equal(folder.labels, [1, 0, -1, 1])
        self.assertEqual(folder.fields["provenance"]["class_names"], ["ham", "spam"])
        self.check_message(self.warned, ["'unknown' of 1 nodes"])
        self.assertEqual(atoll.Dataset(folder.path).classes, ["ham", "spam"])
        folder = self.read(labels="label\nsome\nNone\nother\nNone\n")
        np.testing.assert_array_equal(folder.labels, [1, -1, 0, -1])
        self.check_message(self.warned, ["2 rows with words like 'None' have no value"])

    def test_numbers_to_predict(self):
        folder = self.read(labels="0.5\n1.25\nnan\n2\n")
        self.assertEqual(folder.fields["task"], "regression")
        np.testing.assert_array_equal(folder.labels, np.float32([0.5, 1.25, np.nan, 2]))

    def test_masks(self):
        folder = self.read(labels="0\n1\n0\n1\n", train_mask="True\nFalse\nTrue\nFalse\n",
                           val_mask="0\n1\n0\n0\n", test_mask="FALSE\nFALSE\nFALSE\nTRUE\n")
        np.testing.assert_array_equal(folder.split, [0, 1, 0, 2])

    def test_gzip_and_other_endings(self):
        name = self.folder_of()
        with gzip.open(f"{name}/labels.tsv.gz", "wt") as file:
            file.write("id\tlabel\n1\t1\n0\t0\n")
        folder = self.make("edges", name)
        np.testing.assert_array_equal(folder.labels, [0, 1, -1, -1])
        self.write(f"{name}/labels.csv", "0\n1\n1\n1\n")
        self.refuse("import", "edges", name, "--out", "new", says=["labels.csv", "labels.tsv.gz"])

    def test_beside_arrays_and_matrices(self):
        arrays = graph()
        self.save("arrays", edge_index=arrays["edge_index"], x=arrays["x"])
        self.write("arrays/y.csv", "".join(f"{i},{i % 3}\n" for i in reversed(range(12))))
        np.testing.assert_array_equal(self.make("npy", "arrays").labels, np.arange(12) % 3)
        self.write("mm/a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
        self.write("mm/labels.csv", "0\n1\n")
        self.write("large/a.mtx", "%%MatrixMarket MATRIX Coordinate PATTERN General\n2 2 1\n1 2\n")
        self.assertEqual(self.make("matrix-market", "large/a.mtx", out="data3").fields["nodes"], 2)
        folder = self.make("matrix-market", "mm", out="data2")
        np.testing.assert_array_equal(folder.labels, [0, 1])

    def test_what_is_wrong(self):
        def wrong(says, *words, **files):
            self.refuse("import", "edges", self.folder_of(**files), "--out", "new", *words,
                        says=says)
        wrong(["labels.csv", "line 3", "second row of node '0'"],
              labels="id,label\n0,1\n0,2\n")
        wrong(["labels.csv", "4 rows found, 9 expected"], "--nodes", "9",
              labels="0\n1\n0\n1\n")
        wrong(["features.csv", "1 of 4 nodes have no row", "first is 2"],
              features="id,a\n0,1\n1,2\n3,4\n")
        wrong(["features.csv", "line 2", "1 columns found, 2 expected"],
              features="1,2\n3\n5,6\n7,8\n")
        wrong(["labels.csv", "id, name, kind", "--label-column"],
              labels="id,name,kind\n0,a,b\n1,b,c\n")
        wrong(["--label-column colour"], "--label-column", "colour",
              labels="id,name,kind\n0,a,b\n1,b,c\n")
        wrong(["labels.csv", "no row"], labels="")
        wrong(["labels.csv", "line 2", r"'caf\xe9'", "UTF-8"],
              labels=b"id,label\n0,caf\xe9\n1,caf\xe8\n2,x\n")
        wrong(["train_mask.csv", "line 2", "'no'", "True, False, 1 or 0"],
              train_mask="yes\nno\nno\nyes\n")
        wrong(["train_mask.csv", "line 2", "'unknown'"], train_mask="1\nunknown\n0\n1\n")
        wrong(["labels.csv", "Git LFS", "git lfs pull"],
              labels="version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n")
        wrong(["labels.csv", "bzip2", "bunzip2 labels.csv"], labels=bz2.compress(b"0\n1\n0\n1\n"))
        wrong(["--row-normalize", "no features"], "--row-normalize", labels="0\n1\n0\n1\n")
        wrong(["--classes", "no labels"], "--classes", "4", features="1\n2\n3\n4\n")
        wrong(["features.csv", "no column of numbers"], features="id,a\n0,x\n1,y\n2,z\n3,w\n")
        wrong(["features.csv: line 3: column 2 is '1e300'", "fit f32, up to 3.4e38"],
              features="id,a\n0,1\n1,1e300\n2,2\n3,3\n")
        wrong(["labels.csv: line 2: column 1 is '-1e400'", "fit f32, up to 3.4e38"],
              labels="0.5\n-1e400\n0.25\n1\n")

    def test_label_column(self):
        folder = self.read("--label-column", "kind",
                           labels="id,name,kind\n0,a,1\n1,b,0\n2,c,0\n3,d,1\n")
        np.testing.assert_array_equal(folder.labels, [1, 0, 0, 1])
        self.check_message(self.warned, ["not read: column 'name'"])
        self.refuse("import", "edges", self.folder_of(features="1\n2\n3\n4\n"), "--out", "new",
                    "--label-column", "kind", says=["--label-column kind", "no text of labels"])
        self.refuse("import", "edges", self.folder_of(), "--out", "new", "--id-column", "id",
                    says=["--id-column id", "no text of nodes"])
        self.write("alone.txt", "0 1\n1 2\n")
        self.refuse("import", "edges", "alone.txt", "--out", "new", "--label-column", "kind",
                    says=["--label-column: alone.txt is not a folder"])

    def test_files_that_nobody_read_are_named(self):
        name = self.folder_of(lables="0\n1\n0\n1\n", notes="x\n")
        self.make("edges", name)
        self.check_message(self.warned, ["lables.csv, notes.csv", "labels"])
        name = self.folder_of(labels="0\n1\n0\n1\n")
        self.make("edges", f"{name}/edges.csv", out="data2")
        self.check_message(self.warned, ["labels.csv lies beside it and is not read"])


class OtherPrograms(Text):
    def test_they_are_named_with_the_way_in(self):
        files = {
            "g.graphml": ('<?xml version="1.0"?>\n<graphml xmlns="x">', ["GraphML", "read_graphml"]),
            "g.gexf": ('<gexf version="1.2">', ["GEXF", "read_gexf"]),
            "g.gml": ("# made by hand\ngraph [\n  directed 0\n", ["GML", "read_gml"]),
            "g.net": ("*Vertices 3\n1 \"a\"\n", ["Pajek", "read_pajek"]),
            "g.json": ('{"nodes": [], "links": []}', ["JSON", "node_link_graph"]),
            "g.dot": ("digraph g {\n 0 -> 1;\n}\n", ["DOT", "read_dot"]),
            "g.mat": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(128), ["MATLAB", "loadmat"]),
            "h.mat": (b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128), ["7.3", "h5py"]),
            "g.bin": (struct.pack("<QQQ", 0xDD2E4FF046B4A13F, 2, 2), ["DGL", "from_dgl"]),
            "g.pkl": (b"\x80\x04\x95\x10\x00\x00", ["pickle", "from_networkx", "trust"]),
            "g.parquet": (b"PAR1" + b"\0" * 20, ["Parquet", "from_tables"]),
            "edge_index.npy": (b"\x93NUMPY\x01\x00", ["NumPy", "atoll import npy"]),
        }
        for name, (content, says) in files.items():
            path = self.write(name, content)
            for format in ("edges", "npy", "metis"):
                self.refuse("import", format, path, "--out", "new", says=[name, *says])
        with zipfile.ZipFile("g.pt", "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02.")
        self.refuse("import", "edges", "g.pt", "--out", "new", says=["PyTorch", "from_pyg"])
        with gzip.open("z.graphml.gz", "wt") as file:
            file.write("<graphml>")
        self.refuse("import", "edges", "z.graphml.gz", "--out", "new", says=["GraphML"])
        os.mkdir("set")
        os.rename("g.gml", "set/edges.gml")
        self.refuse("import", "edges", "set", "--out", "new", says=["edges.gml", "GML"])


class SciPy(Text):
    def matrix(self, path, form, data=None, **changes):
        """The edges 0 -> 1, 1 -> 2, 2 -> 0, 2 -> 1 as scipy.sparse.save_npz writes them."""
        rows, columns = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1])
        values = np.ones(4) if data is None else np.array(data)
        order = np.lexsort((rows, columns)) if form == "csc" else np.arange(4)
        lines = columns if form == "csc" else rows
        arrays = {"row": rows.astype(np.int32), "col": columns.astype(np.int32)}
        if form != "coo":
            arrays = {"indptr": np.searchsorted(lines[order], np.arange(4)).astype(np.int32),
                      "indices": (rows if form == "csc" else columns)[order].astype(np.int32)}
        arrays |= {"format": form.encode(), "shape": np.array([3, 3]), "data": values[order]}
        np.savez_compressed(path, **{**arrays, **changes})
        return path

    def test_all_forms(self):
        expected = [(0, 1), (1, 2), (2, 0), (2, 1)]
        for form in ("csr", "csc", "coo"):
            path = self.matrix(f"{form}.npz", form)
            for format in ("npy", "edges"):
                folder = self.make(format, path, DIRECTED, out=f"{form}-{format}")
                self.assertEqual(folder.edges(), expected)
                self.assertIsNone(folder.edge_weights)
            path = self.matrix(f"w{form}.npz", form, [1, 2, 3, 4.5])
            folder = self.make("npy", path, DIRECTED, out=f"w{form}")
            np.testing.assert_array_equal(folder.edge_weights, [3, 1, 4.5, 2])

    def test_in_a_folder(self):
        self.save("set", features=np.eye(3, dtype=np.float32), labels=np.array([0, 1, 0]))
        self.matrix("set/adj.npz", "csr")
        folder = self.make("npy", "set", DIRECTED)
        self.assertEqual(len(folder.edges()), 4)
        np.testing.assert_array_equal(folder.labels, [0, 1, 0])
        self.assertEqual(self.warned, "")

    def test_from_python(self):
        dataset = atoll.Dataset.import_("npy", self.matrix("a.npz", "csc"), directed=True)
        self.assertEqual(sorted(map(tuple, dataset.edge_index.T.tolist())),
                         [(0, 1), (1, 2), (2, 0), (2, 1)])

    def test_what_is_wrong(self):
        def wrong(says, form="csr", **changes):
            self.refuse("import", "npy", self.matrix("bad.npz", form, **changes), "--out", "new",
                        says=["bad.npz", *says])
        wrong(["(3, 4)"], shape=np.array([3, 4]))
        wrong(["'bsr'", "tocsr"], format=b"bsr")
        wrong(["indices", "7", "0 to 2"], indices=np.array([1, 7, 0, 1]))
        wrong(["indptr"], indptr=np.array([0, 2, 1, 4]))
        wrong(["data", "nan"], data=[1, np.nan, 1, 1])
        wrong(["col"], form="coo", col=np.array([1, 2, 0]))


if __name__ == "__main__":
    unittest.main()
