#!/usr/bin/env python3
"""`atoll schedule` as a user runs it, without --run: what it refuses, its table of speeds against
`atoll plan`, its files and pictures, and the script for Slurm with an sbatch that only records."""

import collections
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import OneFolderTest, run, write

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/schedule.md")

LIST = """
[options]
layers = 2
hidden = 16
norm = "batch"
dropout = 0.5
epochs = 200
[[group]]
name = "small"
dataset = "data"
seeds = "1-4"
most-ranks = 2
modes = { exact = {} }
[[group]]
name = "long"
dataset = "data"
seeds = [7, 9]
arrival = 3
arrival-every = 2
least-ranks = 2
[group.modes]
exact = { epochs = 400, eval-every = 10 }
eight = { bits = 8 }
"""
JOBS = 8


def cluster(hosts=4, slots=2, **changes):
    """So slow that epochs of a small graph take seconds."""
    rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 0.05}, "gemm_gflop_per_s": {"16": 0.4},
            "elementwise_gb_per_s": 0.1, "quantize_gb_per_s": 0.02, **changes}
    return {"format": 1,
            "hosts": [{"name": f"node{h}", "send_mbit_per_s": 100, "receive_mbit_per_s": 100}
                      for h in range(1, hosts + 1)],
            "ranks": [{"host": f"node{h}", "count": slots, **rank} for h in range(1, hosts + 1)],
            "links": {"within_island": {"latency_us": 5, "gbit_per_s": 8},
                      "between_hosts": {"latency_us": 50, "gbit_per_s": 0.1}}}


def part_of(topology, hosts, each):
    """The machine of a placement, written down by another way than the program's."""
    part = copy.deepcopy(topology)
    part["hosts"] = part["hosts"][:hosts]
    part["ranks"] = [{**rank, "count": each} for rank in part["ranks"][:hosts]]
    return part


class ScheduleTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cls.folder = cls.home.name
        cls.succeed("generate", "sbm", "--nodes", "3000", "--features", "20", "--out", "data")
        write(cls.path("cluster.json"), json.dumps(cluster()))
        write(cls.path("jobs.toml"), LIST)
        cls.text = cls.schedule("--out", "week", "--policy", "marginal", "--trace", "trace.json")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def schedule(cls, *words, jobs="jobs.toml"):
        return cls.succeed("schedule", jobs, "--topology", "cluster.json", *words)

    def refused(self, *words, jobs="jobs.toml"):
        return self.refuse("schedule", jobs, "--topology", "cluster.json", *words)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return json.load(file)

    def test_a_schedule_keeps_its_rules(self):
        file = self.read("week", "schedule.json")
        jobs, planned = file["jobs"], file["planned"]
        self.assertEqual(len(jobs), JOBS)
        self.assertEqual([job["folder"] for job in jobs[:5]],
                         [f"small/exact/seed-{seed}" for seed in range(1, 5)] + ["long/exact/seed-7"])
        self.assertEqual([job["arrival_s"] for job in jobs], [0] * 4 + [3, 5, 7, 9])
        self.assertEqual([host["slots"] for host in file["hosts"]], [2] * 4)
        done = [0] * JOBS
        ends = [0] * JOBS
        for segment in planned["segments"]:
            job = jobs[segment["job"]]
            ranks = len(segment["hosts"]) * segment["ranks_per_host"]
            self.assertGreaterEqual(ranks, job["least_ranks"])
            self.assertLessEqual(ranks, job["most_ranks"])
            self.assertGreaterEqual(segment["from_s"], job["arrival_s"])
            self.assertAlmostEqual(segment["first_epoch"], done[segment["job"]], places=6)
            done[segment["job"]] = segment["last_epoch"]
            ends[segment["job"]] = segment["to_s"]
        for j, job in enumerate(jobs):
            self.assertAlmostEqual(done[j], job["epochs"], places=6)
            self.assertAlmostEqual(planned["completion_s"][j], ends[j] - job["arrival_s"], places=6)
        # No host has more ranks at any time than slots.
        for now in {segment["from_s"] for segment in planned["segments"]}:
            for host in file["hosts"]:
                busy = sum(segment["ranks_per_host"] for segment in planned["segments"]
                           if host["name"] in segment["hosts"]
                           and segment["from_s"] <= now < segment["to_s"] - 1e-6)
                self.assertLessEqual(busy, host["slots"])
        mean = sum(planned["completion_s"]) / JOBS
        self.assertAlmostEqual(planned["mean_completion_s"], mean)
        self.assertAlmostEqual(planned["makespan_s"], max(ends))
        self.assertGreaterEqual(mean, file["bound_s"] - 1e-6)

    def test_what_it_prints(self):
        file = self.read("week", "schedule.json")
        self.assertTrue(self.text.startswith("8 jobs of jobs.toml on 4 hosts with 8 slots "
                                             "(cluster.json), policy marginal\n"), self.text)
        lines = self.text.splitlines()
        self.assertEqual(len([line for line in lines if ", seed " in line]), JOBS)
        self.assertRegex(self.text, r"\n  small, exact, seed 1 +0\.0 +0\.0 ")
        summary = re.search(r"mean completion ([\d.]+) s: ([\d.]+) % (below|above) first-come "
                            r"\(([\d.]+) s\), ([\d.]+) % above the lower bound \(([\d.]+) s\); the last "
                            r"job ends after ([\d.]+) s", self.text)
        self.assertIsNotNone(summary, self.text)
        for shown, value in ((1, file["planned"]["mean_completion_s"]), (4, file["first_come_mean_s"]),
                             (6, file["bound_s"]), (7, file["planned"]["makespan_s"])):
            self.assertAlmostEqual(float(summary[shown]), value, delta=0.06)
        self.assertIn("written to week/schedule.json", self.text)
        self.assertEqual(sorted(os.listdir(self.path("week"))), ["schedule.json", "speeds.json"])

    def test_speeds_are_those_of_atoll_plan(self):
        speeds = self.read("week", "speeds.json")["speeds"]
        model = ["--layers", "2", "--hidden", "16", "--norm", "batch", "--dropout", "0.5"]
        topology = cluster()
        matched = 0
        for hosts, each in ((1, 2), (2, 1), (2, 2), (4, 2)):
            write(self.path("part.json"), json.dumps(part_of(topology, hosts, each)))
            expected = []
            for options in ([], ["--exchange", "quantized", "--bits", "8"]):
                self.succeed("plan", "data", "--topology", "part.json", *model, *options, "--search",
                             "none", "--out", "none.json")
                plan = self.read("none.json")
                expected.append(plan["predicted_ms"] / 1000)
                if not options:
                    exact = plan
            found = {speed["speed"]["epoch_s"]: speed["speed"] for speed in speeds
                     if (speed["hosts"], speed["ranks_per_host"]) == (hosts, each)}
            self.assertTrue(found, f"{hosts} x {each} was not looked at")
            for seconds in found:
                matched += 1
                self.assertIn(seconds, [self.near(seconds, value) for value in expected])
            # With one rank on each of two hosts, what one card sends the other one receives.
            if (hosts, each) == (2, 1):
                card = next(speed for seconds, speed in found.items()
                            if abs(seconds / expected[0] - 1) < 1e-9)["epoch_card_s"]
                parameters = 20 * 16 + 2 * 16 + 16 * 8 + 8  # a norm takes the place of a bias
                gradients = 2 * 4 * parameters / 2
                sent = [seconds * 100e6 / 8 - gradients for seconds in card]
                self.assertAlmostEqual(sent[0], sent[1])
                self.assertGreaterEqual(sent[0], exact["messages"]["bytes"] / 2 * (1 - 1e-9))
                self.assertLess(sent[0], exact["messages"]["bytes"])
        self.assertGreaterEqual(matched, 6)

    @staticmethod
    def near(seconds, value):
        return seconds if abs(seconds / value - 1) < 1e-9 else value

    def test_a_second_schedule_answers_from_the_table(self):
        before = self.read("week", "schedule.json")
        table = self.read("week", "speeds.json")
        result = run(["schedule", "jobs.toml", "--topology", "cluster.json", "--out", "week", "--policy",
                      "marginal"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(" 0 epochs simulated", result.stderr)
        self.assertEqual(result.stdout, self.text)
        self.assertEqual(self.read("week", "schedule.json"), before)
        self.assertEqual(self.read("week", "speeds.json"), table)
        # Elsewhere all is computed anew, to the same numbers.
        self.schedule("--out", "again", "--policy", "marginal")
        self.assertEqual(self.read("again", "schedule.json"), before)
        self.assertEqual(self.read("again", "speeds.json"), table)
        write(self.path("again", "speeds.json"), "[]")
        message = self.refused("--out", "again")
        self.assertIn("again/speeds.json: field 'format'", message)
        self.assertIn("remove the file", message)

    def test_policies_side_by_side(self):
        text = self.schedule("--policy", "all", "--out", "compared", "--evaluations", "50")
        rows = re.findall(r"(?m)^  (\w+) +([\d.]+) +([+-][\d.]+) % +([\d.]+) % +([\d.]+) +(\d+)$", text)
        self.assertEqual([row[0] for row in rows], ["fifo", "srpt", "marginal", "search"])
        self.assertEqual(float(rows[0][2]), 0)
        means = {row[0]: float(row[1]) for row in rows}
        self.assertLessEqual(means["search"], means["marginal"] + 0.1)
        self.assertAlmostEqual(
            means["marginal"], self.read("week", "schedule.json")["planned"]["mean_completion_s"],
            delta=0.06)
        self.assertEqual(os.listdir(self.path("compared")), ["speeds.json"])

    def test_the_trace_has_a_row_for_each_slot(self):
        events = self.read("trace.json")["traceEvents"]
        rows = [event for event in events if event["name"] == "thread_name"]
        self.assertEqual(len(rows), 8)
        bars = [event for event in events if event["ph"] == "X"]
        planned = self.read("week", "schedule.json")["planned"]["segments"]
        ranks = sum(len(segment["hosts"]) * segment["ranks_per_host"] for segment in planned)
        self.assertEqual(len(bars), ranks)

    def test_the_report_draws_it(self):
        text = self.succeed("report", "week", "--out", "week.html")
        self.assertIn("week.html: a schedule of 8 jobs", text)
        with open(self.path("week.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertNotIn("http", page.replace("http-equiv", ""))
        chart = re.search(r"<svg.*?</svg>", page, re.DOTALL)[0]
        picture = xml.etree.ElementTree.fromstring(chart)
        _, _, width, height = map(float, picture.get("viewBox").split())
        planned = self.read("week", "schedule.json")["planned"]
        segments = planned["segments"]
        boxes = list(picture.iter("rect"))
        self.assertEqual(len(boxes), sum(len(segment["hosts"]) * segment["ranks_per_host"]
                                         for segment in segments))
        for box in boxes:
            self.assertLessEqual(float(box.get("x")) + float(box.get("width")), width + 0.1)
            self.assertLessEqual(float(box.get("y")) + float(box.get("height")), height)
        texts = [text.text for text in picture.iter("text")]
        self.assertLessEqual({"node1", "node4", "slot 0", "slot 1"}, set(texts))
        # As wide as they last, on the scale of the first that begins at 0.
        last = max(segments, key=lambda segment: segment["to_s"])
        scale = max(float(box.get("x")) + float(box.get("width")) for box in boxes) - min(
            float(box.get("x")) for box in boxes)
        name = self.read("week", "schedule.json")["jobs"][last["job"]]["name"]
        widths = [float(box.get("width")) for box in boxes if box.find("title").text.startswith(name)]
        expected = (last["to_s"] - last["from_s"]) / planned["makespan_s"] * scale
        self.assertTrue(any(abs(found - expected) < 0.02 for found in widths), (widths, expected))
        self.assertEqual(page.count("<h2>"), 2)
        self.assertIn("small, exact, seed 3", page)
        # Beside the plan what was done.
        file = self.read("week", "schedule.json")
        file["done"] = copy.deepcopy(file["planned"])
        del file["done"]["segments"][-1]
        file["done"]["completion_s"][-1] = None
        file["jobs"][0]["name"] = "<script>"
        write(self.path("run", "schedule.json"), json.dumps(file))
        self.succeed("report", "run", "--out", "run.html")
        with open(self.path("run.html"), encoding="utf-8") as page_file:
            page = page_file.read()
        self.assertEqual(page.count("<svg"), 2)
        self.assertIn("done completion s", page)
        self.assertNotIn("<script>", page)
        self.assertIn("a schedule has a page of its own",
                      self.refuse("report", "week", "week", "--out", "two.html"))
        write(self.path("bad", "schedule.json"), "{}")
        self.assertIn("schedule.json: field 'format' is missing", self.refuse("report", "bad"))

    def test_the_example_of_the_docs(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read().split("## Policies")[0]
        write(self.path("docs", "jobs.toml"), re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
        write(self.path("docs", "cluster.json"), re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
        commands = re.findall(r"(?m)^    atoll (.*)$", page)
        self.assertEqual(len(commands), 5)
        printed = []
        for command in commands:
            result = run(command.split(), self.path("docs"))
            self.assertEqual(result.returncode, 0, result.stderr)
            printed.append(result.stdout)
        shown = re.findall(r"```\n(\d+ jobs of .*?)```", page, re.DOTALL)
        self.assertEqual(len(shown), 2)
        # Times may change with what the simulator counts; who is there may not.
        number = re.compile(r"[+-]?\d+\.\d+")
        for text, found in zip(shown, (printed[2], printed[3])):
            self.assertEqual(text.splitlines()[0], found.splitlines()[0])
            self.assertEqual([line.split("  ")[1] for line in text.splitlines() if line[:2] == "  "],
                             [line.split("  ")[1] for line in found.splitlines() if line[:2] == "  "])
            first = float(number.search(text.split("first-come")[1])[0])
            self.assertAlmostEqual(float(number.search(found.split("first-come")[1])[0]) / first, 1,
                                   delta=0.1)
        self.assertTrue(os.path.exists(self.path("docs", "week.html")))

    def test_bad_input(self):
        self.assertIn("--topology is required", self.refuse("schedule", "jobs.toml"))
        self.assertIn("a list of jobs is required",
                      self.refuse("schedule", "--topology", "cluster.json"))
        self.assertIn("none.toml", self.refused(jobs="none.toml"))
        self.assertIn("fifo", self.refused("--policy", "fifoo"))
        for seconds in ("-1", "nan", "1e300"):
            self.assertIn("--start-seconds", self.refused("--start-seconds", seconds))
        self.assertIn("--policy all: only compares", self.refused("--policy", "all", "--trace", "t.json"))
        self.assertIn("--slurm, --elastic on", self.refused("--slurm", "s.sh", "--elastic", "on"))
        self.assertIn("--slurm", self.refused("--slurm", "nowhere/s.sh"))
        self.assertIn("--out jobs.toml", self.refused("--out", "jobs.toml"))
        os.mkdir(self.path("refused"))
        tiny = 'name = "a"\ndataset = "data"\nseeds = 1\n'
        for text, message in (
                ("modes = { x = { ranks = 2 } }", "group 'a': option 'ranks' has no place in a schedule"),
                ("modes = { x = { hiden = 2 } }", "group 'a': unknown option '--hiden'"),
                ("modes = { x = { bits = 3 } }", "group 'a': "),
                ("modes = { x = {} }\nlauncher = \"mpirun\"", "group 'a': launcher: 'mpirun'"),
                ("modes = { x = {} }\nleast-ranks = 9", "group 'a': least-ranks is 9; allowed are 1 to 8"),
                ("modes = { x = { hidden = 60000 } }", "of memory"),
                ("modes = { x = {}, y = {} }\nseeds = \"1-501\"",
                 "found 1002 jobs; allowed in a schedule are up to 1000")):
            group = tiny.replace("seeds = 1\n", "") if "seeds" in text else tiny
            write(self.path("wrong.toml"), f"[[group]]\n{group}{text}\n")
            with self.subTest(text):
                before = set(os.listdir(self.folder))
                result = run(["schedule", "wrong.toml", "--topology", "cluster.json", "--out",
                              "refused"], self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertIn("wrong.toml", result.stderr)
                self.assertEqual(set(os.listdir(self.folder)), before)
        write(self.path("wrong.toml"), f"[[group]]\n{tiny}modes = {{ x = {{}} }}\n".replace('"data"', '"no"'))
        self.assertIn("wrong.toml: group 'a': no", self.refused(jobs="wrong.toml"))
        write(self.path("odd.json"), "{}")
        self.assertIn("odd.json: field 'format' is missing",
                      self.refuse("schedule", "jobs.toml", "--topology", "odd.json"))

    def test_epochs_that_are_not_simulated_are_named(self):
        write(self.path("blocks.toml"), '[[group]]\nname = "a"\ndataset = "data"\nseeds = "1-2"\n'
              'most-ranks = 1\nmodes = { x = { blocks = 4, blocks-until = 50 }, y = {} }\n')
        result = run(["schedule", "blocks.toml", "--topology", "cluster.json", "--policy", "fifo",
                      "--out", "blocks"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(
            "blocks.toml: group 'a': --blocks 4 --blocks-until 50 found, but a schedule simulates "
            "epochs on the whole graph"), 1, result.stderr)

    def test_a_traced_run_corrects_it(self):
        model = ["--layers", "2", "--hidden", "16", "--norm", "batch", "--dropout", "0.5"]
        self.succeed("train", "data", *model, "--transport", "local", "--ranks", "8", "--threads", "1",
                     "--epochs", "6", "--eval-every", "0", "--trace", "--run-dir", "traced")
        self.schedule("--measured", "traced", "--out", "measured")
        fast = self.read("measured", "schedule.json")["planned"]["mean_completion_s"]
        slow = self.read("week", "schedule.json")["planned"]["mean_completion_s"]
        # The machine of the file is far slower than any.
        self.assertLess(fast, slow)
        # One on another number of ranks is for jobs on about as many.
        for ranks, name in (("1", "alone"), ("5", "few")):
            self.succeed("train", "data", *model, "--transport", "local", "--ranks", ranks, "--threads",
                         "1", "--epochs", "6", "--eval-every", "0", "--trace", "--run-dir", name)
        self.schedule("--measured", "traced,alone", "--out", "both")
        speeds = {}
        for out in ("measured", "both"):
            for entry in self.read(out, "speeds.json")["speeds"]:
                place = (entry["dataset"], entry["hosts"], entry["ranks_per_host"])
                speeds.setdefault(place, {}).setdefault(out, set()).add(entry["speed"]["epoch_s"])
        known = {place: found for place, found in speeds.items() if len(found) == 2}
        alone = {place: found["measured"] == found["both"] for place, found in known.items()
                 if place[1] * place[2] < 5}
        self.assertTrue(alone and not any(alone.values()), speeds)
        others = {place: found["measured"] == found["both"] for place, found in known.items()
                  if place[1] * place[2] >= 5}
        self.assertTrue(all(others.values()), speeds)
        self.assertIn("the run has 5 ranks, the topology 8", self.refused("--measured", "few"))

    def test_a_measured_run_that_no_job_can_use_is_named(self):
        self.succeed("train", "data", "--layers", "3", "--threads", "1", "--epochs", "3", "--trace",
                     "--run-dir", "deep")
        result = run(["schedule", "jobs.toml", "--topology", "cluster.json", "--measured", "deep",
                      "--out", "unused"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--measured deep: no job of jobs.toml has the layers of this run", result.stderr)

    def test_a_launched_run_tells_what_a_start_takes(self):
        model = ["--layers", "2", "--hidden", "16", "--norm", "batch", "--dropout", "0.5"]
        self.succeed("launch", "--hosts", "localhost", "--ranks-per-host", "1", "--", "train", "data",
                     *model, "--threads", "1", "--epochs", "6", "--trace", "--run-dir", "launched")
        summary = self.read("launched", "summary.json")
        with open(self.path("launched", "events.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        beside = events[-1]["seconds"] - summary["wall_seconds"]
        self.assertGreater(beside, 0)
        write(self.path("one.toml"), LIST.split("[[group]]\nname = \"long\"")[0].replace("1-4", "1"))

        def completion(*options):
            self.schedule("--measured", "launched", "--out", "starts", *options, jobs="one.toml")
            return self.read("starts", "schedule.json")["planned"]["completion_s"][0]

        none = completion("--start-seconds", "0")
        self.assertAlmostEqual(completion(), none + beside, places=6)
        self.assertAlmostEqual(completion("--start-seconds", "7"), none + 7, places=6)
        # Files of different runs don't tell it.
        for wrong in (-1e9, 1e300):
            write(self.path("launched", "summary.json"), json.dumps({**summary, "wall_seconds": wrong}))
            self.assertAlmostEqual(completion(), none + 2, places=6)
        write(self.path("launched", "summary.json"), json.dumps(summary))
        # One that a signal has divided knows of two starts.
        with open(self.path("launched", "events.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(events[-1]) + "\n")
        self.assertAlmostEqual(completion(), none + 2, places=6)

    # ---- Slurm.

    def submitted(self, script, *options):
        """The words of each call of sbatch, and what the script prints."""
        record = self.path("calls.jsonl")
        write(self.path("bin", "sbatch"),
              "#!/usr/bin/env python3\n"
              "import json, os, sys\n"
              f"record = {record!r}\n"
              "calls = open(record).readlines() if os.path.exists(record) else []\n"
              "open(record, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
              "print(f'{100 + len(calls)};here')\n")
        os.chmod(self.path("bin", "sbatch"), 0o755)
        environment = dict(os.environ, PATH=self.path("bin") + os.pathsep + os.environ["PATH"])
        environment.pop("ATOLL", None)  # which scripts read, too
        result = subprocess.run(["bash", script, *options], cwd=self.folder, env=environment, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(record, encoding="utf-8") as file:
            calls = [json.loads(line) for line in file]
        os.remove(record)
        return calls, result.stdout

    @staticmethod
    def options_of(call):
        """Options of sbatch, and the words for the script."""
        at = next(i for i, word in enumerate(call) if not word.startswith("--"))
        return dict(word[2:].split("=", 1) for word in call[:at] if "=" in word), call[at:]

    def test_a_script_for_slurm(self):
        text = self.schedule("--slurm", "week.sh", "--out", "fixed", "--policy", "srpt")
        self.assertIn("written to fixed/schedule.json", text)
        subprocess.run(["bash", "-n", self.path("week.sh")], check=True)
        file = self.read("fixed", "schedule.json")
        self.assertFalse(file["elastic"])
        segments = file["planned"]["segments"]
        self.assertEqual(sorted(segment["job"] for segment in segments), list(range(JOBS)))
        by_folder = {job["folder"]: segment for segment in segments
                     for job in [file["jobs"][segment["job"]]]}
        arrivals = [job["arrival_s"] for job in file["jobs"]]
        waited = {}  # by job: those that it waits for
        calls, printed = self.submitted("week.sh", "--time=10:00", "--cpus-per-task=3")
        known = {}  # folder by the number that Slurm has for it
        for number, call in enumerate(calls, 100):
            options, words = self.options_of(call)
            self.assertEqual(call[0], "--parsable")
            self.assertEqual((options["time"], options["cpus-per-task"]), ("10:00", "3"))
            self.assertEqual(words[0], "week.sh")
            self.assertEqual((words[2], words[4:6]), ("atoll", ["train", "data"]))
            self.assertTrue(words[3].startswith("runs/"))
            folder = words[3][len("runs/"):]
            if words[1] == "in-array":
                self.assertNotIn("--seed", words)
                seeds = [seed for part in options["array"].split(",")
                         for first, last in [(part.split("-") * 2)[:2]]
                         for seed in range(int(first), int(last) + 1)]
                self.assertGreater(len(seeds), 1)
                folders = {f"{number}_{seed}": f"{folder}/seed-{seed}" for seed in seeds}
            else:
                self.assertEqual(words[1], "in-job")
                self.assertEqual(words[-2:], ["--seed", folder.split("-")[-1]])
                folders = {str(number): folder}
            waits = set()
            if "dependency" in options:
                kind, *ids = options["dependency"].split(":")
                self.assertEqual(kind, "afterany")
                for one in ids:
                    self.assertTrue(one in known or any(name.startswith(one + "_") for name in known))
                    waits |= {known[name] for name in known if name == one or name.startswith(one + "_")}
            for folder in folders.values():
                segment = by_folder[folder]
                self.assertEqual(int(options["nodes"]), len(segment["hosts"]))
                self.assertEqual(int(options["ntasks-per-node"]), segment["ranks_per_host"])
                self.assertNotIn("nodelist", options)
                wanted = arrivals[segment["job"]]
                self.assertEqual(options.get("begin"), f"now+{wanted:.0f}" if wanted else None)
                waited[segment["job"]] = {by_folder[other]["job"] for other in waits}
            known.update(folders)
        self.assertEqual(sorted(known.values()), sorted(by_folder))
        self.check_order(segments, arrivals, waited)
        self.assertEqual(len(printed.splitlines()), len(calls))
        self.assertIn("100 ", printed)
        # The first ones begin together and differ in the seed.
        self.assertTrue(any("in-array" in call for call in calls), calls)

    def check_order(self, segments, arrivals, waits):
        """However long jobs take, no host ever has more ranks than slots; and if they take as long
        as planned, none starts later than planned."""
        draws = random.Random(5)
        for round_ in range(20):
            starts, ends = {}, {}
            for segment in sorted(segments, key=lambda one: one["from_s"]):
                job = segment["job"]
                planned = segment["to_s"] - segment["from_s"]
                starts[job] = max([arrivals[job]] + [ends[other] for other in waits[job]])
                ends[job] = starts[job] + (planned if round_ == 0 else planned * draws.uniform(0.2, 3))
                if round_ == 0:
                    self.assertLessEqual(starts[job], segment["from_s"] + 1e-6)
            for now in starts.values():
                busy = collections.Counter()
                for segment in segments:
                    if starts[segment["job"]] <= now < ends[segment["job"]] - 1e-9:
                        busy.update({host: segment["ranks_per_host"] for host in segment["hosts"]})
                self.assertLessEqual(max(busy.values()), 2)

    def test_hosts_that_differ_are_named(self):
        odd = cluster()
        odd["ranks"][3].update(memory_gib=64)
        write(self.path("odd-cluster.json"), json.dumps(odd))
        self.succeed("schedule", "jobs.toml", "--topology", "odd-cluster.json", "--slurm", "odd.sh",
                     "--out", "odd")
        segments = self.read("odd", "schedule.json")["planned"]["segments"]
        calls, _ = self.submitted("odd.sh")
        self.assertEqual(len(calls), JOBS)
        lists = sorted(self.options_of(call)[0]["nodelist"] for call in calls)
        self.assertEqual(lists, sorted(",".join(segment["hosts"]) for segment in segments))

    def test_a_job_of_the_script_trains_and_goes_on(self):
        """The script in its second role, with an srun that runs one rank."""
        write(self.path("one.toml"), "[[group]]\nname = \"a b\"\ndataset = \"data\"\nseeds = \"3,5\"\n"
              "modes = { x = { epochs = 4, hidden = 8, layers = 2 } }\nmost-ranks = 1\n")
        self.schedule("--slurm", "one.sh", "--out", "one", jobs="one.toml")
        calls, _ = self.submitted("one.sh")
        self.assertEqual(len(calls), 1)
        options, words = self.options_of(calls[0])
        self.assertEqual(options["array"], "3,5")
        write(self.path("bin", "srun"), "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\n"
              "[ -z \"${EXIT:-}\" ] || exit $EXIT\nexec \"$@\"\n")
        write(self.path("bin", "scontrol"), f"#!/bin/bash\necho \"$*\" >> {self.path('requeued')}\n")
        write(self.path("bin", "sleep"), "#!/bin/sh\n")
        for name in ("srun", "scontrol", "sleep"):
            os.chmod(self.path("bin", name), 0o755)
        words[2] = os.path.abspath(os.environ.get("ATOLL", "build/atoll"))
        environment = dict(os.environ, PATH=self.path("bin") + os.pathsep + os.environ["PATH"],
                           SLURM_ARRAY_TASK_ID="5", SLURM_JOB_ID="77")

        def job(**more):
            return subprocess.run(["bash", *words], cwd=self.folder, env={**environment, **more},
                                  text=True, capture_output=True, check=False)

        first = job()
        self.assertEqual(first.returncode, 0, first.stderr)
        summary = self.read("runs", "a-b", "x", "seed-5", "summary.json")
        self.assertEqual(summary["epochs"], 4)
        with open(self.path("runs", "a-b", "x", "seed-5", "config.toml"), encoding="utf-8") as file:
            self.assertIn("seed = 5", file.read())
        again = job()
        self.assertEqual(again.returncode, 0, again.stderr)  # --resume of a run that is complete
        stopped = job(EXIT="138")
        self.assertEqual(stopped.returncode, 138)
        with open(self.path("requeued"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "requeue 77\n")
        self.assertEqual(job(EXIT="9").returncode, 9)


if __name__ == "__main__":
    unittest.main()
