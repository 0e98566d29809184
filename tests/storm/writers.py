"""Commands that write a folder: killed, they leave nothing or the whole, and done again they write
the same bytes."""

import json
import os
import random
import time

from storm_case import Violation, copy, differences, last_lines, tree
from strikes import strike
from trainings import run_plainly

NODES = 12000
# The command of each in a folder beside `source/`, and the folder that it makes.
WRITERS = {
    "partition": (["partition", "cut-me", "--parts", "3"], "cut-me/parts"),
    "partition --from": (["partition", "cut-me", "--from", "../source-grown/old", "--parts", "3"],
                         "cut-me/parts"),
    "import": (["import", "edges", "../source", "--out", "imported", "--split", "0.6,0.2,0.2"],
               "imported"),
    "generate": (["generate", "sbm", "--nodes", "60000", "--out", "made"], "made"),
    "append": (["append", "../source-append/delta", "--nodes", "2000", "--edges",
                "../source-append/new.txt", "--remove-edges", "../source-append/known.txt", "--out",
                "grown"], "grown"),
    "compact": (["compact", "../source-append/delta", "--out", "whole"], "whole"),
    "snapshots": (["import", "edges", "../source-append/edges.txt", "--snapshots",
                   "../source-append/years.txt", "--out", "set"], "set@1"),
}
# Those whose source is not `source-NAME`, or is that of another.
SOURCES = {"import": "source", "partition --from": "source-grown/whole",
           "compact": "source-append", "snapshots": "source-append"}
SNAPSHOTS = ("set@0", "set@1", "set@2")


class Writer:
    """One of WRITERS, with its result when nobody kills it."""

    def __init__(self, program, folder, name):
        self.name = name
        self.arguments, self.output = WRITERS[name]
        self.cuts = name.startswith("partition")
        self.source = os.path.join(folder, SOURCES.get(name, f"source-{name}"))
        if not os.path.exists(self.source):
            make_source(program, name, self.source)
        self.reference = os.path.join(folder, f"writer-{name}")
        os.makedirs(self.reference)
        self.prepare(self.reference)
        begin = time.monotonic()
        run_plainly(program, self.arguments, self.reference)
        self.seconds = time.monotonic() - begin
        self.tree = self.tree_of(self.reference)
        self.names = sorted(tree(self.reference))

    def tree_of(self, folder):
        if self.name != "snapshots":
            return tree(os.path.join(folder, self.output), without_times)
        return {f"{name}/{path}": digest for name in SNAPSHOTS
                for path, digest in tree(os.path.join(folder, name), without_times).items()}

    def prepare(self, folder):
        if self.cuts:
            copy(self.source, os.path.join(folder, "cut-me"))

    def kill(self, case):
        """Killed a few times, then done."""
        self.prepare(case.folder)
        out = case.path(self.output)
        for _ in range(case.random.choice([1, 2, 3])):
            job = case.start(self.arguments)
            blow = strike(case, job, self.seconds, 0, watched=self.output)
            code = case.finish(job)
            if blow is None and code != 0:
                raise Violation("refused", f"exit code {code}: {last_lines(job.output())}")
            if blow is not None and code == 2:
                raise Violation("signal", f"exit code 2: {last_lines(job.output())}")
            # Snapshots are there before what they were made of has gone: the command that was killed
            # is called again, and removes it.
            if self.complete(out) and (blow is None or self.name != "snapshots"):
                break
        else:
            case.run(self.arguments)
            case.count("redone")
        if not self.complete(out):
            raise Violation("left over", f"{self.output} is missing")
        left = sorted(set(tree(case.folder)) - set(self.names))
        if left:
            case.count("temporary files")
            raise Violation("left over", ", ".join(left))

    def complete(self, out):
        """Whether the result is there; a half of it is a violation."""
        if self.cuts:
            # The folder of all cuts may be there before the cut is; unfinished ones have names of
            # their own.
            finished = [name for name in (os.listdir(out) if os.path.isdir(out) else [])
                        if name in self.tree]
            if not finished:
                return False
        elif self.name == "snapshots":
            return self.all_snapshots(os.path.dirname(out))
        elif not os.path.exists(out):
            return False
        found = tree(out, without_times)
        if self.cuts:
            found = {path: digest for path, digest in found.items()
                     if path.split("/")[0] in self.tree}
        wrong = differences(found, self.tree)
        if wrong:
            raise Violation("half", f"{self.output}: {wrong}")
        return True

    def all_snapshots(self, folder):
        """Each of them is there whole or not at all, and none before the one that it builds on."""
        there = [name for name in SNAPSHOTS if os.path.exists(os.path.join(folder, name))]
        if there != list(SNAPSHOTS[:len(there)]):
            raise Violation("half", f"of the snapshots there are {there}")
        found = {f"{name}/{path}": digest for name in there
                 for path, digest in tree(os.path.join(folder, name), without_times).items()}
        wrong = differences(found, {path: digest for path, digest in self.tree.items()
                                    if path.split("/")[0] in there})
        if wrong:
            raise Violation("half", wrong)
        return len(there) == len(SNAPSHOTS)


