#!/usr/bin/env python3
"""Halo rows and processor seconds of cuts, against METIS alone in the same run.

    cuts.py ATOLL DATASET... [--parts 2,4,8,16] [--balance nodes,cost] [--seeds 5]
            [--methods metis,communities,auto] [--threads 1,2] [--base-threads 1]

For every dataset, balance and number of parts METIS alone (objective volume, one cut, not refined) is
the base. Cells are medians of the seeds with least and most in brackets, relative to the base's
median: rows, rows of the part that sends or receives most, and processor time of the whole command
(user and system: other programs on the machine change it less than the clock's). Methods take turns
seed by seed.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

BASE = ("METIS alone", ["--method", "metis", "--refine", "off", "--cuts", "1"])
METHODS = {
    "metis": ["--method", "metis", "--cuts", "1"],
    "communities": ["--method", "communities"],
    "auto": ["--method", "auto"],
    "cut": ["--method", "metis", "--objective", "cut", "--refine", "off", "--cuts", "1"],
}


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows_of(received_from):
    """All rows of a direction, and those of the part that sends or receives most."""
    received = [sum(rows) for rows in received_from]
    sent = [sum(rows) for rows in zip(*received_from)]
    return sum(received), max(received + sent)


def cut(atoll, dataset, parts, balance, seed, options, threads):
    """Halo rows in both directions (one of a symmetric graph), those of the fullest part, seconds,
    the parts' heaviest."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CUTS_TMP")) as folder:
        command = [atoll, "partition", dataset, "--parts", str(parts), "--balance", balance,
                   "--seed", str(seed), "--parts-dir", folder, "--node-order", "natural", "--json"]
        before = processor_seconds()
        made = subprocess.run(command + options, capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        seconds = processor_seconds() - before
        if made.returncode != 0:
            sys.exit(f"{' '.join(command + options)}: {made.stderr}")
        quality = json.loads(made.stdout)["quality"]
    directions = [quality["forward_rows"]]
    if quality["backward_rows"] != quality["forward_rows"]:
        directions.append(quality["backward_rows"])
    rows, fullest = map(sum, zip(*map(rows_of, directions)))
    return rows, fullest, seconds, quality["balance"][balance]


def spread(values, form):
    values = sorted(values)
    middle = statistics.median_low(values)
    return f"{middle:{form}} ({values[0]:{form}} - {values[-1]:{form}})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("atoll")
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--parts", default="2,4,8,16")
    parser.add_argument("--balance", default="nodes,cost")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--base-seeds", type=int, help="fewer for METIS alone, where it takes minutes")
    parser.add_argument("--methods", default="metis,communities,auto")
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    methods = options.methods.split(",")
    threads = [int(count) for count in options.threads.split(",")]
    columns = [f"{method}, {count} thread{'s' if count > 1 else ''}: rows, fullest part's, s"
               for method in methods for count in threads]
    print("| graph | balance | parts | METIS alone: rows, fullest part's, s | "
          + " | ".join(columns) + " | heaviest part |")
    print("|" + "---|" * (5 + len(columns)))
    for dataset in options.datasets:
        for balance in options.balance.split(","):
            for parts in map(int, options.parts.split(",")):
                found = {}
                for seed in range(1, options.seeds + 1):
                    if seed <= (options.base_seeds or options.seeds):
                        found.setdefault("base", []).append(
                            cut(options.atoll, dataset, parts, balance, seed, BASE[1], 1))
                    for method in methods:
                        for count in threads:
                            found.setdefault((method, count), []).append(
                                cut(options.atoll, dataset, parts, balance, seed, METHODS[method],
                                    count))
                bases = [statistics.median_low(values) for values in list(zip(*found["base"]))[:3]]
                forms = [",", ",", ".1f"]
                cells = [", ".join(map(spread, list(zip(*found["base"]))[:3], forms))]
                heaviest = 0
                for method in methods:
                    for count in threads:
                        values = found[(method, count)]
                        heaviest = max([heaviest] + [b for *_, b in values])
                        cells.append(", ".join(
                            spread([value / base for value in column], ".2f")
                            for column, base in zip(zip(*values), bases)))
                        if [r for r, *_ in values] != [r for r, *_ in
                                                       found[(method, threads[0])]]:
                            sys.exit(f"{dataset}: {method} depends on the number of threads")
                print(f"| {os.path.basename(dataset)} | {balance} | {parts} | "
                      + " | ".join(cells) + f" | {heaviest:.3f} |", flush=True)


if __name__ == "__main__":
    main()
