#!/usr/bin/env python3
"""Layers in stages (docs/stages.md) from the command line: the same bits for any number of ranks,
resumed runs, predictions, bench, and what is refused."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

MODEL = ["--model", "gcnii", "--layers", "4", "--hidden", "16", "--norm", "layer", "--backend",
         "cpu"]
DEEP = ["8" if word == "4" else word for word in MODEL]
STAGES = ["--stages", "all", "--stale", "on", "--chunks", "4", "--stale-from", "3"]


class StagesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        cls.succeed("generate", "sbm", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--out", "data")
        cls.succeed("generate", "sbm", "--nodes", "900", "--features", "8", "--classes", "4",
                    "--homophily", "0.25", "--out", "uncuttable")

    def train(self, name, *options, ranks=3):
        return self.train_as(["data", *MODEL], name, *options, ranks=ranks)

    def train_as(self, model, name, *options, ranks=3):
        result = run(["train", *model, *options, "--run-dir", name], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")
        return result.stderr

    def file(self, name, file):
        with open(os.path.join(self.folder, name, file), "rb") as handle:
            return handle.read()

    def losses(self, name):
        return [json.loads(line)["loss"] for line in self.file(name, "metrics.jsonl").splitlines()]

    def expect_near(self, name, other):
        for found, expected in zip(self.losses(name), self.losses(other), strict=True):
            self.assertAlmostEqual(found, expected, delta=1e-5 * expected)

    def test_any_number_of_ranks_trains_the_same_bits(self):
        # Those of GCNII add up gradients of the input in another order.
        model = ["data", "--model", "sage", *MODEL[2:]]
        said = self.train_as(model, "three", *STAGES, "--epochs", "8", "--verbose")
        self.assertIn("stages begin with layers 0, ", said)
        self.assertIn("4 chunks of nodes, which read rows of the last epoch from epoch 3 on", said)
        for name, ranks in (("one", 1), ("two", 2), ("four", 4)):
            self.train_as(model, name, *STAGES, "--epochs", "8", ranks=ranks)
            self.assertEqual(self.losses(name), self.losses("three"), name)
        self.train_as(model, "whole", "--epochs", "8", ranks=1)
        for staged, whole in list(zip(self.losses("three"), self.losses("whole")))[:2]:
            self.assertAlmostEqual(staged, whole, delta=1e-5 * whole)
        self.assertNotEqual(self.losses("three")[-1], self.losses("whole")[-1])

    def test_a_run_goes_on_from_its_checkpoint_with_other_stages(self):
        options = [*STAGES, "--checkpoint-every", "4"]
        self.train("straight", *options, "--epochs", "12")
        self.train("stopped", *options, "--epochs", "8")
        self.train("stopped", "--epochs", "12", "--resume")
        self.assertEqual(self.file("stopped", "model.safetensors"),
                         self.file("straight", "model.safetensors"))
        self.train("fewer", *options, "--epochs", "8")
        self.train("fewer", "--epochs", "12", "--resume", ranks=2)
        self.expect_near("fewer", "straight")
        error = self.refuse("train", "data", *MODEL, *options, "--chunks", "5", "--epochs", "14",
                            "--run-dir", "fewer", "--resume", ranks=3)
        self.assertIn("chunks", error)

    def test_one_rank_evaluates_the_model_as_the_run_did(self):
        self.train("evaluated", *STAGES, "--epochs", "6", "--eval-every", "6")
        self.succeed("predict", "evaluated", "data", "--out", "labels.npy")
        self.succeed("evaluate", "evaluated", "data", "--out", "alone.json")
        with open(os.path.join(self.folder, "alone.json"), encoding="utf-8") as file:
            alone = json.load(file)
        in_stages = json.loads(self.file("evaluated", "summary.json"))
        for split in ("train", "valid", "test"):
            self.assertEqual(alone[split], in_stages[split], split)
            self.assertGreater(alone[split], 0.2, split)

    def test_bench_tells_stages_and_bytes(self):
        for bits, columns in (([], 4 * 16), (["--exchange", "quantized", "--bits", "4"], 4 + 8)):
            result = run(["bench", "data", *MODEL, "--stages", "2", "--stale", "on",
                          "--stale-from", "2", "--warmup", "2", "--epochs", "2", "--json", *bits],
                         self.folder, ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout)
            self.assertEqual((report["first_layers"][0], len(report["first_layers"]),
                              report["chunks"]), (0, 2, 32))
            # One matrix each way: each stage takes gradients of the first row back by itself.
            rows = 2 * 1200 * columns
            sums = report["bytes_sent_per_epoch"] - rows
            self.assertGreater(sums, 0, bits)
            self.assertLess(sums, 20000, bits)
            if not bits:
                self.assertEqual(report["halo_bytes_per_epoch_formula"], rows)

    def plan(self, name, *options):
        self.succeed("plan", "uncuttable", *DEEP[:-2], "--topology", "topology.json", "--out", name,
                     *options)
        return json.loads(self.file("", name))

    def test_a_plan_divides_layers_by_the_rates_of_ranks(self):
        rates = {"16": 10.0, "64": 10.0}
        ranks = [{"host": f"h{r}", "kind": "cpu", "memory_gib": 1,
                  "spmm_gb_per_s": rates, "gemm_gflop_per_s": rates, "elementwise_gb_per_s": 1.0,
                  "quantize_gb_per_s": 1.0} for r in range(3)]
        topology = {"format": 1, "ranks": ranks,
                    "hosts": [{"name": f"h{r}", "send_mbit_per_s": 1, "receive_mbit_per_s": 1}
                              for r in range(3)],
                    "links": {"within_host": {"latency_us": 1, "gbit_per_s": 10},
                              "between_hosts": {"latency_us": 50, "gbit_per_s": 0.001}}}

        def write():
            with open(os.path.join(self.folder, "topology.json"), "w", encoding="utf-8") as file:
                json.dump(topology, file)

        write()
        self.assertIsNone(self.plan("exact.json")["stages"])
        planned = self.plan("plan.json", "--stale", "on", "--chunks", "4", "--stale-from", "3")
        stages = planned["stages"]
        self.assertEqual((stages["chunks"], stages["stale_from"]), (4, 3))
        self.assertEqual(planned["search"]["groups"][-1]["ms"], planned["predicted_ms"])
        ranks[0].update({key: {c: 0.4 for c in rates} for key in ("spmm_gb_per_s",
                                                                   "gemm_gflop_per_s")})
        ranks[0]["elementwise_gb_per_s"] = 0.04
        write()
        slow = self.plan("slow.json", "--stages", "all", "--stale", "on")["stages"]
        self.assertEqual(slow["first_layers"][:2], [0, 1])
        self.assertIn("stage 0            layers 0 to 0",
                      self.succeed("plan", "explain", "slow.json"))

        follow = ["--plan", "plan.json", "--epochs", "6"]
        error = self.refuse("train", "uncuttable", *DEEP, *follow, "--run-dir", "unsaid", ranks=3)
        self.assertIn("plan.json: its layers are in stages", error)
        self.assertIn("add --stale on", error)
        said = self.train_as(["uncuttable", *DEEP], "planned", *follow, "--stale", "on",
                             "--verbose")
        first = ", ".join(map(str, stages["first_layers"]))
        self.assertIn(f"stages begin with layers {first};", said)
        # Epochs are not tried: a run would compute something else if others were faster.
        self.assertNotIn("with the plan", said)
        self.train_as(["uncuttable", *DEEP], "planned", "--epochs", "8", "--resume")
        self.train_as(["uncuttable", *DEEP], "unplanned", *STAGES, "--epochs", "6")
        self.train_as(["uncuttable", *DEEP], "unplanned", "--epochs", "8", "--resume")
        self.expect_near("planned", "unplanned")
        # One without stages is followed with --stale on, too.
        self.train_as(["uncuttable", *DEEP], "exact", "--plan", "exact.json", "--plan-trial", "0",
                      "--epochs", "2", "--stale", "on")
        self.assertIsNone(self.plan("none.json", "--stale", "on", "--search", "none")["stages"])
        for words, options in ((["--stages 2", "3 ranks"], ["--stages", "2", "--stale", "on"]),
                               (["add --stale on"], ["--stages", "all"]),
                               (["--chunks 4", "--stale on"], ["--chunks", "4"]),
                               (["--blocks 4"], ["--stages", "all", "--stale", "on", "--blocks",
                                                 "4"])):
            error = self.refuse("plan", "uncuttable", *DEEP[:-2], "--topology", "topology.json",
                                *options)
            for word in words:
                self.assertIn(word, error, options)

    def test_what_is_refused(self):
        for options, ranks, words in (
                (["--stages", "2"], 2, ["--stages 2", "add --stale on"]),
                (["--stages", "2", "--stale", "on"], 3, ["--stages 2", "3 ranks", "allowed are 3"]),
                (["--stages", "some"], 1, ["--stages some", "whole numbers", "all"]),
                ([*STAGES, "--snapshot-every", "2"], 2,
                 ["--snapshot-every 2", "--checkpoint-every"]),
                ([*STAGES, "--trace"], 2, ["--trace", "allowed without it"]),
                (["--chunks", "4"], 1, ["--chunks 4", "without --stages"]),
                (["--stale-from", "4"], 1, ["--stale-from 4", "without --stages"]),
                ([*STAGES, "--norm", "batch"], 2, ["moments", "--norm layer or none"]),
                ([*STAGES, "--layers", "2"], 3, ["2 layers", "1 to 2 ranks"]),
                ([*STAGES, "--bits", "adaptive"], 2, ["--bits adaptive", "allowed are 1, 2, 4"]),
                ([*STAGES, "--blocks", "4"], 2, ["--blocks 4", "allowed without it"]),
                ([*STAGES, "--group-ranks", "2"], 2, ["--group-ranks 2", "leave it out"])):
            model = [word for i, word in enumerate(MODEL)
                     if not any(MODEL[j] in options for j in (i, i - 1) if j >= 0 and
                                MODEL[j].startswith("--") and MODEL[j] != "--backend")]
            error = self.refuse("train", "data", *model, *options, "--epochs", "4", ranks=ranks)
            for word in words:
                self.assertIn(word, error, options)


if __name__ == "__main__":
    unittest.main()
