#!/usr/bin/env python3
"""Runs launch/tools/gpu-check.sh as on a GPU host: programs on emulated devices, stand-ins for the
tools and for PyTorch. ctest sets ATOLL_BUILD to the folder of the programs."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

from cli_support import environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ATOLL_BUILD", ROOT / "build")).resolve()
SCRIPT = ROOT / "launch/tools/gpu-check.sh"
TIMEOUT = 120  # seconds; far beyond what any of these calls needs

# Options of the tool end where the program begins. Without --report-api-errors no it finds fault
# with a test that is right to ask for too much memory.
SANITIZER = """\
#!/usr/bin/env bash
case " $* " in
  *" racecheck "*) echo "Device not supported"; exit 1 ;;
  *" memcheck "*SpmmOfVeryWide*) [[ " $* " == *" --report-api-errors no "* ]] || exit 9 ;;
esac
while [[ $1 != /* ]]; do shift; done
exec "$@"
"""
PROFILER = """\
#!/usr/bin/env bash
echo "==PROF== Connected to process 1"
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
for time in 1,500 2,500 2,000; do
  echo '"0","spmm_kernel","GPU Speed Of Light Throughput","Duration","us","'$time'"'
done
echo '"0","spmm_kernel","Memory Workload Analysis","Memory Throughput","Gbyte/s","3,000.5"'
echo '"0","spmm_kernel","GPU Speed Of Light Throughput","Memory Throughput","%","71.5"'
echo '"0","spmm_kernel","Launch Statistics","Registers Per Thread","register/thread","40"'
"""
# PyG fails at f32, as where memory does not suffice; compiled it takes half as long.
PYTHON = f"""\
#!/usr/bin/env bash
case " $* " in
  *pyg_epoch.py*--precision\\ f32*) echo "CUDA out of memory" >&2; exit 1 ;;
  *pyg_epoch.py*--compile*) compiled=true ms=40 ;;
  *pyg_epoch.py*) compiled=false ms=80 ;;
  *"import torch, torch_geometric"*) exit 0 ;;
  *) exec {sys.executable} "$@" ;;
esac
echo warming up
echo '{{"dataset": "like:ogbn-arxiv", "model": "gcn", "precision": "bf16", "adjacency": "csr",' \\
  '"compiled": '$compiled', "epoch_ms": {{"median": '$ms', "min": 1, "max": 99}}}}'
"""


def alive_in(group):
    """Processes of a group that still run."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own_group = file.read_text().rpartition(")")[2].split()[:3]
            if int(own_group) == group and state != "Z":
                found.append(file.parent.name)
    return found


class Host(tempfile.TemporaryDirectory):
    """A folder with programs and tools in place of those of a GPU host."""

    def __enter__(self):
        self.path = pathlib.Path(super().__enter__())
        (self.path / "bin").mkdir()
        (self.path / "build").mkdir()
        self.tool("bin/nvidia-smi", "#!/bin/sh\necho 'Stand-in GPU, 1.0, 80 GiB'\n")
        self.tool("bin/compute-sanitizer", SANITIZER)
        self.tool("bin/ncu", PROFILER)
        self.tool("bin/python", PYTHON)
        self.program("atoll", '"$@"')
        # A few of many tests; a later filter replaces the script's.
        self.program("test_kernels", '"$@"', '--gtest_filter="*MemoryIsAligned/cuda"')
        self.program("test_comm", '"$@"', '--gtest_filter="NcclObstacle*"')
        self.program("bench_kernels", '"$@"', "--benchmark_filter=cuda/spmm/arxiv",
                     "--benchmark_min_time=0.001", "--benchmark_repetitions=1")
        return self

    def tool(self, name, text):
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def program(self, name, *words, before=""):
        """A program that runs the emulated one."""
        self.tool(f"build/{name}", f"#!/usr/bin/env bash\n{before}\n"
                                   f"exec {BUILD}/{name}_emulated {' '.join(words)}\n")

    def start(self, *options, **variables):
        values = dict(environment(), PATH=f"{self.path}/bin:{os.environ['PATH']}",
                      PYTHON=str(self.path / "bin" / "python"), **variables)
        return subprocess.Popen(
            ["bash", str(SCRIPT), "--build", str(self.path / "build"), "--out",
             str(self.path / "out"), "--data", str(self.path / "data"), "--scale", "0.001",
             "--epochs", "1", *options], env=values, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)

    def call(self, *options, **variables):
        process = self.start(*options, **variables)
        try:
            process.stdout_text, process.stderr_text = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process

    def results(self):
        """The results in the archive."""
        with tarfile.open(self.path / "out.tar.xz") as tar:
            self.members = tar.getnames()
            return json.load(tar.extractfile("gpu-check.json"))["checks"]


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.host = self.enterContext(Host())

    def assert_code(self, process, code):
        self.assertEqual(process.returncode, code, process.stdout_text + process.stderr_text)

    def test_every_kind_of_check(self):
        checks = ("train,card,epoch_arxiv-hubs_gatv2_f32,test_kernels,test_comm,epoch_ogbn-arxiv_gcn_bf16,epoch_ogbn-arxiv_gcn_nograph,"
                  "spmm_ogbn-arxiv_f32,auto_ogbn-arxiv_gcn_f32,cusparse_ogbn-arxiv_sage_bf16,peer_ogbn-arxiv_gcn_*_csr_*,"
                  "kernels_spmm,memcheck,racecheck,counters_ogbn-arxiv_bf16,ranks_mpi_2,"
                  "ranks_nccl_1,ranks_mixed")
        process = self.host.call("--checks", checks)
        self.assert_code(process, 0)
        results = self.host.results()
        for name in ("test_kernels", "test_comm", "sanitizer_memcheck"):
            self.assertEqual(results[name]["state"], "ok", results[name])
            self.assertGreater(results[name]["tests"]["ran"], 0)
        self.assertIn("--report-api-errors no", results["sanitizer_memcheck"]["command"])
        self.assertEqual(results["sanitizer_racecheck"]["state"], "skipped")
        self.assertIn("Device not supported", results["sanitizer_racecheck"]["why"])
        self.assertTrue(results["epoch_ogbn-arxiv_gcn_bf16"]["result"]["replayed"])
        self.assertFalse(results["epoch_ogbn-arxiv_gcn_nograph"]["result"]["replayed"])
        choices = results["cusparse_ogbn-arxiv_sage_bf16"]["calibration"]["kernel_choices"]
        self.assertIn("cusparse-alg3", {choice["kernel"] for choice in choices})
        self.assertEqual(results["auto_ogbn-arxiv_gcn_f32"]["state"], "ok")
        self.assertEqual(results["ranks_mpi_2"]["result"]["ranks"], 2)
        self.assertIn("NCCL", results["ranks_nccl_1"]["result"]["messages"])
        for name in ("train", "card_train", "card_two_ranks", "epoch_arxiv-hubs_gatv2_f32",
                     "ranks_mixed"):
            self.assertEqual(results[name]["state"], "ok", results[name])
        self.assertEqual(results["card_two_ranks"]["result"]["exchange"], "quantized")
        self.assertIn("cusparse-alg3", {choice["kernel"] for choice in
                                        results["card_two_ranks"]["calibration"]["kernel_choices"]})
        self.assertGreaterEqual(len(results["kernels_spmm"]["result"]["benchmarks"]), 2)
        self.assertIn("memory", results["peer_ogbn-arxiv_gcn_f32_csr_eager"]["why"])
        kernel = results["counters_ogbn-arxiv_bf16"]["result"]["kernels"]["spmm_kernel"]
        self.assertEqual((kernel["launches"], kernel["ms"], kernel["memory_percent"],
                          kernel["registers"]), (3, 2.0, 71.5, 40.0))
        # Every SpMM of that epoch is 256 wide: one forward, one backward.
        phase = results["spmm_ogbn-arxiv_f32"]["result"]["profile"]["phases"]["spmm central"]
        self.assertEqual(phase["calls"], 2)
        self.assertFalse([name for name in self.host.members if "features.npy" in name])
        self.assertIn("checks/test_kernels/log.txt", self.host.members)
        own = results["epoch_ogbn-arxiv_gcn_bf16"]["result"]["epoch_ms"]["median"]
        for text in ("Stand-in GPU", "not measured", "not compared: graphs of scale 0.001",
                     f"40.00 ms  x {40 / own:.2f}", "csr, compiled"):
            self.assertIn(text, process.stdout_text)

    def test_a_real_graph_and_a_folder_for_the_archive(self):
        """Warnings of `atoll doctor` do not spoil what it says of the machine."""
        self.host.program("atoll", '"$@"', before='[ "$1" != doctor ] || echo "a warning" >&2')
        results = self.host.path / "results"
        results.mkdir()
        real = self.host.path / "real"
        subprocess.run([BUILD / "atoll_emulated", "generate", "sbm", "--nodes", "200", "--out",
                        real], check=True, capture_output=True, timeout=TIMEOUT)
        process = self.host.call("--checks", "epoch_arxiv-hubs_gat_f32", "--archive", str(results),
                                 "--real-arxiv", str(real))
        self.assert_code(process, 0)
        with tarfile.open(results / "out.tar.xz") as tar:
            document = json.load(tar.extractfile("gpu-check.json"))
            self.assertIn(b"a warning", tar.extractfile("doctor.txt").read())
        self.assertIn("findings", document["machine"]["doctor"])
        result = document["checks"]["epoch_arxiv-hubs_gat_f32"]["result"]
        self.assertEqual(result["nodes"], 200)

    def test_an_epoch_that_was_not_replayed_fails(self):
        self.host.program("atoll", '"$@"', "${off:+--cuda-graph off}",
                          before='[ "$1" != bench ] || off=1')
        process = self.host.call("--checks", "epoch_ogbn-arxiv_gcn_f32")
        self.assert_code(process, 1)
        record = self.host.results()["epoch_ogbn-arxiv_gcn_f32"]
        self.assertEqual(record["state"], "failed")
        self.assertIn("not replayed", record["why"])
        self.assertIn("1 checks of this call failed", process.stdout_text)

    def test_a_test_program_that_runs_no_test_fails(self):
        self.host.program("test_comm", '"$@"', "--gtest_filter=None")
        self.assert_code(self.host.call("--checks", "test_comm"), 1)
        self.assertEqual(self.host.results()["test_comm"]["why"], "no test ran")

    def test_never_runs_past_its_minutes(self):
        self.host.program("test_comm", before=f"echo $$ >{self.host.path}/pid; sleep 100 & sleep 100")
        start = time.time()
        process = self.host.call("--minutes", "0.25", "--checks", "test_comm,epoch_ogbn-arxiv*")
        self.assertLess(time.time() - start, 15)
        self.assert_code(process, 1)
        results = self.host.results()
        self.assertIn("all that was left", results["test_comm"]["why"])
        self.assertIn("put off", {record["state"] for record in results.values()})
        group = int((self.host.path / "pid").read_text(encoding="utf-8"))
        self.assertEqual(alive_in(group), [])

    def test_a_signal_leaves_what_was_found(self):
        self.host.program("test_comm", before=f"touch {self.host.path}/begun; sleep 100")
        process = self.host.start("--checks", "test_kernels,test_comm")
        while not (self.host.path / "begun").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 143)
        results = self.host.results()
        self.assertEqual(results["test_kernels"]["state"], "ok")
        self.assertEqual(results["test_comm"]["state"], "unfinished")

    def test_goes_on_after_an_earlier_call(self):
        self.assert_code(self.host.call("--checks", "test_comm"), 0)
        shutil.move(self.host.path / "out.tar.xz", self.host.path / "earlier.tar.xz")
        shutil.rmtree(self.host.path / "out")
        # At the published sizes nothing is expected to fit into two seconds.
        process = self.host.call("--continue", str(self.host.path / "earlier.tar.xz"), "--minutes",
                                 "0.2", "--scale", "1")
        self.assert_code(process, 0)
        self.assertIn("1 checks passed in an earlier call", process.stdout_text)
        results = self.host.results()
        self.assertEqual(results["test_comm"]["state"], "ok")
        self.assertEqual(results["test_kernels"]["state"], "put off")
        (self.host.path / "earlier.tar.xz").write_bytes(b"no archive")
        self.assert_code(self.host.call("--continue", str(self.host.path / "earlier.tar.xz")), 2)

    def test_data_is_made_while_checks_run(self):
        begun = self.host.path / "begun"
        self.host.program("test_comm", '"$@"', '--gtest_filter="NcclObstacle*"',
                          before=f"touch {begun}")
        # Generates nothing before a check has begun that stands behind the one that waits for data.
        self.host.program("atoll", '"$@"', before='[ "$1" != generate ] || '
                                                  f"while [ ! -e {begun} ]; do sleep 0.05; done")
        process = self.host.call("--checks", "epoch_ogbn-arxiv_gcn_bf16,test_comm,ranks_local_2",
                                 "--minutes", "1")
        self.assert_code(process, 0)
        results = self.host.results()
        self.assertEqual(results["test_comm"]["beside"], "generate_ogbn-arxiv")
        self.assertEqual({record["state"] for record in results.values()}, {"ok"})

    def test_data_that_cannot_be_made_skips_what_needs_it(self):
        self.host.program("atoll", '"$@"', before='[ "$1" != generate ] || exit 1')
        self.assert_code(self.host.call("--checks", "epoch_ogbn-arxiv_gcn_f32,test_comm"), 0)
        results = self.host.results()
        self.assertEqual(results["epoch_ogbn-arxiv_gcn_f32"]["state"], "skipped")
        self.assertIn("generate_ogbn-arxiv: exit code 1", results["epoch_ogbn-arxiv_gcn_f32"]["why"])

    def test_a_host_without_a_device_is_named_at_once(self):
        process = self.host.call(ATOLL_EMULATION_DEVICES="0")
        self.assert_code(process, 1)
        self.assertIn("CUDA devices: none", process.stderr_text)

    def test_refusals(self):
        for options, text in ((["--checks", "magic"], "stages are start, kernel_tests, arxiv"),
                              (["--real-arxiv", "nowhere"], "--real-arxiv nowhere"),
                              (["--epochs", "0"], "--epochs"), (["--minutes", "nan"], "--minutes"),
                              (["--tools", "memcheck"], "unrecognized arguments")):
            process = self.host.call(*options)
            self.assert_code(process, 2)
            self.assertIn(text, process.stderr_text)
        (self.host.path / "build" / "atoll").unlink()
        for options in ([], ["--minutes", "1"], ["--list"]):
            process = self.host.call(*options)
            self.assert_code(process, 2)
            self.assertIn("gpu-pack.sh", process.stderr_text)


if __name__ == "__main__":
    unittest.main()
