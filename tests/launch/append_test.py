#!/usr/bin/env python3
"""Datasets that grow, as a user meets them: appended to, listed, cut, trained on and written whole;
snapshots of OGB's sets; and command lines that are refused."""

import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OGB, OneFolderTest, Workplace, run, write, write_gz

TRAIN = ["--layers", "2", "--hidden", "8", "--epochs", "4", "--backend", "cpu", "--threads", "1"]


class AppendTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        place = Workplace()
        cls.folder = place.__enter__()
        cls.addClassCleanup(place.cleanup)
        # As in the help of the command and in docs/growing.md.
        cls.write("x.csv", "".join(f"{i},{','.join('1' * (cls.info('data')['features'] - 1))}\n"
                                   for i in range(2)))
        cls.write("edges.csv.gz", "source,target\n200,0\n201,200\n0,1\n3,3\n")
        cls.write("y.txt", "0\n1\n")
        cls.write("gone.txt", "7\n")
        cls.write("ids.txt", "0\n1\n")
        cls.succeed("append", "data", "--nodes", "x.csv", "--edges", "edges.csv.gz", "--labels",
                    "y.txt", "--split", "1,0,0", "--out", "data@2")
        cls.printed = cls.succeed("append", "data@2", "--remove-nodes", "gone.txt",
                                  "--change-features", "ids.txt,x.csv", "--out", "data@3")
        cls.succeed("compact", "data@3", "--out", "whole")

    @classmethod
    def write(cls, name, text):
        (write_gz if name.endswith(".gz") else write)(os.path.join(cls.folder, name), text)

    @classmethod
    def info(cls, name):
        return json.loads(cls.succeed("info", name, "--json"))

    def test_info_shows_the_chain(self):
        info = self.info("data@3")
        self.assertEqual(info["nodes"], 202)
        # The small data@2 is in data@3.
        self.assertEqual([link["folder"] for link in info["chain"]], ["data", "data@3"])
        base, delta = info["chain"]
        self.assertEqual((base["nodes"], delta["folded"]), (200, ["data@2"]))
        self.assertEqual([delta[f] for f in ("nodes_added", "nodes_removed", "features_changed")],
                         [2, 1, 2])
        self.assertEqual(delta["edges_removed"] % 2, 0)
        self.assertEqual([link["folder"] for link in self.info("data@2")["chain"]],
                         ["data", "data@2"])
        self.assertIn("1 removed, features of 2 changed", self.printed)
        for link in info["chain"]:
            self.assertGreater(link["bytes"], 0)
        text = self.succeed("info", "data@3", "--validate")
        self.assertRegex(text, r"(?m)^base +data: 200 nodes, \d.*\n"
                               r"delta +data@3 with data@2: nodes \+2 -1, edges \+\d -\d+, "
                               r"features of 2 nodes changed, \d")
        self.assertNotIn("chain", self.info("whole"))

    def test_partitions_and_runs_are_those_of_the_whole(self):
        self.assertEqual(self.info("data@3")["checksum"], self.info("whole")["checksum"])
        names = []
        for name in ("data@3", "whole"):
            self.succeed("partition", name, "--parts", "2")
            names.append(os.listdir(os.path.join(self.folder, name, "parts")))
            self.succeed("train", name, *TRAIN, "--ranks", "2", "--transport", "local", "--run-dir",
                         f"run-{name}")
        self.assertEqual(names[0], names[1])
        self.assertEqual(self.tensors("run-data@3"), self.tensors("run-whole"))
        self.succeed("train", "whole", *TRAIN[:4], "--epochs", "6", *TRAIN[6:], "--ranks", "2",
                     "--transport", "local", "--run-dir", "run-data@3", "--resume")
        self.succeed("predict", "run-whole", "data@3", "--out", "labels.npy")

    def test_more_ranks_than_nodes(self):
        error = self.refuse("train", "data@3", *TRAIN, "--ranks", "300", "--transport", "local")
        self.assertIn("has 202 nodes", error)

    def test_a_damaged_chain_is_refused_before_training(self):
        shutil.copytree(os.path.join(self.folder, "data@2"), os.path.join(self.folder, "copy"))
        path = os.path.join(self.folder, "copy", "added_features.npy")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x7f")
        result = run(["train", "copy", *TRAIN, "--ranks", "2", "--transport", "local"], self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("added_features.npy: changed since dataset.json", result.stderr)

    def test_snapshots_of_an_ogb_set(self):
        for name, text in {**OGB, "raw/node_year.csv.gz": "2012\n2014\n2013\n2015\n2015\n2017\n"}.items():
            self.write(os.path.join("ogb", name), text)
        self.succeed("import", "ogb", "ogb", "--snapshots", "node_year", "--snapshots-from", "2014",
                     "--split", ".6,.2,.2", "--out", "set")
        sizes = {year: self.info(f"set@{year}")["nodes"] for year in (2014, 2015, 2017)}
        self.assertEqual(sizes, {2014: 3, 2015: 5, 2017: 6})
        self.assertEqual(self.info("set@2017")["chain"][-1]["folded"], ["set@2015"])
        # The years stay with the set.
        self.succeed("import", "ogb", "ogb", "--out", "all")
        self.succeed("import", "npy", "all", "--snapshots", "all/node_year.npy", "--snapshots-from",
                     "2014", "--split", ".6,.2,.2", "--out", "again")
        self.assertEqual(self.info("again@2017")["edges"], self.info("all")["edges"])
        error = self.refuse("import", "npy", "all", "--snapshots", "none.npy", "--out", "x")
        self.assertIn("none.npy: --snapshots: no such file", error)
        error = self.refuse("import", "npy", "all", "--snapshots", "all/node_year.npy", "--split",
                            "per-class:1,1,1", "--out", "x")
        self.assertIn("--split per-class", error)
        self.assertIn("--snapshots", self.refuse("import", "npy", "all", "--snapshots-from", "3",
                                                 "--out", "x"))

    def test_bases_are_found_behind_links(self):
        deep = os.path.join(self.folder, "disk", "deep")
        os.makedirs(deep)
        os.symlink("disk/deep", os.path.join(self.folder, "linked"))
        self.succeed("append", "data", "--nodes", "x.csv", "--out", "linked/grown")
        os.symlink("../../data@2", os.path.join(deep, "link"))
        self.assertEqual(self.info("linked/grown")["nodes"], 202)
        self.assertEqual(self.info("linked/link")["nodes"], 202)
        self.assertEqual(self.info("disk/deep/link")["nodes"], 202)
        shutil.copytree(os.path.join(self.folder, "whole"), os.path.join(deep, "copied"))
        os.symlink("disk/deep/copied", os.path.join(self.folder, "copied"))
        self.succeed("split", "copied", "--split", ".5,.2,.3", "--replace")
        self.succeed("info", "disk/deep/copied")

    def test_snapshots_keep_weights_and_are_put_in_place_together(self):
        self.write("weighted.txt", "0 1 2.5\n1 2 3\n")
        self.write("years.txt", "1\n2\n2\n")
        words = ["import", "edges", "weighted.txt", "--snapshots", "years.txt"]
        self.succeed(*words, "--out", "w/")
        self.assertTrue(self.info("w@1")["weighted"])
        self.succeed("compact", "w@2", "--out", "w-whole")
        self.succeed("import", "edges", "weighted.txt", "--out", "w-plain")
        self.assertEqual(self.info("w-whole")["edges"], self.info("w-plain")["edges"])
        self.assertTrue(self.info("w-whole")["weighted"])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "w")))
        self.succeed(*words, "--snapshots-from", "2", "--out", "v")
        self.write("weighted.txt", "0 1 2.5\n1 2 4\n")
        self.assertIn("v@2: exists, with another content", self.refuse(*words, "--out", "v"))
        self.assertIn("ends in a name", self.refuse(*words, "--out", ".."))

    def test_a_third_column_is_no_relation_without_a_name(self):
        self.write("typed.csv", "source,target,relation\n0,1,0\n0,1,1\n1,2,1\n")
        self.succeed("import", "edges", "typed.csv", "--directed", "--out", "typed")
        self.write("one.txt", "0 1 1\n")
        error = self.refuse("append", "typed", "--remove-edges", "one.txt", "--out", "new")
        self.assertIn("source,target,relation", error)
        self.write("one.csv", "source,target,relation\n0,1,1\n")
        self.succeed("append", "typed", "--remove-edges", "one.csv", "--out", "typed@2")
        self.assertEqual(self.info("typed@2")["edges"], 2)

    def test_what_is_refused(self):
        for words, text in (
                ([], "nothing to append"),
                (["--nodes", "3"], "has 8 features for each node"),
                (["--edges", "none.npy"], "none.npy"),
                (["--edges", "edges.csv.gz"], "edges.csv.gz: line 2"),
                (["--labels", "y.txt"], "there are no new nodes"),
                (["--nodes", "x.csv", "--labels", "gone.txt"], "gone.txt"),
                (["--nodes", "x.csv", "--split", "5"], "split '5'"),
                (["--remove-edges", "edges.csv.gz"], "edges.csv.gz: line 2"),
                (["--change-features", "ids.txt"], "a file of their rows, IDS,ROWS"),
                (["--edge-weights", "x.csv"], "there are no --edges")):
            with self.subTest(words):
                self.assertIn(text, self.refuse("append", "data", *words, "--out", "new"))
        self.assertIn("exists", self.refuse("append", "data", "--edges", "x.csv", "--out", "data@2"))
        self.assertIn("it is whole already", self.refuse("compact", "data", "--out", "new"))
        for words in (["append", "data@2", "--edges", "x.csv"], ["compact", "data@2"]):
            for out in ("data/parts", "data@2/new/deep", "./data/../data@2/new/"):
                error = self.refuse(*words, "--out", out)
                self.assertIn(f"--out {out}: lies inside the dataset folder ", error)
            self.assertIn("--out data@2/: it is the dataset itself",
                          self.refuse(*words, "--out", "data@2/"))
        for out in ("data/parts", "data@2/new"):
            self.assertFalse(os.path.exists(os.path.join(self.folder, out)))
        self.assertIn("nowhere", self.refuse("append", "nowhere", "--nodes", "1", "--out", "new"))


if __name__ == "__main__":
    unittest.main()
