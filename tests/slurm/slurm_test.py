#!/usr/bin/env python3
"""Trainings under Slurm, on two virtual nodes of this machine (launch/tools/slurm-here): srun, the
example script with its time limit, a node that is drained or lost, an array of seeds, the script of
a schedule, and `atoll launch` in an allocation. Models are compared byte for byte with those of undisturbed runs.
Prints what each took. Exits with 77 (skipped) where Slurm is missing or it is not root; takes about
ten minutes, half of which Slurm waits before it starts a job again."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "launch"))
from cli_support import ATOLL, TIMEOUT, OneFolderTest, environment, run, write
from launch_command_test import ranks_of

SLURM_HERE = SOURCE / "launch" / "tools" / "slurm-here"
EXAMPLE = SOURCE / "launch" / "slurm-example.sbatch"
SKIPPED = 77
NODES = 2
TASKS = 2  # per node
EPOCHS = 4000  # most of a minute
REQUEUED = 300  # seconds; Slurm waits for two minutes before it starts a job again
TRAINING = ["--model", "gcn", "--hidden", "16", "--norm", "batch", "--dropout", "0.4",
            "--eval-every", "5", "--threads", "1"]


class SlurmTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = cls.place.name
        cls.slurm = os.path.join(cls.folder, "slurm")
        os.chmod(cls.folder, 0o755)
        cls.succeed("generate", "sbm", "--nodes", "20000", "--features", "32", "--out", "data")
        cls.succeed("partition", "data", "--parts", str(NODES * TASKS))
        start = time.monotonic()
        subprocess.run([SLURM_HERE, "up", str(NODES), "--folder", cls.slurm], check=True,
                       stdout=subprocess.DEVNULL)
        cls.addClassCleanup(subprocess.run, [SLURM_HERE, "down", "--folder", cls.slurm],
                            stdout=subprocess.DEVNULL)
        print(f"Slurm of {NODES} nodes up after {time.monotonic() - start:.1f} s")
        # Ranks of both nodes of mpirun share this machine, but no memory that they know of.
        cls.environment = dict(environment(), SLURM_CONF=os.path.join(cls.slurm, "slurm.conf"),
                               ATOLL=os.path.abspath(ATOLL), OMPI_MCA_btl="tcp,self")
        cls.models = {}

    def model_of(self, run_dir):
        return pathlib.Path(self.folder, run_dir, "model.safetensors").read_bytes()

    def undisturbed(self, epochs, seed=1):
        """The model of a run that nothing happens to, under mpirun."""
        key = (epochs, seed)
        if key not in self.models:
            name = f"plain-{epochs}-{seed}"
            result = run(["train", "data", *TRAINING, "--seed", str(seed), "--epochs", str(epochs),
                          "--run-dir", name], self.folder, ranks=NODES * TASKS, timeout=REQUEUED)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.models[key] = self.model_of(name)
        return self.models[key]

    def command(self, *words):
        result = subprocess.run(words, cwd=self.folder, env=self.environment, text=True,
                                capture_output=True, timeout=TIMEOUT)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stderr}")
        return result.stdout.strip()

    def submit(self, *options, script=EXAMPLE, words=()):
        job = self.command("sbatch", "--parsable", f"--nodes={NODES}",
                           f"--ntasks-per-node={TASKS}", "--cpus-per-task=1", *options, str(script),
                           *words)
        self.addCleanup(subprocess.run, ["scancel", job], env=self.environment,
                        stderr=subprocess.DEVNULL)
        return job

    def train(self, *options, epochs):
        return self.submit(*options, words=["data", *TRAINING, "--epochs", str(epochs)])

    def states(self, job):
        """The states of its tasks that Slurm still knows."""
        lines = self.command("scontrol", "show", "job", "-o", job).splitlines()
        return [line.split("JobState=")[1].split()[0] for line in lines]

    def wait_until(self, what, happened, seconds=TIMEOUT):
        deadline = time.monotonic() + seconds
        while not happened():
            self.assertLess(time.monotonic(), deadline, f"not within {seconds} s: {what}; "
                            f"{self.command('squeue')}; {self.logs()}")
            time.sleep(0.05)

    def logs(self):
        return "".join(path.read_text(errors="replace")[-2000:]
                       for path in sorted(pathlib.Path(self.folder).glob("atoll-*.log")))

    def epochs_of(self, run_dir):
        path = pathlib.Path(self.folder, run_dir, "metrics.jsonl")
        return path.read_text().count("\n") if path.exists() else 0

    def wait_for_end(self, job, seconds=TIMEOUT):
        ended = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED")
        self.wait_until("its end", lambda: all(s in ended for s in self.states(job)), seconds)
        self.assertEqual(set(self.states(job)), {"COMPLETED"}, self.logs())

    def set_node(self, node, state):
        self.command("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")

    def give_back(self, node):
        # A lost node that answers again comes back by itself.
        subprocess.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"],
                       env=self.environment, stderr=subprocess.DEVNULL)
        self.wait_until("node back", lambda: self.command(
            "sinfo", "-h", "-n", node, "-o", "%T") in ("idle", "mixed", "allocated"))

    def test_srun_starts_ranks_on_both_nodes(self):
        start = time.monotonic()
        self.command("srun", f"--nodes={NODES}", f"--ntasks-per-node={TASKS}", "-K1", "--mpi=pmix",
                     os.path.abspath(ATOLL), "train", "data", *TRAINING, "--epochs", "20",
                     "--run-dir", "srun")
        print(f"srun of {NODES} x {TASKS} ranks, 20 epochs: {time.monotonic() - start:.1f} s")
        self.assertEqual(self.model_of("srun"), self.undisturbed(20))

    def test_the_time_limit_sends_it_back_to_the_queue_and_it_goes_on(self):
        # The signal comes up to a minute before it is due: Slurm looks once a minute.
        job = self.train("--time=1", "--signal=B:USR1@55", epochs=EPOCHS)
        run_dir = f"runs/{job}"
        self.wait_until("requeue", lambda: self.states(job) == ["PENDING"] and
                        self.epochs_of(run_dir) > 0)
        before, start = self.epochs_of(run_dir), time.monotonic()
        self.assertLess(before, EPOCHS)
        self.command("scontrol", "update", f"JobId={job}", "TimeLimit=10")
        self.wait_for_end(job, REQUEUED)
        print(f"time limit after epoch {before}; done, the two minutes that Slurm waits included, "
              f"{time.monotonic() - start:.1f} s later")
        self.assertEqual(self.model_of(run_dir), self.undisturbed(EPOCHS))

    def test_a_lost_node_sends_it_back_to_the_queue_and_it_goes_on(self):
        job = self.train(epochs=EPOCHS)
        run_dir = f"runs/{job}"
        self.wait_until("an epoch", lambda: self.epochs_of(run_dir) > 20)
        self.set_node("node2", "DOWN")
        self.wait_until("requeue", lambda: self.states(job) == ["PENDING"])
        before, start = self.epochs_of(run_dir), time.monotonic()
        self.give_back("node2")
        self.wait_for_end(job, REQUEUED)
        print(f"node lost after epoch {before}; done {time.monotonic() - start:.1f} s later")
        self.assertEqual(self.model_of(run_dir), self.undisturbed(EPOCHS))

    def test_a_drained_node_ends_its_work(self):
        job = self.train(epochs=300)
        self.wait_until("an epoch", lambda: self.epochs_of(f"runs/{job}") > 20)
        self.set_node("node2", "DRAIN")
        try:
            self.wait_for_end(job)
        finally:
            self.give_back("node2")
        self.assertEqual(self.model_of(f"runs/{job}"), self.undisturbed(300))

    def test_an_array_trains_seeds(self):
        job = self.train("--array=1-2", epochs=20)
        self.wait_for_end(job)
        for seed in (1, 2):
            self.assertEqual(self.model_of(f"runs/{job}-{seed}"), self.undisturbed(20, seed))

    def test_a_schedule_in_its_order(self):
        """Two slots for each of two nodes: three seeds on one rank each, then a job that needs all."""
        rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"16": 0.05},
                "gemm_gflop_per_s": {"16": 0.5}, "elementwise_gb_per_s": 0.1, "quantize_gb_per_s": 0.1}
        nodes = [f"node{n}" for n in range(1, NODES + 1)]
        write(os.path.join(self.folder, "cluster.json"), json.dumps({
            "format": 1, "hosts": [{"name": node} for node in nodes],
            "ranks": [{"host": node, "count": TASKS, **rank} for node in nodes],
            "links": {"within_island": {"latency_us": 5, "gbit_per_s": 10},
                      "between_hosts": {"latency_us": 50, "gbit_per_s": 10}}}))
        options = {name[2:]: value for name, value in zip(TRAINING[::2], TRAINING[1::2])}
        group = '[[group]]\nname = "{}"\ndataset = "data"\nseeds = "{}"\n{}\nmodes = {{ exact = {{}} }}\n'
        write(os.path.join(self.folder, "jobs.toml"), "[options]\n" + "".join(
            f'{name} = "{value}"\n' for name, value in options.items()) + "epochs = 20\n" +
            group.format("few", "1-3", "most-ranks = 1") +
            group.format("all", "1", f"arrival = 1\nleast-ranks = {NODES * TASKS}"))
        self.succeed("schedule", "jobs.toml", "--topology", "cluster.json", "--policy", "fifo",
                     "--slurm", "jobs.sh", "--out", "planned")
        start = time.monotonic()
        printed = self.command("bash", "jobs.sh", "--cpus-per-task=1")
        few, last = [line.split()[0] for line in printed.splitlines()]
        for job in (few, last):
            self.addCleanup(subprocess.run, ["scancel", job], env=self.environment,
                            stderr=subprocess.DEVNULL)
        self.assertIn(f"afterany:{few}", self.command("scontrol", "show", "job", "-o", last))
        self.wait_for_end(last)
        self.wait_for_end(few)
        print(f"a schedule of four jobs: {time.monotonic() - start:.1f} s")
        self.assertEqual(self.model_of("runs/all/exact/seed-1"), self.undisturbed(20))
        alone = run(["train", "data", *TRAINING, "--seed", "3", "--epochs", "20", "--run-dir", "alone"],
                    self.folder)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(self.model_of("runs/few/exact/seed-3"), self.model_of("alone"))

    def launch(self, run_dir, epochs, *options):
        script = pathlib.Path(self.folder, f"{run_dir}.sbatch")
        script.write_text("#!/bin/sh\nexec \"$ATOLL\" launch --address 127.0.0.1 -- \"$@\"\n")
        return self.submit(f"--output=atoll-{run_dir}.log", *options, script=script, words=[
            "train", "data", *TRAINING, "--epochs", str(epochs), "--run-dir", run_dir,
            "--checkpoint-every", "0", "--snapshot-dir", self.folder])

    def test_launch_survives_a_killed_rank(self):
        job = self.launch("killed", 300)
        self.wait_until("an epoch", lambda: self.epochs_of("killed") > 20)
        os.kill(ranks_of("killed")[2], signal.SIGKILL)
        self.wait_for_end(job)
        events = pathlib.Path(self.folder, "killed", "events.jsonl").read_text()
        self.assertIn('"recovered"', events)
        self.assertEqual(self.model_of("killed"), self.undisturbed(300))

    def test_launch_goes_on_without_a_lost_node(self):
        job = self.launch("shrunk", 1000, "--no-kill")
        self.wait_until("an epoch", lambda: self.epochs_of("shrunk") > 20)
        self.set_node("node2", "DOWN")
        try:
            self.wait_for_end(job)
        finally:
            self.give_back("node2")
        events = pathlib.Path(self.folder, "shrunk", "events.jsonl").read_text()
        self.assertIn('"lost"', events)
        self.assertIn('"done"', events)
        self.assertEqual(self.epochs_of("shrunk"), 1000)


if __name__ == "__main__":
    if os.getuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "srun"))):
        print("SKIPPED: Slurm (needs root, and the packages slurm-wlm and munge)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
