#!/usr/bin/env python3
"""How gpu-check.sh reads what programs leave, and its tables."""

import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "launch" / "tools"))
import gpu_check_archive
import gpu_check_judge
import gpu_check_list
import gpu_check_table


def epochs(ms, **fields):
    return {"state": "ok", "result": {"epoch_ms": {"median": ms, "min": ms, "max": ms}, **fields}}


def profiled(ms, calls):
    return epochs(1, profile={"phases": {"spmm central": {"ms": ms, "calls": calls}}})


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.check = types.SimpleNamespace(replayed=True, words=[])

    def judge(self, kind, text="", why=""):
        return gpu_check_judge.JUDGES[kind](self.check, self.folder, text, why)

    def test_epochs(self):
        file = self.folder / "bench.json"
        self.assertEqual(self.judge("epochs").state, "failed")
        for text, state in (('{"epoch_ms": {"median": 1', "failed"), ("{}", "failed"),
                            ('{"epoch_ms": {}, "replayed": false}', "failed"),
                            ('{"epoch_ms": {}, "replayed": true}', "ok")):
            file.write_text(text, encoding="utf-8")
            self.assertEqual(self.judge("epochs").state, state, text)
        self.assertEqual(self.judge("epochs", why="exit code 1").state, "failed")

    def test_benchmarks_that_were_cut_short_leave_nothing(self):
        part = self.folder / "benchmarks.json.part"
        part.write_text('{"benchmarks": [', encoding="utf-8")
        self.assertEqual(self.judge("benchmarks", why="ended after 3 s").state, "failed")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_benchmarks(self):
        part = self.folder / "benchmarks.json.part"
        for found, state in (([], "failed"), ([{"name": "a", "error_occurred": True}], "failed"),
                             ([{"name": "a"}], "ok")):
            part.write_text(json.dumps({"benchmarks": found}), encoding="utf-8")
            self.assertEqual(self.judge("benchmarks").state, state)

    def test_a_peer_that_fails_is_no_failure_of_ours(self):
        self.assertEqual(self.judge("peer", "words\n{\"epoch_ms\": {}}\n").state, "ok")
        for text, why in (("no JSON", ""), ("out of memory", "exit code 1")):
            verdict = self.judge("peer", text, why)
            self.assertEqual(verdict.state, "skipped")
            self.assertIn(text, verdict.why)


class TableTest(unittest.TestCase):
    def targets(self, scale=1, **checks):
        document = {"machine": {"scale": scale},
                    "checks": {name.replace("__", "-"): check for name, check in checks.items()}}
        return {name: verdict for name, _, _, verdict
                in gpu_check_table.compared_with_targets(document)}

    def test_targets(self):
        rows = self.targets(epoch_ogbn__arxiv_gcn_bf16=epochs(1.9),
                            epoch_ogbn__arxiv_gcn_f32=epochs(9),
                            epoch_ogbn__products_gcn_f32={"state": "failed", "result": None},
                            spmm_ogbn__products_f32=profiled(28, 2),
                            spmm_ogbn__products_bf16=profiled(30, 2))
        self.assertEqual(rows["epoch of GCN, like:ogbn-arxiv, bf16"], "reached")
        self.assertEqual(rows["epoch of GCN, like:ogbn-arxiv, f32"], "missed x 2.00")
        self.assertEqual(rows["epoch of GCN, like:ogbn-products, f32"], "not measured")
        self.assertEqual(rows["SpMM 256 wide, like:ogbn-products, f32"], "reached")
        self.assertEqual(rows["SpMM 256 wide, like:ogbn-products, bf16"], "missed x 2.00")

    def test_targets_name_checks_that_exist(self):
        setting = gpu_check_list.Setting("build", "python3", 1, 20, str)
        names = {check.name for check in gpu_check_list.all_checks(setting)}
        targets = json.loads(gpu_check_table.TARGETS.read_text(encoding="utf-8"))["targets"]
        self.assertEqual(len(targets), 8)
        self.assertLessEqual({target["check"] for target in targets}, names)

    def test_smaller_graphs_are_not_compared(self):
        rows = self.targets(scale=0.5, epoch_ogbn__arxiv_gcn_bf16=epochs(0.1))
        self.assertIn("not compared", rows["epoch of GCN, like:ogbn-arxiv, bf16"])

    def test_the_best_peer_counts_at_the_same_precision(self):
        def peer(ms, precision, **fields):
            return epochs(ms, dataset="like:reddit", model="gcn", precision=precision,
                          adjacency="csr", **fields)
        rows = list(gpu_check_table.compared_with_peers({
            "epoch_reddit_gcn_bf16": epochs(10), "peer_1": peer(40, "bf16", compiled=False),
            "peer_2": peer(30, "bf16", compiled=True), "peer_3": peer(5, "f32"),
            "peer_4": {"state": "skipped", "result": None}}))
        self.assertEqual(rows, [("reddit_gcn_bf16", 10, 30, "csr, compiled")])

    def test_cusparse_beside_own(self):
        choice = {"width": 256, "dtype": "f32", "kernel": "own",
                  "milliseconds": {"own": 2, "cusparse-alg3": 3}}
        checks = {"auto_reddit_gcn_f32": {**epochs(9), "calibration": {"kernel_choices": [choice]}},
                  "cusparse_reddit_gcn_f32": epochs(20), "epoch_reddit_gcn_f32": epochs(10),
                  "cusparse_reddit_sage_f32": epochs(20)}
        self.assertEqual(list(gpu_check_table.compared_with_cusparse(checks)),
                         [("reddit_gcn_f32", "256 columns, f32",
                           "own 2.000 ms, cusparse-alg3 3.000 ms", "takes own")])
        self.assertEqual(list(gpu_check_table.epochs_with_cusparse(checks)),
                         [("reddit_gcn_f32", 10, 20)])
        text = gpu_check_table.format_document(
            {"machine": {}, "checks": {name: {"stage": "libraries", "why": "", **check}
                                       for name, check in checks.items()}})
        self.assertIn("x 2.00", text)


