#!/usr/bin/env python3
"""Halo rows, time and memory of other packages' cuts beside Atoll's own, by atoll.partition.

    cuts_by_others.py measure RESULTS DATASET... [--parts 2,8,16] [--seeds 1,2,3] [--threads 1]
                      [--methods auto,strong,kaminpar,...] [--balance cost]
    cuts_by_others.py table RESULTS

`measure` appends a line of JSON per cut; methods take turns seed by seed, and each cut is made by a
process of its own. `table` prints medians over the seeds, with the least and the most in brackets. The
seconds are those of partition.seconds: of another package they include the files that it reads,
beside which stands what the package itself took. The memory is the most that one of the processes had.
"""
import argparse
import json
import os
import statistics
import tempfile

import atoll

METHODS = {
    "auto": {},
    "strong": {"refine": "strong"},
    "communities": {"method": "communities"},
    "kaminpar": {"method": "kaminpar"},
    "kaminpar strong": {"method": "kaminpar", "preset": "strong"},
    "mt-kahypar": {"method": "mt-kahypar"},
    "mt-kahypar quality": {"method": "mt-kahypar", "preset": "quality"},
    "mt-kahypar cut": {"method": "mt-kahypar", "objective": "cut"},
    "mt-kahypar quality cut": {"method": "mt-kahypar", "preset": "quality", "objective": "cut"},
    "scotch": {"method": "scotch"},
    "scotch quality": {"method": "scotch", "preset": "quality"},
}
REFINED = " + refine"  # behind the name of another package's method
METHODS |= {name + REFINED: {**options, "refine": "on"} for name, options in METHODS.items()
            if options.get("method") not in (None, "communities") and "objective" not in options}


def measure(dataset, name, parts, balance, seed, threads, folder):
    base = {"graph": os.path.basename(dataset), "method": name, "parts": parts, "balance": balance,
            "seed": seed, "threads": threads}
    try:
        made = atoll.partition(dataset, parts, seed=seed, threads=threads, balance=balance,
                               parts_dir=folder, node_order="natural", **METHODS[name])
    except atoll.AtollError as error:
        return {**base, "refused": str(error)}
    total = made.quality["total"]
    rows = total["halo_forward"] + (total["halo_backward"] if made.dataset.directed else 0)
    return {**base, "rows": rows, "fullest": int(made.halo_rows.max()), "edges_cut": made.edges_cut,
            "heaviest": made.balance[balance], "seconds": made.seconds,
            "package": made.made_by.get("package_seconds"), "cpu_seconds": made.cpu_seconds,
            "peak_bytes": made.peak_bytes}


def spread(values, form):
    middle = statistics.median(values)
    if len(values) == 1:
        return f"{middle:{form}}"
    return f"{middle:{form}} ({min(values):{form}} - {max(values):{form}})"


def cells(found, base):
    """The figures of one method as text: rows, seconds, ..."""
    made = [one for one in found if "rows" in one]
    if not made:
        return [f"refused: {found[0]['refused']}"] + [""] * 6

    def column(key):
        return [one[key] for one in made]
    own = f"{statistics.median(column('package')):.1f}" if made[0]["package"] is not None else ""
    refused = f", {len(found) - len(made)} of {len(found)} refused" if len(made) < len(found) else ""
    share = statistics.median(column("rows")) / base if base else float("nan")
    return [spread(column("rows"), ",.0f") + refused, f"{share:.3f}",
            spread(column("seconds"), ".1f"), own, spread(column("cpu_seconds"), ".1f"),
            f"{max(column('peak_bytes')) / 1e6:,.0f}", f"{max(column('heaviest')):.3f}"]


def table(results):
    """All lines, in the order in which graphs, parts, threads and methods came first."""
    groups = {}
    for one in results:
        place = (one["graph"], one["balance"], one["parts"], one["threads"])
        groups.setdefault(place, {}).setdefault(one["method"], []).append(one)
    yield ("| graph, balance, parts, threads | method | halo rows | of auto's | s | of them the "
           "package | CPU s | MB | heaviest part |")
    yield "|" + "---|" * 9
    for place, methods in groups.items():
        rows = [one["rows"] for one in methods.get("auto", []) if "rows" in one]
        base = statistics.median(rows) if rows else None
        head = ", ".join(map(str, place))
        for method in (name for name in METHODS if name in methods):
            yield f"| {head} | {method} | " + " | ".join(cells(methods[method], base)) + " |"
            head = ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("results")
    measured.add_argument("datasets", nargs="+")
    measured.add_argument("--parts", default="2,8,16")
    measured.add_argument("--balance", default="cost")
    measured.add_argument("--seeds", default="1,2,3")
    measured.add_argument("--methods", default=",".join(METHODS))
    measured.add_argument("--threads", type=int, default=1)
    commands.add_parser("table").add_argument("results")
    options = parser.parse_args()
    if options.command == "table":
        with open(options.results, encoding="utf-8") as file:
            print("\n".join(table(map(json.loads, file))))
        return
    for dataset in options.datasets:
        for parts in map(int, options.parts.split(",")):
            for seed in map(int, options.seeds.split(",")):
                # Cuts to be refined are those that were made just before.
                with tempfile.TemporaryDirectory(dir=os.environ.get("CUTS_TMP")) as folder:
                    for name in options.methods.split(","):
                        one = measure(os.path.abspath(dataset), name, parts, options.balance, seed,
                                      options.threads, folder)
                        with open(options.results, "a", encoding="utf-8") as file:
                            file.write(json.dumps(one) + "\n")
                        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
