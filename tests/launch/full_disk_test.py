#!/usr/bin/env python3
"""Disks that are full: every command that writes ends with one message that says so, leaves nothing
that another command takes for whole, and works once there is room.

The disks are file systems in memory, mounted in a name space of this test's own, which root or a
user name space makes; without either the test is skipped (exit code 77)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cli_support import ATOLL, environment, npy, run, write

KIB = 1024
DISK = 24 * 1024 * KIB
SKIPPED = 77
INSIDE = "ATOLL_TEST_HAS_MOUNTS"  # set where this script may mount


class Disk:
    """A file system at `path` that can be filled up to a number of bytes."""

    def __init__(self, path):
        self.path = path
        self.ballast = os.path.join(path, ".ballast")
        os.mkdir(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", path], check=True)

    def used(self):
        state = os.statvfs(self.path)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def leave(self, count):
        """Fills it but for `count` bytes, in whole pages."""
        self.make_room()
        state = os.statvfs(self.path)
        fill = state.f_bfree - -(-count // state.f_frsize)
        with open(self.ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(fill, 1) * state.f_frsize)

    def make_room(self):
        if os.path.exists(self.ballast):
            os.remove(self.ballast)

    def clear(self):
        for name in os.listdir(self.path):
            path = os.path.join(self.path, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)

    def unmount(self):
        subprocess.run(["umount", self.path], check=True)


def files_of(folder):
    """The content of every file below it, by its path."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            if name != ".ballast":
                with open(full, "rb") as file:
                    found[os.path.relpath(full, folder)] = file.read()
    return found


TRAIN = ["--hidden", "32", "--threads", "1", "--backend", "cpu", "--eval-every", "4", "-q"]


class FullDiskTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="atoll-full-disk-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.disk = Disk(os.path.join(cls.folder, "disk"))
        cls.addClassCleanup(cls.disk.unmount)
        nodes = 3000
        numbers = [(i * 7919 + i // 3) % nodes for i in range(2 * 5 * nodes)]
        write(os.path.join(cls.folder, "source/edge_index.npy"),
              npy("<i4", (2, 5 * nodes), b"".join(n.to_bytes(4, "little") for n in numbers)))
        write(os.path.join(cls.folder, "source/x.npy"),
              npy("<f4", (nodes, 64), b"\x00\x00\x80\x3f\x00\x00\x00\x40" * (nodes * 32)))
        write(os.path.join(cls.folder, "source/y.npy"),
              npy("<i8", (nodes,), b"".join((n % 5).to_bytes(8, "little") for n in range(nodes))))
        for arguments in (["import", "npy", "source", "--split", "0.6,0.2,0.2", "--out", "data"],
                          ["train", "data", "--epochs", "4", "--run-dir", "run", "--trace"] + TRAIN):
            cls.succeed(arguments)

    @classmethod
    def succeed(cls, arguments):
        result = run(arguments, cls.folder)
        assert result.returncode == 0, f"{arguments}: {result.stderr}"
        return result

    def setUp(self):
        self.disk.clear()

    def check_full(self, arguments, share, named=None):
        """It ended for want of room, and says so with the name of a file on the disk."""
        result = run(arguments, self.folder)
        told = f"{arguments} with {share} of its room: {result.returncode} {result.stderr}"
        self.assertIn(result.returncode, (1, 2), told)
        self.assertEqual(result.stderr.count("atoll: error:"), 1, told)
        self.assertRegex(result.stderr, "(?i)no space left", told)
        self.assertIn(named or "disk/", result.stderr, told)
        return result

    def check(self, arguments, shares=(0, 0.3, 0.6, 0.9), prepare=lambda: None,
              same=lambda files: files):
        """`arguments` write to the disk, which has a share of the room that they need. Nothing that
        was not there before is left, and after that they succeed."""
        prepare()
        before = self.disk.used()
        at_first = files_of(self.disk.path)
        self.succeed(arguments)
        needed = self.disk.used() - before
        whole = files_of(self.disk.path)
        needed = max(needed, 0)  # what is replaced makes room for itself, at the end
        for share in shares:
            with self.subTest(command=arguments[0], share=share):
                self.disk.clear()
                prepare()
                self.disk.leave(int(share * needed))
                self.check_full(arguments, share)
                self.assertEqual(files_of(self.disk.path), at_first, arguments)
                self.disk.make_room()
                self.succeed(arguments)
                self.assertEqual(same(files_of(self.disk.path)), same(whole), arguments)
        self.disk.clear()

    def copy_data(self):
        shutil.copytree(os.path.join(self.folder, "data"), os.path.join(self.disk.path, "data"))

    def test_import(self):
        self.check(["import", "npy", "source", "--split", "0.6,0.2,0.2", "--out", "disk/data"])

    def test_generate(self):
        self.check(["generate", "sbm", "--nodes", "3000", "--features", "16", "--out", "disk/data"])

    def test_split(self):
        self.check(["split", "disk/data", "--split", "0.5,0.25,0.25", "--replace"], (0,),
                   self.copy_data)

    def test_partition(self):
        self.check(["partition", "disk/data", "--parts", "3"], prepare=self.copy_data,
                   same=without_times)

    def test_predict(self):
        for name in ("labels.npy", "labels.csv"):
            self.check(["predict", "run", "data", "--out", f"disk/{name}"], (0, 0.5))

    def test_export(self):
        self.check(["export", "run", "--to", "pyg", "--out", "disk/model"], (0, 0.5))

    def test_reports(self):
        self.check(["report", "run", "--out", "disk/report.html"], (0, 0.5))
        self.check(["trace", "merge", "run", "--out", "disk/trace.json"], (0, 0.5))

    def test_standard_output(self):
        long = ["program", "data", "--layers", "30", "--json"]
        self.assertGreater(len(self.succeed(long).stdout), 64 * KIB, "it fits into a buffer")
        for arguments in (["info", "data", "--json"], ["partition", "data", "--list"], long,
                          ["reference"], ["reference", "--json"], ["train", "--help-all"],
                          ["--version"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run([ATOLL, *arguments], cwd=self.folder, env=environment(),
                                        stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, "(?i)standard output: .*no space left")
            self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)

    def check_training(self, options, share_of, resumed=True):
        """A training whose run folder is on the disk."""
        arguments = ["train", "data", "--run-dir", "disk/run"] + TRAIN + options
        self.succeed(arguments)
        model = files_of(self.disk.path)["run/model.safetensors"]
        needed = self.disk.used()
        for share in share_of:
            with self.subTest(options=options, share=share):
                self.disk.clear()
                self.disk.leave(int(share * needed))
                self.check_full(arguments, share)
                self.disk.make_room()
                if "run/config.toml" in files_of(self.disk.path) and resumed:
                    self.succeed(arguments + ["--resume"])
                else:
                    self.succeed(arguments + ["--overwrite"])
                files = files_of(self.disk.path)
                self.assertEqual(files["run/model.safetensors"], model)
                lines = files["run/metrics.jsonl"].splitlines()
                epochs = [json.loads(line)["epoch"] for line in lines]
                self.assertEqual(epochs, list(range(1, len(epochs) + 1)))
        self.disk.clear()

    def test_train(self):
        self.check_training(["--epochs", "40"], (0, 0.05, 0.1, 0.3, 0.6, 0.9))

    def test_train_with_checkpoints(self):
        self.check_training(["--epochs", "12", "--checkpoint-every", "3"],
                            (0.1, 0.2, 0.3, 0.5, 0.7, 0.9))

    def test_train_with_a_trace(self):
        self.check_training(["--epochs", "6", "--trace"], (0.3, 0.9))

    def test_parts_of_a_training(self):
        self.copy_data()
        before = files_of(self.disk.path)
        arguments = ["train", "disk/data", "--ranks", "2", "--epochs", "4", "--run-dir", "parts-run",
                     "--overwrite"] + TRAIN
        self.disk.leave(64 * KIB)
        self.check_full(arguments, "64 KiB")
        self.assertEqual(files_of(self.disk.path), before)
        self.disk.make_room()
        self.succeed(arguments)

    def test_snapshots(self):
        """They are no condition of a run: one warning, and checkpoints are left."""
        self.disk.leave(4 * KIB)
        result = run(["train", "data", "--run-dir", "snapshot-run", "--epochs", "4",
                      "--snapshot-every", "1", "--snapshot-dir", "disk", "--hidden", "64",
                      "--threads", "1", "--backend", "cpu"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, "(?i)snapshot")
        self.assertEqual(os.listdir(self.disk.path), [".ballast"])


def without_times(files):
    """A partition says how long it took to cut."""
    found = dict(files)
    for path, content in files.items():
        if os.path.basename(path) == "partition.json":
            document = json.loads(content)
            found[path] = {key: value for key, value in document.items()
                           if "seconds" not in key and key != "seal"}
    return found


def main():
    if INSIDE not in os.environ:
        flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
        tried = subprocess.run(["unshare", *flags, "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                               capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            print(f"SKIPPED: no file system can be mounted here: {tried.stderr.strip()}")
            sys.exit(SKIPPED)
        os.execvpe("unshare", ["unshare", *flags, sys.executable, *sys.argv],
                   dict(environment(), **{INSIDE: "1"}))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
