#!/usr/bin/env python3
"""`atoll program` as a user runs it: what is listed is what training runs, moves and takes."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run, write

NODES = 3000
MODEL = ["--layers", "3", "--hidden", "16"]
RANK = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"8": 4}, "gemm_gflop_per_s": {"8": 30},
        "elementwise_gb_per_s": 8, "quantize_gb_per_s": 1}
MACHINE = {"format": 1,
           "hosts": [{"name": name, "send_mbit_per_s": 1000} for name in "abc"],
           "ranks": [{"host": name, **RANK} for name in "abc"],
           "links": {"between_hosts": {"latency_us": 50, "gbit_per_s": 1}}}
LOCAL = ["--transport", "local", "--backend", "cpu", "--threads", "1"]


class ProgramTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", str(NODES), "--features", "20", "--out", "data")
        cls.succeed("partition", "data", "--parts", "3")
        cls.info = json.loads(cls.succeed("info", "data", "--json"))

    def program(self, *words):
        return json.loads(self.succeed("program", "data", *MODEL, *words, "--json"))

    def bench(self, *words):
        self.succeed("bench", "data", *MODEL, *LOCAL, "--warmup", "1", "--epochs", "1", "--profile",
                     "1", *words, "--out", "bench.json")
        with open(os.path.join(self.folder, "bench.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_lists_operations_with_their_counts(self):
        listing = self.program("--model", "gcn", "--order", "multiply-first")
        operations = listing["operations"]
        self.assertEqual([op["value"] for op in operations], list(range(len(operations))))
        product = next(op for op in operations if op["operation"] == "linear")
        self.assertEqual(product["text"], "%2 = linear %0 %1 'layers.0.weight'")
        self.assertEqual((product["scope"], product["layer"]), ("layer 0 forward", 0))
        self.assertEqual((product["rows"], product["columns"]), (NODES, 16))
        self.assertEqual(product["flops"], 2 * NODES * 20 * 16)
        aggregate = next(op for op in operations if op["operation"] == "aggregate")
        edges = listing["edges"]
        self.assertEqual(aggregate["flops"], 2 * edges * 16)
        self.assertEqual(aggregate["messages"],
                         {"direction": "forward", "columns": 16, "rows_received": 0, "bits": 32,
                          "row_bytes": 64})
        self.assertEqual(operations[-1]["operation"], "step")
        self.assertEqual(listing["rows"], {"inner": NODES, "halo_forward": 0, "halo_backward": 0,
                                           "sums_forward": 0, "sums_backward": 0, "computed": 0})
        outputs = self.info["classes"]
        # Parameters start at multiples of some elements.
        least = 20 * 16 + 16 + 16 * 16 + 16 + 16 * outputs + outputs
        self.assertLess(listing["parameters"] - least, 6 * 64)
        self.assertGreaterEqual(listing["parameters"], least)

    def test_places_lie_in_the_block(self):
        for norm in ("none", "layer", "batch"):
            for dtype, size in (("f32", 4), ("bf16", 2)):
                listing = self.program("--norm", norm, "--dtype", dtype)
                places = [op["place"] for op in listing["operations"] if op["place"]]
                self.assertEqual(max(place["offset"] + place["bytes"] for place in places),
                                 listing["block_bytes"])
                self.assertLess(listing["block_bytes"], listing["unshared_bytes"])
                first = next(op for op in listing["operations"] if op["place"])
                self.assertEqual(first["place"]["bytes"] % (NODES * 8 * size), 0)

    def test_counts_what_training_counts(self):
        for model in ("gcn", "sage"):
            for order in ("multiply-first", "aggregate-first"):
                with self.subTest(model=model, order=order):
                    words = ["--model", model, "--order", order, "--norm", "batch"]
                    listing = self.program(*words)
                    bench = self.bench(*words, "--ranks", "1")
                    self.assertEqual(listing["floats_per_halo_row"], bench["floats_per_halo_row"])
                    # Exchange buffers of one rank are empty.
                    counted = sum(listing[name] for name in ("block_bytes", "parameter_bytes",
                                                             "validation_loss_bytes"))
                    self.assertAlmostEqual(counted / 1e6, bench["memory_needed_mb"], places=9)

    def test_one_part_of_a_cut(self):
        of_part = ["--parts", "3", "--part", "1", "--order", "multiply-first"]
        listing = self.program(*of_part)
        cut = json.loads(self.succeed("partition", "data", "--parts", "3", "--json"))
        quality = cut["quality"]
        part = quality["per_part"][1]
        self.assertEqual(listing["rows"]["inner"], part["nodes"])
        received = sum(quality["forward_messages"][1])
        sums = sum(to_part[1] for to_part in quality["forward_sums"])
        self.assertTrue(0 < sums < received < part["halo_forward"])
        by_rows = self.program(*of_part, "--messages", "rows")
        for found, rows, made in ((listing, received, sums), (by_rows, part["halo_forward"], 0)):
            self.assertEqual(found["rows"]["halo_forward"], rows)
            self.assertEqual(found["rows"]["sums_forward"], made)
            aggregate = next(op for op in found["operations"] if op["operation"] == "aggregate")
            self.assertEqual(aggregate["messages"]["rows_received"], rows)
        whole = self.program("--order", "multiply-first")
        self.assertLess(listing["block_bytes"], whole["block_bytes"])
        self.assertEqual(listing["floats_per_halo_row"], whole["floats_per_halo_row"])
        # Rows that are computed here are not received.
        computed = self.program("--parts", "3", "--part", "1", "--recompute", "all", "--order",
                                "aggregate-first")
        self.assertEqual(computed["rows"]["computed"], part["halo_forward"])
        second = next(op for op in computed["operations"]
                      if op["operation"] == "aggregate" and op["layer"] == 1)
        self.assertEqual(second["messages"]["rows_received"], 0)

    def write_plan(self, bits=(32, 8, 4), recomputation=None):
        """A plan that decides something else in every layer."""
        write(os.path.join(self.folder, "machine.json"), json.dumps(MACHINE))
        self.succeed("plan", "data", "--topology", "machine.json", *MODEL, "--imbalance", "0.1",
                     "--search", "none", "--out", "plan.json")
        path = os.path.join(self.folder, "plan.json")
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        del plan["seal"]  # which a change would break
        orders = ("aggregate-first", "multiply-first", "aggregate-first")
        plan["layers"] = [{"order": orders[k], "cache_aggregate": k == 0, "bits": bits[k]}
                          for k in range(3)]
        if recomputation:
            plan["recomputation"] = recomputation
        write(path, json.dumps(plan))

    def parts_of_plan(self):
        return [self.program("--plan", "plan.json", "--part", str(part)) for part in range(3)]

    def received_and_sent(self):
        """Bytes that all ranks receive of messages, as listed, and that training sends."""
        sent = self.bench("--ranks", "3", "--plan", "plan.json")["bytes_sent_per_epoch"]
        received = sum(op["messages"]["rows_received"] * op["messages"]["row_bytes"]
                       for part in self.parts_of_plan() for op in part["operations"]
                       if op["messages"] and not op["once"])
        return received, sent

    def test_as_a_plan_decides(self):
        self.write_plan()
        by_plan = ["--plan", "plan.json"]
        folder = os.path.join(self.folder, "data", "parts")
        before = sorted(os.listdir(folder))
        self.assertRegex(self.refuse("program", "data", *MODEL, *by_plan, "--parts-dir", "none"),
                         "--plan plan.json: its cut into 3 parts is not in none; atoll train data "
                         "--plan plan.json makes it")
        self.assertEqual(sorted(os.listdir(folder)), before)
        self.bench("--ranks", "3", *by_plan)

        parts = self.parts_of_plan()
        self.assertEqual(self.program(*by_plan), parts[0])
        self.assertEqual(sum(part["rows"]["inner"] for part in parts), NODES)
        listing = parts[1]
        self.assertEqual((listing["plan"], listing["parts"], listing["part"]), ("plan.json", 3, 1))
        names = {layer: [op["operation"] for op in listing["operations"]
                         if op["scope"] == f"layer {layer} forward"
                         and op["operation"] in ("linear", "aggregate")] for layer in range(3)}
        self.assertEqual(names, {0: ["aggregate", "linear"], 1: ["linear", "aggregate"],
                                 2: ["aggregate", "linear"]})
        messages = {(op["layer"], op["messages"]["direction"]): op["messages"]["bits"]
                    for op in listing["operations"] if op["messages"]}
        self.assertEqual(messages, {(0, "forward"): 32, (1, "forward"): 8, (1, "backward"): 8,
                                    (2, "forward"): 4, (2, "backward"): 4})
        # Codes of 16 values and 4 bytes before them, forward and backward.
        self.assertEqual(listing["bytes_per_halo_row"], 2 * (4 + 16) + 2 * (4 + 8))
        text = self.succeed("program", "data", *MODEL, *by_plan)
        self.assertRegex(text.splitlines()[0], r" in f32 by plan\.json: .* of part 0 of 3, ")
        self.assertRegex(text, r"(?m)^ .* backward 4 bit .* aggregate ")

    def test_bytes_of_plans_are_those_that_training_sends(self):
        self.write_plan()
        received, sent = self.received_and_sent()
        sums = sent - received  # of gradients, the same by every plan
        self.assertTrue(0 < sums < received)
        for plan in ({"bits": (32, 32, 32)}, {"bits": (1, 16, 2)},
                     {"recomputation": [[1, 2], [], [1]]}):
            self.write_plan(**plan)
            received, sent = self.received_and_sent()
            self.assertEqual(sent - received, sums, plan)

    def test_halo_rows_that_a_plan_computes(self):
        self.write_plan(recomputation=[[1, 2], [], [1]])
        self.bench("--ranks", "3", "--plan", "plan.json")
        rows = [part["rows"] for part in self.parts_of_plan()]
        self.assertEqual(rows[0]["computed"], rows[0]["halo_forward"])
        self.assertEqual(rows[1]["computed"], 0)
        self.assertTrue(0 < rows[2]["computed"] < rows[2]["halo_forward"], rows)

    def test_plans_that_do_not_fit(self):
        self.write_plan()
        program = ["program", "data", "--plan", "plan.json"]
        self.assertIn("made for --layers 3, but this run has 2",
                      self.refuse(*program, "--layers", "2", "--hidden", "16"))
        self.assertIn("made for 3 ranks, but this job has 2",
                      self.refuse(*program, *MODEL, "--parts", "2", "--part", "0"))
        for fixed in (["--order", "auto"], ["--recompute", "all"], ["--imbalance", "0.2"]):
            self.assertIn(f"{fixed[0]} excludes --plan", self.refuse(*program, *MODEL, *fixed))

    def test_evaluation(self):
        listing = self.program("--pass", "evaluation", "--norm", "batch")
        names = {op["operation"] for op in listing["operations"]}
        self.assertNotIn("loss", names)
        self.assertNotIn("moments", names)
        self.assertIn("inverse deviation", names)

    def test_text(self):
        text = self.succeed("program", "data", *MODEL, "--model", "gcn", "--norm", "layer")
        lines = text.splitlines()
        self.assertRegex(lines[0], rf"^gcn on \S+, training in f32: {NODES} nodes and \d+ edges$")
        self.assertIn("operation", lines[2])
        for scope in ("input", "layer 0 forward", "loss", "layer 2 backward", "step"):
            self.assertIn(scope, lines)
        self.assertRegex(text, r"(?m)^ +3000 +16 .* %\d+ = layer norm ")
        listing = self.program("--model", "gcn", "--norm", "layer")
        for op in listing["operations"]:
            self.assertIn(op["text"], text)
        self.assertIn(f"values: {listing['block_bytes'] / 1e6:.2f} MB in one block", text)
        self.assertIn(f"parameters: {listing['parameters']}, ", text)
        self.assertIn(f"messages: {listing['floats_per_halo_row']} columns per halo row", text)
        part = self.succeed("program", "data", *MODEL, "--parts", "3", "--part", "2")
        self.assertIn(" of part 2 of 3, ", part.splitlines()[0])

    def test_prints_once_under_mpirun(self):
        result = run(["program", "data", *MODEL], self.folder, ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("messages: "), 1)

    def test_what_can_not_be_listed(self):
        program = ["program", "data", *MODEL]
        self.assertIn("--part 3: there are 3 parts; allowed are 0 to 2",
                      self.refuse(*program, "--parts", "3", "--part", "3"))
        self.assertIn("--parts and --part belong together", self.refuse(*program, "--parts", "3"))
        self.assertIn("--parts and --part belong together", self.refuse(*program, "--part", "0"))
        message = self.refuse(*program, "--parts", "5", "--part", "0")
        self.assertIn("--parts 5: no cut into 5 parts with these options", message)
        self.assertIn("atoll partition data --parts 5", message)
        self.assertFalse(any(name.startswith("5-") for name in
                             os.listdir(os.path.join(self.folder, "data", "parts"))))
        self.assertIn("--recompute", self.refuse(*program, "--parts", "3", "--part", "0",
                                                 "--recompute", "all", "--order",
                                                 "multiply-first"))
        self.assertIn("--model", self.refuse(*program, "--model", "cheb"))
        self.assertIn("--pass", self.refuse(*program, "--pass", "both"))
        self.assertIn("unknown option '--epochs'", self.refuse(*program, "--epochs", "3"))
        self.assertIn("none", self.refuse("program", "none"))
        self.succeed("generate", "rmat", "--nodes", "300", "--features", "0", "--out", "bare")
        self.assertIn("a model needs both", self.refuse("program", "bare"))

    def test_features_that_are_trained(self):
        self.succeed("generate", "sbm", "--nodes", "300", "--features", "0", "--out", "featureless")
        for command in (["program", "featureless"], ["info", "featureless", "--model", "gcn"]):
            self.assertIn("--features trained:64", self.refuse(*command))
        listing = json.loads(self.succeed("program", "featureless", "--features", "trained:8",
                                          "--json"))
        self.assertGreaterEqual(listing["parameters"], 300 * 8)
        self.assertEqual(listing["rows"]["inner"], 300)
        self.assertIn("parameters", self.succeed("info", "featureless", "--model", "gcn",
                                                 "--features", "trained:8"))


if __name__ == "__main__":
    unittest.main()
