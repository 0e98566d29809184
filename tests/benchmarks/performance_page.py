#!/usr/bin/env python3
"""Writes the pages of figures in docs from the result files in tests/benchmarks/results.

    performance_page.py --write docs
    performance_page.py --check docs     # exit code 1 if a page differs

To add or renew a figure, edit the result file of its topic and write the pages again. A file has
`title`, `context`, and `tables` or `items` (a list of sentences). A table has

    columns, rows   cells are text, numbers, or [median, least, most]; the next three fields, if
                    they are no columns, are printed in the head of the first column
    commands        unless there is a column "command"
    machine         a key of machines.json, unless there is a column "machine"
    commit          unless there is a column "commit"
    context, date, notes    if wanted

Numbers are printed with the digits that they have in the file.
"""

import argparse
import decimal
import json
import pathlib
import sys
import textwrap

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MACHINES = "machines.json"
NOTE = ("<!-- Written by tests/benchmarks/performance_page.py from tests/benchmarks/results: "
        "edit those. -->")
PAGES = {  # file name: introduction, topics
    "performance.md": ("""\
# What was measured

Every figure has a command, commit, machine and spread: median (least - most), or a figure per turn.
Builds are release builds, mostly of the commit with small changes. Other work ran unless a table
says "quiet". "arxiv" is ogbn-arxiv with **substitute features**, 40 columns of a language model:
its accuracies can't be compared with published ones. "arxiv shape", "products shape" and
"products/10" are `atoll generate like:ogbn-arxiv`, `like:ogbn-products` and `--scale 0.1` of it.
""", ["cpu_epochs", "gpu", "peers", "slow_networks", "accuracy", "placement", "partition",
      "failures", "import_tests", "targets", "never_run"]),
    "performance-messages.md": ("""\
# What was measured: messages

These tables are about messages between ranks. [performance.md](performance.md) says how to read
figures, and what "arxiv" is. Unless a table says something else, it has ms per epoch on arxiv of a
GCN, 3 x 256 with batch norm and without dropout, cut by `--method auto`. "2 hosts, 10 Mbit/s" are
hosts of an [emulated cluster](emulated-cluster.md) whose network cards have that rate, with one
rank and thread on each.
""", ["partial_sums", "overlap", "exchange_modes", "packing", "exchange_accuracy"]),
}
TABLE_FIELDS = {"context", "commands", "machine", "commit", "date", "columns", "rows", "notes"}
SOURCES = {"commands": "command", "machine": "machine", "commit": "commit"}  # field: its column


class BadResult(Exception):
    """A result file that can't be used; the text names file, place and what is wrong."""


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=decimal.Decimal)
    except (OSError, ValueError) as error:
        raise BadResult(f"{path}: {error}") from error


def cell_text(cell):
    if isinstance(cell, list):
        median, least, most = (cell_text(number) for number in cell)
        return f"{median} ({least} - {most})"
    return cell if isinstance(cell, str) else f"{cell:,}"


