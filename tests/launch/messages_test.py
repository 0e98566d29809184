#!/usr/bin/env python3
"""Which messages travel (docs/exchange.md): the commands of the page, and what rows and partial
sums have in common."""

import json
import os
import re
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/exchange.md")
TRAIN = ["--norm", "batch", "--layers", "3", "--hidden", "16", "--backend", "cpu", "--eval-every", "0"]


class MessagesTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        os.mkdir(os.path.join(cls.folder, "data"))
        cls.succeed("generate", "rmat", "--nodes", "2000", "--features", "8", "--classes", "4",
                    "--out", "data/arxiv")

    def train(self, name, *options, ranks=3):
        """The epochs of a run on ranks of one process."""
        self.succeed("train", "data/arxiv", *TRAIN, *options, "--ranks", str(ranks), "--transport",
                     "local", "--run-dir", name)
        with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            lines = [line.split("  #")[0] for line in file if line.startswith("    mpirun")]
        self.assertGreater(len(lines), 4)
        for number, line in enumerate(lines):
            words = shlex.split(line)
            self.assertEqual(words[:4], ["mpirun", "-n", "4", "build/atoll"])
            more = ["--run-dir", f"page-{number}"] if words[4] == "train" else ["--warmup", "1"]
            result = run([*words[4:], "--hidden", "8", "--epochs", "2", *more], self.folder, ranks=4)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_sums_and_rows_train_alike_and_sums_take_fewer_bytes(self):
        for options in ([], ["--model", "sage"], ["--bits", "8"]):
            epochs = {form: self.train(f"{form}-{'-'.join(options)}", *options, "--messages", form,
                                       "--epochs", "10") for form in ("rows", "cover", "auto")}
            self.assertEqual([e["loss"] for e in epochs["cover"]], [e["loss"] for e in epochs["auto"]])
            for cover, rows in zip(epochs["cover"], epochs["rows"]):
                self.assertAlmostEqual(cover["loss"], rows["loss"],
                                       delta=(1e-2 if options == ["--bits", "8"] else 1e-5) * rows["loss"])
            self.assertLess(epochs["cover"][-1]["bytes_sent"], .9 * epochs["rows"][-1]["bytes_sent"])

    def test_sums_of_gradients_that_begin_early_have_the_same_bits(self):
        # Weights of 64 x 64 are large enough; without overlap all are summed at the end.
        wide = ["64" if word == "16" else word for word in TRAIN]
        for options in (["--model", "gcn"], ["--model", "gatv2", "--heads", "4"], ["--model", "gcnii"],
                        ["--model", "sage", "--skip", "linear", "--head", "linear"]):
            losses = []
            for overlap in ("on", "off"):
                name = f"early-{options[1]}-{overlap}"
                result = run(["train", "data/arxiv", *wide, *options, "--overlap", overlap, "--epochs",
                              "6", "--run-dir", name], self.folder, ranks=3)
                self.assertEqual(result.returncode, 0, result.stderr)
                with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
                    losses.append([json.loads(line)["loss"] for line in file])
            self.assertEqual(*losses, options)

    def test_rows_computed_as_messages_arrive_have_the_same_bits(self):
        # Packets of narrow rows are too small to be divided.
        wide = ["512" if word == "16" else word for word in TRAIN]
        train = ["train", "data/arxiv", *wide, "--epochs", "3"]
        for options in ([], ["--bits", "8"], ["--bits", "random"], ["--messages", "rows"],
                        ["--recompute", "all"], ["--model", "gatv2", "--heads", "4"]):
            weights = []
            for arrival in ("off", "on"):
                name = f"{arrival}-{'-'.join(options)}"
                result = run([*train, *options, "--arrival", arrival, "--trace", "--run-dir", name],
                             self.folder, ranks=3)
                self.assertEqual(result.returncode, 0, result.stderr)
                with open(os.path.join(self.folder, name, "model.safetensors"), "rb") as file:
                    header = int.from_bytes(file.read(8), "little")
                    weights.append(file.read()[header:])
            self.assertTrue(weights[0] == weights[1], options)
        # Some packets did come in pieces.
        with open(os.path.join(self.folder, "on-", "trace.json"), encoding="utf-8") as file:
            packets = [event["args"] for event in json.load(file)["traceEvents"]
                       if event["name"] == "packet"]
        channels = {tuple(packet[key] for key in ("epoch", "layer", "direction", "source",
                                                  "destination")) for packet in packets}
        self.assertGreater(len(packets), len(channels))
        again = ["--epochs", "5", "--run-dir", "off-", "--resume", "--arrival", "on"]
        result = run(["train", "data/arxiv", *wide, *again], self.folder, ranks=3)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_messages(self):
        alone = self.train("alone", "--exchange", "none", "--epochs", "4")
        exact = self.train("together", "--epochs", "4")
        # The first epoch sends the kept sums of the first layer.
        self.assertLess(10 * alone[-1]["bytes_sent"], exact[-1]["bytes_sent"])
        self.assertNotAlmostEqual(alone[-1]["loss"], exact[-1]["loss"], places=4)
        one = [self.train(f"one-{mode}", "--exchange", mode, "--epochs", "4", ranks=1)
               for mode in ("none", "exact")]
        self.assertEqual(*[[epoch["loss"] for epoch in epochs] for epochs in one])
        cluster = os.path.join(os.path.dirname(PAGE), "examples/cluster-32x8.json")
        predicted = []
        for mode in ("none", "exact"):
            self.succeed("plan", "data/arxiv", "--topology", cluster, "--exchange", mode, "--search", "none",
                         "--out", f"{mode}.json")
            with open(os.path.join(self.folder, f"{mode}.json"), encoding="utf-8") as file:
                predicted.append(json.load(file)["predicted_ms"])
        self.assertLess(*predicted)
        result = run(["train", "data/arxiv", *TRAIN, "--exchange", "none", "--recompute", "all",
                      "--epochs", "1"], self.folder, ranks=2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--exchange none", result.stderr)
        report = json.loads(self.succeed("bench", "data/arxiv", *TRAIN[:6], "--ranks", "3",
                                         "--transport", "local", "--compare", "exact,none", "--warmup",
                                         "1", "--epochs", "2", "--json"))
        exact, none = report["compare"]["modes"] if "compare" in report else report["modes"]
        self.assertLess(none["bytes_sent_per_epoch"], exact["bytes_sent_per_epoch"] / 10)

    def test_the_partition_tells_how_many_there_are(self):
        text = self.succeed("partition", "data/arxiv", "--parts", "3", "--seed", "2")
        found = re.search(r"messages forward: (\d+) rows, or (\d+) \(([\d.]+) %\) where (\d+) are "
                          r"partial sums", text)
        rows, messages, percent, sums = (float(word) for word in found.groups())
        self.assertTrue(0 < sums < messages < rows)
        self.assertAlmostEqual(percent, 100 * messages / rows, places=1)

    def test_what_can_not_be_added_up_travels_as_rows(self):
        result = run(["train", "data/arxiv", "--model", "gat", "--messages", "cover", *TRAIN],
                     self.folder, ranks=2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--messages cover: this model reads rows of neighbours one by one", result.stderr)
        self.train("gat", "--model", "gat", "--epochs", "1")
        result = run(["train", "data/arxiv", "--messages", "all"], self.folder)
        self.assertEqual(result.returncode, 2)
        for word in ("--messages", "all", "auto", "rows", "cover"):
            self.assertIn(word, result.stderr)

    def test_resumes_to_the_bit_and_with_the_same_messages_alone(self):
        options = ["--bits", "4", "--checkpoint-every", "2"]
        whole = self.train("whole", *options, "--epochs", "6")
        self.train("first", *options, "--epochs", "4")
        again = ["train", "data/arxiv", *TRAIN, *options, "--epochs", "6", "--ranks", "3",
                 "--transport", "local", "--run-dir", "first", "--resume"]
        result = run([*again, "--messages", "rows"], self.folder)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn('was made with messages = its default ("auto"), this run has "rows"', result.stderr)
        self.succeed(*again)
        with open(os.path.join(self.folder, "first", "metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["loss"] for line in file], [e["loss"] for e in whole])


if __name__ == "__main__":
    unittest.main()
