#!/usr/bin/env python3
"""Several ranks for one part (docs/groups.md) from the command line: the commands of the page, the
same losses, checkpoints, and what is refused."""

import json
import os
import shlex
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/groups.md")
QUICK_PROBE = ["--kernel-time", "0.01", "--rows", "4096", "--pairs-time", "5", "--progress-time", "0.1"]
TRAIN = ["train", "data/arxiv", "--norm", "batch", "--layers", "3", "--hidden", "20", "--backend",
         "cpu"]


class GroupsTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        os.mkdir(os.path.join(cls.folder, "data"))
        cls.succeed("generate", "sbm", "--nodes", "1200", "--features", "8", "--classes", "4",
                    "--directed", "--out", "data/arxiv")

    def train(self, name, *options, ranks=4):
        result = run([*TRAIN, *options, "--run-dir", name], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 0, f"{options}: {result.stderr}")
        with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            lines = [line.split("  #")[0] for line in file if line.startswith("    mpirun")]
        self.assertGreater(len(lines), 3)
        for number, line in enumerate(lines):
            words = shlex.split(line)
            self.assertEqual(words[:4], ["mpirun", "-n", "4", "build/atoll"])
            more = ["--run-dir", f"page-{number}"] if words[4] == "train" else ["--warmup", "1"]
            result = run([*words[4:], "--hidden", "8", "--epochs", "2", *more], self.folder,
                         ranks=4)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_losses_are_those_of_other_groups(self):
        attention = ["--heads", "4", "--output-heads", "4"]
        for model, heads in (("gcn", []), ("sage", []), ("gatv2", ["--heads", "4"]),
                             ("gat", [*attention, "--attention-dropout", "0.2",
                                      "--attention-norm", "symmetric"])):
            options = ["--model", model, *heads, "--epochs", "20"]
            alone = self.train(f"{model}-1", *options)
            for group in ("2", "all"):
                together = self.train(f"{model}-{group}", *options, "--group-ranks", group)
                for epoch, bound in ((1, 1e-6), (2, 1e-5), (20, 1e-4)):
                    loss = alone[epoch - 1]["loss"]
                    self.assertAlmostEqual(together[epoch - 1]["loss"], loss, delta=bound * loss,
                                           msg=f"{model}, groups {group}, epoch {epoch}")

    def test_a_run_goes_on_bit_for_bit_and_with_other_groups(self):
        keep = ["--checkpoint-every", "1", "--epochs"]
        whole = self.train("whole", "--group-ranks", "2", *keep, "6")
        for group in ("2", "4", "1"):
            name = f"half-{group}"
            self.train(name, "--group-ranks", "2", *keep, "3")
            result = run(["train", "data/arxiv", "--resume", "--run-dir", name, "--epochs", "6",
                          "--group-ranks", group], self.folder, ranks=4)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
                losses = [json.loads(line)["loss"] for line in file]
            self.assertEqual(losses[:3], [epoch["loss"] for epoch in whole[:3]])
            if group == "2":
                self.assertEqual(losses, [epoch["loss"] for epoch in whole])
                self.assertEqual(self.tensors(name), self.tensors("whole"))
            else:
                loss = whole[-1]["loss"]
                self.assertAlmostEqual(losses[-1], loss, delta=1e-4 * loss)

    def test_predictions_are_those_of_the_run(self):
        self.train("model", "--group-ranks", "2", "--epochs", "3")
        self.succeed("evaluate", "model", "data/arxiv", "--out", "evaluation.json")
        reports = []
        for name in ("evaluation.json", "model/summary.json"):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                reports.append(json.load(file))
        self.assertEqual(reports[1]["group_ranks"], 2)
        self.assertAlmostEqual(reports[0]["test"], reports[1]["test"], delta=.01)

    def test_bytes_are_those_of_the_formulas(self):
        figures = {}
        for group in ("1", "2", "4"):
            result = run(["bench", "data/arxiv", "--hidden", "16", "--epochs", "2", "--warmup", "2",
                          "--group-ranks", group, "--json"], self.folder, ranks=4)
            self.assertEqual(result.returncode, 0, result.stderr)
            figures[group] = json.loads(result.stdout[result.stdout.index("{"):])
        self.assertEqual(figures["1"]["group_bytes_per_epoch_formula"], 0)
        self.assertEqual(figures["4"]["halo_bytes_per_epoch_formula"], 0)
        rest = {group: report["bytes_sent_per_epoch"] - report["halo_bytes_per_epoch_formula"]
                - report["group_bytes_per_epoch_formula"] for group, report in figures.items()}
        # The rest are sums over all ranks.
        self.assertEqual(len(set(rest.values())), 1, rest)

    def test_links_and_trained_features_have_the_same_losses(self):
        self.succeed("split", "data/arxiv", "--links", "--out", "data/links")
        self.succeed("generate", "sbm", "--nodes", "600", "--features", "0", "--classes", "4", "--out",
                     "data/bare")
        for name, dataset, options in (
                ("links", "data/links", ["--model", "sage", "--negatives", "2"]),
                ("bare", "data/bare", ["--features", "trained:24"])):
            losses = {}
            for group in ("1", "2", "4"):
                run_dir = f"{name}-{group}"
                result = run(["train", dataset, *options, "--layers", "2", "--hidden", "16",
                              "--epochs", "20", "--group-ranks", group, "--run-dir", run_dir],
                             self.folder, ranks=4)
                self.assertEqual(result.returncode, 0, result.stderr)
                path = os.path.join(self.folder, run_dir, "metrics.jsonl")
                with open(path, encoding="utf-8") as file:
                    losses[group] = [json.loads(line)["loss"] for line in file]
            for group in ("2", "4"):
                for epoch, bound in ((1, 1e-6), (2, 1e-5), (20, 1e-4)):
                    loss = losses["1"][epoch - 1]
                    self.assertAlmostEqual(losses[group][epoch - 1], loss, delta=bound * loss,
                                           msg=f"{name}, groups {group}, epoch {epoch}")

    def test_a_trace_shows_packets_between_ranks_of_the_job(self):
        self.train("traced", "--group-ranks", "2", "--trace", "--epochs", "4")
        self.succeed("trace", "merge", "traced")
        with open(os.path.join(self.folder, "traced/dataflow.json"), encoding="utf-8") as file:
            dataflow = json.load(file)
        pairs = {(node["rank"], node["destination"]) for node in dataflow["nodes"]
                 if node["kind"] == "packet"}
        inside = {(0, 1), (1, 0), (2, 3), (3, 2)}
        # Slices of messages go to the rank of the same role.
        between = {(0, 2), (2, 0), (1, 3), (3, 1)}
        self.assertEqual(pairs, inside | between)
        with open(os.path.join(self.folder, "traced/trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual(trace["metadata"]["ranks_per_part"], 2)
        waits = [event for event in trace["traceEvents"]
                 if event["name"] == "wait" and event["args"].get("what") == "to columns"]
        self.assertGreater(len(waits), 8)
        result = run(["topology", "probe", "--out", "topology.json", *QUICK_PROBE], self.folder, ranks=4)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("measured", self.succeed("trace", "replay", "traced", "--topology",
                                               "topology.json"))
        plan = ["plan", "data/arxiv", "--norm", "batch", "--layers", "3", "--hidden", "20",
                "--topology", "topology.json", "--out", "plan.json", "--budget", "1s",
                "--measured", "traced"]
        self.succeed(*plan)
        self.train("alone", "--trace", "--epochs", "4")
        self.succeed(*plan, "--measured", "alone")
        error = self.refuse(*plan, "--measured", "traced")
        self.assertIn("--measured traced: the ranks of a part are 2, as in traced; allowed is one run "
                      "for each number", error)

    def test_memory_is_that_of_groups(self):
        def memory(*options):
            return json.loads(self.succeed("info", "data/arxiv", "--norm", "batch", "--hidden", "64",
                                           "--ranks", "4", *options, "--json"))["memory"]
        self.assertEqual(memory()["ranks_per_part"], 1)
        for group, parts in (("2", 2), ("all", 1)):
            self.succeed("partition", "data/arxiv", "--parts", str(parts))
            together = memory("--group-ranks", group)
            self.assertEqual((together["ranks_per_part"], together["cut"]), (4 // parts, True))
            ranks = together["ranks"]
            self.assertEqual(sum(rank["nodes"] for rank in ranks), 1200)
            # Both ranks of a part have its edges, and messages for its halo rows.
            self.assertEqual(ranks[0]["graph_bytes"], ranks[1]["graph_bytes"])
            self.assertEqual(ranks[0]["halo"], ranks[1]["halo"])
            self.assertEqual(ranks[0]["halo"] == 0, group == "all")
        numbers = "here; allowed are whole numbers and all"
        for group, words in (("3", "4 ranks can't be divided"), ("host", f"of hosts {numbers}"),
                             ("auto", f"of a machine's rates {numbers}")):
            self.assertIn(f"--group-ranks {group}: ", error := self.refuse(
                "info", "data/arxiv", "--ranks", "4", "--group-ranks", group))
            self.assertIn(words, error)

    def test_modes_are_compared(self):
        result = run(["bench", "data/arxiv", "--hidden", "32", "--warmup", "1", "--epochs", "2",
                      "--group-ranks", "2", "--compare", "vanilla,exact,4", "--json"], self.folder,
                     ranks=4)
        self.assertEqual(result.returncode, 0, result.stderr)
        modes = {mode["mode"]: mode for mode in json.loads(result.stdout)["modes"]}
        self.assertEqual(modes["vanilla"]["loss"], modes["exact"]["loss"])
        self.assertLess(modes["4"]["bytes_sent_per_epoch"], modes["exact"]["bytes_sent_per_epoch"])

    def test_refusals_name_option_value_and_what_is_allowed(self):
        for options, words in (
                (["--group-ranks", "3"], ["--group-ranks 3", "4 ranks", "1, 2, 4"]),
                (["--group-ranks", "no"], ["--group-ranks no", "host", "all"]),
                (["--group-ranks", "2", "--recompute", "all"], ["--recompute all"]),
                (["--group-ranks", "host", "--arrival", "on"], ["--group-ranks host", "--arrival on"])):
            error = self.refuse(*TRAIN, *options, "--epochs", "1", "--ranks", "4", "--transport",
                                "local", "--run-dir", "none")
            for word in words:
                self.assertIn(word, error)


if __name__ == "__main__":
    unittest.main()