def make_source(program, name, folder):
    if name in ("append", "compact", "snapshots"):
        make_growing_source(program, folder)
    if name == "partition --from":
        make_grown_source(program, os.path.dirname(folder))
    if name == "partition":
        run_plainly(program, ["generate", "sbm", "--nodes", str(NODES), "--features", "32", "--out",
                              folder], os.path.dirname(folder))
    if name == "import":
        os.makedirs(folder)
        numbers = random.Random(1)
        with open(os.path.join(folder, "edges.txt"), "w", encoding="utf-8") as file:
            for _ in range(10 * NODES):
                file.write(f"{numbers.randrange(NODES)} {numbers.randrange(NODES)}\n")
        write_npy(os.path.join(folder, "labels.npy"), "<i4", f"{NODES},",
                  b"".join(numbers.randrange(8).to_bytes(4, "little") for _ in range(NODES)))


def make_growing_source(program, folder):
    """A graph without features, a delta beside it, and what is appended and imported."""
    os.makedirs(folder)
    numbers = random.Random(2)

    def write_lines(name, lines):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def edges(count, nodes):
        return [f"{numbers.randrange(nodes)} {numbers.randrange(nodes)}" for _ in range(count)]

    write_lines("edges.txt", [*edges(10 * NODES, NODES), f"{NODES - 1} 0"])
    write_lines("new.txt", edges(5 * NODES, NODES + 2000))
    write_lines("known.txt", [f"{NODES - 1} 0"])
    write_lines("years.txt", [numbers.randrange(3) for _ in range(NODES)])
    run_plainly(program, ["import", "edges", "edges.txt", "--out", "base"], folder)
    run_plainly(program, ["append", "base", "--nodes", "2000", "--edges", "new.txt", "--out",
                          "delta"], folder)


def make_grown_source(program, folder):
    """A graph with a cut, and what it has grown to."""
    os.makedirs(folder)
    numbers = random.Random(3)
    with open(os.path.join(folder, "new.txt"), "w", encoding="utf-8") as file:
        for node in range(NODES, NODES + 200):
            file.writelines(f"{numbers.randrange(NODES)} {node}\n" for _ in range(10))
    write_npy(os.path.join(folder, "x.npy"), "<f4", "200, 32", bytes(200 * 32 * 4))
    for words in (["generate", "sbm", "--nodes", str(NODES), "--features", "32", "--out", "old"],
                  ["partition", "old", "--parts", "3"],
                  ["append", "old", "--nodes", "x.npy", "--edges", "new.txt", "--out", "delta"],
                  ["compact", "delta", "--out", "whole"]):
        run_plainly(program, words, folder)


def write_npy(path, kind, shape, data):
    """A .npy file, version 1; shape as Python writes it inside the brackets."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def without_times(path, content):
    """A partition says how long it took to cut."""
    if os.path.basename(path) != "partition.json":
        return content
    document = json.loads(content)
    for name in [name for name in document if "seconds" in name]:
        del document[name]
    document.pop("seal", None)  # which covers them
    return json.dumps(document, sort_keys=True).encode()
