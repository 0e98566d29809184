#!/usr/bin/env python3
"""Counts what docs/adding.md promises: an example's names stand in the files listed there, and in no
other source. So nobody has to look for a list that they must be added to. Further tests and pages
may use the examples. Prints what is wrong and exits with 1 if anything is. Usage: check_adding.py
[ROOT]"""

import os
import re
import sys

from check_structure import list_files

PAGE = "docs/adding.md"
PROMISE = re.compile(r"^Files of the example, at most (\d+) \((.*)\):\n\n((?:\* `[^`\n]+`\n)+)", re.M)
# These may use an example without being a part of it.
USES = re.compile(r"^(tests|docs|examples|python/tests|launch/tools/jobs)/|\.md$")


def promises(page):
    """(most files, names, files) of each example."""
    for most, names, files in PROMISE.findall(page):
        yield int(most), re.findall("`([^`]+)`", names), re.findall("`([^`]+)`", files)


def check_example(texts, most, names, files):
    """texts: by path, of all files."""
    example = re.compile("|".join(rf"(?<![a-zA-Z]){re.escape(name)}(?![a-zA-Z])" for name in names))
    if len(files) > most:
        yield f"{names[0]} has {len(files)} files; promised are at most {most}"
    for path in files:
        if path not in texts:
            yield f"{path}, a file of {names[0]}, is not there"
        elif not example.search(texts[path]):
            yield f"{path} does not name {names[0]}"
    for path, text in texts.items():
        if path not in files and not USES.search(path) and example.search(text):
            yield (f"{path} names {names[0]}, too: is it a list that an addition has to know? Let it be "
                   "made from the table, or list the file")


def check_page(root):
    texts = {}
    for path in list_files(root):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                texts[path] = file.read()
        except UnicodeDecodeError:
            continue
    found = list(promises(texts[PAGE]))
    problems = [] if len(found) == 4 else [f"{len(found)} examples have a list of files; expected are 4"]
    for most, names, files in found:
        problems += check_example(texts, most, names, files)
    return [f"{PAGE}: {problem}" for problem in problems]


def main():
    problems = check_page(sys.argv[1] if len(sys.argv) > 1 else ".")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} broken promises")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
