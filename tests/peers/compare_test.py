#!/usr/bin/env python3
"""tests/peers/compare with programs that only pretend to train: its arithmetic, the order of its
runs, and that what can't be compared is said and not hidden. Needs no package."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import peer_process
import peer_table

TIMEOUT = 600  # seconds; far beyond what these programs need

# Started as PYTHON SCRIPT DATA ...: what each script answers is up to the name of the peer.
FAKE_PYTHON = """
    script, words = os.path.basename(sys.argv[1]), sys.argv[2:]
    adjacency = [words[words.index("--adjacency") + 1]] if "--adjacency" in words else []
    log([script, *adjacency, os.environ["OMP_NUM_THREADS"]])
    if script == "dgl_epoch.py":
        print("skipped: dgl is not installed", file=sys.stderr)
        sys.exit(77)
    if script == "torch_epoch.py":
        print("Traceback\\nRuntimeError: a | b", file=sys.stderr)
        sys.exit(1)
    if "kept" in words:
        heap = b"x" * 400_000_000
        time.sleep(60)
    print("using backend: none")
    print(json.dumps({"peer": "PyG 9", "epoch_ms": {"median": 150.0 * count(), "min": 1, "max": 2},
                      "peak_rss_mb": 700.4, "train": 0.5, "valid": 0.25, "test": None,
                      "loss": 1.5}))
"""
FAKE_ATOLL = """
    log(["atoll", sys.argv[1], os.environ["OMP_NUM_THREADS"]])
    target = pathlib.Path(sys.argv[-1])
    if sys.argv[1] == "train":
        target.mkdir()
        (target / "summary.json").write_text(json.dumps(
            {"train": 0.75, "valid": 0.625, "test": 0.5, "loss": 1.25}))
    else:
        target.write_text(json.dumps({"epoch_ms": {"median": 100.0, "min": 1, "max": 2},
                                      "peak_rss_mb": 300.0, "commit": "abc"}))
