#!/usr/bin/env python3
"""launch/tools/gpu_bounds.py beside bounds that were added up by hand."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cli_support import ATOLL

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "gpu-bounds.json"
TIMEOUT = 60  # seconds; far beyond what a simulation of few ranks needs


class GpuBoundsTest(unittest.TestCase):
    def run_script(self, *options, file=EXAMPLE):
        return subprocess.run(
            [sys.executable, "-B", str(ROOT / "launch/tools/gpu_bounds.py"), str(file), "--atoll",
             os.path.abspath(ATOLL), *options], capture_output=True, text=True, timeout=TIMEOUT,
            check=False)

    def rows(self, *options, **given):
        """P -> {column: text}."""
        result = self.run_script(*options, **given)
        self.assertEqual(result.returncode, 0, result.stderr)
        cells = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in result.stdout.splitlines() if line.startswith("|")]
        return {int(row[0]): dict(zip(cells[0], row)) for row in cells[2:]}

    def test_one_device(self):
        nodes, edges, bandwidth, classes = 2_449_029, 123_718_280, 4.8e12, 47
        for storage, size in (("bf16", 2), ("f32", 4)):
            row = self.rows("--graph", "ogbn-products", "--ranks", "1", "--storage", storage)[1]
            # Two layers aggregate in an epoch, forward and backward; the first one's is kept. Every
            # edge and every self-loop reads a row, every node writes one.
            columns = 2 * (256 + classes)
            spmm = (edges + 2 * nodes) * columns * size / bandwidth
            self.assertAlmostEqual(float(row["SpMM"]) / (1000 * spmm), 1, delta=0.01)
            self.assertNotIn("pack, unpack", row)

    def test_more_devices_share_the_work_and_send(self):
        rows = self.rows("--graph", "ogbn-products", "--ranks", "1,8")
        self.assertAlmostEqual(float(rows[1]["SpMM"]) / float(rows[8]["SpMM"]), 8, delta=0.1)
        self.assertGreater(float(rows[8]["messages, sums"]), 0)
        self.assertGreater(float(rows[8]["pack, unpack"]), 0)

    def test_network_between_hosts(self):
        document = json.loads(EXAMPLE.read_text(encoding="utf-8"))
        waits = []
        with tempfile.TemporaryDirectory() as folder:
            for rate in (400, 100):
                document["machine"]["network_gbit_per_s"] = rate
                file = pathlib.Path(folder) / "bounds.json"
                file.write_text(json.dumps(document), encoding="utf-8")
                rows = self.rows("--graph", "papers100M", "--ranks", "16", file=file)
                waits.append(float(rows[16]["messages, sums"]))
        self.assertGreater(waits[1], 3 * waits[0])

    def test_what_does_not_fit_is_a_row(self):
        rows = self.rows("--graph", "papers100M", "--ranks", "1,4")
        self.assertEqual(rows[1]["SpMM"], "-")
        self.assertGreater(float(rows[4]["epoch"]), 100)

    def test_other_failures_end_it(self):
        for options, text in ((["--ranks", "12"], "do not fill hosts"),
                              (["--ranks", "1", "--hidden", "0"], "--hidden")):
            result = self.run_script("--graph", "ogbn-products", *options)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main()