def wrapped(text, first="", rest=""):
    """Lines of at most 100 columns, none of which begins with a sign that starts a list."""
    for sign in "-+":
        text = text.replace(f" {sign} ", f"\0{sign}\0")
    lines = textwrap.wrap(text, 100, initial_indent=first, subsequent_indent=rest,
                          break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def machines_of(table):
    cells = [table["machine"]] if "machine" in table else []
    if "machine" in table["columns"]:
        column = table["columns"].index("machine")
        cells += [row[column] for row in table["rows"]]
    return [name for cell in cells for name in cell.split(", ")]


def check_table(where, table, machines):
    unknown = set(table) - TABLE_FIELDS
    if unknown:
        raise BadResult(f"{where}: unknown field '{min(unknown)}'; known are "
                        + ", ".join(sorted(TABLE_FIELDS)))
    for field, column in SOURCES.items():
        if not table.get(field) and column not in table["columns"]:
            raise BadResult(f"{where}: neither '{field}' nor a column '{column}'")
    for number, row in enumerate(table["rows"], 1):
        if len(row) != len(table["columns"]):
            raise BadResult(f"{where}, row {number}: {len(row)} cells for "
                            f"{len(table['columns'])} columns")
    for name in machines_of(table):
        if name not in machines:
            raise BadResult(f"{where}: machine '{name}' is not in {MACHINES}, which has "
                            + ", ".join(machines))


def source_of(table):
    """Lines that say where, when and how a table was measured."""
    source = [f"machine {table['machine']}"] if "machine" in table else []
    source += [f"commit {table['commit']}"] if "commit" in table else []
    source += [table["date"]] if "date" in table else []
    source = [", ".join(source)] if source else []
    return source + [f"`{command}`" for command in table.get("commands", [])]


def row_line(cells):
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def table_lines(table):
    lines = wrapped(table.get("context", ""))
    first, *others = table["columns"]
    head = "<br>".join([first, *source_of(table)])
    lines += [""] if lines else []
    lines += [row_line([head, *others]), "|" + "---|" * len(table["columns"])]
    lines += [row_line([cell_text(cell) for cell in row]) for row in table["rows"]]
    return lines + [""] + note_lines(table.get("notes", []))


def note_lines(notes):
    lines = [line for note in notes for line in wrapped(note, "* ", "  ")]
    return lines + [""] if lines else []


def topic_lines(path, topic, machines):
    lines = [f"## {topic['title']}", ""]
    if topic.get("context"):
        lines += wrapped(topic["context"]) + [""]
    for number, table in enumerate(topic.get("tables", []), 1):
        check_table(f"{path}: table {number}", table, machines)
        lines += table_lines(table)
    return lines + note_lines(topic.get("items", []))


def page(introduction, paths, machines):
    """A page as text, with those machines that its topics name."""
    lines, named = [], set()
    for path in paths:
        topic = read(path)
        lines += topic_lines(path, topic, machines)
        named.update(*map(machines_of, topic.get("tables", [])))
    head = [NOTE, *introduction.splitlines(), "", "| machine | |", "|---|---|"]
    head += [row_line(item) for item in machines.items() if item[0] in named]
    return "\n".join([*head, "", *lines]).rstrip("\n") + "\n"


def pages(results=RESULTS, contents=None):
    """All pages as text, by their file names."""
    contents = contents or PAGES
    topics = [name for _, names in contents.values() for name in names]
    known = {f"{name}.json" for name in topics} | {MACHINES}
    for path in sorted(results.glob("*.json")):
        if path.name not in known:
            raise BadResult(f"{path}: is no topic of a page; known are {', '.join(topics)}")
    machines = read(results / MACHINES)
    return {name: page(introduction, [results / f"{topic}.json" for topic in names], machines)
            for name, (introduction, names) in contents.items()}


def difference(found, made):
    """(line number, line of the page, line of the result files) of the first difference."""
    found, made = found.split("\n"), made.split("\n")
    for number in range(max(len(found), len(made))):
        pair = [lines[number] if number < len(lines) else None for lines in (found, made)]
        if pair[0] != pair[1]:
            return number + 1, *pair
    return None


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FOLDER", type=pathlib.Path)
    what.add_argument("--check", metavar="FOLDER", type=pathlib.Path)
    options = parser.parse_args(arguments)
    try:
        made = pages()
        if options.write:
            for name, text in made.items():
                (options.write / name).write_text(text, encoding="utf-8")
            return 0
        found = {name: (options.check / name).read_text(encoding="utf-8") for name in made}
    except (BadResult, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for name, text in made.items():
        differs = difference(found[name], text)
        if differs is not None:
            number, *pair = differs
            shown = ["(no such line)" if line is None else line for line in pair]
            print(f"{options.check / name}:{number}: is not what the result files give.\n"
                  f"  page:  {shown[0]}\n  files: {shown[1]}\n"
                  "Edit tests/benchmarks/results, then run: "
                  f"tests/benchmarks/performance_page.py --write {options.check}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
