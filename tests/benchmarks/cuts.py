#!/usr/bin/env python3
"""Halo rows and seconds of cuts, against METIS alone in the same run.

    cuts.py ATOLL DATASET... [--parts 2,4,8,16] [--balance nodes,cost] [--seeds 5]
            [--methods metis,communities,auto] [--threads 1,2] [--base-threads 1]

For every dataset, balance and number of parts METIS alone (objective volume, one cut, not refined) is
the base. Cells are medians of the seeds with least and most in brackets: rows relative to the base's
median, and how many times as fast as the base's median. Methods take turns seed by seed.
"""
import argparse
import json
import os
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


def cut(atoll, dataset, parts, balance, seed, options, threads):
    """Halo rows in both directions (one of a symmetric graph), seconds, the parts' heaviest."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CUTS_TMP")) as folder:
        command = [atoll, "partition", dataset, "--parts", str(parts), "--balance", balance,
                   "--seed", str(seed), "--parts-dir", folder, "--node-order", "natural", "--json"]
        made = subprocess.run(command + options, capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if made.returncode != 0:
            sys.exit(f"{' '.join(command + options)}: {made.stderr}")
        found = json.loads(made.stdout)
    total = found["quality"]["total"]
    symmetric = found["quality"]["forward_rows"] == found["quality"]["backward_rows"]
    rows = total["halo_forward"] + (0 if symmetric else total["halo_backward"])
    return rows, found["partition"]["partition_seconds"], found["quality"]["balance"][balance]


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
    columns = [f"{method}, {count} thread{'s' if count > 1 else ''}: rows, times as fast"
               for method in methods for count in threads]
    print("| graph | balance | parts | METIS alone: rows, s | " + " | ".join(columns)
          + " | heaviest part |")
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
                rows = statistics.median_low(r for r, _, _ in found["base"])
                seconds = statistics.median(s for _, s, _ in found["base"])
                cells = [spread([r for r, _, _ in found["base"]], ",") + ", "
                         + spread([s for _, s, _ in found["base"]], ".2f")]
                heaviest = 0
                for method in methods:
                    for count in threads:
                        values = found[(method, count)]
                        heaviest = max([heaviest] + [b for _, _, b in values])
                        cells.append(spread([r / rows for r, _, _ in values], ".2f") + ", "
                                     + spread([seconds / s for _, s, _ in values], ".1f"))
                        if [r for r, _, _ in values] != [r for r, _, _ in
                                                         found[(method, threads[0])]]:
                            sys.exit(f"{dataset}: {method} depends on the number of threads")
                print(f"| {os.path.basename(dataset)} | {balance} | {parts} | "
                      + " | ".join(cells) + f" | {heaviest:.3f} |", flush=True)


if __name__ == "__main__":
    main()
