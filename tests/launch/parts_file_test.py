#!/usr/bin/env python3
"""Cuts made elsewhere (--method file --parts-file), as a user meets them: used as they are, found
again, moved on request only, and refused with the place that is wrong."""

import json
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, Workplace, npy, read_npy, write

NODES = 200
HALVES = [node % 2 for node in range(NODES)]
QUARTERS = [node % 4 for node in range(NODES)]
FORMATS = {"<i4": "i", "<i8": "q", "|u1": "B", "<f4": "f"}
CUT = ["partition", "data", "--parts", "2"]
FROM_FILE = [*CUT, "--method", "file", "--parts-file"]
TRAIN = ["train", "data", "--layers", "2", "--hidden", "8", "--epochs", "2", "--backend", "cpu",
         "--transport", "local", "--ranks", "2", "--method", "file"]
RANK = {"count": 2, "kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"8": 4},
        "gemm_gflop_per_s": {"8": 30}, "elementwise_gb_per_s": 8, "quantize_gb_per_s": 1}
TWO_HOSTS = {"format": 1,
             "hosts": [{"name": name, "send_mbit_per_s": 1000} for name in "ab"],
             "ranks": [{"host": "a", **RANK}, {"host": "b", **RANK}],
             "links": {"within_island": {"latency_us": 5, "gbit_per_s": 40},
                       "between_hosts": {"latency_us": 50, "gbit_per_s": 1}}}


