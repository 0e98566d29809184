#!/usr/bin/env python3
"""Lists of jobs: each runs once, a list goes on after any interruption, and its table is right."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, TIMEOUT, Workplace, environment, write

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
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


class JobsTest(unittest.TestCase):
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

    def start(self, command, *arguments, program=None):
        words = [PROGRAM, "jobs", command, "list.toml", *arguments, "--out", "out"]
        if program:
            words += ["--program", program]
        return subprocess.Popen(words, cwd=self.folder, env=environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def jobs(self, *arguments, code=0, program=None):
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


class Running(JobsTest):
    def test_every_job_runs_once_seeds_outside_modes_inside(self):
        counting = self.script("counting", 'echo "$@" >>started')
        first = self.jobs("run", program=counting)
        self.assertIn("6/6 tiny, no overlap, seed 3: test", first)
        self.assertIn("left", first)
        self.assertEqual(self.done(), sorted(FOLDERS))
        started = (self.folder / "started").read_text().splitlines()
        self.assertEqual([line.split("--run-dir ")[1] for line in started],
                         [f"out/{folder} --overwrite" for folder in FOLDERS])
        self.assertIn("--overlap off", started[1])
        self.assertEqual(len(self.losses(FOLDERS[0])), 3)
        self.assertNotEqual(self.losses(FOLDERS[0]), self.losses(FOLDERS[2]), "the same seed")
        second = self.jobs("run", program=counting)
        self.assertIn("6 of 6 jobs were done before", second)
        self.assertEqual((self.folder / "started").read_text().splitlines(), started)

    def test_several_at_once(self):
        # Each job waits until another one is there too.
        meeting = self.script("meeting", """touch met.$$
