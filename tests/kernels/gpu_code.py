#!/usr/bin/env python3
"""Facts about the cuda backend's kernels, read from nvcc's machine code: no GPU is needed.

gpu_code.py LIBRARY                 a table of all kernels
gpu_code.py LIBRARY --check TABLE   compares the kernels that the table lists with it; exit code 1 if
                                    one needs 10 % more of anything, or less: then the table is old;
                                    and if any kernel holds a trap
gpu_code.py LIBRARY --update TABLE  writes new figures of the same kernels into the table

gpu_code.py --tools FOLDER          whether the tools are there, or in FOLDER, where pip put them

--compiler NAME: what the library was made by, "nvcc 13.0.88 for sm_90". A table of another one
("# compiler: NAME") is not compared. Of a library for several architectures this one is read.

Registers, stack (spilled registers and local arrays) and shared memory are of a thread, a thread and
a block, in bytes but for registers. The inner loop of a kernel is the one, of those without a loop
inside, that loads most from global memory: its instructions, loads, and the width of the loads in
bits. Exit code 77 where cuobjdump and nvdisasm are not installed."""

import argparse
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig

TOLERANCE = 0.10
COMPILER = "# compiler:"
COLUMNS = ("registers", "stack", "shared", "instructions", "loop", "loads", "width")
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")
Figures = collections.namedtuple("Figures", COLUMNS)
Instruction = collections.namedtuple("Instruction", "address operation operands")


def find_tools(folder):
    """A PATH on which cuobjdump finds nvdisasm, or None. pip puts them into its own or a folder."""
    folders = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/cuda/bin"]
    for place in (folder, sysconfig.get_paths()["purelib"]):
        folders += sorted(glob.glob(os.path.join(place, "nvidia", "*", "bin"))) if place else []
    path = os.pathsep.join(folders)
    if all(shutil.which(tool, path=path) for tool in ("cuobjdump", "nvdisasm")):
        return path
    return None


def dump(path, library, *options):
    tool = shutil.which("cuobjdump", path=path)
    return subprocess.run([tool, *options, library], env={**os.environ, "PATH": path}, check=True,
                          capture_output=True, text=True).stdout


def end_of_name(text):
    """Where the arguments of a function begin: the first bracket outside of <>."""
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return position
    return len(text)


def plain_names(mangled):
    """Without namespaces, arguments and the numbers that unnamed namespaces get."""
    text = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True,
                          text=True).stdout
    names = []
    for line in text.splitlines():
        line = re.sub(r"\(anonymous namespace\)::|\b(atl|cuda)::", "", line)
        line = re.sub(r"> (?=>)", ">", re.sub(r"^void ", "", line))
        names.append(line[:end_of_name(line)])
    return dict(zip(mangled, names))


def read_code(text):
    """Mangled name -> instructions."""
    code, current = {}, None
    for line in text.splitlines():
        if "Function :" in line:
            current = code.setdefault(line.split("Function :")[1].strip(), [])
        elif current is not None and (found := INSTRUCTION.match(line)):
            current.append(Instruction(int(found[1], 16), found[2], found[3]))
    return code


def loops_of(instructions):
    """The instructions of each loop that has none inside: from the target of a jump back to it."""
    # Behind the last exit stands what divergent warps do at a shuffle; it jumps back, too.
    last_exit = max((i.address for i in instructions if i.operation == "EXIT"), default=0)
    spans = []
    for instruction in instructions:
        target = re.search(r"0x([0-9a-f]+)\s*$", instruction.operands)
        if instruction.operation.startswith("BRA") and target:
            begin = int(target[1], 16)
            if begin < instruction.address < last_exit:
                spans.append((begin, instruction.address))
    inner = [span for span in set(spans)
             if not any(other != span and span[0] <= other[0] and other[1] <= span[1]
                        for other in set(spans))]
    return [[i for i in instructions if begin <= i.address <= end] for begin, end in sorted(inner)]


def width_of(load):
    found = re.search(r"\.(128|64|U16|S16|U8|S8|16)\b", load)
    return int(found[1].lstrip("US")) if found else 32


def is_load(instruction):
    return instruction.operation.startswith("LDG")


