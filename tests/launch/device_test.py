#!/usr/bin/env python3
"""Runs the program on CUDA devices as a user does: ranks as processes, mixed with CPU ranks, resumed,
with bad options. ctest gives it the program on emulated devices; ATOLL may name a real one."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from cli_support import run, write

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stand_in(name, cusparse_minor):
    """A function that does nothing and returns 1, which is an error, or a text, or a version."""
    if name == "cusparseGetProperty":
        return f"int {name}(int what, int* value) {{ *value = what ? {cusparse_minor} : 12; return 0; }}\n"
    if re.search("String|Name", name):
        return f'const char* {name}() {{ return "a stand-in"; }}\n'
    return f"int {name}() {{ return 1; }}\n"


def make_libraries(folder, functions=r"\w+", cusparse_minor=6):
    """Stand-ins for cuBLASLt, cuBLAS and cuSPARSE with their functions, those that match."""
    folder.mkdir(parents=True)
    header = (ROOT / "kernels" / "cuda" / "libraries.hpp").read_text(encoding="utf-8")
    for file, part in (("libcublasLt.so.13", "CUBLAS_LT"), ("libcublas.so.13", "CUBLAS"),
                       ("libcusparse.so.12", "CUSPARSE")):
        names = re.findall(r"X\((\w+)\)", header.split(f"ATOLL_{part}_FUNCTIONS(X)")[1].split("#")[0])
        code = "".join(stand_in(name, cusparse_minor) for name in names
                       if re.fullmatch(functions, name))
        subprocess.run(["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", folder / file], check=True,
                       input=f'extern "C" {{\n{code}}}', text=True)


class DeviceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        result = run(["generate", "sbm", "--nodes", "400", "--features", "12", "--out", "data"],
                     cls.folder)
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.before = dict(os.environ)

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.before)

    def emulate(self, **variables):
        """Sets variables of the emulated device for the rest of this test."""
        os.environ.update(variables)

    def train(self, *options, ranks=0, epochs=6, hidden=16):
        return run(["train", "data", "--hidden", str(hidden), "--epochs", str(epochs), "--norm",
                    "batch", *options], self.folder, ranks)

    def losses(self, name):
        with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file]

    def trained(self, name, *options, ranks=0, epochs=6):
        """The losses of a run that must succeed."""
        result = self.train("--run-dir", name, *options, ranks=ranks, epochs=epochs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.losses(name)

    def assert_refused(self, result, code, *texts):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def assert_close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for epoch, (a, b) in enumerate(zip(found, expected), 1):
            self.assertLess(abs(a - b) / b, 1e-6 if epoch == 1 else 1e-4, f"epoch {epoch}")

    def test_processes_follow_one_cpu_rank(self):
        expected = self.trained("cpu", "--backend", "cpu")
        self.assert_close(self.trained("cuda1", "--backend", "cuda"), expected)
        self.assert_close(self.trained("cuda2", "--backend", "cuda", ranks=2), expected)
        self.assert_close(self.trained("mixed", "--backend", "cuda,cpu,cuda", ranks=3), expected)
        with open(os.path.join(self.folder, "mixed", "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual((summary["ranks"], summary["transport"]), (3, "mpi"))

    def test_resumes_bit_for_bit(self):
        options = ["--backend", "cuda", "--dtype", "bf16", "--checkpoint-every", "2"]
        self.trained("whole", *options)
        self.trained("part", *options, epochs=4)
        self.trained("part", *options, "--resume")
        models = []
        for name in ("whole", "part"):
            with open(os.path.join(self.folder, name, "model.safetensors"), "rb") as file:
                models.append(file.read())
        self.assertEqual(models[0], models[1])
        other = self.train("--backend", "cuda", "--dtype", "f32", "--run-dir", "part", "--resume")
        self.assert_refused(other, 2, "dtype")

    def test_nccl_is_refused_for_a_shared_device(self):
        self.emulate(ATOLL_EMULATION_DEVICES="1")
        result = self.train("--backend", "cuda", "--transport", "nccl", ranks=2)
        self.assert_refused(result, 2, "--transport nccl", "ranks 0 and 1 share device")

    def test_bad_combinations(self):
        self.assert_refused(self.train("--backend", "cuda,cpu,cpu", ranks=2), 2,
                            "3 names for 2 ranks")
        self.assert_refused(self.train("--backend", "cuda,tpu", ranks=2), 2, "cuda,tpu",
                            "reference")
        self.assert_refused(
            self.train("--backend", "cuda", "--trace", "--cuda-graph", "on", "--run-dir", "t"), 2,
            "--cuda-graph")

    def test_device_memory_is_checked_before_it_is_taken(self):
        self.emulate(ATOLL_EMULATION_MEMORY=str(256 << 20))
        result = self.train("--backend", "cuda", hidden=20000)
        self.assert_refused(result, 2, "device", "is missing")

    def test_only_ranks_that_use_devices_count(self):
        # Two devices with room for one rank each.
        self.emulate(ATOLL_EMULATION_DEVICES="2", ATOLL_EMULATION_MEMORY=str(220 << 20))
        self.trained("counted", "--backend", "cuda,cpu,cuda", "--transport", "local", "--ranks", "3")

    def test_a_replay_asked_for_is_no_wish(self):
        self.assert_refused(self.train("--backend", "cpu", "--cuda-graph", "on"), 2,
                            "--cuda-graph on", "cpu")
        self.assert_refused(
            self.train("--backend", "cuda", "--cuda-graph", "on", "--transport", "local", "--ranks",
                       "2"), 2, "--cuda-graph on")

    def assert_unusable(self, where, *texts, level="warning"):
        """auto trains on the CPU and says why once, cuda is refused, doctor says it too."""
        self.assert_refused(self.train("--backend", "cuda"), 2, "backend cuda", *texts)
        fallback = self.train("--backend", "auto")
        self.assert_refused(fallback, 0, *texts)
        lines = [line for line in fallback.stderr.splitlines() if "--backend auto: " in line]
        self.assertEqual(len(lines), 1, fallback.stderr)
        self.assertIn(f" {level} --backend auto: the cpu on rank 0: ", lines[0])
        doctor = run(["doctor", "--json"], self.folder)
        self.assertEqual(doctor.returncode, 0, doctor.stderr)
        value = next(finding["value"] for finding in json.loads(doctor.stdout)["findings"]
                     if finding["section"] == "devices" and finding["name"] == where)
        for text in texts:
            self.assertIn(text, value)

    def test_without_a_device(self):
        self.emulate(ATOLL_EMULATION_DEVICES="0")
        self.assert_unusable("CUDA", "no NVIDIA device", "CUDA_VISIBLE_DEVICES",
                             "driver for CUDA up to 13.0; built with CUDA 13.0", level="info")

    def test_without_a_driver(self):
        self.emulate(ATOLL_EMULATION_DRIVER="0")
        self.assert_unusable("CUDA", "no NVIDIA driver", "built with CUDA 13.0", "580",
                             level="info")

    def test_with_an_old_driver(self):
        self.emulate(ATOLL_EMULATION_DRIVER="12040")
        self.assert_unusable("CUDA", "too old", "driver for CUDA up to 12.4; built with CUDA 13.0",
                             "580", "a build for CUDA 12", level="info")

    def test_without_code_for_the_device(self):
        self.emulate(ATOLL_EMULATION_CODE="0")
        self.assert_unusable("CUDA device 0", "cudaErrorNoKernelImageForDevice", "sm_90",
                             "-DCMAKE_CUDA_ARCHITECTURES=90", "built with CUDA 13.0")
        for options, ranks in ((["--transport", "local", "--ranks", "2"], 0), ([], 2)):
            result = self.train("--backend", "auto", *options, ranks=ranks)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.count("--backend auto: the cpu on ranks 0 and 1: "), 1,
                             result.stderr)
        self.assertEqual(self.train("--backend", "auto,cpu", ranks=2).returncode, 0)

    def test_without_libraries(self):
        folder = pathlib.Path(self.folder)
        self.emulate(ATOLL_EMULATION_LIBRARIES="0", ATOLL_CUDA_LIBRARIES=str(folder / "nowhere"))
        self.assert_unusable("CUDA libraries", "libcublasLt.so.13 does not load", "nowhere",
                             "pip install 'nvidia-cublas'", "ATOLL_CUDA_LIBRARIES",
                             "built with CUDA 13.0")
        write(str(folder / "garbage" / "libcublasLt.so.13"), "no library " * 100)
        self.emulate(ATOLL_CUDA_LIBRARIES=str(folder / "garbage"))
        self.assert_unusable("CUDA libraries", "libcublasLt.so.13", "invalid ELF header")
        make_libraries(folder / "older", functions="(?!cublasLtMatmul$|cusparseSpMM).*")
        self.emulate(ATOLL_CUDA_LIBRARIES=str(folder / "older"))
        self.assert_unusable("CUDA libraries", "older/libcublasLt.so.13 has no function cublasLtMatmul",
                             "another version")

    def test_libraries_among_pythons_packages(self):
        folder = pathlib.Path(self.folder)
        # One folder of all libraries, and one for each, passing over what does not load.
        make_libraries(folder / "cu13" / "lib" / "python3.12" / "site-packages/nvidia/cu13/lib")
        each = folder / "each" / "lib" / "python3.9" / "site-packages" / "nvidia"
        make_libraries(each / "all")
        for file, package in (("libcublasLt.so.13", "cublas"), ("libcublas.so.13", "cublas"),
                              ("libcusparse.so.12", "cusparse")):
            (each / package / "lib").mkdir(parents=True, exist_ok=True)
            (each / "all" / file).rename(each / package / "lib" / file)
        # cuSPARSE's file has the same name in CUDA 12.
        make_libraries(each / "cu12" / "lib", "cusparse.*", cusparse_minor=5)
        for file in ("libcublasLt.so.13", "libcublas.so.13", "libcusparse.so.12"):
            write(str(folder / "broken" / file), "no library " * 100)
        self.emulate(ATOLL_EMULATION_LIBRARIES="0", LD_LIBRARY_PATH=os.pathsep.join(
            filter(None, [str(folder / "broken"), os.environ.get("LD_LIBRARY_PATH")])))
        for name, places in (("cu13", ["nvidia/cu13/lib"] * 3),
                             ("each", ["nvidia/cublas/lib", "nvidia/cublas/lib",
                                       "nvidia/cusparse/lib"])):
            for variable, value in (("VIRTUAL_ENV", folder / name), ("CONDA_PREFIX", folder / name),
                                    ("PYTHONPATH", next((folder / name).glob("lib/*/site-packages")))):
                self.emulate(**{variable: str(value)})
                # They load; what they then say is what these stand-ins say.
                self.assert_unusable("CUDA device 0", "cublasCreate: a stand-in")
                for devices in "10":
                    self.emulate(ATOLL_EMULATION_DEVICES=devices)
                    doctor = run(["doctor", "--json"], self.folder)
                    libraries = next(
                        finding["value"] for finding in json.loads(doctor.stdout)["findings"]
                        if finding["name"] == "CUDA libraries")
                    self.assertEqual(re.findall(r"nvidia/\w+/lib", libraries), places, libraries)
                del os.environ[variable], os.environ["ATOLL_EMULATION_DEVICES"]

    def choices(self, name):
        with open(os.path.join(self.folder, name, "calibration.json"), encoding="utf-8") as stream:
            return json.load(stream)["kernel_choices"]

    def test_kernels_of_a_run_are_kept_and_reused(self):
        options = ["--backend", "cuda"]
        self.trained("by_cusparse", *options, "--spmm", "cusparse")
        choices = self.choices("by_cusparse")
        # Too small to be worth a measurement.
        self.assertEqual({(choice["kernel"], len(choice["milliseconds"])) for choice in choices},
                         {("cusparse-alg3", 0)})
        file = os.path.join(self.folder, "by_cusparse", "calibration.json")
        self.assertEqual(self.trained("again", *options, "--calibration", file),
                         self.losses("by_cusparse"))
        # The default measures nothing below a million edges, and then keeps nothing.
        self.trained("automatic", *options)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "automatic", "calibration.json")))
        self.assertEqual(self.losses("automatic"), self.trained("own", *options, "--spmm", "own"))
        self.assert_close(self.losses("own"), self.losses("by_cusparse"))
        choices[0]["kernel"] = "magic"
        write(os.path.join(self.folder, "bad.json"), json.dumps({"kernel_choices": choices}))
        self.assert_refused(self.train(*options, "--calibration", "bad.json"), 2, "bad.json",
                            "magic", "cusparse-alg2", "cusparse-alg3")
        self.assert_refused(self.train(*options, "--spmm", "magic"), 2, "--spmm", "cusparse")

    def test_a_resumed_run_keeps_its_kernels(self):
        options = ["--backend", "cuda", "--checkpoint-every", "2"]
        self.trained("steady", *options, "--spmm", "cusparse")
        self.trained("broken", *options, "--spmm", "cusparse", epochs=4)
        self.trained("broken", *options, "--resume")
        self.assertEqual(self.losses("broken"), self.losses("steady"))
        self.assertEqual(self.choices("broken"), self.choices("steady"))

    def test_devices_without_pools(self):
        expected = self.trained("pools", "--backend", "cuda", "--transport", "local", "--ranks", "2")
        self.emulate(ATOLL_EMULATION_POOLS="0")
        self.assertEqual(self.trained("plain", "--backend", "cuda", "--transport", "local",
                                      "--ranks", "2"), expected)

    def test_traces_and_profiles_the_device(self):
        self.trained("traced", "--backend", "cuda", "--trace")
        with open(os.path.join(self.folder, "traced", "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertIn("spmm central", {event["name"] for event in events if event.get("tid") == 1})
        result = run(["bench", "data", "--backend", "cuda", "--hidden", "16", "--epochs", "2",
                      "--spmm", "cusparse", "--profile", "1", "--out", "bench.json"], self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(self.folder, "bench.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(report["replayed"])
        self.assertNotIn("phases_ms", report)
        self.assertIn("spmm", report["profile"]["operations"])
        self.assertIn("spmm 16 wide by cusparse-alg3", report["profile"]["kernels"])
        self.assertIn("spmm 16 wide by cusparse-alg3", result.stdout)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "calibration.json")))


if __name__ == "__main__":
    unittest.main()
