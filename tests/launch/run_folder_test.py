#!/usr/bin/env python3
"""The life of a run folder: who may work in it, what is kept when a run is interrupted, and
that nothing of the user's is lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, MPIEXEC, TIMEOUT, Workplace, environment, is_open_mpi, run, write

TRAIN = ["train", "data", "--layers", "2", "--hidden", "8", "--threads", "1"]
LONG = [*TRAIN, "--epochs", "3000", "--eval-every", "100"]  # some seconds


def read(path):
    with open(path, "rb") as file:
        return file.read()


class RunFolderTest(unittest.TestCase):
    def setUp(self):
        place = Workplace()
        self.folder = place.__enter__()
        self.addCleanup(place.cleanup)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def succeed(self, *arguments, **options):
        result = run(list(arguments), self.folder, **options)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr}")
        return result

    def refuse(self, *arguments, words=()):
        result = run(list(arguments), self.folder)
        self.assertEqual(result.returncode, 2, result.stderr + result.stdout)
        for word in words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def start(self, *arguments, launcher=()):
        process = subprocess.Popen(
            [*launcher, os.path.abspath(ATOLL), *arguments], cwd=self.folder, env=environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(process)
        return process

    def wait_for(self, condition, process):
        end = time.monotonic() + TIMEOUT
        while not condition():
            self.assertIsNone(process.poll(), "ended too early")
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.005)

    def wait_for_epochs(self, count, process, name="run"):
        metrics = self.path(name, "metrics.jsonl")
        self.wait_for(lambda: os.path.exists(metrics) and read(metrics).count(b"\n") >= count,
                      process)

    def end_of(self, process):
        output = process.communicate(timeout=TIMEOUT)[0]
        return process.returncode, output

    def lines(self, name="run"):
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def epochs(self, name="run"):
        return [line["epoch"] for line in self.lines(name)]

    def assert_as_if_never_stopped(self, options, name="run"):
        """The run was trained to its end as one that nothing interrupted."""
        self.succeed(*options, "--run-dir", "whole")
        self.assertEqual(read(self.path(name, "model.safetensors")),
                         read(self.path("whole", "model.safetensors")))
        self.assertEqual(self.epochs(name), self.epochs("whole"))
        self.assertFalse(os.path.exists(self.path(name, "lock")))

    # Signals and time limits.

    def test_a_signal_ends_the_epoch_and_keeps_everything(self):
        for number, options in ((signal.SIGTERM, []), (signal.SIGINT, ["--norm", "batch"]),
                                (signal.SIGUSR1, ["--transport", "local", "--ranks", "2"])):
            with self.subTest(number):
                for name in ("run", "whole"):
                    shutil.rmtree(self.path(name), ignore_errors=True)
                train = [*LONG, *options]
                process = self.start(*train, "--run-dir", "run")
                self.wait_for_epochs(20, process)
                process.send_signal(number)
                code, output = self.end_of(process)
                self.assertEqual(code, 128 + number, output)
                self.assertRegex(output, rf"stopped by {number.name} after epoch \d+ of 3000")
                self.assertIn(f"{number.name}: stopping after this epoch; again to stop now",
                              output)
                self.assertEqual(output.count("again to stop now"), 1)
                # The program as it was called.
                self.assertIn(f"\n    {os.path.abspath(ATOLL)} train --config run/config.toml "
                              "--resume\n", output)
                self.assertTrue(os.path.exists(self.path("run", "model.safetensors")))
                self.assertFalse(os.path.exists(self.path("run", "summary.json")))
                self.succeed("predict", "run", "data", "--out", "labels.npy")
                done = self.epochs()[-1]
                resumed = self.succeed("train", "--config", "run/config.toml", "--resume")
                self.assertIn(f"resuming after epoch {done}\n", resumed.stderr)
                self.assert_as_if_never_stopped(train)

    def test_a_signal_to_the_launcher_reaches_all_ranks(self):
        launcher = [MPIEXEC, "--bind-to", "none", "-n", "2"]
        process = self.start(*LONG, "--run-dir", "run", launcher=launcher)
        self.wait_for_epochs(20, process)
        process.send_signal(signal.SIGUSR1)  # mpirun hands it on
        code, output = self.end_of(process)
        # That of MPICH may end with 0 all the same.
        self.assertIn(code, [128 + signal.SIGUSR1] + ([] if is_open_mpi() else [0]), output)
        self.assertIn(f"mpirun -n 2 {os.path.abspath(ATOLL)} train --config run/config.toml --resume",
                      output)
        self.assertEqual(output.count("SIGUSR1: stopping after this epoch; again to stop now"), 1)
        self.succeed("train", "--config", "run/config.toml", "--resume", ranks=2)
        self.succeed(*LONG, "--run-dir", "whole", ranks=2)
        self.assertEqual(read(self.path("run", "model.safetensors")),
                         read(self.path("whole", "model.safetensors")))

    def test_nothing_is_evaluated_after_a_signal_and_the_resumed_run_does_it(self):
        train = [*TRAIN, "--epochs", "3000"]  # evaluated after every epoch
        process = self.start(*train, "--run-dir", "run")
        self.wait_for_epochs(20, process)
        process.send_signal(signal.SIGINT)
        self.end_of(process)
        last = self.lines("run")[-1]
        self.assertNotIn("valid", last)
        self.assertIn("valid", self.lines("run")[-2])
        self.succeed("train", "--config", "run/config.toml", "--resume")
        self.assert_as_if_never_stopped(train)
        for line, whole in zip(self.lines("run"), self.lines("whole")):
            self.assertEqual([line[key] for key in ("loss", "valid")],
                             [whole[key] for key in ("loss", "valid")])

    def test_sigusr1_before_the_run_lets_its_first_epoch_end(self):
        for pause in (0, 0.01, 0.05, 0.2):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            process = self.start(*TRAIN, "--epochs", "100000", "--run-dir", "run")
            self.wait_for(lambda: self.has_begun(process), process)
            time.sleep(pause)
            process.send_signal(signal.SIGUSR1)
            code, output = self.end_of(process)
            self.assertEqual(code, 128 + signal.SIGUSR1, output)
            self.assertEqual(output.count("SIGUSR1: stopping after this epoch"), 1)
            self.assertTrue(os.listdir(self.path("run", "checkpoint")))

    def has_begun(self, process):
        """Its program's own code runs: SIGUSR1 is blocked."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            mask = int(re.search(r"SigBlk:\s*(\w+)", file.read())[1], 16)
        return mask >> (signal.SIGUSR1 - 1) & 1

    def test_results_do_not_replace_files_of_the_run(self):
        self.succeed(*TRAIN, "--epochs", "2", "--checkpoint-every", "1", "--run-dir", "run")
        names = ("model.safetensors", "config.toml", "metrics.jsonl", "summary.json",
                 os.path.join("checkpoint", os.listdir(self.path("run", "checkpoint"))[0]))
        before = [read(self.path("run", name)) for name in names]
        for command in (["report", "run", "--out"], ["evaluate", "run", "data", "--out"],
                        ["trace", "merge", "run", "--out"],
                        ["partition", "data", "--parts", "2", "--shape-out"]):
            for name in names:
                result = run([*command, f"run/{name}"], self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertRegex(result.stderr, f"out run/{name}: is a file of the run in run")
        self.assertEqual([read(self.path("run", name)) for name in names], before)
        self.succeed("report", "run", "--out", "run/report.html")

    def test_a_signal_before_any_evaluation(self):
        process = self.start(*TRAIN, "--epochs", "100000", "--eval-every", "0", "--run-dir", "run")
        self.wait_for_epochs(20, process)
        process.send_signal(signal.SIGINT)
        code, output = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGINT, output)
        self.assertIn("epochs, not evaluated yet\n", output)
        self.succeed("predict", "run", "data", "--out", "labels.npy")

    def test_max_time_ends_the_run_well(self):
        forever = [*TRAIN, "--epochs", "1000000", "--eval-every", "100"]
        result = self.succeed(*forever, "--max-time", "0.5s", "--run-dir", "run")
        self.assertIn("stopped by --max-time", result.stdout)
        with open(self.path("run", "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(summary["stopped_by"], "--max-time")
        self.assertEqual(summary["epochs"], self.epochs()[-1])
        self.assertTrue(os.listdir(self.path("run", "checkpoint")))
        self.refuse(*TRAIN, "--max-time", "10", words=["--max-time", "45s"])
        self.refuse(*TRAIN, "--checkpoint-every", "-3", words=["--checkpoint-every", "10m"])

    def test_a_signal_outside_training_leaves_nothing(self):
        before = sorted(os.listdir(self.folder))
        process = self.start("generate", "sbm", "--nodes", "3000000", "--out", "big")
        self.wait_for(lambda: len(os.listdir(self.folder)) > len(before), process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], -signal.SIGTERM)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    # Starting again.

    def test_every_run_has_a_folder(self):
        for k in (1, 2):
            result = self.succeed(*TRAIN, "--epochs", "2")
            self.assertIn(f"runs/data-gcn-{k}", result.stderr)
            self.assertIn(f"results in runs/data-gcn-{k}", result.stdout)
        self.succeed("predict", "runs/data-gcn-1", "data", "--out", "labels.npy")
        self.succeed("train", "--config", "runs/data-gcn-2/config.toml", "--resume")
        self.succeed(*TRAIN, "--epochs", "2", "--run-dir", "none")
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["data-gcn-1", "data-gcn-2"])
        self.refuse(*TRAIN, "--run-dir", "none", "--resume", words=["--run-dir none"])
        self.refuse(*TRAIN, "--resume", words=["--run-dir"])

    def test_a_resumed_run_takes_its_own_options(self):
        self.succeed(*TRAIN, "--lr", "0.02", "--norm", "batch", "--epochs", "3", "--run-dir", "run")
        go_on = ["train", "data", "--resume", "--run-dir", "run"]
        resumed = self.succeed(*go_on, "--epochs", "5")
        self.assertIn("options that were not given are those of the run: --config run/config.toml",
                      resumed.stderr)
        self.assertEqual(self.epochs(), [1, 2, 3, 4, 5])
        self.assertIn("lr = 0.02", read(self.path("run", "config.toml")).decode())
        refused = self.refuse(*go_on, "--lr", "0.5",
                              words=["lr = 0.02, this run has 0.5", "--init RUN/model.safetensors"])
        self.assertNotIn("Error", refused)
        self.succeed(*TRAIN, "--lr", "0.5", "--norm", "batch", "--epochs", "2", "--run-dir", "other",
                     "--init", "run/model.safetensors")
        # Nor are other weights taken; the same are those of the run.
        init = ["--init", "run/model.safetensors"]
        self.refuse(*go_on, "--epochs", "6", *init,
                    words=["--init run/model.safetensors: --resume found", "weights of its own"])
        other = ["train", "data", "--resume", "--run-dir", "other"]
        self.succeed(*other, "--epochs", "3", *init)
        self.refuse(*other, "--epochs", "4", "--init", "other/model.safetensors",
                    words=["--init other/model.safetensors: --resume found", "run/model.safetensors"])
        # The weights that the run began with may be gone.
        os.rename(self.path("run", "model.safetensors"), self.path("away.safetensors"))
        self.succeed(*other, "--epochs", "3")
        self.refuse(*other, "--epochs", "4", "--init", "away.safetensors",
                    words=["--init away.safetensors: --resume found", "run/model.safetensors"])
        os.rename(self.path("away.safetensors"), self.path("run", "model.safetensors"))
        # Without its options a run can't be resumed, unless a file says them.
        os.remove(self.path("other", "config.toml"))
        self.refuse(*other, "--epochs", "4",
                    words=["other/config.toml: missing", "--config other/config.resolved.toml"])
        self.succeed(*other, "--epochs", "4", "--config", "other/config.resolved.toml")
        # The file of --config comes before the run's own options.
        write(self.path("mine.toml"), b"lr = 0.03\n")
        self.refuse(*go_on, "--config", "mine.toml", words=["lr = 0.02, this run has 0.03"])
        # Options of an edited file that no run has.
        with open(self.path("run", "config.toml"), "ab") as file:
            file.write(b"hiden = 3\n")
        self.refuse(*go_on, words=["run/config.toml:", "unknown key 'hiden'"])

    def test_ranks_of_a_run_may_be_started_in_another_way(self):
        train = [*TRAIN, "--epochs", "4"]
        local = ["--transport", "local", "--ranks", "2"]
        self.succeed(*train, *local, "--run-dir", "local")
        self.succeed(*train, "--run-dir", "mpi", ranks=2)
        self.succeed(*train, "--transport", "mpi", "--run-dir", "named", ranks=2)
        for more in (["train", "data", "--run-dir"], ["train", "--config"]):
            for name, words, ranks in (("local", [], 0), ("local", [], 2),
                                       ("local", ["--ranks", "2"], 0), ("mpi", ["--ranks", "2"], 0),
                                       ("named", ["--ranks", "2"], 0)):
                with self.subTest(f"{more} {name} {ranks}"):
                    place = name if more[-1] == "--run-dir" else f"{name}/config.toml"
                    done = len(self.epochs(name)) + 1
                    result = self.succeed(*more, place, "--resume", *words, "--epochs", str(done),
                                          ranks=ranks)
                    self.assertIn("2 ranks (mpi)" if ranks else "2 ranks (local)", result.stderr)

    def test_a_refused_run_leaves_no_folder(self):
        before = sorted(os.listdir(self.folder))
        self.refuse(*TRAIN, "--split-index", "7")
        self.refuse(*TRAIN, "--split-index", "7", "--run-dir", "run")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_run_killed_before_its_first_checkpoint(self):
        process = self.start(*LONG, "--run-dir", "run")
        self.wait_for_epochs(3, process)
        process.kill()
        self.end_of(process)
        self.refuse(*LONG, "--run-dir", "run", words=["--resume", "--overwrite"])
        resumed = self.succeed(*LONG, "--run-dir", "run", "--resume")
        self.assertIn("starts from the beginning", resumed.stderr)
        self.assertIn(f"process {process.pid}", resumed.stderr)  # whose lock is taken over
        self.assert_as_if_never_stopped(LONG)

    def test_a_kill_between_two_checkpoints_leaves_nothing(self):
        train = [*TRAIN, "--epochs", "4", "--checkpoint-every", "2"]
        self.succeed(*train, "--run-dir", "run")
        self.succeed(*TRAIN, "--epochs", "2", "--run-dir", "early")
        shutil.copy(self.path("early", "checkpoint", "epoch-2.safetensors"),
                    self.path("run", "checkpoint"))
        self.succeed(*train, "--run-dir", "run", "--resume")
        self.assertEqual(os.listdir(self.path("run", "checkpoint")), ["epoch-4.safetensors"])

    def test_overwrite_starts_anew_and_keeps_other_files(self):
        self.succeed(*TRAIN, "--epochs", "9", "--checkpoint-every", "2", "--run-dir", "run")
        write(self.path("run", "notes.txt"), "mine")
        write(self.path("run", "checkpoint", "mine.safetensors"), "mine")
        write(self.path("run", "checkpoint", "epoch-3.safetensors"), "mine, too")
        self.succeed(*TRAIN, "--epochs", "4", "--run-dir", "run", "--overwrite")
        self.assertEqual(self.epochs(), [1, 2, 3, 4])
        self.assertEqual(read(self.path("run", "notes.txt")), b"mine")
        self.assertEqual(sorted(os.listdir(self.path("run", "checkpoint"))),
                         ["epoch-3.safetensors", "epoch-4.safetensors", "mine.safetensors"])
        self.assertEqual(read(self.path("run", "checkpoint", "epoch-3.safetensors")), b"mine, too")
        self.refuse(*TRAIN, "--run-dir", "run", "--overwrite", "--resume", words=["--overwrite"])

    # Files of the user.

    def test_a_new_run_wants_an_empty_folder(self):
        write(self.path("home", "thesis.txt"), "mine")
        self.refuse(*TRAIN, "--run-dir", "home", words=["thesis.txt"])
        self.refuse(*TRAIN, "--run-dir", "home", "--resume", words=["thesis.txt"])
        self.refuse(*TRAIN, "--run-dir", "/", words=["--run-dir /"])
        self.refuse(*TRAIN, "--run-dir", "data/run", words=["dataset folder"])
        write(self.path("other", "metrics.jsonl"), "mine")
        self.refuse(*TRAIN, "--run-dir", "other", "--overwrite", words=["metrics.jsonl"])
        self.assertEqual(os.listdir(self.path("home")), ["thesis.txt"])
        self.assertEqual(read(self.path("other", "metrics.jsonl")), b"mine")

    def test_a_configuration_written_by_hand_is_kept(self):
        mine = b"# my notes\ndataset = 'data'\nlayers = 2\nhidden = 8\nepochs = 3\n"
        write(self.path("run", "config.toml"), mine)
        self.succeed("train", "--config", "run/config.toml", "--run-dir", "run")
        self.assertEqual(read(self.path("run", "config.original.toml")), mine)
        with open(self.path("run", "config.toml"), "ab") as file:
            file.write(b"# edited\n")
        edited = read(self.path("run", "config.toml"))
        self.succeed("train", "--config", "run/config.toml", "--resume", "--epochs", "5")
        self.assertEqual(read(self.path("run", "config.original-2.toml")), edited)
        self.succeed("train", "--config", "run/config.toml", "--resume", "--epochs", "6")
        self.assertFalse(os.path.exists(self.path("run", "config.original-3.toml")))

    def test_the_configuration_is_short_and_the_resolved_one_complete(self):
        self.succeed(*TRAIN, "--epochs", "2", "--lr", "3e-3", "--run-dir", "run")
        given = read(self.path("run", "config.toml")).decode()
        self.assertEqual(sorted(line.split(" = ")[0] for line in given.splitlines() if line[0] != "#"),
                         sorted({word[2:] for word in TRAIN if word.startswith("--")} |
                                {"dataset", "epochs", "lr", "run-dir"}))
        whole = read(self.path("run", "config.resolved.toml")).decode()
        self.assertIn("optimizer = 'adam'\n", whole)
        for line in given.splitlines():
            self.assertTrue(line.startswith("#") or line in whole.splitlines(), line)
        # Both are the same run, from every folder.
        os.mkdir(self.path("elsewhere"))
        for number, name in enumerate(("config.toml", "config.resolved.toml")):
            result = run(["train", "--config", f"../run/{name}", "--run-dir", f"again{number}"],
                         self.path("elsewhere"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(read(self.path("elsewhere", f"again{number}", "model.safetensors")),
                             read(self.path("run", "model.safetensors")))

    def test_a_run_folder_that_was_moved(self):
        self.succeed(*TRAIN, "--epochs", "2", "--run-dir", "run")
        os.rename(self.path("run"), self.path("moved"))
        go_on = ["train", "--config", "moved/config.toml", "--resume", "--epochs", "3"]
        self.refuse(*go_on, words=["where no run is", "--run-dir", "moved"])
        self.assertFalse(os.path.exists(self.path("run")))
        self.assertIn("resuming after epoch 2", self.succeed(*go_on, "--run-dir", "moved").stderr)

    def test_no_output_inside_a_dataset(self):
        self.succeed(*TRAIN, "--epochs", "2", "--run-dir", "run")
        labels = read(self.path("data", "labels.npy"))
        self.refuse("predict", "run", "data", "--out", "data/labels.npy", words=["dataset folder"])
        self.assertEqual(read(self.path("data", "labels.npy")), labels)
        write(self.path("edges.txt"), b"0 1\n1 2\n")
        write(self.path("years.txt"), b"1\n2\n2\n")
        write(self.path("jobs.toml"), b'[[group]]\nname = "a"\ndataset = "data"\nseeds = 1\n'
                                      b'modes = { exact = {} }\n')
        rank = {"host": "one", "kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 1},
                "gemm_gflop_per_s": {"16": 1}, "elementwise_gb_per_s": 1, "quantize_gb_per_s": 1}
        write(self.path("machine.json"), json.dumps(
            {"format": 1, "ranks": [rank], "links": {},
             "hosts": [{"name": "one", "send_mbit_per_s": 1, "receive_mbit_per_s": 1}]}).encode())
        os.makedirs(self.path("data", "parts"), exist_ok=True)
        before = sorted(os.walk(self.path("data")))
        edges = ["import", "edges", "edges.txt"]
        for words, out in (
                (edges, "new"), (edges, "new/deep"),
                ([*edges, "--snapshots", "years.txt"], "new"),
                (["generate", "sbm", "--nodes", "100"], "new"),
                (["split", "data", "--links"], "new"),
                (["export", "run"], "new"),
                (["jobs", "run", "jobs.toml"], "new"),
                (["schedule", "jobs.toml", "--topology", "machine.json"], "new"),
                (["plan", "data", "--topology", "machine.json"], "plan.json"),
                (["plan", "train-policy"], "policy.safetensors"),
                (["report", "run"], "report.html")):
            with self.subTest(words):
                self.refuse(*words, "--out", f"data/parts/{out}",
                            words=[f"--out data/parts/{out}: lies inside the dataset folder "])
        # Also where that is the working folder.
        result = run(["generate", "sbm", "--nodes", "100", "--out", "new"],
                     self.path("data", "parts"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("--out new: lies inside the dataset folder ", result.stderr)
        self.assertEqual(sorted(os.walk(self.path("data"))), before)

    # Several processes and one folder.

    def test_one_process_at_a_time(self):
        process = self.start(*LONG, "--checkpoint-every", "20", "--run-dir", "run")
        self.wait_for_epochs(25, process)
        process.send_signal(signal.SIGSTOP)
        for flag in ("--resume", "--overwrite"):
            self.refuse(*LONG, "--run-dir", "run", flag,
                        words=[f"process {process.pid}", "--take-over"])
        taken = self.succeed(*LONG, "--run-dir", "run", "--resume", "--take-over")
        self.assertIn("taken over", taken.stderr)
        self.assertRegex(taken.stderr, r"resuming after epoch \d+\n")
        before = {name: read(self.path("run", name))
                  for name in ("model.safetensors", "metrics.jsonl", "summary.json", "config.toml",
                               "checkpoint/epoch-3000.safetensors")}
        process.send_signal(signal.SIGCONT)
        code, output = self.end_of(process)
        self.assertEqual(code, 2, output)
        self.assertIn("taken the run folder over", output)
        self.assertEqual(os.listdir(self.path("run", "checkpoint")), ["epoch-3000.safetensors"])
        for name, content in before.items():
            self.assertEqual(read(self.path("run", name)), content, name)
        self.assert_as_if_never_stopped(LONG)

    def test_a_removed_folder_is_noticed(self):
        process = self.start(*LONG, "--run-dir", "run")
        self.wait_for_epochs(5, process)
        shutil.rmtree(self.path("run"), ignore_errors=True)
        shutil.rmtree(self.path("run"), ignore_errors=True)
        code, output = self.end_of(process)
        self.assertEqual(code, 2, output)
        self.assertIn("removed", output)
        self.assertFalse(os.path.exists(self.path("run")))

    # Damage.

    def test_a_damaged_checkpoint_is_refused(self):
        train = [*TRAIN, "--epochs", "4", "--checkpoint-every", "2", "--run-dir", "run"]
        self.succeed(*train)
        name = self.path("run", "checkpoint", "epoch-4.safetensors")
        good = read(name)
        resume = [*train, "--resume"]
        for position in (9, good.index(b'"epoch') + 10, good.index(b"best_epoch") + 14,
                         len(good) // 2, len(good) - 1):
            damaged = bytearray(good)
            damaged[position] ^= 1
            write(name, bytes(damaged))
            self.refuse(*resume, words=["epoch-4.safetensors"])
        write(name, good[:-1])
        self.refuse(*resume, words=["epoch-4.safetensors"])
        os.rename(name, self.path("run", "checkpoint", "epoch-5.safetensors"))
        self.refuse(*resume, words=["epoch-5.safetensors"])

    def test_a_damaged_line_of_metrics_is_named(self):
        train = [*TRAIN, "--epochs", "4", "--checkpoint-every", "2", "--run-dir", "run"]
        self.succeed(*train)
        lines = read(self.path("run", "metrics.jsonl")).split(b"\n")
        for bad in (b"{", b"[]", b'{"epoch": "2"}', b'{"epoch": 1}', b"\0\0\0",
                    b'{"epoch": 2, "loss": "low"}', b'{"epoch": 2, "loss": 1e999}',
                    b'{"epoch": 2, "bytes_sent": 1e300}', b'{"epoch": 2, "assignment": 3}',
                    b'{"epoch": 2, "assignment": {"mean_bits": 4}}',
                    b'{"epoch": 2, "assignment": {"mean_bits": 4, "channels": [{"layer": 0, '
                    b'"bits": {"x": 1}}]}}', b'{"epoch": 2, "loss": ' + b"[" * 200000):
            write(self.path("run", "metrics.jsonl"), b"\n".join([lines[0], bad, *lines[2:]]))
            self.refuse(*train, "--resume", words=["metrics.jsonl:2"])
        # A number that is not known is no damage.
        unknown = b'{"epoch": 2, "loss": null, "epoch_ms": null, "bytes_sent": null}'
        write(self.path("run", "metrics.jsonl"), b"\n".join([lines[0], unknown, *lines[2:]]))
        self.succeed(*train, "--resume")
        # A kill cuts the last line off.
        write(self.path("run", "metrics.jsonl"), b"\n".join([*lines[:4], b'{"epo']))
        self.succeed(*train, "--resume")
        self.assertEqual(self.epochs(), [1, 2, 3, 4])

    def test_a_damaged_model_is_refused(self):
        self.succeed(*TRAIN, "--epochs", "2", "--run-dir", "run")
        name = self.path("run", "model.safetensors")
        good = read(name)
        for position in (good.index(b"checksum"), good.index(b"checksum") + 12, len(good) - 2):
            damaged = bytearray(good)
            damaged[position] ^= 1
            write(name, bytes(damaged))
            self.refuse("predict", "run", "data", "--out", "labels.npy",
                        words=["model.safetensors"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
