#!/usr/bin/env python3
"""Lists of jobs: each runs once, a list goes on after any interruption, and its table is right."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, Workplace, environment, write

TOOLS = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../launch/tools"))
sys.path.insert(0, TOOLS)
from job_list import read_jobs, read_seeds, train_words
from job_table import interval, student_t

PROGRAM = os.path.abspath(ATOLL)
LIST = """
[options]
layers = 2
hidden = 4
transport = "local"
ranks = 2
threads = 1
[[group]]
name = "tiny"
dataset = "data"
seeds = "1-3"
options = { epochs = 3 }
[group.modes]
exact = { overlap = "on" }
"no overlap" = { overlap = "off" }
"""
FOLDERS = [f"tiny/{mode}/seed-{seed}" for seed in (1, 2, 3) for mode in ("exact", "no-overlap")]


def setUpModule():
    if sys.version_info < (3, 11):
        raise unittest.SkipTest("lists in TOML need Python 3.11")


class JobListTest(unittest.TestCase):
    def setUp(self):
        place = Workplace()
        self.folder = pathlib.Path(place.__enter__())
        self.addCleanup(place.cleanup)
        self.write("list.toml", LIST)

    def write(self, name, text):
        write(str(self.folder / name), text)

    def script(self, name, text):
        """A program that does something before it becomes atoll."""
        self.write(name, f"#!/bin/sh\n{text}\nexec {shlex.quote(PROGRAM)} \"$@\"\n")
        (self.folder / name).chmod(0o755)
        return f"./{name}"

    def start(self, *arguments, program=PROGRAM):
        words = [os.path.join(TOOLS, "job-list"), *arguments, "--out", "out"]
        if arguments[0] == "run":
            words += ["--program", program]
        return subprocess.Popen(words, cwd=self.folder, env=environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def job_list(self, *arguments, code=0, program=PROGRAM):
        with self.start(*arguments, program=program) as process:
            output, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, code, f"{arguments}: {output}{errors}")
        return output + errors

    def wait_for(self, condition):
        end = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), end, "nothing happened")
            time.sleep(0.005)

    def done(self):
        found = sorted((self.folder / "out").glob("*/*/*/summary.json"))
        return [str(path.parent.relative_to(self.folder / "out")) for path in found]

    def summary(self, folder):
        return json.loads((self.folder / "out" / folder / "summary.json").read_text())

    def losses(self, folder):
        lines = (self.folder / "out" / folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    def log(self, folder):
        return (self.folder / "out" / folder / "log.txt").read_text()


class Running(JobListTest):
    def test_every_job_runs_once_seeds_outside_modes_inside(self):
        counting = self.script("counting", 'echo "$@" >>started')
        first = self.job_list("run", "list.toml", program=counting)
        self.assertIn("6/6 tiny, no overlap, seed 3: test", first)
        self.assertIn("left", first)
        self.assertEqual(self.done(), sorted(FOLDERS))
        started = (self.folder / "started").read_text().splitlines()
        self.assertEqual([line.split("--run-dir ")[1] for line in started],
                         [f"out/{folder} --overwrite" for folder in FOLDERS])
        self.assertIn("--overlap off", started[1])
        self.assertEqual(len(self.losses(FOLDERS[0])), 3)
        self.assertNotEqual(self.losses(FOLDERS[0]), self.losses(FOLDERS[2]), "the same seed")
        second = self.job_list("run", "list.toml", program=counting)
        self.assertIn("6 of 6 jobs were done before", second)
        self.assertEqual((self.folder / "started").read_text().splitlines(), started)

    def test_several_at_once(self):
        # Each job waits until another one is there too.
        meeting = self.script("meeting", """touch met.$$
