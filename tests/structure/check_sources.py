#!/usr/bin/env python3
"""Checks that every source of the build compiles alone. The build compiles many as one, where a
source may live on what those before it include; `cmake --preset dev` and incremental builds don't.
Usage: check_sources.py ROOT BUILD_FOLDER (which holds compile_commands.json)"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

INCLUDED = re.compile(r'#include "(.+\.cpp)"')
WITH_VALUE = ("-o", "-MT", "-MF")


def compiler(command):
    """The command without what it writes and what it reads."""
    words = shlex.split(command)
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    kept = []
    skip = False
    for word in words[:-1]:  # the last is the source
        if skip or word in WITH_VALUE:
            skip = not skip
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return kept


def sources(root, build):
    """Source -> compiler and its flags."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        command = compiler(entry["command"])
        if entry["file"].endswith(".cpp"):
            found[entry["file"]] = command
        elif "/Unity/" in entry["file"] and os.path.exists(entry["file"]):
            with open(entry["file"], encoding="utf-8") as file:
                found |= {source: command for source in INCLUDED.findall(file.read())}
    root = os.path.abspath(root) + "/"
    return {source: command for source, command in found.items() if source.startswith(root)}


def check(item):
    """The errors of a source, if there are any."""
    source, command = item
    result = subprocess.run([*command, "-fsyntax-only", source], capture_output=True, text=True,
                            check=False)
    return (source, result.stderr) if result.returncode else None


def main(root, build):
    commands = sources(root, build)
    if not commands:
        print(f"no source of {root} in {build}/compile_commands.json")
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [one for one in pool.map(check, sorted(commands.items())) if one]
    for source, message in wrong:
        print(f"{os.path.relpath(source, root)} does not compile alone:\n{message}")
    print(f"{len(commands)} sources checked, {len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
