#!/usr/bin/env python3
"""Partitions and splits as a user meets them: damaged shards, one rank without a cut on disk,
read-only datasets, sets without a split, and old partitions that are listed and removed."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (ATOLL, TIMEOUT, Workplace, edit_json, environment, list_tree,
                         replace_npy_data, run, write)

TRAIN = ["train", "data", "--layers", "2", "--hidden", "8", "--epochs", "4", "--backend", "cpu"]
TWO = ["--transport", "local", "--ranks", "2"]
NOBODY = 65534


class PartitionsTest(unittest.TestCase):
    def setUp(self):
        place = Workplace()
        self.folder = place.__enter__()
        self.addCleanup(place.cleanup)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def read(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def succeed(self, *arguments):
        result = run(list(arguments), self.folder)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        return result.stdout

    def refuse(self, *arguments, words):
        result = run(list(arguments), self.folder)
        self.assertEqual(result.returncode, 2, f"{arguments}: {result.stdout}{result.stderr}")
        for word in words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def only_partition(self, dataset="data"):
        names = os.listdir(self.path(dataset, "parts"))
        self.assertEqual(len(names), 1, names)
        return os.path.join(dataset, "parts", names[0])

    def entries(self, *arguments):
        return json.loads(self.succeed("partition", "data", "--list", "--json", *arguments))

    def test_zeroed_features_are_refused(self):
        self.succeed(*TRAIN, *TWO)
        features = os.path.join(self.only_partition(), "part-0/features.npy")
        replace_npy_data(self.path(features), 0, b"\0" * 64)
        self.refuse(*TRAIN, *TWO, words=["part-0/features.npy: changed since shard.json was written",
                                         "remove data/parts/"])

    def test_swapped_parts_are_refused(self):
        self.succeed(*TRAIN, *TWO)
        parts = self.path(self.only_partition())
        os.rename(os.path.join(parts, "part-0"), os.path.join(parts, "part-2"))
        os.rename(os.path.join(parts, "part-1"), os.path.join(parts, "part-0"))
        os.rename(os.path.join(parts, "part-2"), os.path.join(parts, "part-1"))
        self.refuse(*TRAIN, *TWO, words=["shard.json: changed since partition.json was written"])

    def test_one_rank_needs_no_cut_on_disk(self):
        before = list_tree(self.path("data"))
        kinds = [["--model", "gcn"], ["--model", "sage", "--dtype", "bf16"]]
        for k, kind in enumerate(kinds):
            self.succeed(*TRAIN, *kind, "--run-dir", f"memory{k}")
            self.succeed("predict", f"memory{k}", "data", "--out", f"memory{k}.npy")
        self.succeed("bench", "data", "--hidden", "8", "--epochs", "1", "--warmup", "1")
        self.assertEqual(list_tree(self.path("data")), before)
        self.succeed("partition", "data", "--parts", "1")
        partition = self.path(self.only_partition())
        for k, kind in enumerate(kinds):
            self.succeed(*TRAIN, *kind, "--run-dir", f"disk{k}")
            self.assertEqual(self.read(f"memory{k}/model.safetensors"),
                             self.read(f"disk{k}/model.safetensors"))
            self.succeed("predict", f"disk{k}", "data", "--out", f"disk{k}.npy")
            self.assertEqual(self.read(f"memory{k}.npy"), self.read(f"disk{k}.npy"))
        # The one on disk was what they read.
        replace_npy_data(os.path.join(partition, "part-0/features.npy"), 0, b"\0" * 8)
        self.refuse(*TRAIN, words=["part-0/features.npy"])

    def test_one_rank_has_its_trace(self):
        self.succeed(*TRAIN, "--run-dir", "run", "--trace")
        with open(self.path("run/trace.json"), encoding="utf-8") as file:
            metadata = json.load(file)["metadata"]
        self.succeed("partition", "data", "--parts", "1")
        quality = json.loads(self.read(self.only_partition(), "quality.json"))
        self.assertEqual(metadata["partition"], quality)

    def run_as_nobody(self, *arguments):
        """As a user to whom the dataset's folder is read-only, which root never is."""
        def become_nobody():
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
        return subprocess.run([self.path("atoll"), *arguments], cwd=self.path("own"),
                              env=environment(), capture_output=True, text=True, check=False,
                              timeout=TIMEOUT, preexec_fn=become_nobody)

    def test_read_only_dataset(self):
        shutil.copy(os.path.abspath(ATOLL), self.path("atoll"))
        os.mkdir(self.path("own"))
        os.chmod(self.folder, 0o755)
        os.chmod(self.path("own"), 0o777)
        os.chmod(self.path("data"), 0o555)
        self.addCleanup(os.chmod, self.path("data"), 0o755)
        train = [*TRAIN[:1], "../data", *TRAIN[2:]]
        refused = self.run_as_nobody(*train, *TWO)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("../data/parts: can't create a partition here: Permission denied; "
                      "--parts-dir DIR", refused.stderr)
        self.assertNotIn("partitioning", refused.stderr)
        for arguments in (train, [*train, *TWO, "--parts-dir", "parts", "--run-dir", "run"],
                          ["predict", "run", "../data", *TWO, "--parts-dir", "parts", "--out",
                           "labels.npy"],
                          ["train", "--config", "run/config.toml", "--run-dir", "again"]):
            result = self.run_as_nobody(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(os.listdir(self.path("own/parts"))), 1)
        self.assertEqual(self.read("own/run/model.safetensors"),
                         self.read("own/again/model.safetensors"))

    def bare(self, *files):
        """A dataset `bare` with the graph of data/ and only these arrays beside it."""
        for name in ("row_ptr.npy", "col_idx.npy", *files):
            write(self.path("arrays", name), self.read("data", name))
        self.succeed("import", "npy", "arrays", "--directed", "--out", "bare")
        return ["train", "bare", *TRAIN[2:], *TWO]

    def test_what_is_missing_is_said_before_the_cut(self):
        for files, words in [(["labels.npy", "split.npy"], ["bare: the dataset has no features"]),
                             (["features.npy"], ["bare: the dataset has no labels"]),
                             (["features.npy", "labels.npy"],
                              ["no split; atoll split bare --split .6,.2,.2"])]:
            error = self.refuse(*self.bare(*files), words=words)
            self.assertNotIn("partitioning", error)
            self.assertFalse(os.path.exists(self.path("bare/parts")))
            shutil.rmtree(self.path("bare"))
            shutil.rmtree(self.path("arrays"))
        self.refuse("partition", "data", "--parts", "0", words=["--parts", "0", "1", "4096"])
        error = self.refuse(*TRAIN, *TWO, "--split-index", "3", words=["--split-index 3"])
        self.assertNotIn("partitioning", error)

    def test_split_makes_a_set_trainable(self):
        train = self.bare("features.npy", "labels.npy")
        self.succeed("split", "bare", "--split", ".6,.2,.2", "--seed", "7")
        self.succeed(*train)
        self.succeed("info", "bare", "--validate")
        self.succeed("import", "npy", "arrays", "--directed", "--out", "other", "--split",
                     "0.6,0.2,0.2", "--seed", "7")
        self.assertEqual(self.read("bare/split.npy"), self.read("other/split.npy"))
        first = self.read("bare/split.npy")
        self.refuse("split", "bare", "--split", "per-class:3,20,20", words=["--replace"])
        self.assertEqual(self.read("bare/split.npy"), first)
        output = self.succeed("split", "bare", "--split", "per-class:3,20,20", "--replace")
        self.assertIn("12 train, 20 valid, 20 test, 148 none", output)
        self.assertIn("atoll partition bare --prune", output)
        self.succeed("info", "bare", "--validate")
        before = self.read("bare/dataset.json")
        self.refuse("split", "bare", "--split", "0.5,0.6,0.2", "--replace", words=["more than 1"])
        self.assertEqual(self.read("bare/dataset.json"), before)

    def test_interrupted_split(self):
        self.bare("features.npy", "labels.npy")
        intact = self.read("bare/dataset.json")
        self.succeed("split", "bare", "--split", ".6,.2,.2")
        write(self.path("bare/dataset.json"), intact)  # as if killed before it was written
        self.refuse("info", "bare", words=["'splits' is 0", "atoll split bare", "--replace"])
        self.succeed("split", "bare", "--split", ".6,.2,.2", "--replace")
        self.succeed("info", "bare", "--validate")
        intact = self.read("bare/dataset.json")
        self.succeed("split", "bare", "--split", ".5,.2,.2", "--replace")
        write(self.path("bare/dataset.json"), intact)
        self.refuse("info", "bare", words=["split.npy: changed since dataset.json was written",
                                           "atoll split bare", "--replace"])

    def test_damaged_labels_are_not_split(self):
        replace_npy_data(self.path("data/labels.npy"), 0, b"\3\0\0\0\3\0\0\0")
        before = list_tree(self.path("data"))
        self.refuse("split", "data", "--split", ".6,.2,.2", "--replace", words=["labels.npy"])
        self.assertEqual(list_tree(self.path("data")), before)

    def test_nothing_but_json_is_printed(self):
        # METIS finds this hard, and would say so on standard output.
        self.succeed("generate", "sbm", "--nodes", "300", "--out", "small")
        printed = self.succeed("partition", "small", "--parts", "3", "--weights", "1000,1,1",
                               "--partition-seed", "5", "--json")
        self.assertIn("folder", json.loads(printed))

    def test_list_and_prune(self):
        self.assertIn("no partitions in data/parts", self.succeed("partition", "data", "--list"))
        self.succeed("partition", "data", "--parts", "2")
        usable = self.only_partition()
        folders = {}
        for word, seed in (("older", 2), ("damaged", 3), ("renamed", 4), ("foreign", 5)):
            made = json.loads(self.succeed("partition", "data", "--parts", "2", "--seed", str(seed),
                                           "--json"))
            folders[word] = self.path(made["folder"])
        edit_json(os.path.join(folders["older"], "partition.json"), format=1)
        replace_npy_data(os.path.join(folders["damaged"], "part-1/in_degree.npy"), 0, b"\7")
        renamed = self.path("data/parts/2-auto-volume-01234567")
        os.rename(folders["renamed"], renamed)
        edit_json(os.path.join(folders["foreign"], "partition.json"), format=1)
        write(os.path.join(folders["foreign"], "part-0/notes.txt"), "mine")
        write(self.path("data/parts/notes.txt"), "mine")
        for name in ("killed", "busy"):
            temporary = self.path(f"data/parts/2-auto-volume-89abcdef.tmp-{name}")
            write(os.path.join(temporary, "part-0/labels.npy"), "half")
            write(temporary + ".lock", "")
        busy = self.enterContext(
            open(self.path("data/parts/2-auto-volume-89abcdef.tmp-busy.lock"), "rb"))
        fcntl.flock(busy, fcntl.LOCK_EX)

        listed = {os.path.basename(entry["folder"]): entry for entry in self.entries()}
        self.assertEqual(len(listed), 7)
        self.assertTrue(listed[os.path.basename(usable)]["usable"])
        self.assertGreater(listed[os.path.basename(usable)]["bytes"], 5000)
        self.assertEqual(listed[os.path.basename(folders["damaged"])]["options"], "seed=3")
        self.assertIn("format 1", listed[os.path.basename(folders["older"])]["stale"])
        self.assertIn("renamed", listed["2-auto-volume-01234567"]["stale"])
        self.assertIn("usable", self.succeed("partition", "data", "--list"))

        before = list_tree(self.path("data"))
        dry = self.succeed("partition", "data", "--prune", "--dry-run")
        self.assertEqual(list_tree(self.path("data")), before)
        pruned = self.succeed("partition", "data", "--prune")
        self.assertEqual(pruned, dry.replace("would remove", "removed"))
        self.assertIn("removed 4 folders", pruned)
        left = {name for name in os.listdir(self.path("data/parts")) if ".tmp-" in name}
        self.assertEqual(left, {"2-auto-volume-89abcdef.tmp-busy",
                                "2-auto-volume-89abcdef.tmp-busy.lock"})
        self.assertIn("part-0/notes.txt", pruned)
        for word in ("older", "damaged"):
            self.assertFalse(os.path.exists(folders[word]), word)
        self.assertFalse(os.path.exists(renamed))
        self.assertTrue(os.path.exists(os.path.join(folders["foreign"], "part-0/notes.txt")))
        self.assertTrue(os.path.exists(self.path("data/parts/notes.txt")))
        before = list_tree(self.path("data"))
        self.succeed(*TRAIN, *TWO)
        self.assertEqual(list_tree(self.path("data")), before)

    def test_a_changed_dataset_leaves_partitions_to_prune(self):
        self.succeed("partition", "data", "--parts", "2")
        self.succeed("split", "data", "--split", ".5,.2,.2", "--replace")
        self.assertIn("the dataset changed since", self.entries()[0]["stale"])
        self.assertIn("removed 1 folder,", self.succeed("partition", "data", "--prune"))
        self.assertEqual(os.listdir(self.path("data/parts")), [])

    def test_shared_folder_keeps_other_datasets(self):
        shared = ["--parts-dir", "shared"]
        self.succeed("generate", "rmat", "--nodes", "64", "--degree", "4", "--out", "other")
        for dataset in ("data", "other"):
            self.succeed("partition", dataset, "--parts", "2", *shared)
        kept = [entry["kept"] for entry in self.entries(*shared)]
        self.assertEqual(sorted(kept), ["", "of dataset rmat"])
        self.assertIn("removed 0 folders", self.succeed("partition", "data", "--prune", *shared))
        self.assertEqual(len(os.listdir(self.path("shared"))), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
