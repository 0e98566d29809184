#!/usr/bin/env python3
"""Ranks that are stopped, and ranks that are only slow: a stopped one is named and all end; a slow
cut or disk is waited for. Takes some minutes, because it waits for timeouts."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, MPIEXEC, RANK_VARIABLES, environment, run

TIMEOUT = 3  # seconds, of the program
PATIENCE = 150  # seconds until a job counts as hanging
TRAIN = ["train", "data", "--layers", "2", "--hidden", "4", "--threads", "1",
         "--timeout", str(TIMEOUT), "--epochs"]
# Flushing a file takes longer than the timeout.
SLOW_DISK = f"""
#include <unistd.h>
int fsync(int file) {{ (void)file; sleep({TIMEOUT + 1}); return 0; }}
int fdatasync(int file) {{ return fsync(file); }}
"""


class Job:
    """A job under the launcher whose processes can be stopped one by one."""

    def __init__(self, arguments, folder, first=(), ranks=2):
        self.mark = f"ATOLL_TEST_JOB={uuid.uuid4()}"
        command = [MPIEXEC, "--bind-to", "none", "-n", "1", *first, os.path.abspath(ATOLL),
                   *arguments]
        command += [":", "-n", str(ranks - 1), os.path.abspath(ATOLL), *arguments]
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE,
                                        env=dict(environment(), **{name: value}))

    def rank_pids(self):
        """{rank: pid} of the program's processes."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                is_program = os.path.samefile(f"/proc/{pid}/exe", ATOLL)
            except OSError:
                continue
            ranks = [word for word in words if word.split("=")[0] in RANK_VARIABLES]
            if is_program and self.mark in words and ranks:
                found[int(ranks[0].split("=")[1])] = int(pid)
        return found

    def wait_for_ranks(self, ranks):
        end = time.monotonic() + PATIENCE
        while len(self.rank_pids()) < ranks and time.monotonic() < end:
            time.sleep(0.1)
        return self.rank_pids()

    def wait(self):
        """Exit code and standard error; None if it hangs, and nothing of it is left."""
        try:
            _, errors = self.process.communicate(timeout=PATIENCE)
            return self.process.returncode, errors
        except subprocess.TimeoutExpired:
            for pid in self.rank_pids().values():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            return None, self.process.communicate()[1]


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class StoppedRankTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workplace = tempfile.TemporaryDirectory()
        cls.folder = cls.workplace.name
        result = run(["generate", "sbm", "--nodes", "20000", "--classes", "4", "--features", "8",
                      "--out", "data"], cls.folder)
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.workplace.cleanup()

    def cutting(self, *arguments):
        """A job whose rank 0 has been cutting for some time."""
        job = Job(TRAIN + ["2"] + list(arguments), self.folder, ranks=3)
        pids = job.wait_for_ranks(3)
        self.assertEqual(sorted(pids), [0, 1, 2])
        end = time.monotonic() + PATIENCE
        while processor_seconds(pids[0]) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        return job, pids

    def check_stopped(self, rank, expected):
        job, pids = self.cutting("--cuts", "1000")
        os.kill(pids[rank], signal.SIGSTOP)
        code, errors = job.wait()
        self.assertEqual(code, 1, errors)
        self.assertIn(expected, errors)
        time.sleep(1)
        self.assertEqual(job.rank_pids(), {}, "orphans")

    def test_stopped_rank_while_rank_0_cuts(self):
        self.check_stopped(1, f"rank 0 heard nothing from rank 1 for {TIMEOUT} s while working on "
                           "the partition")

    def test_rank_0_is_stopped_while_it_cuts(self):
        self.check_stopped(0, f"heard nothing from rank 0 for {TIMEOUT} s while waiting for the "
                           "partition")

    def test_long_cut_is_waited_for(self):
        job, _ = self.cutting("--cuts", "120")
        start = time.monotonic()
        while job.process.poll() is None and time.monotonic() - start < 3 * TIMEOUT:
            time.sleep(0.1)
        self.assertIsNone(job.process.poll(), "ended before the timeout could have mattered")
        code, errors = job.wait()
        self.assertEqual(code, 0, errors)

    def test_job_that_was_stopped_as_a_whole_goes_on(self):
        job = Job(TRAIN + ["20000"], self.folder)
        pids = job.wait_for_ranks(2)
        time.sleep(2)
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2 * TIMEOUT)
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
        time.sleep(2 * TIMEOUT)
        self.assertIsNone(job.process.poll(), "ended")
        os.kill(pids[1], signal.SIGKILL)
        job.wait()

    def test_slow_disk(self):
        library = os.path.join(self.folder, "slow_disk.so")
        built = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                               input=SLOW_DISK, text=True, capture_output=True, check=False)
        if built.returncode != 0:
            self.skipTest("no C compiler: " + built.stderr)
        result = run(["partition", "data", "--parts", "2"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        job = Job(TRAIN + ["1", "--run-dir", "run", "--checkpoint-every", "1"], self.folder,
                  first=["-x", f"LD_PRELOAD={library}"])
        code, errors = job.wait()
        self.assertEqual(code, 0, errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
