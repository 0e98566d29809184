#!/usr/bin/env python3
"""`atoll schedule --run` on hosts that are this machine under two names: jobs that move, are added,
cancelled or fail, a host that is lost and back, and schedulers that are killed and started again."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (ATOLL, MPIEXEC, TIMEOUT, OneFolderTest, environment, needs_open_mpi, run,
                         write)

HOSTS = ["one", "two"]
OPTIONS = {"layers": "2", "hidden": "32", "norm": "batch", "dropout": "0.4", "threads": "1",
           "eval-every": "5", "checkpoint-every": "1h", "snapshot-dir": "memory"}
# Starts commands on a host by its name, unless the host is lost.
# Each host has a folder of its own for Open MPI's daemons: of two that begin in the same one at the
# same time, one now and then dies without a word (5 of 60 starts), and mpirun waits for it.
AGENT = """#!/bin/sh
host=$1
shift
[ ! -e "{folder}/lost-$host" ] || {{ echo "no route to $host" >&2; exit 255; }}
[ ! -e "{folder}/slow-to-answer" ] || sleep 3
mkdir -p "{folder}/tmp-$host"
TMPDIR="{folder}/tmp-$host" FAKE_HOST="{folder}/$host" exec sh -c "$*"
"""
# Between losses of runs on different numbers of ranks, relative; at a rate at which rounding doesn't
# grow beyond it.
LOSS_BOUND = 1e-4
SLOW = {"lr": 0.001}


def cluster():
    """So slow that every rank is worth its messages, and a start costs little beside an epoch."""
    rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 0.002},
            "gemm_gflop_per_s": {"16": 0.02}, "elementwise_gb_per_s": 0.005,
            "quantize_gb_per_s": 0.02}
    return {"format": 1,
            "hosts": [{"name": host, "send_mbit_per_s": 10000, "receive_mbit_per_s": 10000}
                      for host in HOSTS],
            "ranks": [{"host": host, **rank} for host in HOSTS],
            "links": {"between_hosts": {"latency_us": 10, "gbit_per_s": 10}}}


def job_list(*groups):
    """A list in TOML. groups: of each its name, epochs, and keys or options that are its own."""
    text = "[options]\n" + "".join(f'{name} = "{value}"\n' for name, value in OPTIONS.items())
    for name, epochs, keys, options in groups:
        text += f'[[group]]\nname = "{name}"\ndataset = "data"\nseeds = [1]\n'
        text += "".join(f"{key} = {value}\n" for key, value in keys.items())
        text += f"[group.options]\nepochs = {epochs}\n"
        text += "".join(f"{key} = {value}\n" for key, value in options.items())
        text += "[group.modes]\nexact = {}\n"
    return text


@needs_open_mpi
class ScheduleRunTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = cls.place.name
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/schedule.md"),
                  encoding="utf-8") as file:
            cls.page = file.read().split("## Running it for real")[1]
        cls.succeed("generate", "sbm", "--nodes", "20000", "--features", "16", "--out", "data")
        for name in ("memory", *(f"tmp-{host}" for host in HOSTS)):
            os.mkdir(cls.path(name))
        write(cls.path("cluster.json"), json.dumps(cluster()))
        write(cls.path("agent"), AGENT.format(folder=cls.folder))
        os.chmod(cls.path("agent"), 0o755)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def as_shown(self, command, **others):
        """The words of a command of the page, with others in the place of some."""
        line = re.search(rf"(?m)^    atoll (schedule {command} .*)$", self.page)[1]
        return [others.get(word, word) for word in shlex.split(line)]

    def words(self, out, *more, policy="fifo"):
        loopback = "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo"
        shown = self.as_shown("jobs.toml", **{"jobs.toml": f"{out}.toml", "runs/week": out,
                                              "marginal": policy})
        return [*shown, "--start-seconds", "0.1", "--rsh", self.path("agent"), "--mpirun",
                f"{MPIEXEC} --bind-to none {loopback}", "--address", "127.0.0.1", *more]

    def start(self, out, *more, policy="fifo"):
        with open(self.path(f"{out}.log"), "ab") as log:
            job = subprocess.Popen([os.path.abspath(ATOLL), *self.words(out, *more, policy=policy)],
                                   cwd=self.folder, env=environment(), stdout=log, stderr=log)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        if job.poll() is None:
            job.kill()
            job.wait()

    def log(self, out):
        with open(self.path(f"{out}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def finish(self, job, out, code=0):
        try:
            job.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.fail(f"it has not ended after {TIMEOUT} s:\n{self.log(out)}")
        self.assertEqual(job.returncode, code, self.log(out))

    def lines(self, *names):
        try:
            with open(self.path(*names), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def journal(self, out, *events):
        lines = self.lines(out, ".schedule", "journal.jsonl")
        return [line for line in lines if not events or line["event"] in events]

    def run_dir(self, out, group):
        return os.path.join(out, group, "exact", "seed-1")

    def epochs(self, out, group):
        return [line["epoch"] for line in self.lines(self.run_dir(out, group), "metrics.jsonl")]

    def status(self, out):
        status = json.loads(self.succeed("schedule", "status", out, "--json"))
        return status, {job["folder"].split("/")[0]: job for job in status["jobs"]}

    def wait_until(self, happened, job, out):
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            self.assertIsNone(job.poll(), self.log(out))
            self.assertLess(time.monotonic(), deadline, self.log(out))
            time.sleep(0.02)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def undisturbed(self, name, epochs, *more):
        """The folder of a run of the same options on one rank."""
        folder = f"undisturbed-{name}"
        if not os.path.exists(self.path(folder)):
            options = [word for key, value in OPTIONS.items() for word in (f"--{key}", value)]
            result = run(["train", "data", *options, "--epochs", str(epochs), "--seed", "1",
                          "--run-dir", folder, *more], self.folder, ranks=1)
            self.assertEqual(result.returncode, 0, result.stderr)
        return folder

    def assert_same_model(self, out, group, epochs, *more):
        wanted = self.undisturbed(f"{epochs}{''.join(more)}", epochs, *more)
        self.assertEqual(self.epochs(out, group), list(range(1, epochs + 1)))
        self.assertEqual(self.read(self.run_dir(out, group), "model.safetensors"),
                         self.read(wanted, "model.safetensors"), group)

    def assert_same_losses(self, out, group, epochs, *more, bound=LOSS_BOUND):
        wanted = self.lines(self.undisturbed(f"{epochs}{''.join(more)}", epochs, *more),
                            "metrics.jsonl")
        found = self.lines(self.run_dir(out, group), "metrics.jsonl")
        self.assertEqual([line["epoch"] for line in found], list(range(1, epochs + 1)))
        for a, b in zip(found, wanted):
            self.assertLessEqual(abs(a["loss"] - b["loss"]), bound * b["loss"], a["epoch"])

    def assert_done_schedule(self, out):
        """schedule.json against rules of its own: slots, arrivals, epochs."""
        file = json.loads(self.read(out, "schedule.json"))
        slots = {host["name"]: host["slots"] for host in file["hosts"]}
        epochs, ends = [0] * len(file["jobs"]), [0.0] * len(file["jobs"])
        for segment in file["done"]["segments"]:
            job = segment["job"]
            self.assertGreaterEqual(segment["from_s"], file["jobs"][job]["arrival_s"])
            self.assertGreaterEqual(segment["from_s"], ends[job])
            self.assertEqual(segment["first_epoch"], epochs[job])
            epochs[job], ends[job] = segment["last_epoch"], segment["to_s"]
            for host in segment["hosts"]:
                ranks = sum(other["ranks_per_host"] for other in file["done"]["segments"]
                            if host in other["hosts"]
                            and other["from_s"] <= segment["from_s"] < other["to_s"])
                self.assertLessEqual(ranks, slots[host])
        for job, end, completion in zip(file["jobs"], ends, file["done"]["completion_s"]):
            if completion is not None:
                self.assertAlmostEqual(completion, max(0, end - job["arrival_s"]), delta=0.1)
        return file

    def test_a_list_is_run(self):
        one = {"most-ranks": 1}
        write(self.path("plain.toml"), job_list(
            ("a", 60, one, {}), ("b", 60, {**one, "arrival": 0.5}, {}),
            ("c", 60, {**one, "arrival": 0.5}, {"target": 0.01, "eval-every": 7})))
        self.finish(self.start("plain"), "plain")
        self.assertIn("one and two are one machine, which gets the ranks of each of these names",
                      self.log("plain"))
        for group in "ab":
            self.assert_same_model("plain", group, 60)
        # It ends before its bound.
        self.assertEqual(self.epochs("plain", "c"), list(range(1, 8)))
        file = self.assert_done_schedule("plain")
        self.assertEqual([segment["job"] for segment in file["done"]["segments"]], [0, 1, 2])
        self.assertEqual(len(file["planned"]["completion_s"]), 3)
        self.assertIsNotNone(file["done"]["mean_completion_s"])
        status, jobs = self.status("plain")
        self.assertEqual((status["at_work"], status["requests"]), (False, 0))
        self.assertEqual({name: (line["state"], line["epoch"]) for name, line in jobs.items()},
                         {"a": ("done", 60), "b": ("done", 60), "c": ("done", 7)})
        # Nothing is left to do.
        self.finish(self.start("plain"), "plain")
        self.assertEqual(len(self.journal("plain", "started")), 3)
        text = self.succeed(*self.as_shown("status", **{"runs/week": "plain"}))
        self.assertRegex(text, r"(?m)^  a, exact, seed 1  done +- +- +60 +60 ")
        self.assertIn("nobody runs it", text)
        self.succeed("jobs", "table", "plain.toml", "--out", "plain")

    def test_a_job_gives_way_and_grows_again(self):
        write(self.path("elastic.toml"),
              job_list(("long", 250, {}, SLOW), ("short", 20, {"arrival": 2, "most-ranks": 1}, {})))
        job = self.start("elastic", policy="marginal")
        self.finish(job, "elastic")
        file = self.assert_done_schedule("elastic")
        ranks = [len(segment["hosts"]) for segment in file["done"]["segments"]
                 if segment["job"] == 0]
        self.assertGreaterEqual(len(ranks), 2, self.log("elastic"))
        self.assertEqual(ranks[:2], [2, 1])
        self.assert_same_losses("elastic", "long", 250, "--lr", "0.001")
        self.assert_same_model("elastic", "short", 20)

    def test_jobs_are_added_and_cancelled(self):
        """The long one ends in time only if it is cancelled."""
        one = {"most-ranks": 1}
        write(self.path("open.toml"), job_list(("long", 1000000, one, {})))
        write(self.path("more.toml"), job_list(("extra", 20, one, {})))
        write(self.path("bad.toml"), job_list(("bad", 20, one, {"hiden": 3})))
        job = self.start("open")
        self.wait_until(lambda: len(self.epochs("open", "long")) > 20, job, "open")
        status, jobs = self.status("open")
        self.assertTrue(status["at_work"])
        self.assertEqual((jobs["long"]["state"], jobs["long"]["hosts"], jobs["long"]["ranks"]),
                         ("running", ["one"], 1))
        self.assertGreater(jobs["long"]["epoch"], 20)
        self.assertGreater(jobs["long"]["ends_s"], status["now_s"])
        more = self.as_shown("add", **{"runs/week": "open"})
        self.assertIn("extra, exact, seed 1: added", self.succeed(*more))
        self.assertIn("is in open already", self.refuse(*more))
        self.assertIn("hiden", self.refuse("schedule", "add", "open", "bad.toml"))
        self.assertIn("is at work there", self.refuse(*self.words("open")))
        message = self.refuse("schedule", "cancel", "open", "long, exact, seed 2")
        self.assertIn("did you mean 'long, exact, seed 1'", message)
        for name in ("elsewhere/long/exact/seed-1", "open/open/long/exact/seed-1"):
            self.assertIn("neither the title nor the folder",
                          self.refuse("schedule", "cancel", "open", name))
        said = self.succeed(*self.as_shown("cancel", **{
            "runs/week": "open", "large/exact/seed-2": "long/exact/seed-1"}))
        self.assertIn("ends after its epoch", said)
        self.finish(job, "open")
        _, jobs = self.status("open")
        self.assertEqual((jobs["long"]["state"], jobs["extra"]["state"]), ("cancelled", "done"))
        before = len(self.epochs("open", "long"))
        self.assertEqual(jobs["long"]["epoch"], before)
        self.assert_same_model("open", "extra", 20)
        message = self.refuse("schedule", "cancel", "open", "long, exact, seed 1")
        self.assertIn("has ended already", message)
        # Added again, it goes on where it was.
        self.assertIn("nobody runs", self.succeed("schedule", "add", "open", "open.toml"))
        self.assertEqual(self.status("open")[0]["requests"], 1)
        job = self.start("open")
        self.wait_until(lambda: len(self.epochs("open", "long")) > before + 5, job, "open")
        # A folder as a shell completes it.
        self.succeed("schedule", "cancel", "./open", "open/long/exact/seed-1/")
        self.finish(job, "open")
        self.assertEqual(self.status("open")[1]["long"]["state"], "cancelled")
        epochs = len(self.epochs("open", "long"))
        self.assert_same_losses("open", "long", epochs, bound=0)
        self.assert_done_schedule("open")
        self.assertIn("no schedule was run there", self.refuse("schedule", "status", "data"))

    def test_a_job_that_fails_is_no_reason_to_stop(self):
        one = {"most-ranks": 1}
        write(self.path("fails.toml"),
              job_list(("wild", 20, one, {"lr": 1e30}), ("good", 20, one, {})))
        for attempt in (1, 2):  # a schedule that has come to its end tries it again
            self.finish(self.start("fails"), "fails", code=1)
            _, jobs = self.status("fails")
            self.assertEqual((jobs["wild"]["state"], jobs["good"]["state"]), ("failed", "done"))
            self.assertIn("diverged", jobs["wild"]["reason"])
            starts = [line["job"] for line in self.journal("fails", "started")]
            self.assertEqual(sorted(starts), [0] * attempt + [1])
        self.assertIn("diverged", self.succeed("schedule", "status", "fails"))
        self.assert_same_model("fails", "good", 20)

    def test_what_lies_in_the_folder_does_no_harm(self):
        """A plan of another list, a file where a job's folder should be, a job that `atoll jobs` has
        done before it was to arrive."""
        one = {"most-ranks": 1}
        write(self.path("other.toml"),
              job_list(("x", 20, one, {}), ("y", 20, one, {}), ("z", 20, one, {}), ("v", 20, one, {})))
        self.succeed("schedule", "other.toml", "--topology", "cluster.json", "--out", "lies")
        write(self.path("lies", "blocked"), "a file")
        groups = [("early", 20, {**one, "arrival": 1000}, {}), ("blocked", 20, one, {}), ("b", 20, one, {})]
        write(self.path("lies.toml"), job_list(*groups))
        self.succeed("jobs", "run", "lies.toml", "--out", "lies", "--group", "early")
        self.finish(self.start("lies", policy="fifo"), "lies", code=1)
        _, jobs = self.status("lies")
        self.assertEqual({name: job["state"] for name, job in jobs.items()},
                         {"early": "done", "blocked": "failed", "b": "done"})
        self.assertIn("lies/blocked/exact/seed-1: can't be made", jobs["blocked"]["reason"])
        file = self.assert_done_schedule("lies")
        self.assertEqual((file["policy"], file["list"]), ("fifo", "lies.toml"))
        self.assertEqual(file["done"]["completion_s"][:2], [0, None])
        self.succeed("report", "lies", "--out", "lies.html")
        # A plan would take the place of what was done.
        words = ["schedule", "lies.toml", "--topology", "cluster.json", "--out", "lies"]
        self.assertIn("--out lies: a schedule was run there", self.refuse(*words))
        self.succeed(*words, "--policy", "all")
        # Without a schedule.json, or with a damaged one, it is made from the journal. Jobs keep
        # their numbers, whatever their order in the list.
        os.remove(self.path("lies", "blocked"))
        write(self.path("lies", "schedule.json"), "{")
        write(self.path("lies.toml"), job_list(*reversed(groups)))
        self.finish(self.start("lies", policy="fifo"), "lies")
        again = self.assert_done_schedule("lies")
        self.assertEqual([job["name"] for job in again["jobs"]], [job["name"] for job in file["jobs"]])
        self.assertEqual(sorted(segment["job"] for segment in again["planned"]["segments"]), [0, 1, 2])
        self.assertEqual(again["planned"]["completion_s"][0] + 1000,
                         max(segment["to_s"] for segment in again["planned"]["segments"]))
        self.assert_same_model("lies", "blocked", 20)

    def test_needs_may_change_and_what_fits_nowhere_is_refused(self):
        one = {"most-ranks": 1}
        slow = ("slow", 1000000, one, {})
        write(self.path("needs.toml"), job_list(slow, ("late", 20, {**one, "arrival": 1000}, {})))
        write(self.path("huge.toml"), job_list(("huge", 20, one, {"hidden": 60000})))
        job = self.start("needs")
        self.wait_until(lambda: self.epochs("needs", "slow"), job, "needs")
        self.assertIn("can't train it on these 2 hosts", self.refuse("schedule", "add", "needs", "huge.toml"))
        job.send_signal(signal.SIGTERM)
        self.finish(job, "needs", code=128 + signal.SIGTERM)
        # The same list has no news; with an earlier arrival, the job comes then.
        write(self.path("needs.toml"),
              job_list(slow, ("late", 20, {"most-ranks": 2, "arrival": 0.1, "priority": 3}, {})))
        job = self.start("needs")
        self.wait_until(lambda: self.status("needs")[1]["late"]["state"] == "done", job, "needs")
        news = self.journal("needs", "needs")
        self.assertEqual([{key: line.get(key) for key in ("job", "arrival_s", "most_ranks", "priority")}
                          for line in news],
                         [{"job": 1, "arrival_s": 0.1, "most_ranks": 2, "priority": 3}])
        self.succeed("schedule", "cancel", "needs", "slow/exact/seed-1", "slow/exact/seed-1")
        self.finish(job, "needs")
        self.assertNotIn("huge", self.status("needs")[1])

    def test_needs_of_what_is_refused_stay(self):
        one = {"most-ranks": 1}
        write(self.path("stay.toml"),
              job_list(("slow", 1000000, one, {}), ("gone", 20, {**one, "arrival": 1000}, {})))
        write(self.path("both.toml"),
              job_list(("gone", 20, {**one, "priority": 9}, {}), ("huge", 20, one, {"hidden": 60000})))
        job = self.start("stay")
        self.wait_until(lambda: self.epochs("stay", "slow"), job, "stay")
        self.succeed("schedule", "cancel", "stay", "gone/exact/seed-1")
        self.assertIn("can't train it on these 2 hosts", self.refuse("schedule", "add", "stay", "both.toml"))
        self.assertEqual(self.journal("stay", "needs"), [])
        self.assertEqual(self.status("stay")[1]["gone"]["state"], "cancelled")
        self.succeed("schedule", "cancel", "stay", "slow/exact/seed-1")
        self.finish(job, "stay")

    def test_a_dataset_that_is_gone_is_named(self):
        one = {"most-ranks": 1}
        write(self.path("gone.toml"),
              job_list(("a", 20, one, {}), ("b", 20, {**one, "arrival": 1.5}, {})).replace(
                  '"b"\ndataset = "data"', '"b"\ndataset = "shortly"'))
        os.symlink("data", self.path("shortly"))
        job = self.start("gone")
        self.wait_until(lambda: self.journal("gone", "started"), job, "gone")
        os.remove(self.path("shortly"))
        self.finish(job, "gone", code=1)
        self.assertIn("shortly: no such folder", self.status("gone")[1]["b"]["reason"])
        os.symlink("data", self.path("shortly"))
        self.finish(self.start("gone"), "gone")
        self.assert_same_model("gone", "b", 20)

    def test_going_on_needs_no_dataset_of_a_job_that_is_done(self):
        one = {"most-ranks": 1}
        groups = [("a", 20, one, {}), ("never", 20, {**one, "arrival": 1000}, {})]
        write(self.path("kept.toml"), job_list(*groups).replace('"data"', '"for-a-while"'))
        write(self.path("later.toml"), job_list(("b", 20, one, {})))
        os.symlink("data", self.path("for-a-while"))
        job = self.start("kept")
        self.wait_until(lambda: self.journal("kept", "ended"), job, "kept")
        self.succeed("schedule", "cancel", "kept", "never/exact/seed-1")
        self.finish(job, "kept")
        planned = json.loads(self.read("kept", "schedule.json"))["planned"]
        os.remove(self.path("for-a-while"))
        self.finish(self.start("kept"), "kept")
        self.succeed("schedule", "add", "kept", "later.toml")
        self.finish(self.start("kept"), "kept")
        _, jobs = self.status("kept")
        self.assertEqual({name: job["state"] for name, job in jobs.items()},
                         {"a": "done", "never": "cancelled", "b": "done"})
        self.assert_same_model("kept", "b", 20)
        file = self.assert_done_schedule("kept")
        self.assertEqual([job["name"] for job in file["jobs"]],
                         [f"{group}, exact, seed 1" for group in ("a", "never", "b")])
        self.assertEqual(file["planned"]["segments"], planned["segments"])

    def test_a_start_that_is_called_off_loses_no_host(self):
        write(self.path("off.toml"), job_list(("a", 20, {"most-ranks": 1}, {})))
        write(self.path("slow-to-answer"), "")
        job = self.start("off")
        self.wait_until(lambda: self.journal("off", "started"), job, "off")
        time.sleep(0.5)
        job.send_signal(signal.SIGTERM)
        self.finish(job, "off", code=128 + signal.SIGTERM)
        os.remove(self.path("slow-to-answer"))
        self.assertEqual(self.journal("off", "lost"), [])
        self.assertEqual([line["how"] for line in self.journal("off", "ended")], ["moved"])
        self.finish(self.start("off"), "off")

    def test_what_is_wrong_is_said_before_anything_starts(self):
        write(self.path("wrong.toml"), job_list(("a", 20, {}, {"hiden": 3})))
        message = self.refuse(*self.words("wrong"))
        self.assertIn("hiden", message)
        write(self.path("right.toml"), job_list(("a", 20, {}, {})))
        self.assertIn("found 1 names; allowed are 2", self.refuse(*self.words("right", "--hosts", "x")))
        self.assertIn("has x twice", self.refuse(*self.words("right", "--hosts", "x,x")))
        self.assertIn("are this machine", self.refuse(*self.words(
            "right", "--hosts", f"localhost,{socket.gethostname()}")))
        self.assertIn("--policy all", self.refuse(*self.words("right", policy="all")))
        self.assertIn("--rsh requires --run", self.refuse(
            "schedule", "right.toml", "--topology", "cluster.json", "--rsh", "ssh"))

    def test_a_signal_ends_all_jobs_in_good_order(self):
        write(self.path("asked.toml"), job_list(("a", 250, {"most-ranks": 1}, {})))
        job = self.start("asked")
        self.wait_until(lambda: len(self.epochs("asked", "a")) > 10, job, "asked")
        job.send_signal(signal.SIGTERM)
        self.finish(job, "asked", code=128 + signal.SIGTERM)
        done = self.epochs("asked", "a")
        self.assertLess(len(done), 250)
        self.assertEqual(os.listdir(self.path(self.run_dir("asked", "a"), "checkpoint")),
                         [f"epoch-{len(done)}.safetensors"])
        self.assertEqual(self.status("asked")[1]["a"]["state"], "waiting")
        write(self.path("asked.toml"), job_list(("a", 401, {"most-ranks": 1}, {})))
        self.assertIn("--epochs 401", self.refuse(*self.words("asked")))
        write(self.path("asked.toml"), job_list(("a", 250, {"most-ranks": 1}, {})))
        self.finish(self.start("asked"), "asked")
        self.assert_same_model("asked", "a", 250)

    def test_a_second_signal_ends_all_at_once(self):
        """In the middle of an epoch, as the rank is stopped: also where the second signal comes
        before the scheduler has looked at the first one."""
        write(self.path("twice.toml"), job_list(("a", 1000000, {"most-ranks": 1}, {})))
        for heard in ("again to stop now", "ends after its epoch"):
            before = len(self.epochs("twice", "a"))
            job = self.start("twice")
            self.wait_until(lambda n=before: len(self.epochs("twice", "a")) > n, job, "twice")
            ranks = [rank for rank in self.processes_of("one")
                     if os.path.join("twice", "a").encode() in self.bytes_of(rank, "cmdline")]
            self.assertEqual(len(ranks), 1)
            os.kill(ranks[0], signal.SIGSTOP)
            lines = self.log("twice").count(heard)
            job.send_signal(signal.SIGINT)
            self.wait_until(lambda h=heard, n=lines: self.log("twice").count(h) > n, job, "twice")
            job.send_signal(signal.SIGINT)
            self.finish(job, "twice", code=-signal.SIGINT)
            deadline = time.monotonic() + TIMEOUT
            while self.processes_of("one"):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            # A launch that waits for the end of the epoch sees a rank that gives no sign of life.
            events = self.lines("twice", ".schedule", "job-0.jsonl")
            self.assertEqual([line for line in events if line["event"] == "failed"], [])

    def test_schedulers_that_are_killed_lose_nothing(self):
        one = {"most-ranks": 1}
        write(self.path("killed.toml"),
              job_list(("a", 250, one, {}), ("b", 250, one, {}), ("c", 20, {**one, "arrival": 3}, {})))
        clock = 0
        for epochs in (5, 60, 120):
            job = self.start("killed")
            self.wait_until(lambda epochs=epochs: len(self.epochs("killed", "a")) >= epochs, job,
                            "killed")
            job.kill()
            job.wait()
            times = [line["at_s"] for line in self.journal("killed")]
            self.assertEqual(times, sorted(times))
            clock = times[-1]
            # As if it had been killed in the middle of a line.
            with open(self.path("killed", ".schedule", "journal.jsonl"), "a", encoding="utf-8") as file:
                file.write('{"clock_ms": 17')
        self.finish(self.start("killed"), "killed")
        self.assertGreater(self.journal("killed")[-1]["at_s"], clock)
        for group, epochs in (("a", 250), ("b", 250), ("c", 20)):
            self.assert_same_model("killed", group, epochs)
        file = json.loads(self.read("killed", "schedule.json"))
        self.assertGreaterEqual(min(segment["from_s"] for segment in file["done"]["segments"]
                                    if segment["job"] == 2), 3)

    def test_a_host_is_lost_and_back(self):
        write(self.path("lost.toml"), job_list(("a", 1200, {}, SLOW)))
        job = self.start("lost", policy="marginal")
        self.wait_until(lambda: len(self.epochs("lost", "a")) > 20, job, "lost")
        write(self.path("lost-two"), "")
        self.kill_host("two")
        self.wait_until(lambda: self.journal("lost", "lost"), job, "lost")
        self.assertEqual(self.status("lost")[0]["lost_hosts"], ["two"])
        self.assertIn("host two can't be reached: agent has ended with exit code 255: no route to two",
                      self.log("lost"))
        before = len(self.epochs("lost", "a"))
        self.wait_until(lambda: len(self.epochs("lost", "a")) > before + 20, job, "lost")
        os.remove(self.path("lost-two"))
        self.wait_until(lambda: self.journal("lost", "back"), job, "lost")
        self.finish(job, "lost")
        hosts = [line["hosts"] for line in self.journal("lost", "started")]
        self.assertEqual(hosts[0], [0, 1])
        self.assertEqual(hosts[1], [0])
        self.assertEqual(hosts[-1], [0, 1], self.log("lost"))
        self.assert_same_losses("lost", "a", 1200, "--lr", "0.001")

    def lose(self, *hosts):
        for host in hosts:
            write(self.path(f"lost-{host}"), "")
            self.addCleanup(lambda name=host: os.path.exists(self.path(f"lost-{name}"))
                            and os.remove(self.path(f"lost-{name}")))

    def test_hosts_that_cannot_be_reached_are_refused(self):
        write(self.path("nowhere.toml"), job_list(("a", 20, {}, {})))
        self.lose(*HOSTS)
        job = self.start("nowhere")
        self.finish(job, "nowhere", code=2)
        said = self.log("nowhere")
        for host in HOSTS:
            self.assertIn(f"; {host}: agent has ended with exit code 255: no route to {host}", said)
        self.assertIn("--hosts one,two: none can be reached", said)
        self.assertEqual(self.journal("nowhere", "started", "lost"), [])
        # With one host, the same command goes on.
        os.remove(self.path("lost-one"))
        self.finish(self.start("nowhere"), "nowhere")
        self.assertEqual([line["host"] for line in self.journal("nowhere", "lost")], [1])
        self.assert_same_model("nowhere", "a", 20)

    def test_a_job_says_which_host_it_waits_for(self):
        write(self.path("waits.toml"), job_list(("a", 20, {"least-ranks": 2}, {})))
        self.lose("two")
        job = self.start("waits")
        self.wait_until(lambda: "waiting for two; two: agent has ended with exit code 255: no route"
                        in self.log("waits"), job, "waits")
        self.assertEqual(self.journal("waits", "started"), [])
        os.remove(self.path("lost-two"))
        self.finish(job, "waits")
        self.assertEqual(len(self.journal("waits", "back")), 1)

    def kill_host(self, host):
        for process in self.processes_of(host):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def processes_of(self, host):
        here = f"FAKE_HOST={self.path(host)}".encode()
        return [process for process in map(int, filter(str.isdigit, os.listdir("/proc")))
                if here in self.bytes_of(process, "environ").split(b"\0")]

    @staticmethod
    def bytes_of(process, file):
        try:
            with open(f"/proc/{process}/{file}", "rb") as opened:
                return opened.read()
        except OSError:  # it has ended, or is another user's
            return b""


if __name__ == "__main__":
    unittest.main()