class ArchiveTest(unittest.TestCase):
    def test_long_logs_lose_their_middle_and_foreign_members_stay_out(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        check = folder / "out" / "checks" / "one"
        check.mkdir(parents=True)
        (check / "log.txt").write_text("first\n" + "x" * 2_000_000 + "\nlast", encoding="utf-8")
        (folder / "out" / "data").mkdir()
        (folder / "out" / "data" / "large.npy").write_bytes(b"1")
        gpu_check_archive.write_archive(folder / "out", folder / "out.tar.xz")
        gpu_check_archive.read_archive(folder / "out.tar.xz", folder / "other")
        self.assertEqual([path.name for path in (folder / "other").rglob("*") if path.is_file()],
                         ["log.txt"])
        text = (folder / "other" / "checks" / "one" / "log.txt").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("first") and text.endswith("last"))
        self.assertLess(len(text), 600_000)

    def test_an_archive_that_is_too_large_keeps_less_of_each_log(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("one", "two"):
            check = folder / "out" / "checks" / name
            check.mkdir(parents=True)
            (check / "log.txt").write_bytes(os.urandom(500_000))
        with unittest.mock.patch.object(gpu_check_archive, "ARCHIVE_BYTES", 400_000):
            gpu_check_archive.write_archive(folder / "out", folder / "out.tar.xz")
        self.assertLess((folder / "out.tar.xz").stat().st_size, 400_000)
        gpu_check_archive.read_archive(folder / "out.tar.xz", folder / "other")
        self.assertEqual(len(list((folder / "other").rglob("log.txt"))), 2)

    def test_a_python_without_lzma_writes_another_kind(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "out" / "checks" / "one").mkdir(parents=True)
        (folder / "out" / "checks" / "one" / "log.txt").write_text("text", encoding="utf-8")
        with unittest.mock.patch.object(importlib.util, "find_spec", lambda name: None):
            archive = folder / f"out{gpu_check_archive.suffix()}"
            self.assertEqual(archive.name, "out.tar.gz")
            gpu_check_archive.write_archive(folder / "out", archive)
        self.assertEqual(archive.read_bytes()[:2], b"\x1f\x8b")
        gpu_check_archive.read_archive(archive, folder / "other")
        self.assertTrue((folder / "other" / "checks" / "one" / "log.txt").exists())


if __name__ == "__main__":
    unittest.main()
