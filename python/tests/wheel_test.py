#!/usr/bin/env python3
"""Builds a wheel, installs it into a fresh virtual environment and runs pytest there, away from the
source tree. Takes minutes, and packages from the Python package index; exits with 77 (skipped)
where they can't be had. Arguments are further packages to test with: torch torch_geometric."""

import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77


def command(*words, **options):
    print("$", " ".join(words), flush=True)
    subprocess.run(words, check=True, **options)


def main():
    with tempfile.TemporaryDirectory(prefix="atoll-wheel-") as folder:
        command(sys.executable, "-m", "venv", os.path.join(folder, "env"))
        python = os.path.join(folder, "env", "bin", "python")
        try:
            command(python, "-m", "pip", "install", "--quiet", "--timeout", "10", "pip", "numpy",
                    "pytest", "tensorboardX", "build", "scikit-build-core", "nanobind", *sys.argv[1:])
        except subprocess.CalledProcessError:
            print("SKIPPED: wheel of the Python package (no packages to be had)")
            sys.exit(SKIPPED)
        # By way of the source distribution, so that what that lacks is noticed.
        command(python, "-m", "build", "--outdir", folder, ROOT, stdout=subprocess.DEVNULL)
        wheel, = glob.glob(os.path.join(folder, "*.whl"))
        source, = glob.glob(os.path.join(folder, "*.tar.gz"))
        for path in (wheel, source):
            print(f"{os.path.basename(path)}: {os.path.getsize(path) / 2**20:.1f} MiB")
        command(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
        tests = os.path.join(ROOT, "python", "tests", "package_test.py")
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("ATOLL_PROGRAM", "PYTHONPATH")}
        tests = [tests]
        if {"torch", "torch_geometric"} <= set(sys.argv[1:]):
            tests.append(os.path.join(ROOT, "python", "tests", "torch_test.py"))
        command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=folder,
                env=environment)
        command(os.path.join(folder, "env", "bin", "atoll"), "--version", env=environment)


if __name__ == "__main__":
    main()