class PartsFileTest(OneFolderTest):
    def setUp(self):
        place = Workplace()
        type(self).folder = place.__enter__()
        self.addCleanup(place.cleanup)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def parts(self, parts, descr="<i4", name="parts.npy"):
        """Writes one part per node; returns the file's name."""
        data = struct.pack(f"<{len(parts)}{FORMATS[descr]}", *parts)
        write(self.path(name), npy(descr, [len(parts)], data))
        return name

    def cut(self, *arguments):
        """The folder, the options in partition.json and the halo rows of one exchange."""
        result = json.loads(self.succeed(*arguments, "--json"))
        return result["folder"], result["partition"]["options"], sum(
            sum(rows) for rows in result["quality"]["forward_rows"])

    def owners(self, folder, parts=2):
        """The part of every node in the shards."""
        part_of = [None] * NODES
        for part in range(parts):
            _, ids = read_npy(self.path(folder, f"part-{part}/inner_ids.npy"))
            for node in struct.unpack(f"<{len(ids) // 8}q", ids):
                part_of[node] = part
        return part_of

    def refuse_cut(self, *arguments, words):
        error = self.refuse(*arguments)
        message = error[error.index("atoll: error:"):]
        for word in words:
            self.assertIn(word, message)
        parts = self.path("data/parts")
        self.assertEqual(os.listdir(parts) if os.path.exists(parts) else [], [])

    def test_parts_are_used_as_they_are_and_found_again(self):
        for descr in ("<i4", "<i8", "|u1"):
            with self.subTest(descr):
                name = self.parts(HALVES, descr)
                folder, options, _ = self.cut(*FROM_FILE, name)
                self.assertRegex(os.path.basename(folder), "^2-file-volume-[0-9a-f]{8}$")
                self.assertEqual(self.owners(folder), HALVES)
                self.assertRegex(options["parts_checksum"], "^[0-9a-f]{16}$")
                self.assertNotIn("refine", options)
                made = os.stat(self.path(folder, "partition.json")).st_mtime_ns
                # The content counts, not the name.
                os.rename(self.path(name), self.path("moved.npy"))
                self.assertEqual(self.cut(*FROM_FILE, "moved.npy")[0], folder)
                self.assertEqual(os.stat(self.path(folder, "partition.json")).st_mtime_ns, made)
        other, _, _ = self.cut(*FROM_FILE, self.parts([1 - part for part in HALVES]))
        self.assertNotEqual(other, folder)
        self.assertEqual(self.owners(other), [1 - part for part in HALVES])

    def test_refinement_moves_nodes_on_request(self):
        name = self.parts(HALVES)
        as_made, _, rows = self.cut(*FROM_FILE, name)
        refined, options, fewer = self.cut(*FROM_FILE, name, "--refine", "on")
        self.assertNotEqual(refined, as_made)
        self.assertTrue(options["refine"])
        self.assertLess(fewer, rows)
        self.assertEqual(self.cut(*FROM_FILE, name, "--refine", "off")[0], as_made)

    def test_refinement_mends_what_is_refused_without_it(self):
        for parts in ([0] * NODES, [0] * 150 + [1] * 50):
            folder, _, _ = self.cut(*FROM_FILE, self.parts(parts), "--refine", "on")
            found = self.owners(folder)
            self.assertGreater(found.count(0), 80)
            self.assertGreater(found.count(1), 80)

    def test_options_without_an_effect_are_refused(self):
        cut = [*CUT, "--objective", "cut"]
        folder, options, _ = self.cut(*cut)
        self.assertNotIn("refine", options)
        self.assertEqual(self.cut(*cut, "--refine", "off")[0], folder)
        for more, found, allowed in (
                (["--objective", "cut", "--refine", "on"], "--refine: on found with --objective cut",
                 "allowed are --refine off, and --objective volume"),
                (["--method", "random", "--objective", "cut"],
                 "--objective: cut found with --method random",
                 "allowed with auto, metis and communities"),
                (["--method", "contiguous", "--cuts", "3"],
                 "--cuts: 3 found with --method contiguous",
                 "allowed with auto, metis and communities"),
                (["--method", "random", "--imbalance", "0.1"],
                 "--imbalance: 0.1 found with --method random, which minimises nothing",
                 "allowed with auto, metis and communities, and with --refine on"),
                (["--method", "file", "--cuts", "3"],
                 "--cuts: 3 found with --method file, which makes no cut",
                 "allowed with auto, metis and communities"),
                (["--method", "file", "--objective", "cut"],
                 "--objective: cut found with --method file, which makes no cut",
                 "and with --refine on, which then only repairs")):
            refusal = self.refuse(*CUT, *more)
            self.assertIn(found, refusal)
            self.assertIn(allowed, refusal)
        # A limit to how far nodes may move has an effect.
        moved = ["--method", "random", "--imbalance", "0.1", "--refine", "on"]
        self.assertIn("refine", self.cut(*CUT, *moved)[1])
        # Refinement mends a file that is refused without it.
        heavy = self.parts([0] * 150 + [1] * 50)
        from_file = [*FROM_FILE, heavy, "--objective", "cut", "--refine", "on"]
        self.assertIn("refine", self.cut(*from_file)[1])

    def test_a_split_that_no_part_is_balanced_by_is_refused(self):
        for name in ("row_ptr.npy", "col_idx.npy", "features.npy", "labels.npy"):
            with open(self.path("data", name), "rb") as file:
                write(self.path("arrays", name), file.read())
        _, roles = read_npy(self.path("data/split.npy"))
        write(self.path("arrays/split.npy"), npy("|u1", [2, NODES], 2 * roles))
        self.succeed("import", "npy", "arrays", "--directed", "--out", "two")
        cut = ["partition", "two", "--parts", "2", "--split-index", "1"]
        self.succeed(*cut, "--balance", "edges,train")
        self.assertIn("--split-index: 1 found with --balance cost, which looks at no split; "
                      "allowed with edges,train", self.refuse(*cut))

    def test_a_dataset_may_stand_behind_a_list(self):
        order = ["--part-order", "1,0", "--weights", "1,2", "--islands", "1,1"]
        text = self.succeed("partition", *order[:2], "data", "--parts", "2", *order[2:])
        self.assertEqual(text, self.succeed("partition", "--parts", "2", *order, "data"))

    def test_refine_is_part_of_a_cut(self):
        plain, options, rows = self.cut(*CUT, "--method", "random")
        self.assertNotIn("refine", options)
        refined, options, fewer = self.cut(*CUT, "--method", "random", "--refine", "on")
        self.assertTrue(options["refine"])
        self.assertNotEqual(plain, refined)
        self.assertLess(fewer, rows)
        for method in ("metis", "communities"):
            folder, options, rows = self.cut(*CUT, "--method", method, "--refine", "off")
            self.assertNotIn("refine", options)
            refined, options, fewer = self.cut(*CUT, "--method", method)
            self.assertTrue(options["refine"])
            self.assertNotEqual(folder, refined)
            self.assertLessEqual(fewer, rows)

    def test_strong_refinement_is_another_cut_with_no_more_rows(self):
        usual, _, rows = self.cut(*CUT)
        strong, options, fewer = self.cut(*CUT, "--refine", "strong")
        self.assertEqual(options["refine"], "strong")
        self.assertNotEqual(usual, strong)
        self.assertLessEqual(fewer, rows)
        self.assertIn("refine=strong", self.succeed("partition", "data", "--list"))
        made = os.stat(self.path(strong, "partition.json")).st_mtime_ns
        train = [*TRAIN[:-2], "--refine", "strong", "--run-dir", "run"]
        self.succeed(*train)
        self.assertEqual(os.stat(self.path(strong, "partition.json")).st_mtime_ns, made)
        self.assertEqual(len(os.listdir(self.path("data/parts"))), 2)

    def test_training_takes_it(self):
        name = self.parts(HALVES)
        folder, _, _ = self.cut(*FROM_FILE, name)
        self.succeed(*TRAIN, "--parts-file", name, "--run-dir", "run")
        self.assertEqual(os.listdir(self.path("data/parts")), [os.path.basename(folder)])
        self.succeed("train", "--config", "run/config.toml", "--run-dir", "again")
        for file in ("run", "again"):
            with open(self.path(file, "summary.json"), encoding="utf-8") as summary:
                self.assertEqual(json.load(summary)["ranks"], 2)
        error = self.refuse(*TRAIN, "--parts-file", self.parts(HALVES[:-1]), "--run-dir", "none")
        self.assertIn("parts.npy: shape (199) found, (200) expected", error)

    def test_plans_keep_it(self):
        name = self.parts(QUARTERS)
        write(self.path("machine.json"), json.dumps(TWO_HOSTS))
        model = ["--layers", "2", "--hidden", "8"]
        text = self.succeed("plan", "data", "--topology", "machine.json", *model, "--method",
                            "file", "--parts-file", name, "--out", "plan.json")
        self.assertIn("--plan plan.json --parts-file parts.npy", text)
        with open(self.path("plan.json"), encoding="utf-8") as file:
            cut = json.load(file)["partition"]
        self.assertEqual((cut["method"], cut["shares"]), ("file", "equal"))
        train = ["train", "data", *model, "--epochs", "2", "--backend", "cpu", "--transport",
                 "local", "--ranks", "4", "--run-dir", "none", "--plan", "plan.json"]
        error = self.refuse(*train, "--plan-trial", "0")
        self.assertIn(f"give --parts-file P.npy, the file with checksum {cut['parts_checksum']}",
                      error)
        other = self.parts(QUARTERS[::-1], name="other.npy")
        self.assertIn("other.npy: checksum ", self.refuse(*train, "--plan-trial", "0",
                                                          "--parts-file", other))
        self.assertIn("--refine", self.refuse(*train, "--refine", "on"))
        self.succeed(*train, "--plan-trial", "1", "--parts-file", name)
        # Also where the partition is there, and the file would not be read.
        error = self.refuse(*train, "--plan-trial", "0", "--parts-file", other)
        self.assertIn(f"plan.json was made for the file with checksum {cut['parts_checksum']}",
                      error)
        self.assertEqual(sorted(folder.split("-")[1] for folder in
                                os.listdir(self.path("data/parts"))), ["auto", "file"])

    def test_plans_that_cut_refuse_it(self):
        name = self.parts(QUARTERS)
        write(self.path("machine.json"), json.dumps(TWO_HOSTS))
        model = ["--layers", "2", "--hidden", "8"]
        self.succeed("plan", "data", "--topology", "machine.json", *model, "--out", "plan.json")
        error = self.refuse("train", "data", *model, "--epochs", "2", "--backend", "cpu",
                            "--transport", "local", "--ranks", "4", "--run-dir", "none", "--plan",
                            "plan.json", "--parts-file", name)
        self.assertIn("--parts-file: parts.npy found, but the cut of plan.json is made by --method "
                      "auto", error)

    def test_wrong_files(self):
        wrong = HALVES[:7] + [2] + HALVES[8:]
        negative = HALVES[:7] + [-1] + HALVES[8:]
        write(self.path("text.npy"), "0 1 0 1")
        for name, words in (
                (self.parts(HALVES[:-1], name="short.npy"), ["short.npy", "(199)", "(200)"]),
                (self.parts(wrong, name="beyond.npy"),
                 ["beyond.npy: node 7 is in part 2; allowed are 0 to 1"]),
                (self.parts(negative, "<i8", "negative.npy"),
                 ["negative.npy: node 7 is in part -1; allowed are 0 to 1"]),
                (self.parts(HALVES, "<f4", "floats.npy"),
                 ["floats.npy", "<f4", "<i4, <i8 and |u1 (int32, int64, uint8)"]),
                ("text.npy", ["text.npy: not a .npy file"]),
                ("nowhere.npy", ["nowhere.npy", "No such file"])):
            with self.subTest(name):
                self.refuse_cut(*FROM_FILE, name, words=words)

    def test_unbalanced_parts(self):
        empty = self.parts([0] * NODES, name="empty.npy")
        self.refuse_cut(*FROM_FILE, empty,
                        words=["left part 1 of 2 empty", "--refine on", "empty.npy"])
        heavy = self.parts([0] * 150 + [1] * 50, name="heavy.npy")
        self.refuse_cut(*FROM_FILE, heavy, words=["part 0 of 2 weighs", "is allowed", "--imbalance",
                                                  "--refine on", "heavy.npy"])
        folder, _, _ = self.cut(*FROM_FILE, heavy, "--weights", "3,1", "--balance", "nodes")
        self.assertEqual(self.owners(folder), [0] * 150 + [1] * 50)

    def test_options_that_contradict_it(self):
        name = self.parts(HALVES)
        self.refuse_cut(*CUT, "--method", "file", words=["--method file", "--parts-file P.npy"])
        self.refuse_cut(*CUT, "--parts-file", name,
                        words=["--parts-file", name, "--method auto", "--method file only"])
        self.refuse_cut(*CUT, "--parts-file", name, "--method", "metis",
                        words=["--parts-file", name, "--method metis", "--method file only"])
        four = ["partition", "data", "--parts", "4", *FROM_FILE[4:], name]
        others = "allowed with --method auto, metis, communities, random and contiguous"
        self.refuse_cut(*four, "--islands", "2,2", words=["--method file", "--islands", others])
        self.refuse_cut(*FROM_FILE, name, "--marginal-cost", "0.5",
                        words=["--method file", "--marginal-cost", others])
        one = ["partition", "data", "--parts", "1", *FROM_FILE[4:], name]
        self.refuse_cut(*one, words=["--method file", "1 part", "from 2 parts on"])
        alone = [word if word != "2" else "1" for word in TRAIN]
        self.refuse_cut(*alone, "--parts-file", name, "--run-dir", "none",
                        words=["--method file", "1 part"])
        self.refuse_cut(*CUT, "--refine", "maybe", words=["--refine", "maybe", "auto,off,on,strong"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
