#!/usr/bin/env python3
"""Packs a program with launch/tools/gpu-pack.sh, and uses the archive as a host does that has none
of the libraries: programs, OpenMPI, gpu-check.sh, and kernels compiled anew. ctest sets ATOLL_BUILD."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from cli_support import environment, needs_open_mpi

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ATOLL_BUILD", ROOT / "build")).resolve()
TIMEOUT = 300  # seconds; far beyond what any of these commands needs, packing beside builds included
OF_THE_HOST = re.compile(r"(linux-vdso|.*/ld-linux|lib(c|m|stdc\+\+|gcc_s)\.so)")

# Compiles nothing: everything is then taken from the archive's libraries.
COMPILER = """\
#!/usr/bin/env bash
[ "$1" != --version ] || { echo "Cuda compilation tools, release $NVCC_RELEASE, V1"; exit; }
echo "$@" >>"$NVCC_LOG"
[ -z "$NVCC_FAILS" ] || { echo "error: no such thing"; exit 1; }
while [ "$1" != -o ]; do shift; done
exec c++ -x c++ -c /dev/null -o "$2"
"""


def run(*words, folder=ROOT, **variables):
    return subprocess.run(words, cwd=folder, env=dict(environment(), **variables), text=True,
                          capture_output=True, timeout=TIMEOUT, check=False)


@needs_open_mpi
class GpuPackTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.temporary.name)
        cls.archive = folder / "pack.tar.xz"
        cls.packed = run("bash", "launch/tools/gpu-pack.sh", str(cls.archive), "--build", str(BUILD),
                         "--programs", "atoll", ATOLL_PACK_PRESET="0")
        assert cls.packed.returncode == 0, cls.packed.stdout + cls.packed.stderr
        subprocess.run(["tar", "xf", str(cls.archive), "-C", str(folder)], check=True)
        cls.top = folder / "atoll-gpu"

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def on_host(self, command):
        """Runs a shell command in the unpacked folder without this process's environment."""
        return subprocess.run(
            ["env", "-i", "PATH=/usr/bin:/bin", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMP_NUM_THREADS=1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1", "bash", "-c",
             command], cwd=self.top, text=True, capture_output=True, timeout=TIMEOUT, check=False)

    def assert_ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_libraries_come_from_the_archive(self):
        listed = self.on_host("ldd build/atoll")
        self.assert_ok(listed)
        from_archive = 0
        for line in listed.stdout.splitlines():
            if OF_THE_HOST.match(line.strip()):
                continue
            self.assertIn(str(self.top.resolve()), line)
            from_archive += 1
        self.assertGreater(from_archive, 5)
        names = {path.name.split(".so")[0] for path in (self.top / "build" / "lib").iterdir()}
        pack = json.loads((self.top / "build" / "pack.json").read_text(encoding="utf-8"))
        if (self.top / "build" / "link" / "nvcc.words").exists():
            self.assertRegex(pack["cuda"], r"^1[23]\.\d+$")
            self.assertTrue(all(re.fullmatch(r"(sm|compute)_\d+a?", code) for code in pack["code"]))
            self.assertIn(f"CUDA {pack['cuda']}, code for", self.packed.stdout)
        self.assertFalse(names & {"libstdc++", "libgcc_s", "libc", "libm", "libcuda", "libcublas",
                                  "libcusparse", "libnccl"})

    def test_programs_and_launcher_run(self):
        version = self.on_host("build/atoll --version")
        self.assert_ok(version)
        self.assertEqual(version.stdout, run(str(BUILD / "atoll"), "--version").stdout)
        result = self.on_host(
            ". build/environment.sh && build/atoll generate sbm --nodes 200 --out data && "
            "command -v mpirun && mpirun -n 2 build/atoll train data --epochs 2 --run-dir run")
        self.assert_ok(result)
        self.assertIn(f"{self.top.resolve()}/build/openmpi/bin/mpirun", result.stdout)
        summary = json.loads((self.top / "run" / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual((summary["ranks"], summary["transport"]), (2, "mpi"))

    def test_check_script_takes_the_packed_programs(self):
        listed = self.on_host("bash launch/tools/gpu-check.sh --list")
        self.assert_ok(listed)
        self.assertIn("build/atoll bench", listed.stdout)

    def rebuild(self, *options, **variables):
        compiler = self.top.parent / "nvcc"
        compiler.write_text(COMPILER, encoding="utf-8")
        compiler.chmod(0o755)
        self.compiled = self.top.parent / "compiled"
        self.compiled.write_text("", encoding="utf-8")
        return run("bash", "launch/tools/gpu-rebuild.sh", *options, folder=self.top, NVCC=str(compiler),
                   NVCC_LOG=str(self.compiled),
                   **{"NVCC_FAILS": "", "NVCC_RELEASE": self.release(), **variables})

    def release(self):
        """The release of CUDA that this build is for, as 13.0."""
        pack = json.loads((self.top / "build" / "pack.json").read_text(encoding="utf-8"))
        return pack.get("cuda", "")

    def sources_compiled(self):
        return re.findall(r"kernels/cuda/(\w+\.cu)", self.compiled.read_text(encoding="utf-8"))

    def test_changed_kernels_are_compiled_and_linked(self):
        words = self.top / "build" / "link" / "nvcc.words"
        if not words.exists():
            self.skipTest("this build has no CUDA kernels")
        self.assertTrue((self.top / "build" / "include" / "fmt" / "format.h").exists())
        out = self.top.parent / "changed"
        self.assert_ok(self.rebuild("--out", str(out)))
        every = sorted(path.name for path in (self.top / "kernels" / "cuda").glob("*.cu"))
        self.assertEqual(sorted(self.sources_compiled()), every)
        self.assertIn("-isystem build/include", self.compiled.read_text(encoding="utf-8"))
        self.assertEqual(run(str(out / "atoll"), "--version").returncode, 0)

        (self.top / "kernels" / "cuda" / "probe.cu").touch()
        self.assert_ok(self.rebuild("--out", str(out)))
        self.assertEqual(self.sources_compiled(), ["probe.cu"])
        for header in ("walk.cuh", "walk.hpp"):
            (self.top / "kernels" / "cuda" / header).touch()
            self.assert_ok(self.rebuild("--out", str(out)))
            self.assertEqual(sorted(self.sources_compiled()), every, header)

        before = (out / "atoll").stat().st_mtime_ns
        (self.top / "kernels" / "cuda" / "probe.cu").touch()
        failed = self.rebuild("--out", str(out), NVCC_FAILS="1")
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("no such thing", failed.stdout)
        self.assertEqual((out / "atoll").stat().st_mtime_ns, before)

    def test_refusals(self):
        for words, text in (([], "name the archive"), (["x.zip"], ".tar.xz"),
                            (["x.tar.xz", "--build", "tests"], "no program atoll"),
                            (["x.tar.xz", "--fast"], "--programs")):
            result = run("bash", "launch/tools/gpu-pack.sh", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)
        has_kernels = (self.top / "build" / "link" / "nvcc.words").exists()
        if has_kernels:
            result = self.rebuild(NVCC_RELEASE="11.8")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"is of CUDA 11.8, the archive is of CUDA {self.release()}", result.stderr)
        for words, text in ((["--build", "tests"], "no unpacked archive"),
                            (["magic"], "magic" if has_kernels else "no unpacked archive")):
            result = self.rebuild(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(text, result.stderr)


class ToolkitTest(unittest.TestCase):
    """cuda12-toolkit.sh as far as it goes without downloads."""

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = pathlib.Path(folder) / "nvcc"
            nvcc.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.8, V12.8.61\n",
                            encoding="utf-8")
            nvcc.chmod(0o755)
            for words, compiler, text in (([], nvcc, "name the folder"),
                                          (["--fast"], nvcc, "--libraries"),
                                          ([folder], nvcc, "is there already"),
                                          ([folder + "/new"], nvcc, "is not of CUDA 13"),
                                          ([folder + "/new"], folder + "/none", "not installed")):
                result = run("bash", "launch/tools/cuda12-toolkit.sh", *words, NVCC=str(compiler))
                self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main()
