"""Tries the wheel with CUDA's kernels that this Python has, as far as the machine goes: `wheels` and
wheel_trial.sh run it in a folder that may be written to. With a device it trains there. Without one,
the program must name what is missing, and find and load NVIDIA's libraries all the same."""

import ctypes
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

import atoll

# In the order in which one needs the other.
LIBRARIES = ("cublasLt", "cublas", "cusparse", "nccl")
PACKAGES = os.path.realpath(sysconfig.get_paths()["purelib"])
PROGRAM = os.path.join(sysconfig.get_paths()["scripts"], "atoll")


def check(holds, text):
    if not holds:
        sys.exit(f"cuda_trial.py: {text}")


def load_packages():
    """Each library loads from its package, with what it needs itself from others of NVIDIA's. Their
    names."""
    names = []
    for name in LIBRARIES:
        files = glob.glob(f"{PACKAGES}/nvidia/*/lib/lib{name}.so.*")
        check(len(files) == 1, f"lib{name}: {files} among {PACKAGES}")
        ctypes.CDLL(files[0])
        names.append(os.path.basename(files[0]))
    with open("/proc/self/maps", encoding="utf-8") as file:
        loaded = {line.split()[-1] for line in file if re.search(r"/lib(cu|nv|nccl)[^/]*$", line)}
    elsewhere = sorted(path for path in loaded if not path.startswith(PACKAGES))
    check(not elsewhere, f"NVIDIA's packages take {elsewhere} from elsewhere")
    print(f"  {len(loaded)} libraries of NVIDIA's packages load")
    return names


def doctor(names):
    """The words of `atoll doctor` on devices where the system has no libraries of its own: files that
    are none, found before these, have the program look on."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            pathlib.Path(folder, name).write_text("no library\n" * 100, encoding="utf-8")
        text = subprocess.run([PROGRAM, "doctor", "--json"], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "LD_LIBRARY_PATH": folder}).stdout
    found = {finding["name"]: finding["value"] for finding in json.loads(text)["findings"]
             if finding["section"] == "devices"}
    for name, value in found.items():
        print(f"  {name}: {value}")
    return found


def check_found(found):
    """The program finds the libraries of the packages."""
    for name in ("CUDA libraries", "NCCL"):
        check(not found[name].startswith("none"), f"{name}: {found[name]}")
    for path in found["CUDA libraries"].split(", "):
        check(path.startswith(PACKAGES), f"{path} is not below {PACKAGES}")


def refused_without_device(why, dataset):
    command = [PROGRAM, "train", dataset, "--backend", "cuda", "--run-dir", "never"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stderr.splitlines()
    check(result.returncode == 2 and len(lines) == 1 and why in lines[0],
          f"exit code {result.returncode} and {result.stderr!r} by {' '.join(command)}")
    print(f"  refused as it should: {lines[0]}")
    try:
        atoll.train(atoll.Dataset(dataset), backend="cuda", progress=None)
    except atoll.InputError as error:
        check(why in str(error), f"atoll.train says {error}")
    else:
        check(False, "atoll.train has trained without a device")


def main():
    found = doctor(load_packages())
    check_found(found)
    dataset = atoll.Dataset.generate("sbm", nodes=500, path="small")
    backends = ["cpu"]
    if found["CUDA"].startswith("none: "):
        refused_without_device(found["CUDA"].removeprefix("none: "), "small")
    else:
        backends.append("cuda")
    for backend in backends:
        run = atoll.train(dataset, "gcn", epochs=5, backend=backend, progress=None)
        print(f"  backend {backend}: test {run.summary['test']:.3f}")


if __name__ == "__main__":
    main()
