#!/usr/bin/env python3
"""The commands of the README in a row on a small graph: each one's output is the next one's input."""

import json
import os
import re
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import Workplace, read_npy, run, write

TRAIN = ["train", "data", "--model", "sage", "--layers", "2", "--hidden", "8", "--epochs", "5"]


def losses(run_folder):
    with open(os.path.join(run_folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


class WorkflowTest(unittest.TestCase):
    def setUp(self):
        place = Workplace()
        self.folder = place.__enter__()
        self.addCleanup(place.cleanup)

    def succeed(self, *arguments, ranks=0):
        result = run(list(arguments), self.folder, ranks)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        return result

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def test_from_graph_to_report(self):
        info = json.loads(self.succeed("info", "data", "--json").stdout)
        self.assertEqual(info["nodes"], 200)
        self.succeed("partition", "data", "--parts", "2")
        parts = os.listdir(self.path("data/parts"))
        self.assertEqual(len(parts), 1)
        self.assertRegex(parts[0], r"^2-auto-volume-[0-9a-f]{8}$")

        trained = self.succeed(*TRAIN, "--run-dir", "run", ranks=2)
        self.assertEqual(os.listdir(self.path("data/parts")), parts, "made another partition")
        with open(self.path("run/summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        for field, value in {"nodes": 200, "ranks": 2, "model": "sage", "epochs": 5,
                             "backend": "cpu", "exchange": "exact"}.items():
            self.assertEqual(summary[field], value)
        self.assertRegex(summary["commit"], r"^([0-9a-f]{12}(-changed)?|unknown)$")
        self.assertIn(f"best epoch {summary['best_epoch']}", trained.stdout)
        self.assertEqual(len(losses(self.path("run"))), 5)

        self.succeed("predict", "run", "data", "--out", "labels.npy")
        header, data = read_npy(self.path("labels.npy"))
        self.assertIn("'shape': (200,)", header)
        self.assertEqual(len(data), 800)
        self.succeed("report", "run", "--out", "report.html")
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("Training loss", page)
        self.assertIn(f"{summary['test'] * 100:.2f}%", page)
        self.assertEqual(page.count("<svg"), page.count("</svg>"))

    def test_traces_are_merged(self):
        self.succeed(*TRAIN, "--run-dir", "run", "--trace", ranks=3)
        table = self.succeed("trace", "merge", "run").stdout
        for word in ("host", "epoch ", "of 5 traced", "  rank ", "all-reduce", "trace-merged.json",
                     "dataflow.json"):
            self.assertIn(word, table)
        with open(self.path("run/dataflow.json"), encoding="utf-8") as file:
            dataflow = json.load(file)
        kinds = {node["kind"] for node in dataflow["nodes"]}
        self.assertEqual(kinds, {"work", "packet", "send", "meeting"})
        path = dataflow["critical_path"]
        for sums in ("us_by_name", "us_by_place"):
            self.assertAlmostEqual(sum(path[sums].values()), path["duration_us"], places=3)

        write(self.path("merge.toml"), 'run = "run"\nepoch = 2\n[trace]\njson = true\n')
        printed = json.loads(self.succeed("trace", "merge", "--config", "merge.toml", "--out",
                                          "merged.json").stdout)
        self.assertEqual(printed["epoch"], 2)
        self.assertEqual(printed["hosts"][0]["ranks"], [0, 1, 2])
        with open(self.path("merged.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        # One arrow for each packet, and a packet for each send.
        counts = {kind: sum(event["ph"] == kind for event in events) for kind in "sf"}
        packets = sum(event["name"] == "packet" and event["ph"] == "X" for event in events)
        self.assertEqual(counts, {"s": packets, "f": packets})
        self.assertEqual(packets, printed["packets"])

        # A resumed run leaves the trace of its own epochs.
        self.succeed("train", "--config", "run/config.toml", "--resume", "--epochs", "8", ranks=3)
        table = self.succeed("trace", "merge", "run").stdout
        self.assertIn(" of 6 to 8, those since the run was resumed: ", table)
        refused = run(["trace", "merge", "run", "--epoch", "2"], self.folder)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("there are 6 to 8", refused.stderr)

    def test_report_draws_widths(self):
        self.succeed(*TRAIN, "--run-dir", "run <1>")
        with open(self.path("run <1>/metrics.jsonl"), encoding="utf-8") as file:
            epochs = [json.loads(line) for line in file]
        for epoch in (0, 3):
            epochs[epoch]["assignment"] = {"solver_ms": 0.5, "channels": [
                {"layer": layer, "direction": direction, "bits": {"2": 10 * epoch, "8": 5 + layer}}
                for layer in (0, 1) for direction in ("forward", "backward")]}
        write(self.path("run <1>/metrics.jsonl"),
              "".join(json.dumps(epoch) + "\n" for epoch in epochs))
        self.succeed("report", "run <1>", "--out", "report.html")
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        titles = []
        for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
            titles.append(xml.etree.ElementTree.fromstring(svg).get("aria-label"))
        self.assertIn("Widths of messages: run <1>", titles)
        self.assertIn("By layer and direction: run <1>", titles)
        self.assertEqual(len(titles), page.count("<svg"))
        epochs[3]["assignment"]["channels"][0]["bits"] = {"5": 1}
        write(self.path("run <1>/metrics.jsonl"),
              "".join(json.dumps(epoch) + "\n" for epoch in epochs))
        refused = run(["report", "run <1>", "--out", "other.html"], self.folder)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("metrics.jsonl:4: assignment: channel 0: 'bits' names the width '5'",
                      refused.stderr)

    def test_a_run_can_be_repeated_from_its_configuration(self):
        self.succeed(*TRAIN, "--lr", "3e-3", "--dropout", "0.3", "--norm", "batch", "--run-dir",
                     "first")
        self.succeed("train", "--config", "first/config.toml", "--run-dir", "second")
        self.assertEqual(losses(self.path("first")), losses(self.path("second")))
        configs = []
        for name in ("first", "second"):
            with open(self.path(name, "config.toml"), encoding="utf-8") as file:
                configs.append(re.sub(r"(?m)^(run-dir = |# Written by).*$", "", file.read()))
        self.assertEqual(configs[0], configs[1])
        self.assertIn("lr = 0.003", configs[0])

    def test_one_file_serves_several_commands(self):
        write(self.path("run.toml"), "dataset = 'data'\n[partition]\nparts = 2\n"
              "[train]\nepochs = 3\nhidden = 4\nrun-dir = 'run'\n")
        self.succeed("partition", "--config", "run.toml")
        self.succeed("train", "--config", "run.toml", "--epochs", "2", ranks=2)
        self.assertEqual(len(losses(self.path("run"))), 2)

    def test_ranks_as_threads_and_as_processes_agree(self):
        self.succeed(*TRAIN, "--run-dir", "threads", "--transport", "local", "--ranks", "2")
        self.succeed(*TRAIN, "--run-dir", "processes", ranks=2)
        self.assertEqual(losses(self.path("threads")), losses(self.path("processes")))

    def test_narrow_storage(self):
        def train(epochs, *options):
            return [*TRAIN[:-1], epochs, "--backend", "cpu", "--checkpoint-every", "2", *options]

        narrow = ["--dtype", "bf16"]
        self.succeed(*train("6", *narrow, "--run-dir", "whole"), ranks=2)
        self.succeed(*train("4", *narrow, "--run-dir", "part"), ranks=2)
        self.succeed(*train("6", *narrow, "--run-dir", "part", "--resume"), ranks=2)
        models = []
        for name in ("whole", "part"):
            with open(self.path(name, "model.safetensors"), "rb") as file:
                models.append(file.read())
        self.assertEqual(models[0], models[1])
        self.assertEqual(losses(self.path("whole")), losses(self.path("part")))
        self.assertEqual(len(losses(self.path("part"))), 6)
        with open(self.path("whole/summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual((summary["dtype"], summary["backend"]), ("bf16", "cpu"))
        other = run(train("8", "--dtype", "f32", "--run-dir", "part", "--resume"), self.folder)
        self.assertEqual(other.returncode, 2)
        self.assertIn("dtype", other.stderr)

        self.succeed("predict", "whole", "data", "--out", "labels.npy")
        self.assertIn("'shape': (200,)", read_npy(self.path("labels.npy"))[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
