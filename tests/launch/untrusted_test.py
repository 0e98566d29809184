#!/usr/bin/env python3
"""Files that were made to do harm: nesting that overflows a stack, files that never end, numbers that
are none, and names that control a terminal. The program refuses with exit code 2 and one error, in
no time and little memory, and prints no byte that a terminal would obey."""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, Workplace, environment, edit_json, run, write

TRAIN = ["train", "data", "--epochs", "3", "--hidden", "4", "--threads", "1", "--run-dir", "run"]
DEEP = 200000
# An escape code of two kinds, a bell, a right-to-left override, a newline.
NASTY = "x\x1b[31m\x9b2J\x07\u202ey\nz"
SHOWN = r"x\x1b[31m\x9b2J\x07\u202ey\x0az"


def obeyed(text):
    """The characters of text that a terminal obeys, newlines apart."""
    return [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 or
                                              "\u202a" <= c <= "\u202e")]


def read_model(path):
    """The header of a safetensors file, without its checksum, and the tensors."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header["__metadata__"].pop("checksum", None)
    return header, bytearray(content[8 + length:])


def write_model(path, header, tensors):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    write(path, struct.pack("<Q", len(text)) + text + tensors)


class Untrusted(unittest.TestCase):
    def setUp(self):
        self.workplace = Workplace()
        self.folder = self.workplace.__enter__()
        self.addCleanup(self.workplace.cleanup)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def succeed(self, *arguments):
        result = run([*arguments], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refuse(self, *arguments, names, code=2):
        result = run([*arguments], self.folder, timeout=20)
        self.assertEqual(result.returncode, code, result.stderr[-2000:] + result.stdout[-2000:])
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr[-2000:])
        for name in names:
            self.assertIn(name, result.stderr)
        self.assertLess(len(result.stderr), 10000)
        self.assertEqual(obeyed(result.stderr), [])

    # ---- nesting ------------------------------------------------------------------------------
    def test_deep_toml(self):
        parts = ".".join(["a"] * 100000)
        for text in (parts + " = 1\n", f"[{parts}]\n", "lr = " + "[" * DEEP, "lr = " + "{a=" * DEEP):
            write(self.path("deep.toml"), text)
            self.refuse(*TRAIN, "--config", "deep.toml", names=["deep.toml:1", "100 deep"])

    def test_deep_json(self):
        self.succeed(*TRAIN)
        deep = "[" * DEEP + "]" * DEEP
        write(self.path("run/metrics.jsonl"), '{"epoch": 1}\n{"epoch": 2, "loss": %s}\n' % deep)
        self.refuse("report", "run", names=["metrics.jsonl:2", "100 deep"])
        write(self.path("run/metrics.jsonl"), '{"epoch": 1}\n%s\n' % deep)
        self.refuse("report", "run", names=["metrics.jsonl:2", "100 deep"])
        for name, command in (("slow.json", TRAIN[:-1] + ["new", "--calibration", "slow.json"]),
                              ("plan.json", ["plan", "explain", "plan.json"]),
                              ("t.json", ["topology", "show", "t.json"]),
                              ("run/trace.json", ["trace", "merge", "run"]),
                              ("data/dataset.json", ["info", "data"])):
            for text in (deep, '{"format": %s}' % deep):
                write(self.path(name), text)
                self.refuse(*command, names=[name, "100 deep"])

    def test_deep_header_of_a_model(self):
        self.succeed(*TRAIN)
        path = self.path("run/model.safetensors")
        header, tensors = read_model(path)
        write_model(path, b"[" * DEEP, tensors)
        self.refuse("predict", "run", "data", "--out", "l.npy", names=["model.safetensors", "100 deep"])
        header["__metadata__"]["atoll"] = "[" * DEEP
        write_model(path, header, tensors)
        self.refuse("predict", "run", "data", "--out", "l.npy", names=["model.safetensors", "100 deep"])

    # ---- numbers and types --------------------------------------------------------------------
    def test_numbers_that_are_none(self):
        self.succeed(*TRAIN)
        write(self.path("run/metrics.jsonl"), '{"epoch": 1}\n{"epoch": 2, "loss": 1e999}\n')
        self.refuse("report", "run", names=["metrics.jsonl:2", "1e999"])
        write(self.path("run/metrics.jsonl"), '{"epoch": 1, "loss": null}\n')
        self.succeed("report", "run")
        write(self.path("run/metrics.jsonl"), '{"epoch": 1}\n')
        write(self.path("run/summary.json"), '{"test": {"a": [1e999]}}')
        self.refuse("report", "run", names=["summary.json"])

    def test_weights_that_are_none(self):
        for dtype, value, norm in (("f", "nan", "none"), ("f", "inf", "none"), ("d", "nan", "batch")):
            with self.subTest(norm=norm, value=value):
                command = TRAIN[:-1] + [f"run-{norm}-{value}", "--norm", norm]
                self.succeed(*command)
                path = self.path(f"run-{norm}-{value}/model.safetensors")
                header, tensors = read_model(path)
                name = next(name for name, entry in header.items()
                            if entry.get("dtype") == ("F64" if dtype == "d" else "F32"))
                at = header[name]["data_offsets"][0]
                tensors[at:at + struct.calcsize(dtype)] = struct.pack("<" + dtype, float(value))
                write_model(path, header, tensors)
                self.refuse("predict", f"run-{norm}-{value}", "data", "--out", "l.npy",
                            names=["model.safetensors", name, value])
                self.assertFalse(os.path.exists(self.path("l.npy")))

    # ---- files that are none ------------------------------------------------------------------
    def test_pipe_as_configuration(self):
        os.mkfifo(self.path("pipe.toml"))
        self.refuse(*TRAIN, "--config", "pipe.toml", names=["pipe.toml", "not a regular file"])

    def test_large_configuration(self):
        with open(self.path("large.toml"), "wb") as file:
            file.write(b'run-dir = "')
            file.truncate(300 << 20)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.refuse(*TRAIN, "--config", "large.toml", names=["large.toml", "314572800 bytes", "1048576"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(after, max(before, 200 << 10))  # KiB

    # ---- names --------------------------------------------------------------------------------
    def shows(self, result):
        text = result.stdout + result.stderr
        self.assertEqual(obeyed(text), [], text)
        self.assertIn(SHOWN, text)

    def test_name_of_a_dataset(self):
        edit_json(self.path("data/dataset.json"), name=NASTY, seal=None)
        self.shows(self.succeed("info", "data"))
        self.shows(self.succeed(*TRAIN))
        self.shows(self.succeed("bench", "data", "--epochs", "2", "--threads", "1"))
        self.assertEqual(obeyed(self.succeed("info", "data", "--json").stdout), [])
        self.assertEqual(json.loads(self.succeed("info", "data", "--json").stdout)["name"], NASTY)

    def test_names_of_files(self):
        missing = os.fsencode(NASTY) + b"\xff"
        result = subprocess.run([os.path.abspath(ATOLL), "info", missing], cwd=self.folder,
                                env=environment(), capture_output=True, timeout=20, check=False)
        self.assertEqual(result.returncode, 2)
        error = result.stderr.decode()  # valid UTF-8 whatever the name
        self.assertEqual(obeyed(error), [])
        self.assertIn(SHOWN + r"\xff: no such folder", error)

    def test_names_in_errors(self):
        edit_json(self.path("data/dataset.json"), task=NASTY, seal=None)
        self.refuse("info", "data", names=["unknown task"])
        edit_json(self.path("data/dataset.json"), task=None)
        write(self.path("x.toml"), f"{json.dumps(NASTY)} = 1\n")
        self.refuse(*TRAIN, "--config", "x.toml", names=["unknown key '" + SHOWN])
        self.refuse(*TRAIN, "--" + NASTY, names=["unknown option '--" + SHOWN])

    def test_name_of_a_run_in_the_report(self):
        self.succeed(*TRAIN[:-1], NASTY)
        self.assertEqual(obeyed(self.succeed("report", NASTY).stdout), [])
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(obeyed(page), [])
        self.assertIn(SHOWN, page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
