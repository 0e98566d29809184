#!/usr/bin/env python3
"""Checks that every header compiles alone: with the flags that the build uses for a source of the
same folder, an empty file that includes only this header must pass the compiler's syntax check.
Headers of which each includes all that the one before it does are checked by one run of the
compiler. Headers of parts that this build lacks (NCCL, CUDA, Python) are named as skipped; what the
tests' emulation stands in for is compiled against that.
Usage: check_headers.py ROOT BUILD_FOLDER (which holds compile_commands.json)"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_structure import list_files
from header_chains import all_includes, make_chains

# Part -> (start of its headers' names, what of the build's commands shows that it is there).
PARTS = {
    "NCCL": (("nccl",), "ATOLL_NCCL_OF_BUILD"),
    "the CUDA toolkit": (("cuda", "cublas", "cusparse", "nvtx3/", "driver_types", "library_types",
                          "vector_types"), "atoll_kernels_cuda.dir/"),
    "the Python package": (("nanobind/",), "_engine.dir/"),
}
EMULATION = "tests/support/cuda_emulation/include"
LASTING = ("-I", "-isystem", "-D", "-std", "-W", "-f", "-m")


class Build:
    """Contents of compile_commands.json: flags per folder and the parts that are built."""

    def __init__(self, root, build):
        self.root = os.path.abspath(root)
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        self.flags = {}
        self.present = {part for part, (_, sign) in PARTS.items()
                        if any(sign in entry["command"] for entry in entries)}
        for entry in entries:
            if not entry["file"].endswith(".cu"):  # nvcc's flags are not the host compiler's
                self._add(entry, os.path.abspath(build))

    def _add(self, entry, build):
        """The flags of a folder are those of all its sources together."""
        folder = os.path.dirname(entry["file"])
        if "/CMakeFiles/" in folder:  # several sources as one: a file of the build folder
            folder = os.path.join(self.root, os.path.relpath(folder.split("/CMakeFiles/")[0], build))
        words = shlex.split(entry["command"])
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        for position, word in enumerate(words):
            if word == "-isystem":
                words[position:position + 2] = [word + words[position + 1]]
        known = self.flags.setdefault(os.path.relpath(folder, self.root), [words[0]])
        known += [word for word in words if word not in known and word.startswith(LASTING)]

    def command(self, header):
        """Compiler and flags for the folder of a header or, without sources there, one above."""
        folder = os.path.dirname(header)
        while folder and folder not in self.flags:
            folder = os.path.dirname(folder)
        return self.flags.get(folder) or next(iter(self.flags.values()))

    def emulated(self, command):
        return command + ["-I" + os.path.join(self.root, EMULATION)]

    def run(self, command, text):
        return subprocess.run(command + ["-x", "c++", "-"], cwd=self.root, input=text,
                              capture_output=True, text=True, check=False)


def absent_part(name, build):
    """The part that a header outside the project belongs to, if this build lacks it."""
    for part, (beginnings, _) in PARTS.items():
        if part not in build.present and name.startswith(beginnings):
            return part
    return None


class Headers:
    """The project's headers: what each includes and how it is compiled."""

    def __init__(self, root, build):
        self.build = build
        self.names = [path for path in list_files(root) if path.endswith(".hpp")]
        self.commands = {name: build.command(name) for name in self.names}
        self.skipped = {}  # reason -> headers
        self._files_of = {}
        self._find_absent(root)
        self._list_others(root)
        self.files = all_includes(self.names, self._reader(root),
                                  lambda name, header: self._files_of[self._key(name, header)])

    @staticmethod
    def _reader(root):
        def read(header):
            with open(os.path.join(root, header), encoding="utf-8") as file:
                return file.read().split("\n")
        return read

    def _find_absent(self, root):
        """Turns to the emulation, or to nothing, for headers that need what is not there."""
        plain = all_includes(self.names, self._reader(root), lambda name, _: {"<" + name})
        emulation = os.path.join(self.build.root, EMULATION)
        for header in list(self.names):
            outside = sorted(name[1:] for name in plain[header] if name.startswith("<"))
            absent = [name for name in outside if absent_part(name, self.build)]
            # Tests of the emulation see nothing else in any build.
            if not absent or "-I" + emulation in self.commands[header]:
                continue
            part = absent_part(absent[0], self.build)
            reason = f"headers that need {part} ({absent[0]}), which this build is without"
            if all(os.path.exists(os.path.join(emulation, name)) for name in absent):
                self.commands[header] = self.build.emulated(self.commands[header])
                reason += "; compiled against the emulation"
            else:
                self.names.remove(header)
            self.skipped.setdefault(reason, []).append(header)

    def paths(self, header):
        """Where the compiler looks for the headers that this one includes."""
        return tuple(word for word in self.commands[header] if word.startswith(("-I", "-isystem")))

    def _key(self, name, header):
        return name, self.paths(header)

    def _list_others(self, root):
        """All files behind every header outside the project, as the compiler lists them."""
        wanted = {}
        for header in self.names:
            for name in all_includes([header], self._reader(root), lambda n, _: {"<" + n})[header]:
                if name.startswith("<"):
                    wanted.setdefault(self._key(name[1:], header), self.commands[header])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            listed = pool.map(lambda item: self.build.run(item[1] + ["-M"],
                                                          f"#include <{item[0][0]}>\n"),
                              wanted.items())
        for key, result in zip(wanted, listed):
            self._files_of[key] = set(result.stdout.replace("\\\n", " ").split()[1:]) or {key[0]}


def complaint_of(headers, build, command):
    """The compiler's first complaint about these headers in this order, or None."""
    result = build.run(command + ["-fsyntax-only", "-Werror"],
                       "".join(f'#include "{header}"\n' for header in headers))
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    return errors[0] if errors else result.stderr or f"exit code {result.returncode}"


def check_chain(chain, headers):
    """Problems of the headers of a chain; if it fails as a whole, each is compiled by itself."""
    command = headers.commands[chain[-1]]
    if complaint_of(chain, headers.build, command) is None:
        return []
    problems = []
    for header in chain:
        complaint = complaint_of([header], headers.build, headers.commands[header])
        if complaint:
            problems.append(f"{header}: does not compile alone: {complaint}")
    return problems


def main():
    root, build = sys.argv[1], sys.argv[2]
    headers = Headers(root, Build(root, build))
    chains = make_chains(headers.names, headers.files,
                         {name: headers.paths(name) for name in headers.names})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = sum(pool.map(lambda chain: check_chain(chain, headers), chains), [])
    for reason, skipped in sorted(headers.skipped.items()):
        print(f"SKIPPED: {reason}: {', '.join(skipped)}")
    for problem in sorted(problems):
        print(problem)
    print(f"{len(headers.names)} headers compiled alone in {len(chains)} runs of the compiler, "
          f"{len(problems)} failed")
    return 1 if problems or not headers.names else 0


if __name__ == "__main__":
    sys.exit(main())
