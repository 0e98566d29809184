#!/usr/bin/env python3
"""`atoll program` as a user runs it: what is listed is what training runs, moves and takes."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

NODES = 3000
MODEL = ["--layers", "3", "--hidden", "16"]


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
        self.succeed("bench", "data", *MODEL, "--backend", "cpu", "--threads", "1", "--transport",
                     "local", "--warmup", "0", "--epochs", "1", "--profile", "1", *words, "--json",
                     "bench.json")
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
                         {"direction": "forward", "columns": 16, "rows_received": 0})
        self.assertEqual(operations[-1]["operation"], "step")
        self.assertEqual(listing["rows"], {"inner": NODES, "halo_forward": 0, "halo_backward": 0,
                                           "computed": 0})
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
                    counted = listing["block_bytes"] + listing["parameter_bytes"]
                    self.assertAlmostEqual(counted / 1e6, bench["memory_needed_mb"], places=9)

    def test_one_part_of_a_cut(self):
        listing = self.program("--parts", "3", "--part", "1", "--order", "multiply-first")
        cut = json.loads(self.succeed("partition", "data", "--parts", "3", "--json"))
        part = cut["quality"]["per_part"][1]
        self.assertEqual(listing["rows"]["inner"], part["nodes"])
        self.assertEqual(listing["rows"]["halo_forward"], part["halo_forward"])
        aggregate = next(op for op in listing["operations"] if op["operation"] == "aggregate")
        self.assertEqual(aggregate["messages"]["rows_received"], part["halo_forward"])
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
        self.assertIn("--model", self.refuse(*program, "--model", "gat"))
        self.assertIn("--pass", self.refuse(*program, "--pass", "both"))
        self.assertIn("unknown option '--epochs'", self.refuse(*program, "--epochs", "3"))
        self.assertIn("none", self.refuse("program", "none"))
        self.succeed("generate", "rmat", "--nodes", "300", "--features", "0", "--out", "bare")
        self.assertIn("a model needs both", self.refuse("program", "bare"))


if __name__ == "__main__":
    unittest.main()