for n in $(seq 500); do [ $(ls met.* | wc -l) -ge 2 ] && break; sleep 0.02; done
[ $n -lt 500 ] || exit 9""")
        self.job_list("run", "list.toml", "--jobs", "2", program=meeting)
        self.assertEqual(self.done(), sorted(FOLDERS))

    def test_interrupted_list_goes_on(self):
        slow = self.script("slow", "echo x >>started; sleep 0.5")
        for number in (signal.SIGINT, signal.SIGTERM):
            before = len(self.done())
            with self.start("run", "list.toml", program=slow) as process:
                self.wait_for(lambda: len(self.done()) > before)
                process.send_signal(number)
                output, _ = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn(f"stopped by {number.name}", output)
            self.assertLess(len(self.done()), 6)
        self.job_list("run", "list.toml")
        self.assertEqual(self.done(), sorted(FOLDERS))

    def test_killed_list_leaves_its_job_in_peace(self):
        slow = self.script("slow", "echo x >>started; sleep 1")
        with self.start("run", "list.toml", program=slow) as process:
            self.wait_for(lambda: len(self.done()) == 1)
            self.wait_for(lambda: len((self.folder / "started").read_text()) == 4)
            process.kill()
            process.communicate(timeout=TIMEOUT)
        output = self.job_list("run", "list.toml", program=slow)
        self.assertIn("waiting for its end", output)
        self.assertIn("2 of 6 jobs were done before", output)
        self.assertEqual(self.done(), sorted(FOLDERS))
        self.assertEqual(len((self.folder / "started").read_text()), 12, "each of six jobs once")

    def test_a_job_with_checkpoints_is_resumed(self):
        self.write("list.toml", LIST.replace("epochs = 3", "epochs = 8000, eval-every = 0, "
                                             "checkpoint-every = 50").replace("1-3", "1"))
        checkpoints = self.folder / "out" / FOLDERS[0] / "checkpoint"
        with self.start("run", "list.toml") as process:
            self.wait_for(lambda: any(checkpoints.glob("epoch-*.safetensors")))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.done(), [], "ended before it could be interrupted")
        self.job_list("run", "list.toml")
        commands = [line for line in self.log(FOLDERS[0]).splitlines() if line.startswith("$")]
        self.assertEqual([line.endswith(" --resume") for line in commands], [False, True])
        self.assertEqual(self.losses(FOLDERS[0]), self.losses(FOLDERS[1]))
        self.assertEqual(self.summary(FOLDERS[0])["epochs"], 8000)

    def test_a_broken_job_without_checkpoint_starts_again(self):
        self.job_list("run", "list.toml")
        broken = self.folder / "out" / FOLDERS[3]
        whole = self.losses(FOLDERS[3])
        (broken / "summary.json").unlink()
        (broken / "checkpoint" / "epoch-3.safetensors").unlink()
        lines = (broken / "metrics.jsonl").read_text()
        (broken / "metrics.jsonl").write_text(lines[:len(lines) // 2])
        self.assertIn("5 of 6 jobs were done before", self.job_list("run", "list.toml"))
        self.assertEqual(self.losses(FOLDERS[3]), whole)

    def test_time_limit(self):
        slow = self.script("slow", "sleep 0.4")
        self.assertIn("time is up", self.job_list("run", "list.toml", "--limit-minutes", "0.01",
                                                  program=slow, code=3))
        self.assertLess(len(self.done()), 6)

    def test_a_failing_job_does_not_end_the_list(self):
        self.write("list.toml", LIST.replace('overlap = "off"', 'order = "never"'))
        output = self.job_list("run", "list.toml", code=1)
        self.assertIn("3 of 6 jobs are done, 3 failed", output)
        self.assertIn("tiny, no overlap, seed 2: exit code 2: ", output)
        self.assertIn("out/tiny/no-overlap/seed-2/log.txt", output)
        self.assertIn("multiply-first", self.log(FOLDERS[3]))
        self.assertEqual(self.done(), sorted(FOLDERS[0::2]))
        broken = self.script("broken", "printf 'no memory\n-----\n'; exit 5")
        self.assertIn("seed 2: exit code 5: no memory\n",  # tries them again
                      self.job_list("run", "list.toml", code=1, program=broken))


class Changing(JobListTest):
    def test_changed_command(self):
        self.job_list("run", "list.toml", "--group", "tiny")
        self.write("list.toml", LIST.replace('"off"', '"off", lr = 0.02'))
        for arguments in (["run", "list.toml"], ["run", "list.toml", "--dry-run"],
                          ["table", "list.toml"]):
            message = self.job_list(*arguments, code=2)
            self.assertIn("out/tiny/no-overlap/seed-1: holds a run of\n"
                          "  atoll train data --epochs 3 ", message)
            self.assertRegex(message, r"\n  atoll train .* --lr 0\.02 ")
        plan = self.job_list("run", "list.toml", "--replace", "--dry-run")
        self.assertEqual(len(plan.splitlines()), 3)
        output = self.job_list("run", "list.toml", "--replace")
        self.assertIn("3 of 6 jobs were done before", output)
        self.assertIn("--lr 0.02", self.log(FOLDERS[1]))
        self.assertNotIn("--overlap off --ranks", self.log(FOLDERS[0]))

    def test_order_of_options_is_no_change(self):
        self.job_list("run", "list.toml")
        self.write("list.toml", LIST.replace("layers = 2\nhidden = 4", "hidden = 4\nlayers = 2"))
        self.assertEqual(self.job_list("run", "list.toml", "--dry-run"), "")

    def test_folders_of_others_are_left_alone(self):
        self.write("out/" + FOLDERS[2] + "/notes.txt", "mine")
        self.assertIn("holds files but no job.json", self.job_list("run", "list.toml", code=2))
        self.assertEqual(self.done(), [])

    def test_plan(self):
        lines = self.job_list("run", "list.toml", "--dry-run").splitlines()
        self.assertEqual(lines[0], f"{PROGRAM} train data --epochs 3 --hidden 4 --layers 2 "
                         "--overlap on --ranks 2 --threads 1 --transport local --seed 1 "
                         "--run-dir out/tiny/exact/seed-1 --overwrite")
        self.assertEqual(len(lines), 6)
        self.assertFalse((self.folder / "out").exists())

    def test_bad_input(self):
        group = '[[group]]\nname = "a"\ndataset = "data"\nseeds = 1\n'
        modes = "modes = { exact = {} }\n"
        for text, message in {
                "[[group]\n": "list.toml: Expected",
                "": "at least one [[group]]",
                "speed = 1\n": "unknown key 'speed'; known are group, options, modes, seeds",
                group: "group 'a': modes are missing",
                group + modes + "mode = 1\n": "unknown key 'mode'",
                modes + '[[group]]\nname = "a"\ndataset = "data"\n': "seeds are missing",
                group.replace('"a"', '"../a"') + modes: "name: found '../a'",
                group.replace('dataset = "data"', "dataset = 3") + modes: "dataset: found 3",
                group.replace('"data"', '"none"') + modes: "dataset none: no such folder",
                group.replace("= 1", '= "3-1"') + modes: "the range '3-1' is empty",
                group.replace("= 1", '= "1-x"') + modes: "seeds: found '1-x'",
                group.replace("= 1", "= [1, 1]") + modes: "1 stands there twice",
                group + "modes = {}\n": "modes: there is none",
                group + "modes = { exact = 1 }\n": "mode 'exact': found 1; a table",
                group + modes + 'options = { "--lr" = 1 }\n': "option '--lr': must be the name",
                group + modes + "options = { seed = 1 }\n": "'seed': is set by the list itself",
                group + modes + "options = { lr = [1] }\n": "'lr': found [1]",
                group + 'modes = { "a b" = {}, a-b = {} }\n': "would share the folder",
                group + modes + 'launcher = "no-launcher -n 2"\n': "no-launcher is no program",
                group + modes + 'per-seed = "seed"\n': "per-seed: found 'seed'",
                group + modes + "per-seed = 1\n": "per-seed: found 1",
        }.items():
            with self.subTest(message):
                self.write("list.toml", text)
                self.assertIn(message, self.job_list("run", "list.toml", code=2))
                self.assertFalse((self.folder / "out").exists())
        self.assertIn("can't read", self.job_list("run", "none.toml", code=2))
        self.write("list.json", "{\n,")
        message = self.job_list("run", "list.json", code=2)
        self.assertIn("list.json: Expecting property name", message)
        self.write("list.toml", LIST)
        for arguments, message in ((["--group", "huge"], "its groups are tiny"),
                                   (["--jobs", "0"], "--jobs"),
                                   (["--limit-minutes", "x"], "--limit-minutes")):
            self.assertIn(message, self.job_list("run", "list.toml", *arguments, code=2))
        self.assertIn("is no program", self.job_list("run", "list.toml", code=2, program="./none"))
        self.assertIn("no such folder", self.job_list("table", "list.toml", code=2))

    def test_lists_as_data(self):
        self.write("list.json", json.dumps({
            "seeds": [5], "options": {"lr": 0.1, "trace": True},
            "modes": {"on": {"trace": True}, "off": {"trace": False, "lr": 5e-4}},
            "group": [{"name": "g", "dataset": "d", "launcher": "mpirun -n 2",
                       "options": {"lr": 0.2}}]}))
        on, off = read_jobs(self.folder / "list.json")
        self.assertEqual(on.launcher, ("mpirun", "-n", "2"))
        self.assertEqual(train_words(on.identity()),
                         ["train", "d", "--lr", "0.2", "--trace", "--seed", "5"])
        self.assertEqual(train_words(off.identity()),
                         ["train", "d", "--lr", "0.0005", "--seed", "5"])
        self.assertEqual(read_seeds("7, 1-3,0", "f"), [7, 1, 2, 3, 0])

    def test_an_option_that_takes_the_seeds_number(self):
        self.write("list.toml", '[[group]]\nname = "g"\ndataset = "d"\nseeds = "3-4"\n'
                   'per-seed = "split-index"\nmodes = { a = {} }\n')
        self.assertEqual([train_words(job.identity())[2:]
                          for job in read_jobs(self.folder / "list.toml")],
                         [["--split-index", seed, "--seed", seed] for seed in "34"])

    def test_shipped_lists(self):
        for name, count in {"accuracy": 100 * 7 + 2 * 30 * 7 + 3 * 4,
                            "models": 10 * 4 + 10 + 10 * 4 + 3 * 2}.items():
            self.assertEqual(len(read_jobs(os.path.join(TOOLS, f"jobs/{name}.toml"))), count, name)


class Tables(JobListTest):
    def finish(self, job, **summary):
        folder = job.folder(self.folder / "out")
        write(str(folder / "job.json"), json.dumps(job.identity()))
        write(str(folder / "summary.json"), json.dumps(summary))

    def test_figures(self):
        tests = {("exact", 1): .80, ("exact", 2): .82, ("exact", 3): .84,
                 ("no overlap", 1): .81, ("no overlap", 2): .82, ("no overlap", 3): .86}
        for job in read_jobs(self.folder / "list.toml"):
            self.finish(job, test=tests[job.mode, job.seed], commit="abc",
                        bytes_sent_per_epoch=2e6 + job.seed * 1e6,
                        epoch_ms_median=[9, 5, 100][job.seed - 1])
        text = self.job_list("table", "list.toml", "--json", "table.json")
        # Differences 1, 0, 2: mean 1, standard deviation 1; t(2) / sqrt(3) = 4.30265 / 1.73205.
        self.assertIn("| exact | 3 | 82.000 | 2.000 | – | – | 4.0000 | 9.00 |", text)
        self.assertIn("| no overlap | 3 | 83.000 | 2.646 | +1.000 | -1.484 .. +3.484 |", text)
        self.assertIn("Commit abc.", text)
        table = json.loads((self.folder / "table.json").read_text())
        row = table["groups"][0]["modes"][1]
        self.assertAlmostEqual(row["difference"], 1)
        self.assertAlmostEqual(row["half_width"], 2.4841377, places=6)
        self.assertEqual(row["tests"], {"1": 81, "2": 82, "3": 86})

    def test_unfinished_lists(self):
        jobs = read_jobs(self.folder / "list.toml")
        self.finish(jobs[0], test=.5, commit="abc")          # exact, seed 1
        self.finish(jobs[1], test=.6, commit="abd")          # no overlap, seed 1
        self.finish(jobs[3], test=.9, epoch_ms_median=None)  # no overlap, seed 2: without its pair
        text = self.job_list("table", "list.toml")
        self.assertIn("| exact | 1 of 3 | 50.000 | – | – | – | – | – |", text)
        self.assertIn("| no overlap | 2 of 3 | 75.000 | 21.213 | +10.000 | – | – | – |", text)
        self.assertIn("Commits abc, abd, unknown.", text)
        other = self.job_list("table", "list.toml", "--baseline", "no overlap")
        self.assertIn("| exact | 1 of 3 | 50.000 | – | -10.000 | – | – | – |", other)
        self.assertIn("modes are exact, no overlap",
                      self.job_list("table", "list.toml", "--baseline", "vanilla", code=2))

    def test_quantiles_of_student(self):
        for nu, expected in {1: 12.7062, 2: 4.30265, 3: 3.18245, 5: 2.57058, 10: 2.22814,
                             29: 2.04523, 99: 1.98422, 1000: 1.96234}.items():
            self.assertAlmostEqual(student_t(nu), expected, delta=1e-5 * expected)
        self.assertAlmostEqual(student_t(4, 0.99), 4.60409, places=4)
        self.assertEqual(interval([]), (None, None))
        self.assertEqual(interval([2.0]), (2.0, None))


if __name__ == "__main__":
    unittest.main(verbosity=2)
