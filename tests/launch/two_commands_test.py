#!/usr/bin/env python3
"""Two commands at once on one folder: both are right, or one is refused (exit code 2) with the name
of what is in its way. What is left is what one of them alone would have made."""

import os
import subprocess
import tempfile
import time
import unittest

from cli_support import ATOLL, OneFolderTest, TIMEOUT, environment, list_tree, npy, run, write
from full_disk_test import files_of, without_times

TRAIN = ["--model", "sage", "--hidden", "32", "--threads", "1", "--backend", "cpu", "-q"]
PAIRS = 4  # tries of each: they meet at other moments


class TwoCommandsTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="atoll-two-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = place.name
        nodes = 4000
        numbers = [(i * 7919 + i // 3) % nodes for i in range(2 * 5 * nodes)]
        write(cls.path("source/edge_index.npy"),
              npy("<i4", (2, 5 * nodes), b"".join(n.to_bytes(4, "little") for n in numbers)))
        write(cls.path("source/x.npy"),
              npy("<f4", (nodes, 16), b"\x00\x00\x80\x3f\x00\x00\x00\x40" * (nodes * 8)))
        write(cls.path("source/y.npy"),
              npy("<i8", (nodes,), b"".join((n % 5).to_bytes(8, "little") for n in range(nodes))))
        cls.succeed("import", "npy", "source", "--split", "0.6,0.2,0.2", "--out", "data")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def start(self, arguments):
        return subprocess.Popen([os.path.abspath(ATOLL)] + arguments, cwd=self.folder,
                                env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def both(self, first, second, pause=0.0):
        """Exit codes and messages of the two, of which the second starts `pause` seconds later."""
        jobs = [self.start(first)]
        time.sleep(pause)
        jobs.append(self.start(second))
        found = []
        for job in jobs:
            _, errors = job.communicate(timeout=TIMEOUT)
            found.append((job.returncode, errors))
        return found

    def check(self, found, named):
        """At least one has succeeded, and what was refused names the thing in its way."""
        self.assertIn(0, [code for code, _ in found], found)
        for code, errors in found:
            self.assertIn(code, (0, 2), found)
            if code == 2:
                self.assertEqual(errors.count("atoll: error:"), 1, errors)
                self.assertRegex(errors, named)

    def check_no_leftovers(self):
        left = [path for path in list_tree(self.folder)
                if ".tmp-" in (path if isinstance(path, str) else path[0])]
        self.assertEqual(left, [])

    def test_two_imports(self):
        alone = files_of(self.path("data"))
        for attempt in range(PAIRS):
            name = f"made-{attempt}"
            arguments = ["import", "npy", "source", "--split", "0.6,0.2,0.2", "--name", "data",
                         "--out", name]
            self.check(self.both(arguments, arguments, 0.01 * attempt), name)
            made = files_of(self.path(name))
            self.assertEqual({path: made[path] for path in made if path != "dataset.json"},
                             {path: alone[path] for path in alone if path != "dataset.json"
                              and not path.startswith("parts/")})
            self.succeed("info", name)
        self.check_no_leftovers()

    def test_two_partitions(self):
        self.succeed("import", "npy", "source", "--split", "0.6,0.2,0.2", "--out", "cut")
        self.succeed("partition", "cut", "--parts", "3", "--parts-dir", "alone")
        alone = without_times(files_of(self.path("alone")))
        for attempt in range(PAIRS):
            parts = f"parts-{attempt}"
            arguments = ["partition", "cut", "--parts", "3", "--parts-dir", parts]
            self.check(self.both(arguments, arguments, 0.02 * attempt), parts)
            self.assertEqual(without_times(files_of(self.path(parts))), alone)
        self.check_no_leftovers()

    def test_two_trainings_in_one_run(self):
        for attempt in range(PAIRS):
            arguments = ["train", "data", "--epochs", "150", "--run-dir", f"run-{attempt}"] + TRAIN
            found = self.both(arguments, arguments, 0.1 * attempt)
            self.assertEqual(sorted(code for code, _ in found), [0, 2], found)
            refused = next(errors for code, errors in found if code == 2)
            self.assertRegex(refused, rf"run-{attempt}.*(process|holds a run already)")

    def test_trainings_that_cut_the_same_parts(self):
        for attempt in range(PAIRS):
            parts = ["--parts-dir", f"shared-{attempt}"]
            arguments = ["train", "data", "--ranks", "2", "--epochs", "3"] + parts + TRAIN
            found = self.both(arguments + ["--run-dir", f"first-{attempt}"],
                              arguments + ["--run-dir", f"second-{attempt}"], 0.05 * attempt)
            self.assertEqual([code for code, _ in found], [0, 0], found)
            self.assertEqual(self.tensors(f"first-{attempt}"), self.tensors(f"second-{attempt}"))
        self.check_no_leftovers()

    def test_a_partition_and_its_pruning_beside_a_training(self):
        train = ["train", "data", "--ranks", "2", "--epochs", "3"] + TRAIN
        self.succeed(*train, "--parts-dir", "alone-parts", "--run-dir", "parts-alone")
        for attempt in range(PAIRS):
            parts = ["--parts-dir", f"beside-{attempt}"]
            beside = ["partition", "data", "--prune" if attempt % 2 else "--parts=2"]
            found = self.both(train + parts + ["--run-dir", f"beside-run-{attempt}"],
                              beside + parts, 0.04 * attempt)
            self.check(found, "beside")
            if found[0][0] == 0:
                self.assertEqual(self.tensors(f"beside-run-{attempt}"),
                                 self.tensors("parts-alone"))
        self.check_no_leftovers()

    def test_readers_of_a_run_that_trains(self):
        job = self.start(["train", "data", "--epochs", "1500", "--run-dir", "live",
                          "--checkpoint-every", "20"] + TRAIN)
        try:
            codes = {"predict": set(), "export": set(), "report": set()}
            for attempt in range(60):
                if job.poll() is not None:
                    break
                for arguments in (["predict", "live", "data", "--out", f"live-{attempt}.npy"],
                                  ["export", "live", "--to", "pyg", "--out", f"live-{attempt}"],
                                  ["report", "live", "--out", f"live-{attempt}.html"]):
                    result = run(arguments, self.folder)
                    self.assertIn(result.returncode, (0, 2), result.stderr)
                    codes[arguments[0]].add(result.returncode)
                    if result.returncode == 2:
                        self.assertIn("live", result.stderr)
                        self.assertFalse(os.path.exists(self.path(arguments[-1])), arguments)
                if 0 in codes["predict"] & codes["report"]:
                    break
            self.assertIn(0, codes["report"], codes)
        finally:
            job.terminate()
            job.communicate(timeout=TIMEOUT)
        self.check_no_leftovers()

    def test_a_split_replaced_under_a_training(self):
        self.succeed("import", "npy", "source", "--split", "0.6,0.2,0.2", "--out", "drawn")
        for attempt in range(PAIRS):
            found = self.both(["split", "drawn", "--split", "0.5,0.25,0.25", "--replace", "--seed",
                               str(attempt)],
                              ["train", "drawn", "--epochs", "2", "--run-dir", f"drawn-{attempt}"]
                              + TRAIN, 0.01 * attempt)
            self.check(found, "drawn")
            self.succeed("info", "drawn")

    def test_two_splits(self):
        self.succeed("import", "npy", "source", "--out", "twice")
        for attempt in range(PAIRS):
            draw = ["split", "twice", "--split", "0.5,0.25,0.25", "--replace", "--seed"]
            self.check(self.both(draw + ["1"], draw + ["2"], 0.005 * attempt), "twice")
            self.succeed("info", "twice")

    def test_two_predictions_into_one_file(self):
        self.succeed("train", "data", "--epochs", "2", "--run-dir", "done", *TRAIN)
        predict = ["predict", "done", "data", "--out"]
        self.succeed(*predict, "alone.npy")
        with open(self.path("alone.npy"), "rb") as file:
            alone = file.read()
        for attempt in range(PAIRS):
            name = f"both-{attempt}.npy"
            self.check(self.both(predict + [name], predict + [name], 0.01 * attempt), name)
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), alone)


if __name__ == "__main__":
    unittest.main(verbosity=2)