"""
PROLOGUE = """
    import json, os, pathlib, sys, time
    LOG = pathlib.Path(__file__).with_name("log.txt")
    def log(words):
        with open(LOG, "a") as file:
            file.write(" ".join(words) + "\\n")
    def count():
        return LOG.read_text().count("pyg_epoch.py csr")
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        (self.folder / "data").mkdir()
        (self.folder / "data/dataset.json").write_text('{"name": "tiny", "directed": false}')
        self.program("python", FAKE_PYTHON)
        self.program("atoll", FAKE_ATOLL)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{sys.executable} -S\n" + textwrap.dedent(PROLOGUE)
                        + textwrap.dedent(text))
        path.chmod(0o755)

    def compare(self, *words, code=0):
        result = subprocess.run(
            [sys.executable, str(HERE / "compare"), "data", "--program", "./atoll", "--python",
             "./python", *words], cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT,
            check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def log(self):
        return (self.folder / "log.txt").read_text().splitlines()

    def test_rounds_are_interleaved_and_summed_up(self):
        result = self.compare("--peers", "pyg-csr", "dgl", "torch", "--model", "gcn", "--threads",
                              "2", "--rounds", "3", "--json", "figures.json")
        # Runs that were skipped or have failed are not run again.
        self.assertEqual(self.log(), [
            "atoll train 2", "atoll bench 2", "pyg_epoch.py csr 2", "dgl_epoch.py 2",
            "torch_epoch.py 2", "atoll bench 2", "pyg_epoch.py csr 2", "atoll bench 2",
            "pyg_epoch.py csr 2"])
        self.assertEqual(result.stdout, textwrap.dedent("""\
            ### tiny: gcn 3x256, norm batch, f32, 2 threads

            | peer | ms per epoch | peer / Atoll | peak MB | train % | valid % | test % |  |
            | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
            | atoll | 100.0 (100.0 .. 100.0) | 1.00 (1.00 .. 1.00) | 300 | 75.00 | 62.50 | 50.00 | commit abc |
            | pyg-csr | 300.0 (150.0 .. 450.0) | 3.00 (1.50 .. 4.50) | 700 | 50.00 | 25.00 | – | PyG 9 |
            | dgl | – | – | – | – | – | – | skipped: dgl is not installed |
            | torch | – | – | – | – | – | – | failed: exit code 1: RuntimeError: a \\| b |

            Medians over 3 rounds (least .. most), each of 10 epochs after 3; accuracy after all 13 epochs, seed 1.

            """))
        document = json.loads((self.folder / "figures.json").read_text())
        rows = {row["peer"]: row for row in document["groups"][0]["rows"]}
        self.assertEqual(rows["pyg-csr"]["epoch_ms"]["by_round"], [150, 300, 450])
        self.assertEqual(rows["pyg-csr"]["ratio"], {"median": 3.0, "min": 1.5, "max": 4.5})
        self.assertEqual([rows[name]["state"] for name in ("atoll", "pyg-csr", "dgl", "torch")],
                         ["ok", "ok", "skipped", "failed"])

    def test_a_table_for_each_model_type_and_number_of_threads(self):
        result = self.compare("--peers", "pyg-csr", "--threads", "1", "2", "--dtype", "f32", "bf16",
                              "--rounds", "1")
        self.assertEqual(
            [line for line in result.stdout.splitlines() if line.startswith("###")],
            [f"### tiny: {model} 3x256, norm batch, {dtype}, {threads}"
             for dtype in ("f32", "bf16") for model in ("gcn", "sage")
             for threads in ("1 thread", "2 threads")])

    def test_a_peer_that_takes_too_much_memory_is_a_row(self):
        result = self.compare("--peers", "pyg-kept", "pyg-csr", "--model", "sage", "--threads", "1",
                              "--rounds", "1", "--memory-gb", "0.2")
        self.assertIn("| failed: ended at the limit of 0.2 GB of memory |", result.stdout)
        self.assertIn("| pyg-csr | 150.0 (150.0 .. 150.0) | 1.50 ", result.stdout)

    def test_without_atoll_there_is_nothing_to_compare_with(self):
        self.program("atoll", 'print("atoll: error: no labels", file=sys.stderr); sys.exit(2)')
        result = self.compare("--peers", "pyg-csr", "--model", "gcn", "--threads", "1", code=1)
        self.assertIn("| failed: exit code 2: atoll: error: no labels |", result.stdout)
        self.assertIn("| not run: Atoll failed |", result.stdout)
        self.assertFalse((self.folder / "log.txt").exists())

    def test_output_without_figures_is_a_failure(self):
        self.program("python", 'print("done")')
        result = self.compare("--peers", "pyg-csr", "--model", "gcn", "--threads", "1")
        self.assertIn("| failed: no figures: JSONDecodeError(", result.stdout)

    def test_bad_input_is_refused_before_anything_runs(self):
        for words, message in (
                (["--program", "./none"], "--program ./none: is no program"),
                (["--python-dgl", "./none"], "--python-dgl ./none: is no program"),
                (["--threads", "3", "--atoll-ranks", "2"], "can't share 3 threads")):
            self.assertIn(message, self.compare(*words, code=2).stderr)
        (self.folder / "data/dataset.json").unlink()
        self.assertIn("data: holds no dataset.json", self.compare(code=2).stderr)
        self.assertFalse((self.folder / "log.txt").exists())


class TableTest(unittest.TestCase):
    def test_ratios_are_of_the_same_round(self):
        def runs(**by_round):
            return {int(key[1:]): {"epoch_ms": {"median": value}, "peak_rss_mb": value / 2}
                    for key, value in by_round.items()}
        # The ratio of medians would be 2.
        row = peer_table.row("p", runs(r1=300, r2=100, r3=200), runs(r1=100, r2=100, r3=50))
        self.assertEqual(row["ratio"], {"median": 3, "min": 1, "max": 4})
        self.assertEqual(row["epoch_ms"],
                         {"median": 200, "min": 100, "max": 300, "by_round": [300, 100, 200]})
        self.assertEqual(row["peak_rss_mb"], 150)
        # A peer that failed in round 2 keeps the others.
        row = peer_table.row("p", runs(r1=300, r3=200), runs(r1=100, r2=100, r3=50))
        self.assertEqual((row["rounds"], row["ratio"]["median"]), (2, 3.5))


class ProcessTest(unittest.TestCase):
    def test_the_end_of_a_session_is_the_end_of_all_it_has_started(self):
        process = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], text=True,
                                   stdout=subprocess.PIPE, start_new_session=True)
        child = process.stdout.readline().strip()
        peer_process.end_session(process)
        process.stdout.close()
        self.assertIsNotNone(process.returncode)
        ended = ("gone", "Z", "X")  # a container may have nobody who collects orphans
        deadline = time.monotonic() + 20  # a busy machine runs what was killed once more
        state = None
        while state not in ended and time.monotonic() < deadline:
            try:
                text = pathlib.Path(f"/proc/{child}/stat").read_text()
                state = text.rpartition(")")[2].split()[0]
            except OSError:
                state = "gone"
        self.assertIn(state, ended)

    def test_a_run_ends_at_its_limit_of_time(self):
        outcome = peer_process.run(["sleep", "600"], dict(os.environ), 0.5, 1e12)
        self.assertEqual((outcome.state, outcome.reason), ("failed", "ended at the limit of 0.5 s"))

    def test_ends_are_told_apart(self):
        for script, state, reason in (
                ("echo fine", "ok", ""),
                ("echo 'skipped: x is not installed' >&2; exit 77", "skipped",
                 "x is not installed"),
                ("echo worse >&2; exit 3", "failed", "exit code 3: worse"),
                ("kill -9 $$", "failed", "ended by SIGKILL: no message")):
            outcome = peer_process.run(["sh", "-c", script], dict(os.environ), TIMEOUT, 1e12)
            self.assertEqual((outcome.state, outcome.reason), (state, reason))
        outcome = peer_process.run(["./no such program"], dict(os.environ), TIMEOUT, 1e12)
        self.assertEqual(outcome.state, "failed")


class ScriptTest(unittest.TestCase):
    """The scripts themselves where packages are missing, which empty modules stand for."""

    def start(self, script, missing):
        with tempfile.TemporaryDirectory() as folder:
            for package in ("numpy", "torch", "torch_geometric", "dgl"):
                text = (f"raise ModuleNotFoundError('none', name='{package}')"
                        if package == missing else "")
                pathlib.Path(folder, f"{package}.py").write_text(text)
            return subprocess.run(
                [sys.executable, str(HERE / script), "data"], capture_output=True, text=True,
                env=dict(os.environ, PYTHONPATH=folder), timeout=TIMEOUT, check=False)

    def test_a_missing_package_is_named(self):
        for script, missing in (("pyg_epoch.py", "torch"), ("pyg_epoch.py", "torch_geometric"),
                                ("dgl_epoch.py", "dgl"), ("torch_epoch.py", "torch"),
                                ("torch_epoch.py", "numpy")):
            result = self.start(script, missing)
            self.assertEqual((result.returncode, result.stderr),
                             (77, f"skipped: {missing} is not installed\n"))


if __name__ == "__main__":
    unittest.main()
