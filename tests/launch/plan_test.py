#!/usr/bin/env python3
"""`atoll plan`, `train --plan` and `atoll trace replay` as a user runs them, on a machine described by
hand on which one rank is slow."""

import json
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run, write

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/placement.md")
MODEL = ["--layers", "2", "--hidden", "16", "--norm", "batch"]
TRAIN = [*MODEL, "--transport", "local", "--ranks", "3", "--backend", "cpu", "--threads", "1"]


def machine():
    """Three hosts of one rank each; the last computes at half of the others' speed."""
    fast = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 4}, "gemm_gflop_per_s": {"16": 30},
            "elementwise_gb_per_s": 8, "quantize_gb_per_s": 1}
    slow = {**fast, "spmm_gb_per_s": {"16": 2}, "gemm_gflop_per_s": {"16": 15},
            "elementwise_gb_per_s": 4}
    return {"format": 1,
            "hosts": [{"name": name, "send_mbit_per_s": 10000, "receive_mbit_per_s": 10000}
                      for name in "abc"],
            "ranks": [{"host": "a", **fast}, {"host": "b", **fast}, {"host": "c", **slow}],
            "links": {"between_hosts": {"latency_us": 20, "gbit_per_s": 10}}}


class PlanTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        write(cls.path("machine.json"), json.dumps(machine()))
        cls.succeed("generate", "sbm", "--nodes", "3000", "--features", "20", "--out", "data")
        cls.text = cls.succeed("plan", "data", "--topology", "machine.json", *MODEL, "--out",
                               "plan.json", "--predicted-trace", "predicted.json")
        for name, plan in (("without", []), ("with", ["--plan", "plan.json", "--plan-trial", "0"])):
            cls.succeed("train", "data", *TRAIN, *plan, "--epochs", "20", "--trace", "--run-dir",
                        name)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def losses(self, run_dir):
        with open(self.path(run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file]

    def bytes_sent(self, run_dir):
        with open(self.path(run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line)["bytes_sent"] for line in file]

    def summary(self, run_dir):
        with open(self.path(run_dir, "summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def plan(self, name="plan.json"):
        """A plan, without the seal that a test which changes it would break."""
        with open(self.path(name), encoding="utf-8") as file:
            plan = json.load(file)
        del plan["seal"]
        return plan

    def test_the_slow_rank_gets_less(self):
        plan = self.plan()
        self.assertLess(plan["predicted_ms"], 0.8 * plan["default_ms"])
        self.assertGreaterEqual(plan["predicted_ms"], plan["lower_bound_ms"])
        shares = plan["partition"]["shares"]
        self.assertAlmostEqual(shares[2], 0.2, delta=0.03)
        self.assertIn("shares by speed instead of as without a plan: saves", self.text)
        self.assertTrue(plan["search"]["optimal"])
        # The command that it names is one that training takes.
        self.assertTrue(self.text.rstrip().endswith(" ".join(
            ["train with: mpirun -n 3 atoll train data --plan plan.json", *MODEL])), self.text)
        self.assertIn(self.text.split("\n\nwritten to")[0].strip(),
                      self.succeed("plan", "explain", "plan.json"))
        with open(self.path("predicted.json"), encoding="utf-8") as file:
            names = {event["name"] for event in json.load(file)["traceEvents"]}
        self.assertLessEqual({"spmm central", "packet", "all-reduce", "process_name"}, names)

    def test_training_by_plan_loses_alike_and_can_be_replayed(self):
        with_plan, without = self.losses("with"), self.losses("without")
        self.assertEqual(len(with_plan), 20)
        for epoch, (a, b) in enumerate(zip(with_plan, without), 1):
            self.assertAlmostEqual(a / b, 1, delta=1e-6 if epoch == 1 else 1e-3, msg=f"epoch {epoch}")
        self.assertNotEqual(with_plan, without)  # other sums: the cut is another
        replay = ["trace", "replay", "with", "--topology", "machine.json"]
        result = json.loads(self.succeed(*replay, "--json"))
        self.assertEqual(result["epochs"], 18)
        self.assertEqual(result["replayed_ms"], result["predicted_ms"])
        slower = json.loads(self.succeed(*replay, "--json", "--set", "cards=0.001x",
                                         "--set", "speed(0)=0.5x", "--set", "bw(0,1)=0.5x",
                                         "--set", "card(c)=0.5x"))
        self.assertGreater(slower["predicted_ms"], slower["replayed_ms"])
        self.assertIn("with cards=2x: ", self.succeed(*replay, "--set", "cards=2x"))
        text = self.succeed("plan", "data", "--topology", "machine.json", *MODEL, "--measured",
                            "with", "--out", "second.json")
        self.assertIn("written to second.json", text)

    def test_timelines_are_drawn_one_below_the_other(self):
        draw = ["trace", "draw", "predicted.json", "with/trace.json", "--out", "timeline.svg"]
        self.succeed(*draw, "--title", "as <planned>", "--title", "as it was", "--epoch", "5")
        with open(self.path("timeline.svg"), encoding="utf-8") as file:
            picture = xml.etree.ElementTree.fromstring(file.read())
        svg = "{http://www.w3.org/2000/svg}"
        texts = [text.text for text in picture.iter(svg + "text")]
        self.assertEqual([sum(f"rank {r}" == text for text in texts) for r in range(4)], [2, 2, 2, 0])
        expected = self.plan()["predicted_ms"]
        self.assertIn(f"as <planned>: {expected:.0f} ms", texts)
        self.assertTrue(any(text.startswith("as it was: ") for text in texts))
        self.assertLessEqual({"multiply", "aggregate", "norm"}, set(texts))
        _, _, width, height = map(float, picture.get("viewBox").split())
        boxes = list(picture.iter(svg + "rect"))
        self.assertGreater(len(boxes), 40)
        for box in boxes:
            self.assertLessEqual(float(box.get("x", 0)) + float(box.get("width")), width)
            self.assertLessEqual(float(box.get("y", 0)) + float(box.get("height")), height)
        self.assertIn("epochs 1 to 20", self.refuse(*draw, "--epoch", "21"))
        self.assertIn("1 titles for 2 traces", self.refuse(*draw, "--title", "one"))
        write(self.path("odd.json"), '{"traceEvents": [{"name": "packet", "ph": "X", "pid": 0}]}')
        self.assertIn("odd.json: event 0", self.refuse("trace", "draw", "odd.json"))
        os.remove(self.path("odd.json"))

    def test_replays_know_of_recomputation(self):
        sent = {}
        for name, extra in (("fetched", []), ("recomputed", ["--recompute", "all"])):
            self.succeed("train", "data", *TRAIN, *extra, "--epochs", "4", "--trace", "--run-dir", name)
            self.succeed("trace", "replay", name, "--topology", "machine.json", "--predicted-trace",
                         "replayed.json")
            with open(self.path("replayed.json"), encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            packets = [event["args"] for event in events if event["name"] == "packet"]
            sent[name] = sum(packet["bytes"] for packet in packets)
            of_layer_1 = [p for p in packets if p["layer"] == 1 and p["direction"] == "forward"]
            self.assertEqual(of_layer_1 == [], name == "recomputed")
            self.assertEqual(any(event["name"] == "recompute" for event in events),
                             name == "recomputed")
            # Bytes that travelled, with gradients and batch norm, which are no packets.
            with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
                measured = json.loads(file.read().splitlines()[-1])["bytes_sent"]
            self.assertLess(sent[name], measured)
        self.assertLess(sent["recomputed"], sent["fetched"])
        for name in ("fetched", "recomputed"):
            with open(self.path(name, "trace.json"), encoding="utf-8") as file:
                metadata = json.load(file)["metadata"]
            self.assertEqual(metadata["recomputation"],
                             None if name == "fetched" else [[1, 2], [0, 2], [0, 1]])
            self.assertEqual(metadata["gradient_sum"], {"by": "all-reduce"})

    def test_quantized_plans_train(self):
        starved = machine()
        for host in starved["hosts"]:
            host.update(send_mbit_per_s=5, receive_mbit_per_s=5)
        write(self.path("starved.json"), json.dumps(starved))
        text = self.succeed("plan", "data", "--topology", "starved.json", *MODEL, "--allow-bits",
                            "8,4", "--search", "mcts", "--evaluations", "60", "--out", "few.json")
        self.assertRegex(text, r"layer 1 bits +4 bits instead of 32 bits: saves")
        planned = ["train", "data", *TRAIN, "--plan", "few.json", "--epochs", "3"]
        self.succeed(*planned, "--plan-trial", "0", "--run-dir", "few")
        summary = self.summary("few")
        self.assertEqual(summary["exchange"], "quantized")
        self.assertIn("4", summary["bits"].split(","))
        # Which is faster here is not for a test to say, but that the run follows what was measured.
        tried = run([*planned, "--run-dir", "tried"], self.folder)
        self.assertEqual(tried.returncode, 0, tried.stderr)
        times = re.search(r"few.json: ([0-9.]+) ms per epoch with the plan, ([0-9.]+) ms without it",
                          tried.stderr)
        self.assertIsNotNone(times, tried.stderr)
        with_plan, without = map(float, times.groups())
        dropped = "the plan is dropped" in tried.stderr
        if with_plan != without:  # but for what rounding to a tenth hides
            self.assertEqual(dropped, without < with_plan)
        self.assertEqual(self.summary("tried")["exchange"], "exact" if dropped else "quantized")

    def bytes_of_messages(self, run_dir, epochs):
        """Bytes of messages per epoch that all ranks send, the mean over some epochs of a run."""
        now, sent = None, {}
        with open(self.path(run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                now = line.get("assignment", now)
                sent[line["epoch"]] = sum(channel["bytes"] for channel in now["channels"])
        return sum(sent[epoch] for epoch in epochs) / len(epochs)

    def test_plans_of_exchange_modes(self):
        """They say what is sent, to the byte, and training follows the mode that they were made for."""
        modes = {"compensated": (["--exchange", "compensated", "--bits", "1"], [1]),
                 "staggered": (["--exchange", "periodic", "--every", "4", "--stagger", "on"], [.25]),
                 "periodic": (["--exchange", "periodic", "--every", "3"], [1, 0]),
                 "stale": (["--exchange", "stale"], [1]),
                 "one-bit": (["--exchange", "one-bit", "--schedule", "pipelined",
                              "--synchronous-every", "6"], [1, 1]),
                 "none": (["--exchange", "none"], [0])}
        for name, (options, shares) in modes.items():
            with self.subTest(name):
                file = f"mode-{name}.json"
                text = self.succeed("plan", "data", "--topology", "machine.json", *MODEL, *options,
                                    "--out", file)
                plan = self.plan(file)
                self.assertEqual(plan["exchange"]["exchange"], options[1])
                self.assertEqual([kind["share"] for kind in plan["messages"]["epochs"]], shares)
                self.assertIn(f"MB in {plan['messages']['rows']:.0f} messages per epoch ({options[1]}",
                              text)
                self.assertGreaterEqual(plan["predicted_ms"], plan["lower_bound_ms"])
                self.succeed("train", "data", *TRAIN, "--plan", file, "--plan-trial", "0", "--epochs",
                             "13", "--trace", "--run-dir", f"mode-{name}")
                self.assertEqual(self.summary(f"mode-{name}")["exchange"], options[1])
                # Whole turns of all messages, after the first epoch, which sends them all.
                self.assertAlmostEqual(self.bytes_of_messages(f"mode-{name}", range(2, 14)),
                                       plan["messages"]["bytes"], delta=1e-6)
                replayed = json.loads(self.succeed("trace", "replay", f"mode-{name}", "--topology",
                                                   "machine.json", "--json"))
                self.assertEqual(replayed["epochs"], 9 if name == "periodic" else
                                 6 if name == "one-bit" else 11)
                self.assertEqual(replayed["replayed_ms"], replayed["predicted_ms"])
                self.assertLess(abs(replayed["error"]), 1)
        message = self.refuse("train", "data", *TRAIN, "--plan", "mode-stale.json", "--exchange", "exact")
        self.assertIn("--plan", message)
        self.assertIn("--plan", self.refuse("train", "data", *TRAIN, "--plan", "mode-staggered.json",
                                            "--every", "4"))
        odd = self.plan("mode-periodic.json")
        odd["exchange"]["every"] = 0
        write(self.path("odd.json"), json.dumps(odd))
        self.assertIn("odd.json: field 'exchange': field 'every' is 0",
                      self.refuse("train", "data", *TRAIN, "--plan", "odd.json"))
        odd["exchange"] = {"exchange": "periodic", "hidden": 3}
        write(self.path("odd.json"), json.dumps(odd))
        self.assertIn("'hidden' is no option of messages; allowed are exchange, bits, rate",
                      self.refuse("train", "data", *TRAIN, "--plan", "odd.json"))

    def test_a_run_says_how_many_messages_a_plan_sends(self):
        skip = ["--exchange", "skip", "--bound", "0.5", "--oldest", "4"]
        plan = ["plan", "data", "--topology", "machine.json", *MODEL, *skip, "--search", "none", "--out",
                "skip.json"]
        self.assertIn("at most ", self.succeed(*plan))
        bound = self.plan("skip.json")["messages"]
        self.succeed("train", "data", *TRAIN, "--plan", "skip.json", "--plan-trial", "2", "--epochs",
                     "8", "--trace", "--run-dir", "skip")
        summary = self.summary("skip")
        self.assertLess(summary["share_sent"], 1)
        self.assertNotIn("at most ", self.succeed(*plan, "--measured", "skip"))
        measured = self.plan("skip.json")["messages"]
        self.assertAlmostEqual(measured["share"], summary["share_sent"])
        self.assertAlmostEqual(measured["bytes"], bound["bytes"] * measured["share"], delta=1)
        self.succeed("trace", "replay", "skip", "--topology", "machine.json")

    def test_hops_are_layers_of_a_plan(self):
        model = ["--model", "appnp", "--layers", "2", "--hidden", "16", "--hops", "3"]
        self.succeed("plan", "data", "--topology", "machine.json", *model, "--out", "hops.json")
        self.assertEqual(len(self.plan("hops.json")["layers"]), 5)
        self.succeed("train", "data", *model, *TRAIN[len(MODEL):], "--plan", "hops.json", "--epochs",
                     "1", "--run-dir", "hops")

    def test_modes_that_no_plan_has(self):
        plan = ["plan", "data", "--topology", "machine.json", *MODEL, "--search", "none", "--out",
                "no.json"]
        self.assertIn("--bits adaptive", self.refuse(*plan, "--exchange", "compensated", "--bits",
                                                     "adaptive"))
        self.assertIn("--allow-bits 4", self.refuse(*plan, "--exchange", "none", "--allow-bits", "4"))
        self.assertIn("allowed are all other modes", self.refuse(*plan, "--exchange", "unified"))
        # Its default is adaptive, whatever the plan may choose among.
        self.assertIn("--bits adaptive: a plan begins with one width",
                      self.refuse(*plan, "--exchange", "quantized", "--allow-bits", "8,4"))
        self.succeed("train", "data", *TRAIN, "--exchange", "periodic", "--every", "5", "--epochs", "4",
                     "--trace", "--run-dir", "short")
        self.assertIn("5 epochs send all messages", self.refuse("trace", "replay", "short", "--topology",
                                                                "machine.json"))

    def test_plan_for_which_there_is_no_memory(self):
        """Both trials say so; the run then ends with the same error."""
        layers = ["--layers", "60", "--norm", "batch"]
        self.succeed("plan", "data", "--topology", "machine.json", *layers, "--hidden", "16",
                     "--search", "greedy", "--out", "deep.json")
        plan = self.plan("deep.json")
        plan["model"]["hidden"] = 65536  # weights of terabytes
        write(self.path("deep.json"), json.dumps(plan))
        result = run(["train", "data", *TRAIN[len(MODEL):], *layers, "--hidden", "65536", "--plan",
                      "deep.json", "--epochs", "1"], self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        for name in ("with the plan", "without the plan"):
            self.assertRegex(result.stderr, f"warning {name}: host .* ranks need .* is missing")
        self.assertIn("too little memory with the plan, too little memory without it",
                      result.stderr)
        self.assertNotIn("inf ms", result.stderr)

    def test_ranks_of_a_host_share_a_part_where_the_network_is_slow(self):
        pairs = machine()
        del pairs["hosts"][2]
        pairs["ranks"] = [{**pairs["ranks"][0], "host": host} for host in "aabb"]
        for host in pairs["hosts"]:
            host.update(send_mbit_per_s=20, receive_mbit_per_s=20)
        pairs["links"]["within_island"] = {"latency_us": 1, "gbit_per_s": 80}
        write(self.path("pairs.json"), json.dumps(pairs))
        # With few layers it would recompute halo rows.
        deep = ["--layers", "5", "--hidden", "64", "--norm", "batch"]
        plan = ["plan", "data", "--topology", "pairs.json", *deep, "--out", "pairs-plan.json"]
        train = ["train", "data", *deep, "--transport", "local", "--ranks", "4", "--backend", "cpu",
                 "--threads", "1", "--epochs", "5"]
        text = self.succeed(*plan)
        found = self.plan("pairs-plan.json")
        self.assertEqual(found["group_ranks"], 2)
        groups = {group["group_ranks"]: group for group in found["search"]["groups"]}
        self.assertEqual(list(groups), [1, 2, 4])
        self.assertEqual(groups[2]["ms"], min(group["ms"] for group in groups.values()))
        self.assertRegex(text, r"\n  2 .*  chosen\n")
        self.assertIn("inside groups of 2 ranks", self.succeed("plan", "explain", "pairs-plan.json"))
        result = run([*train, "--plan", "pairs-plan.json", "--plan-trial", "0", "--run-dir",
                      "pairs"], self.folder)
        self.assertIn("groups of 2 ranks hold a part together", result.stderr)
        self.succeed(*train, "--run-dir", "alone")
        for a, b in zip(self.losses("pairs"), self.losses("alone")):
            self.assertAlmostEqual(a / b, 1, delta=1e-3)
        self.assertRegex(self.succeed("program", "data", *deep, "--plan", "pairs-plan.json"),
                         r"the share of one of 2 ranks that hold \d+ nodes")
        self.assertIn("--group-ranks excludes --plan",
                      self.refuse(*train, "--plan", "pairs-plan.json", "--group-ranks", "2"))
        # One number was asked for, or other options leave one.
        self.succeed(*plan, "--group-ranks", "1")
        self.assertEqual(self.plan("pairs-plan.json")["group_ranks"], 1)
        self.assertIn("4 ranks can't be divided into groups of 3; allowed are 1, 2, 4",
                      self.refuse(*plan, "--group-ranks", "3"))
        self.assertIn("4 numbers for 2 parts", self.succeed(*plan, "--weights", "1,1,1,2"))
        self.assertEqual(self.plan("pairs-plan.json")["group_ranks"], 1)
        self.assertIn("--group-ranks auto", self.refuse(*train, "--group-ranks", "auto"))

    def test_what_waits_in_host_memory_is_not_counted(self):
        """On GPUs; a topology with a processor is refused, as training would be."""
        gpus = machine()
        for rank in gpus["ranks"]:
            rank.update(kind="cuda", memory_gib=1e-5)
        write(self.path("gpus.json"), json.dumps(gpus))
        deep = ["--model", "gcnii", "--layers", "24", "--hidden", "16", "--group-ranks", "1"]

        def missing(*options):
            message = self.refuse("plan", "data", "--topology", "gpus.json", *deep, *options)
            return float(re.search(r"misses ([\d.]+) MB", message).group(1))

        self.assertLess(missing("--offload", "on"), 0.6 * missing())
        self.assertIn("--offload on: rank 0 of the topology has kind cpu",
                      self.refuse("plan", "data", "--topology", "machine.json", *deep,
                                  "--offload", "on"))

    def test_the_policy_can_be_trained_and_used(self):
        train = ["plan", "train-policy", "--instances", "4", "--rounds", "2", "--epochs", "1",
                 "--evaluations", "10", "--hidden", "8"]
        text = self.succeed(*train, "--out", "policy.safetensors")
        self.assertRegex(text, r"round 2 epoch 1: \d+ decisions, loss \d")
        self.succeed(*train, "--out", "again.safetensors")
        self.succeed(*train[:-2], "--from", "policy.safetensors", "--out", "further.safetensors")
        contents = {}
        for name in ("policy", "again", "further"):
            with open(self.path(f"{name}.safetensors"), "rb") as file:
                contents[name] = file.read()
        self.assertEqual(contents["policy"], contents["again"])
        self.assertEqual(len(contents["policy"]), len(contents["further"]))
        self.assertNotEqual(contents["policy"], contents["further"])
        search = ["plan", "data", "--topology", "machine.json", *MODEL, "--allow-bits", "8,4",
                  "--search", "mcts", "--evaluations", "40", "--out", "prior.json"]
        for prior in ("uniform", "policy", "policy.safetensors"):
            with self.subTest(prior=prior):
                self.assertIn("shares by speed instead of", self.succeed(*search, "--prior", prior))
        os.remove(self.path("prior.json"))
        self.assertIn("luck.safetensors", self.refuse(*search, "--prior", "luck.safetensors"))
        self.assertIn("--search mcts", self.refuse(*search[:-6], "--search", "greedy", "--out",
                                                   "prior.json", "--prior", "uniform"))
        write(self.path("bad.safetensors"), "no weights of a policy")
        self.assertIn("bad.safetensors", self.refuse(*search, "--prior", "bad.safetensors"))
        self.assertIn("--instances", self.refuse("plan", "train-policy", "--out", "x", "--instances",
                                                 "3"))
        self.assertIn("--hidden", self.refuse("plan", "train-policy", "--out", "x", "--hidden", "9"))
        self.assertIn("--out", self.refuse("plan", "train-policy"))

    def test_plans_for_something_else_are_refused(self):
        train = ["train", "data", "--plan", "plan.json", "--epochs", "1"]
        options = TRAIN[len(MODEL):]
        self.assertIn("--hidden", self.refuse(*train, *options, "--layers", "2", "--norm", "batch"))
        four = [word if word != "3" else "4" for word in TRAIN]
        message = self.refuse(*train, *four)
        self.assertIn("plan.json: made for 3 ranks, but this job has 4", message)
        self.succeed("generate", "sbm", "--nodes", "3001", "--features", "20", "--out", "other")
        message = self.refuse("train", "other", "--plan", "plan.json", "--epochs", "1", *TRAIN)
        self.assertIn("checksum", message)
        self.assertIn(self.plan()["dataset"]["checksum"], message)
        for extra in (["--weights", "1,1,1"], ["--bits", "4"], ["--order", "auto"]):
            self.assertIn("--plan", self.refuse(*train, *TRAIN, *extra))
        self.assertIn("'messages'", self.refuse(*train, *TRAIN, "--messages", "rows"))
        by_rows = self.plan()
        by_rows["model"]["messages"] = "rows"
        write(self.path("rows.json"), json.dumps(by_rows))
        message = self.refuse("train", "data", "--plan", "rows.json", "--epochs", "1", *TRAIN)
        self.assertIn('rows.json: made for --messages "rows", which this run has not', message)
        damaged = self.plan()
        damaged["layers"][1]["bits"] = 5
        write(self.path("damaged.json"), json.dumps(damaged))
        message = self.refuse("train", "data", "--plan", "damaged.json", "--epochs", "1", *TRAIN)
        self.assertIn("damaged.json: layer 1: field 'bits' is 5; allowed are 1, 2, 4, 8, 16, 32", message)
        with open(self.path("plan.json"), encoding="utf-8") as file:
            sealed = json.load(file)
        sealed["predicted_ms"] += 1
        write(self.path("damaged.json"), json.dumps(sealed))
        message = self.refuse("train", "data", "--plan", "damaged.json", "--epochs", "1", *TRAIN)
        self.assertIn("damaged.json: damaged or changed by hand: field 'seal'", message)
        write(self.path("damaged.json"), json.dumps({**self.plan(), "search": {"decisions": 7}}))
        self.assertIn("damaged.json", self.refuse("plan", "explain", "damaged.json"))

    def test_without_search_it_only_predicts(self):
        predict = ["plan", "data", "--topology", "machine.json", *MODEL, "--search", "none", "--out",
                   "none.json"]
        expected = []
        for extra in ([], ["--weights", "2,2,1"], ["--order", "multiply-first"]):
            self.succeed(*predict, *extra)
            with open(self.path("none.json"), encoding="utf-8") as file:
                plan = json.load(file)
            self.assertEqual(plan["predicted_ms"], plan["default_ms"])
            expected.append(plan["predicted_ms"])
        self.assertAlmostEqual(expected[0], self.plan()["default_ms"])
        self.assertLess(expected[1], expected[0])
        self.assertNotEqual(expected[2], expected[0])

    def test_plans_for_blocks(self):
        blocks = ["--blocks", "4"]
        plan = ["plan", "data", "--topology", "machine.json", *MODEL, *blocks]
        text = self.succeed(*plan, "--out", "blocks.json")
        self.assertIn("an epoch is 4 steps, each on a block\n", text)
        self.assertTrue(text.rstrip().endswith(" ".join([*MODEL, *blocks])), text)
        made = self.plan("blocks.json")
        self.assertEqual(made["model"]["blocks"], "4")
        self.assertAlmostEqual(made["partition"]["shares"][2], 0.2, delta=0.03)
        by_plan = ["--plan", "blocks.json", "--plan-trial", "0"]
        for name, extra in (("blocks", by_plan), ("blocks-trial", by_plan[:2]),
                            ("blocks-without", [])):
            self.succeed("train", "data", *TRAIN, *blocks, *extra, "--epochs", "3", "--run-dir", name)
        for a, b in zip(self.losses("blocks"), self.losses("blocks-without")):
            self.assertAlmostEqual(a / b, 1, delta=1e-3)
        # Beside sums over ranks, which an epoch without messages shows, the bytes are those of the
        # first epoch, but for what is rounded of each block.
        self.succeed("train", "data", *TRAIN, "--exchange", "none", "--epochs", "2", "--run-dir",
                     "sums")
        messages = self.bytes_sent("blocks")[0] - 4 * self.bytes_sent("sums")[1]
        self.assertAlmostEqual(messages / made["messages"]["bytes"], 1, delta=0.02)
        wrong = self.refuse("train", "data", *TRAIN, "--blocks", "8", *by_plan)
        self.assertIn("blocks", wrong)
        self.assertIn("blocks", self.refuse("train", "data", *TRAIN, *by_plan))
        self.assertIn("--blocks 4: found with --shape", self.refuse(
            "plan", "--shape", "machine.json", "--topology", "machine.json", *blocks))

    def test_the_commands_of_the_page_for_blocks(self):
        with open(PAGE, encoding="utf-8") as file:
            section = file.read().split("### Blocks\n")[1].split("\n### ")[0]
        lines = re.findall("^    (.*)$", section, re.MULTILINE)
        self.assertEqual([line.split("atoll ")[1].split()[0] for line in lines], ["plan", "train"])
        for line in lines:
            words = line.replace("data/arxiv", "data").replace("cluster.json", "machine.json").split()
            words = words[words.index("atoll") + 1:]
            more = [] if words[0] == "plan" else [*TRAIN[len(MODEL):], "--epochs", "1", "--run-dir",
                                                  "page"]
            self.succeed(*(word if word != "plan.json" else "page.json" for word in words), "--hidden",
                         "8", *more)

    def test_bad_options(self):
        plan = ["plan", "data", "--topology", "machine.json", *MODEL]
        self.assertIn("--topology", self.refuse("plan", "data"))
        self.assertIn("describes 3 ranks", self.refuse(*plan, "--ranks", "4"))
        self.assertIn("exhaustive", self.refuse(*plan, "--search", "luck"))
        bench = "leave it out, or measure such epochs with atoll bench"
        for extra, advice in ((["--blocks", "8", "--blocks-until", "4"], "leave it out"),
                              (["--inductive", "valid"], bench),
                              (["--local-until", "3"], "leave it out"),
                              (["--exchange", "none", "--repartition-every", "2"], bench)):
            message = self.refuse(*plan, *extra)
            self.assertIn(f"{' '.join(extra[-2:])}: found in plan, which simulates epochs on the "
                          "whole graph or on --blocks", message)
            self.assertIn(f"beside this option; {advice}\n", message)
        # Its command has nothing that training would refuse beside a plan.
        self.assertNotIn("--local-until",
                         self.succeed(*plan, "--local-until", "0", "--out", "whole.json"))
        self.assertIn("--allow-bits 32,5: '5' is no width; allowed are 1, 2, 4, 8, 16, 32, several",
                      self.refuse(*plan, "--allow-bits", "32,5"))
        tiny = machine()
        tiny["ranks"][2]["memory_gib"] = 1e-5
        write(self.path("tiny.json"), json.dumps(tiny))
        self.assertRegex(self.refuse("plan", "data", "--topology", "tiny.json", *MODEL),
                         r"misses 0\.\d MB")
        self.assertIn("trace.json", self.refuse(*plan, "--measured", "data"))
        self.assertIn("trace.json", self.refuse("trace", "replay", "data", "--topology",
                                                "machine.json"))
        for change, word in (("cards", "2x"), ("cards=2", "2x"), ("cards=-1x", "above 0"),
                             ("card(z)=2x", "a, b, c"), ("bw(0)=2x", "2 values"),
                             ("speed(9)=2x", "0 to 2"), ("luck=2x", "luck")):
            with self.subTest(change=change):
                self.assertIn(word, self.refuse("trace", "replay", "with", "--topology",
                                                "machine.json", "--set", change))


if __name__ == "__main__":
    unittest.main()
