#!/usr/bin/env python3
"""Checks that every header compiles alone: with the flags that the build uses for a source of the
same folder, an empty file that includes only this header must pass the compiler's syntax check.
Usage: check_headers.py ROOT BUILD_FOLDER (which holds compile_commands.json)"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_structure import list_files


def flags_by_folder(root, build):
    """Folder -> compiler command without input and output, from the sources of that folder."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    flags = {}
    for entry in entries:
        if entry["file"].endswith(".cu"):  # nvcc's flags are not the host compiler's
            continue
        folder = os.path.relpath(os.path.dirname(entry["file"]), os.path.abspath(root))
        words = shlex.split(entry["command"])
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        for position, word in enumerate(words):
            if word == "-isystem":
                words[position:position + 2] = [word + words[position + 1]]
        # The flags of a folder are those of all its sources together.
        known = flags.setdefault(folder, [words[0]])
        known += [word for word in words if word not in known and
                  word.startswith(("-I", "-isystem", "-D", "-std", "-W", "-f", "-m"))]
    return flags


def compile_alone(root, header, flags):
    """The compiler's first complaint, or None."""
    folder = os.path.dirname(header)
    own = folder in flags
    while folder and folder not in flags:
        folder = os.path.dirname(folder)
    command = flags.get(folder) or next(iter(flags.values()))
    if header.startswith("kernels/cuda/") and not own:  # built without a toolkit
        command = command + ["-I" + os.path.join(root, "tests/support/cuda_emulation/include")]
    command = command + ["-fsyntax-only", "-Werror", "-x", "c++", "-include", header, "/dev/null"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    complaint = [line for line in result.stderr.splitlines() if "error" in line]
    return f"{header}: does not compile alone: {complaint[0] if complaint else result.stderr}"


def main():
    root, build = sys.argv[1], sys.argv[2]
    headers = [path for path in list_files(root) if path.endswith(".hpp")]
    flags = flags_by_folder(root, build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda header: compile_alone(root, header, flags), headers)
        problems = [problem for problem in results if problem]
    for problem in problems:
        print(problem)
    print(f"{len(headers)} headers compiled alone, {len(problems)} failed")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
