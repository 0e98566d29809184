#!/usr/bin/env python3
"""Checks that every source is formatted as .clang-format says. Exits with 77 (skipped) without the
clang-format version the project uses, because versions format differently. Usage: check_format.py
[ROOT]"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_structure import SOURCE_SUFFIXES, list_files

VERSION = 14
SKIPPED = 77


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    program = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if program is None:
        print("SKIPPED: format check (clang-format is not installed)")
        return SKIPPED
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if not re.search(rf"version {VERSION}\.", version.stdout):
        print(f"SKIPPED: format check (needs clang-format {VERSION}, found {version.stdout.strip()})")
        return SKIPPED
    sources = [path for path in list_files(root) if path.endswith(SOURCE_SUFFIXES)]
    result = subprocess.run([program, "--dry-run", "-Werror"] + sources, cwd=root,
                            capture_output=True, text=True, check=False)
    wrong = sorted(set(re.findall(r"^([^:\s]+):\d+:\d+: error", result.stderr, re.MULTILINE)))
    for path in wrong:
        print(f"{path}: not formatted; run clang-format -i {path}")
    print(f"{len(sources)} files checked, {len(wrong)} not formatted")
    return 1 if result.returncode != 0 or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