def figures_of(instructions, resources):
    loops = loops_of(instructions)
    hot = max(loops, key=lambda loop: sum(width_of(i.operation) for i in loop if is_load(i)),
              default=[])
    loads = [i.operation for i in hot if is_load(i)]
    # The end is padded with jumps to themselves and empty instructions.
    count = sum(not i.operation.startswith("NOP") for i in instructions)
    return Figures(*resources, count, len(hot), len(loads),
                   max((width_of(load) for load in loads), default=0))


def with_traps(code):
    """Which functions hold a trap. nvcc writes one, silently, in place of what a device does not
    have, such as the address of a host's constant."""
    return [name for name, instructions in code.items()
            if any(i.operation.startswith("BPT") for i in instructions)]


def read_library(path, library, compiler):
    """Plain name -> Figures, and the plain names of kernels that hold a trap."""
    found = re.search(r" for (sm_\w+)$", compiler or "")
    only = ["-arch", found[1]] if found else []
    resources, name = {}, None
    for line in dump(path, library, *only, "-res-usage").splitlines():
        if line.strip().startswith("Function "):
            name = line.strip()[len("Function "):].rstrip(":")
        elif found := RESOURCES.search(line):
            resources[name] = tuple(int(number) for number in found.groups())
    code = read_code(dump(path, library, *only, "-sass"))
    names = plain_names(sorted(code))
    figures = {names[mangled]: figures_of(code[mangled], resources[mangled]) for mangled in code}
    return figures, sorted({names[mangled] for mangled in with_traps(code)})


def read_table(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    comments = [line for line in lines if line.startswith("#")]
    rows = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        words = line.split("|")
        if len(words) != len(COLUMNS) + 1:
            sys.exit(f"{path}:{number}: {len(words)} fields; a kernel and {len(COLUMNS)} expected")
        rows[words[0].strip()] = Figures(*(int(word) for word in words[1:]))
    return comments, rows


def format_rows(rows):
    width = max(len(name) for name in rows)
    lines = []
    for name in sorted(rows):
        numbers = " | ".join(f"{value:{len(column)}}" for column, value in zip(COLUMNS, rows[name]))
        lines.append(f"{name:{width}} | {numbers}")
    return "\n".join(lines) + "\n"


def compiler_line(name):
    return f"{COMPILER} {name}"


def compare(wanted, found):
    """Sentences about what differs."""
    faults = []
    for name, before in sorted(wanted.items()):
        if name not in found:
            faults.append(f"{name}: listed, but not in the library")
            continue
        for column, old, new in zip(COLUMNS, before, found[name]):
            if abs(new - old) > TOLERANCE * old:
                faults.append(f"{name}: {column} {new}, listed {old}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--tools", metavar="FOLDER", default=os.environ.get("ATOLL_TOOLS", ""))
    parser.add_argument("--check", metavar="TABLE")
    parser.add_argument("--update", metavar="TABLE")
    parser.add_argument("--compiler", metavar="NAME")
    arguments = parser.parse_args()
    if (arguments.check or arguments.update) and not arguments.compiler:
        parser.error("--check and --update need --compiler NAME, such as the table's")
    path = find_tools(arguments.tools)
    if path is None:
        print("SKIPPED: machine code (cuobjdump and nvdisasm are not installed)")
        return 77
    if arguments.library is None:
        return 0
    found, traps = read_library(path, arguments.library, arguments.compiler)
    if arguments.check:
        comments, wanted = read_table(arguments.check)
        if compiler_line(arguments.compiler) not in comments:
            print(f"SKIPPED: machine code ({arguments.check} is of another compiler than "
                  f"{arguments.compiler})")
            return 77
        faults = compare(wanted, found)
        for fault in faults + [f"{name}: holds a trap (BPT)" for name in traps]:
            print(fault)
        if faults:
            print(f"Where that is meant: {sys.argv[0]} {arguments.library} --update {arguments.check} "
                  f"--compiler '{arguments.compiler}'")
        return 1 if faults or traps else 0
    if arguments.update:
        comments, rows = read_table(arguments.update)
        comments = [compiler_line(arguments.compiler) if line.startswith(COMPILER) else line
                    for line in comments]
        rows = {name: found[name] for name in rows if name in found}
        with open(arguments.update, "w", encoding="utf-8") as file:
            file.write("\n".join(comments) + "\n" + format_rows(rows))
        return 0
    print("kernel | " + " | ".join(COLUMNS))
    print(format_rows(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