for n in $(seq 500); do [ $(ls met.* | wc -l) -ge 2 ] && break; sleep 0.02; done
[ $n -lt 500 ] || exit 9""")
        self.jobs("run", "--jobs", "2", program=meeting)
        self.assertEqual(self.done(), sorted(FOLDERS))

    def test_interrupted_list_goes_on(self):
        slow = self.script("slow", "echo x >>started; sleep 0.5")
        for number in (signal.SIGINT, signal.SIGTERM):
            before = len(self.done())
            with self.start("run", program=slow) as process:
                self.wait_for(lambda: len(self.done()) > before)
                process.send_signal(number)
                output, _ = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn(f"stopped by {number.name}", output)
            self.assertLess(len(self.done()), 6)
        self.jobs("run")
        self.assertEqual(self.done(), sorted(FOLDERS))

    def test_killed_list_leaves_its_job_in_peace(self):
        slow = self.script("slow", "echo x >>started; sleep 1")
        with self.start("run", program=slow) as process:
            self.wait_for(lambda: len(self.done()) == 1)
            self.wait_for(lambda: len((self.folder / "started").read_text()) == 4)
            process.kill()
            process.communicate(timeout=TIMEOUT)
        output = self.jobs("run", program=slow)
        self.assertIn("waiting for its end", output)
        self.assertIn("2 of 6 jobs were done before", output)
        self.assertEqual(self.done(), sorted(FOLDERS))
        self.assertEqual(len((self.folder / "started").read_text()), 12, "each of six jobs once")

    def test_a_second_signal_leaves_the_job_at_work(self):
        stubborn = self.script("stubborn", "trap '' TERM; echo x >>started; sleep 1")
        with self.start("run", program=stubborn) as process:
            self.wait_for((self.folder / "started").exists)
            process.send_signal(signal.SIGINT)
            self.assertIn("SIGINT: ending the jobs", process.stderr.readline())
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        output = self.jobs("run")
        self.assertIn("waiting for its end", output)
        self.assertIn("1 of 6 jobs were done before", output)

    def test_a_job_with_checkpoints_is_resumed(self):
        self.write("list.toml", LIST.replace("epochs = 3", "epochs = 8000, eval-every = 0, "
                                             "checkpoint-every = 50").replace("1-3", "1"))
        checkpoints = self.folder / "out" / FOLDERS[0] / "checkpoint"
        with self.start("run") as process:
            self.wait_for(lambda: any(checkpoints.glob("epoch-*.safetensors")))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.done(), [], "ended before it could be interrupted")
        self.jobs("run")
        commands = [line for line in self.log(FOLDERS[0]).splitlines() if line.startswith("$")]
        self.assertEqual([line.endswith(" --resume") for line in commands], [False, True])
        self.assertEqual(self.losses(FOLDERS[0]), self.losses(FOLDERS[1]))
        self.assertEqual(self.summary(FOLDERS[0])["epochs"], 8000)

    def test_a_broken_job_without_checkpoint_starts_again(self):
        self.jobs("run")
        broken = self.folder / "out" / FOLDERS[3]
        whole = self.losses(FOLDERS[3])
        (broken / "summary.json").unlink()
        (broken / "checkpoint" / "epoch-3.safetensors").unlink()
        lines = (broken / "metrics.jsonl").read_text()
        (broken / "metrics.jsonl").write_text(lines[:len(lines) // 2])
        self.assertIn("5 of 6 jobs were done before", self.jobs("run"))
        self.assertEqual(self.losses(FOLDERS[3]), whole)

    def test_time_limit(self):
        slow = self.script("slow", "sleep 0.4")
        self.assertIn("time is up", self.jobs("run", "--limit-minutes", "0.01",
                                                  program=slow, code=3))
        self.assertLess(len(self.done()), 6)

    def test_a_failing_job_does_not_end_the_list(self):
        self.write("list.toml", LIST.replace('overlap = "off"', "split-index = 7"))
        output = self.jobs("run", code=1)
        self.assertIn("3 of 6 jobs are done, 3 failed", output)
        self.assertIn("tiny, no overlap, seed 2: exit code 2: ", output)
        self.assertIn("out/tiny/no-overlap/seed-2/log.txt", output)
        self.assertIn("--split-index 7", self.log(FOLDERS[3]).splitlines()[-1])
        self.assertEqual(self.done(), sorted(FOLDERS[0::2]))
        broken = self.script("broken", "printf 'no memory\n-----\n'; exit 5")
        self.assertIn("seed 2: exit code 5: no memory\n",  # tries them again
                      self.jobs("run", code=1, program=broken))

    def test_a_diverged_job_is_not_done_even_if_the_list_was_killed(self):
        self.jobs("run")
        for folder in FOLDERS[:2]:
            summary = self.summary(folder)
            self.write(f"out/{folder}/summary.json", json.dumps({**summary, "diverged": True}))
        self.assertEqual(len(self.jobs("run", "--dry-run").splitlines()), 2)
        self.assertIn("| exact | 2 of 3 |", self.jobs("table"))
        # It is tried again, and fails again.
        broken = self.script("broken", "echo '[12:00:00] warning the run has diverged: the loss is 7'; "
                             "echo '  results in out'; exit 1")
        output = self.jobs("run", code=1, program=broken)
        self.assertIn("4 of 6 jobs were done before", output)
        self.assertIn("4 of 6 jobs are done, 2 failed", output)
        # Where no error was printed, the last warning says most.
        self.assertIn("seed 1: exit code 1: [12:00:00] warning the run has diverged: the loss is 7\n", output)

    def test_a_diverged_job_is_named(self):
        self.write("list.toml", LIST.replace("1-3", "1").replace("ranks = 2", "ranks = 1")
                   .replace('overlap = "off"', "lr = 3000"))
        for _ in range(2):  # resumed, it is diverged all the same
            output = self.jobs("run", code=1)
            self.assertRegex(output, r"seed 1: exit code 1: .*warning the run has diverged: the loss is ")
        # As a list that was killed has left it.
        summary = self.folder / "out" / FOLDERS[1] / "summary.json"
        summary.write_text(json.dumps({**self.summary(FOLDERS[0]), "diverged": True}))
        self.assertIn("1 of 2 jobs are done, 1 failed", self.jobs("run", code=1))

    def test_a_summary_of_no_run_is_no_result(self):
        self.jobs("run")
        self.write(f"out/{FOLDERS[0]}/summary.json", "{}")
        self.write(f"out/{FOLDERS[1]}/summary.json", '{"test": "x"}')
        table = self.jobs("table")
        self.assertIn(f"out/{FOLDERS[0]}/summary.json: field 'test': found nothing; allowed are", table)
        self.assertIn(f"out/{FOLDERS[1]}/summary.json: field 'test': found \"x\"", table)
        self.assertIn("| exact | 2 of 3 |", table)
        output = self.jobs("run")
        self.assertIn("4 of 6 jobs were done before", output)
        self.assertIn(f"out/{FOLDERS[0]}/summary.json: field 'test'", output)
        self.assertIn("test", self.summary(FOLDERS[0]))

    def test_jobs_that_need_what_others_make(self):
        first = FOLDERS[0]
        self.write("list.toml", LIST.replace("1-3", "1").replace(
            'overlap = "off"', f'warm-start = "out/{first}"'))
        self.jobs("run")
        self.assertEqual(self.done(), sorted(FOLDERS[:2]))
        self.assertNotEqual(self.losses(first), self.losses(FOLDERS[1]))


class Changing(JobsTest):
    def test_changed_command(self):
        self.jobs("run", "--group", "tiny")
        self.write("list.toml", LIST.replace('"off"', '"off", lr = 0.02'))
        for arguments in (["run"], ["run", "--dry-run"],
                          ["table"]):
            message = self.jobs(*arguments, code=2)
            self.assertIn("out/tiny/no-overlap/seed-1: holds a run of "
                          "'atoll train data --epochs 3 ", message)
            self.assertRegex(message, r"the list says now 'atoll train data .* --lr 0\.02 ")
        plan = self.jobs("run", "--replace", "--dry-run")
        self.assertEqual(len(plan.splitlines()), 3)
        output = self.jobs("run", "--replace")
        self.assertIn("3 of 6 jobs were done before", output)
        self.assertIn("--lr 0.02", self.log(FOLDERS[1]))
        self.assertNotIn("--overlap off --ranks", self.log(FOLDERS[0]))

    def dataset_is_made_anew(self):
        """Other content under the same path, as a new import leaves it."""
        shutil.rmtree(self.folder / "data")
        subprocess.run([PROGRAM, "generate", "sbm", "--nodes", "60", "--seed", "7", "--out", "data"],
                       cwd=self.folder, env=environment(), check=True, capture_output=True,
                       timeout=TIMEOUT)

    def test_changed_content_of_the_dataset(self):
        self.write("list.toml", LIST.replace("1-3", "1-2"))
        self.jobs("run")
        old = json.loads((self.folder / "data/dataset.json").read_text())["checksum"]
        record = json.loads((self.folder / "out" / FOLDERS[0] / "job.json").read_text())
        self.assertEqual(record["dataset_checksum"], old)
        self.assertIn("seconds", record)
        self.dataset_is_made_anew()
        self.write("list.toml", LIST)
        now = json.loads((self.folder / "data/dataset.json").read_text())["checksum"]
        for arguments in (["run"], ["run", "--dry-run"]):
            message = self.jobs(*arguments, code=2)
            self.assertIn(f"out/{FOLDERS[0]}: holds a run on the dataset data with the checksum {old}, "
                          f"but the dataset in this folder has now the checksum {now}", message)
            self.assertIn("--replace", message)
        self.assertIn("| exact | 2 of 3 |", self.jobs("table"))  # all of one content
        self.assertEqual(len(self.jobs("run", "--replace", "--dry-run").splitlines()), 6)
        self.assertNotIn("done before", self.jobs("run", "--replace"))
        self.assertIn("6 of 6 jobs were done before", self.jobs("run"))
        # A table of two contents would be of neither.
        record = json.loads((self.folder / "out" / FOLDERS[3] / "job.json").read_text())
        self.assertEqual(record["dataset_checksum"], now)
        self.write(f"out/{FOLDERS[3]}/job.json", json.dumps({**record, "dataset_checksum": old}))
        message = self.jobs("table", code=2)
        self.assertIn("group 'tiny': ", message)
        for part in (f"out/{FOLDERS[3]}", old, now):
            self.assertIn(part, message)

    def test_records_without_a_checksum_are_accepted(self):
        self.jobs("run")
        for folder in FOLDERS:
            record = json.loads((self.folder / "out" / folder / "job.json").read_text())
            del record["dataset_checksum"]
            self.write(f"out/{folder}/job.json", json.dumps(record))
        self.dataset_is_made_anew()
        self.assertIn("6 of 6 jobs were done before", self.jobs("run"))

    def test_a_job_that_left_nothing_starts_with_the_new_content(self):
        broken = self.script("broken", "exit 5")
        self.jobs("run", code=1, program=broken)
        self.dataset_is_made_anew()
        self.jobs("run")
        self.assertEqual(self.done(), sorted(FOLDERS))

    def test_order_of_options_is_no_change(self):
        self.jobs("run")
        self.write("list.toml", LIST.replace("layers = 2\nhidden = 4", "hidden = 4\nlayers = 2"))
        self.assertEqual(self.jobs("run", "--dry-run"), "")

    def test_folders_of_others_are_left_alone(self):
        self.write("out/" + FOLDERS[2] + "/notes.txt", "mine")
        self.assertIn("holds files but no job.json", self.jobs("run", code=2))
        self.assertEqual(self.done(), [])

    def test_plan(self):
        lines = self.jobs("run", "--dry-run").splitlines()
        program = os.path.realpath(PROGRAM)
        self.assertEqual(lines[0], f"{program} train data --epochs 3 --hidden 4 --layers 2 "
                         "--overlap on --ranks 2 --threads 1 --transport local --seed 1 "
                         "--run-dir out/tiny/exact/seed-1 --overwrite")
        self.assertEqual(len(lines), 6)
        self.assertFalse((self.folder / "out").exists())

    def test_bad_input(self):
        """Where a list is wrong by itself: tests/launch/jobs/job_list_test.cpp."""
        for old, new, message in (
                ("[[group]]", "[[group]", "list.toml:8:9: not valid TOML"),
                ("seeds", "sedes", "group 1: unknown key 'sedes' (did you mean 'seeds'?)"),
                ("layers =", "layres =", "list.toml: group 'tiny', mode 'exact': unknown option "
                 "'--layres' (did you mean '--layers'?)"),
                ('overlap = "off"', 'order = "never"', "group 'tiny', mode 'no overlap': --order: "),
                ('overlap = "off"', 'order = "never"', "multiply-first"),
                ('overlap = "off"', "bits = 9", "mode 'no overlap': --bits"),
                # A number that is allowed, but not alone.
                ('overlap = "off"', "blocks-until = 3", "mode 'no overlap': --blocks-until 3: "
                 "found without --blocks"),
                ('overlap = "off"', 'calibration = "none.json"', "none.json"),
                ('"data"', '"none"', "group 'tiny': dataset none: no such folder"),
                ('"1-3"', '"1-3"\nlauncher = "no-launcher -n 2"', "'no-launcher' is no program")):
            with self.subTest(message):
                self.write("list.toml", LIST.replace(old, new))
                self.assertIn(message, self.jobs("run", code=2))
                self.assertFalse((self.folder / "out").exists())
        # Another program may know others.
        other = LIST.replace("layers =", "layres =")
        self.write("list.toml", other)
        self.assertIn("unknown option '--layres'", self.jobs("run", code=1, program=PROGRAM))
        shutil.rmtree(self.folder / "out")
        self.write("list.toml", LIST)
        for arguments, message in ((["--group", "huge"], "its groups are tiny"),
                                   (["--jobs", "0"], "--jobs"),
                                   (["--limit-minutes", "x"], "--limit-minutes"),
                                   (["--limit-minutes", "0"], "--limit-minutes")):
            self.assertIn(message, self.jobs("run", *arguments, code=2))
        self.assertIn("is no program", self.jobs("run", code=2, program="./none"))
        (self.folder / "list.toml").unlink()
        self.assertIn("list.toml: no such file", self.jobs("run", code=2))

    def test_a_table_of_nothing(self):
        self.assertIn("--out out: no such folder", self.jobs("table", code=2))

    def test_a_damaged_record(self):
        for record in ('{"launcher": 1}', '{"launcher": [], "dataset": "data", "options": [], "seed": 1}'):
            self.write(f"out/{FOLDERS[0]}/job.json", record)
            message = self.jobs("run", code=2)
            self.assertIn(f"out/{FOLDERS[0]}/job.json: field", message)
            self.assertIn("remove the folder", message)

    def test_shipped_lists(self):
        for name, count in {"accuracy": 100 * 7 + 2 * 30 * 7 + 3 * 4,
                            "exchange_modes": 100 * (12 + 4 * 3) + 2 * 30 * 3 + 2 * 5 * 3,
                            "models": 10 * 4 + 10 + 10 * 4 + 3 * 2}.items():
            result = subprocess.run(
                [PROGRAM, "jobs", "run", f"launch/tools/jobs/{name}.toml", "--out",
                 self.folder / "out", "--dry-run"], cwd=ROOT, env=environment(), text=True,
                capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), count, name)


class Documentation(JobsTest):
    def test_examples_of_the_page(self):
        """The lists of docs/experiments.md run, and its commands are those of the program."""
        page = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
        lists = re.findall(r"```toml\n(.*?)```", page, re.S)
        self.assertTrue(lists)
        write(str(self.folder / "data/cora/empty"), "")
        for text in lists:
            self.write("list.toml", text)
            self.assertIn("train data/cora", self.jobs("run", "--dry-run"))
        commands = re.findall(r"^    (atoll jobs .*?)(?: +#.*)?$", page, re.M)
        self.assertTrue(commands)
        self.write("launch/tools/jobs/accuracy.toml", LIST.replace("1-3", "1"))
        for command in commands:
            words = shlex.split(command)
            subprocess.run([PROGRAM, *words[1:]], cwd=self.folder, env=environment(), check=True,
                           capture_output=True, timeout=TIMEOUT)


class Tables(JobsTest):
    def finish(self, mode, seed, **summary):
        folder = f"out/tiny/{mode.replace(' ', '-')}/seed-{seed}"
        options = {"epochs": "3", "hidden": "4", "layers": "2", "transport": "local", "ranks": "2",
                   "threads": "1", "overlap": "on" if mode == "exact" else "off"}
        self.write(f"{folder}/job.json", json.dumps({
            "launcher": [], "dataset": "data", "options": options, "seed": seed}))
        self.write(f"{folder}/summary.json", json.dumps(summary))

    def test_figures(self):
        tests = {("exact", 1): .80, ("exact", 2): .82, ("exact", 3): .84,
                 ("no overlap", 1): .81, ("no overlap", 2): .82, ("no overlap", 3): .86}
        for (mode, seed), test in tests.items():
            self.finish(mode, seed, test=test, commit="abc", bytes_sent_per_epoch=2e6 + seed * 1e6,
                        epoch_ms_median=[9, 5, 100][seed - 1])
        text = self.jobs("table", "--json", "table.json")
        # Differences 1, 0, 2: mean 1, standard deviation 1; t(2) / sqrt(3) = 4.30265 / 1.73205.
        self.assertIn("### tiny (data)\n", text)
        self.assertIn("| exact | 3 | 82.000 | 2.000 | – | – | 4.0000 | 9.00 |", text)
        self.assertIn("| no overlap | 3 | 83.000 | 2.646 | +1.000 | -1.484 .. +3.484 |", text)
        self.assertIn("Commit abc.", text)
        table = json.loads((self.folder / "table.json").read_text())
        self.assertEqual(table["groups"][0]["commits"], ["abc"])
        row = table["groups"][0]["modes"][1]
        self.assertAlmostEqual(row["difference"], 1)
        self.assertAlmostEqual(row["half_width"], 2.4841377, places=6)
        self.assertEqual(row["tests"], {"1": 81, "2": 82, "3": 86})

    def test_unfinished_lists(self):
        self.finish("exact", 1, test=.5, commit="abc")
        self.finish("no overlap", 1, test=.6, commit="abd")
        self.finish("no overlap", 2, test=.9, epoch_ms_median=None)  # without its pair
        text = self.jobs("table")
        self.assertIn("| exact | 1 of 3 | 50.000 | – | – | – | – | – |", text)
        self.assertIn("| no overlap | 2 of 3 | 75.000 | 21.213 | +10.000 | – | – | – |", text)
        self.assertIn("Commits abc, abd, unknown.", text)
        other = self.jobs("table", "--baseline", "no overlap")
        self.assertIn("| exact | 1 of 3 | 50.000 | – | -10.000 | – | – | – |", other)
        self.assertIn("modes are exact, no overlap",
                      self.jobs("table", "--baseline", "vanilla", code=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
