#!/usr/bin/env python3
"""`atoll plan --shape` as a user runs it: planning without the dataset, for clusters that aren't there."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, write

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "examples")
MODEL = ["--layers", "2", "--hidden", "16", "--norm", "batch"]
TRAIN = [*MODEL, "--transport", "local", "--ranks", "3", "--backend", "cpu", "--threads", "1"]
# Figures of a plan, beside where it was made from.
FIGURES = ("ranks", "model", "partition", "layers", "predicted_ms", "default_ms", "lower_bound_ms")


def machine():
    """Three hosts of one rank each with different cards."""
    rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 4}, "gemm_gflop_per_s": {"16": 30},
            "elementwise_gb_per_s": 8, "quantize_gb_per_s": 1}
    return {"format": 1,
            "hosts": [{"name": name, "send_mbit_per_s": rate, "receive_mbit_per_s": rate}
                      for name, rate in (("a", 50), ("b", 100), ("c", 200))],
            "ranks": [{"host": name, **rank} for name in "abc"],
            "links": {"between_hosts": {"latency_us": 20, "gbit_per_s": 10}}}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


class ShapeTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        write(os.path.join(cls.folder, "machine.json"), json.dumps(machine()))
        cls.succeed("generate", "sbm", "--nodes", "3000", "--features", "20", "--out", "data")
        for name, cut in (("equal", []), ("uneven", ["--weights", "1,2,3", "--method", "random"])):
            cls.succeed("partition", "data", "--parts", "3", *cut, "--shape-out", f"{name}.json")

    def plan(self, *words):
        self.succeed("plan", *words, "--topology", "machine.json", *MODEL, "--out", "plan.json")
        return read(self.folder, "plan.json")

    def test_shapes_with_fewer_parts_are_for_groups_of_ranks(self):
        pairs = {**machine(), "hosts": [{"name": name, "send_mbit_per_s": 20,
                                         "receive_mbit_per_s": 20} for name in "ab"],
                 "links": {"between_hosts": {"latency_us": 20, "gbit_per_s": 1},
                           "within_island": {"latency_us": 1, "gbit_per_s": 80}}}
        pairs["ranks"] = [{**pairs["ranks"][0], "host": host} for host in "aabb"]
        write(os.path.join(self.folder, "pairs.json"), json.dumps(pairs))
        for parts in (2, 4):
            self.succeed("partition", "data", "--parts", str(parts), "--shape-out",
                         f"of-{parts}.json")
        # With few layers it would recompute halo rows.
        deep = ["--layers", "5", "--hidden", "64", "--norm", "batch"]
        common = ["--topology", "pairs.json", *deep, "--out", "pairs-plan.json"]
        alone = ["plan", "--shape", "alone=of-4.json", *common]
        together = ["plan", "--shape", "together=of-2.json", *common]
        both = [*alone, "--shape", "together=of-2.json"]
        text = self.succeed(*both)
        plan = read(self.folder, "pairs-plan.json")
        self.assertEqual(plan["group_ranks"], 2, text)
        ms = {group["group_ranks"]: group["ms"] for group in plan["search"]["groups"]}
        self.assertEqual(list(ms), [1, 2, 4])
        # As with the dataset, which is cut in the same way.
        self.succeed("plan", "data", "--topology", "pairs.json", *deep, "--group-ranks", "2",
                     "--out", "data-plan.json")
        self.assertEqual(read(self.folder, "data-plan.json")["predicted_ms"], ms[2])
        # Without a search, as training would be with the first one.
        for command, group_ranks in ((both, 1), (together, 2)):
            self.succeed(*command, "--search", "none")
            self.assertEqual(read(self.folder, "pairs-plan.json")["group_ranks"], group_ranks)
        self.assertIn("found shapes for 2, 4; allowed are these, or --shape with 4 parts",
                      self.refuse(*together, "--group-ranks", "1"))

    def test_how_many_ranks_of_a_cluster_should_hold_a_part(self):
        shapes = [word for parts in (64, 8) for word in
                  ("--shape", os.path.join(EXAMPLES, f"papers100m-{parts}-parts.json"))]
        for bits, chosen in (([], 8), (["--exchange", "quantized", "--bits", "4"], 1)):
            self.succeed("plan", *shapes, "--topology", os.path.join(EXAMPLES, "cluster-8x8.json"),
                         "--model", "gcn", "--norm", "batch", *bits, "--out", "papers.json")
            plan = read(self.folder, "papers.json")
            self.assertEqual(plan["group_ranks"], chosen)
            self.assertEqual([group["group_ranks"] for group in plan["search"]["groups"]],
                             [1, 8, 64])

    def test_a_plan_from_a_shape_is_that_from_the_dataset(self):
        for name, cut in (("equal", []), ("uneven", ["--weights", "1,2,3", "--method", "random"])):
            with self.subTest(cut=name):
                expected = self.plan("data", *cut, "--search", "none", "--allow-bits", "8")
                found = self.plan("--shape", f"{name}.json", "--search", "none", "--allow-bits", "8")
                for figure in FIGURES:
                    self.assertEqual(found[figure], expected[figure], figure)
                for figure in ("gradients", "critical_path"):
                    self.assertEqual(found["search"][figure], expected["search"][figure])
                self.assertEqual(found["dataset"], {"name": expected["dataset"]["name"],
                                                    "checksum": "", "shape": f"{name}.json"})

    def test_several_shapes_are_cuts_to_choose_from(self):
        plan = self.plan("--shape", "wide=uneven.json", "--shape", "equal.json", "--allow-bits", "8,4")
        cut = plan["search"]["decisions"][0]
        self.assertEqual((cut["decision"], cut["choice"], cut["instead_of"]),
                         ("cut", "equal.json", "wide"))
        self.assertGreater(cut["saves_ms"], 0)
        self.assertEqual(plan["dataset"]["shape"], "uneven.json, equal.json")
        alone = self.plan("--shape", "equal.json", "--allow-bits", "8,4")
        self.assertEqual(plan["predicted_ms"], alone["predicted_ms"])
        self.assertIn("made from equal.json, not from a dataset",
                      self.succeed("plan", "explain", "plan.json"))

    def test_training_refuses_it(self):
        self.plan("--shape", "equal.json")
        message = self.refuse("train", "data", "--plan", "plan.json", "--epochs", "1", *TRAIN)
        self.assertIn("plan.json: made from a shape, not from a dataset", message)
        self.assertIn("equal.json", message)

    def test_papers100m_on_256_ranks(self):
        shape = os.path.join(EXAMPLES, "papers100m-shape.json")
        cluster = os.path.join(EXAMPLES, "cluster-32x8.json")
        text = self.succeed("plan", "--shape", f"papers={shape}", "--topology", cluster, "--norm",
                            "batch", "--allow-bits", "8,4", "--out", "papers.json")
        self.assertIn("papers100M on 256 ranks: ", text)
        plan = read(self.folder, "papers.json")
        self.assertEqual(plan["ranks"], 256)
        self.assertLess(plan["predicted_ms"], plan["default_ms"])
        # Simulated approximately on so many ranks.
        self.assertGreater(plan["predicted_ms"], 0.99 * plan["lower_bound_ms"])
        path = sum(share["ms"] for share in plan["search"]["critical_path"])
        self.assertAlmostEqual(path / plan["predicted_ms"], 1, delta=0.02)

    def test_what_can_not_be_planned(self):
        plan = ["plan", "--topology", "machine.json", *MODEL]
        self.assertIn("dataset or --shape is required", self.refuse(*plan))
        for beside in (["data"], ["--weights", "1,1,1"], ["--method", "random"], ["--split-index", "0"]):
            name = beside[0] if len(beside) > 1 else "dataset"
            self.assertIn(f"{name} excludes --shape",
                          self.refuse(*plan, "--shape", "equal.json", *beside))
        self.assertIn("none.json", self.refuse(*plan, "--shape", "none.json"))
        self.assertIn("there is a cut 'a' already", self.refuse(
            *plan, "--shape", "a=equal.json", "--shape", "a=uneven.json"))
        papers = os.path.join(EXAMPLES, "papers100m-shape.json")
        self.assertIn("256 parts; allowed are 3", self.refuse(*plan, "--shape", papers))
        other = read(self.folder, "equal.json")
        other["features"] = 21
        write(os.path.join(self.folder, "other.json"), json.dumps(other))
        self.assertIn("other.json: 'features' is 21; allowed is 20, as in equal.json", self.refuse(
            *plan, "--shape", "equal.json", "--shape", "other.json"))
        other["parts"][1]["central"] = 1e9
        write(os.path.join(self.folder, "other.json"), json.dumps(other))
        self.assertIn("other.json: parts[1]: 'central' is 1000000000.0; allowed are whole numbers",
                      self.refuse(*plan, "--shape", "other.json"))
        self.succeed("generate", "rmat", "--nodes", "300", "--features", "0", "--out", "bare")
        self.assertIn("a shape needs both", self.refuse(
            "partition", "bare", "--parts", "2", "--shape-out", "bare.json"))


if __name__ == "__main__":
    unittest.main()
