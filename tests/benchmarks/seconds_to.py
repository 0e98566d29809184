#!/usr/bin/env python3
"""After how many seconds of training a valid accuracy is reached.

Reads run folders of `atoll train` (their metrics.jsonl) and outputs of tests/peers/dgl_sampling.py
(a JSON object with `epochs`), several of one name for several seeds: NAME=PATH. Prints a table in
Markdown: the median over seeds with the least and the most, `-` where a seed never got there, the
best valid accuracy, and the test accuracy in the epoch that has it. Seconds count training alone, not
evaluations and start-up.
"""

import argparse
import json
import pathlib
import statistics
import sys


def epochs_of(path):
    """(seconds of training so far, valid accuracy, test accuracy) of each evaluated epoch."""
    if path.is_dir():
        lines = (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        found, seconds = [], 0.0
        for line in map(json.loads, lines):
            seconds += line["epoch_ms"] / 1000
            if line.get("valid") is not None:
                found.append((seconds, line["valid"], line["test"]))
        return found
    return [(epoch["seconds"], epoch["valid"], epoch["test"])
            for epoch in json.loads(path.read_text(encoding="utf-8"))["epochs"]]


def seconds_to(epochs, level):
    return next((seconds for seconds, valid, _ in epochs if valid >= level), None)


def spread(values, digits):
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return text
    return f"{text} ({min(values):.{digits}f} - {max(values):.{digits}f})"


def cells(runs, levels):
    """The row of a method: one list of epochs per seed."""
    result = []
    for level in levels:
        times = [seconds_to(epochs, level) for epochs in runs]
        result.append("-" if None in times else spread(times, 1))
    best = [max(epochs, key=lambda epoch: epoch[1]) for epochs in runs]
    return [*result, spread([epoch[1] for epoch in best], 4), spread([epoch[2] for epoch in best], 4)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=PATH")
    parser.add_argument("--levels", default=".69,.72,.73,.74,.748,.75,.752,.7555",
                        help="valid accuracies, separated by commas (default %(default)s)")
    options = parser.parse_args()
    methods = {}
    for run in options.runs:
        name, equals, path = run.partition("=")
        if not equals:
            parser.error(f"'{run}' is not NAME=PATH")
        try:
            epochs = epochs_of(pathlib.Path(path))
        except OSError as error:
            sys.exit(f"seconds_to.py: {error}")
        except (ValueError, KeyError) as error:
            sys.exit(f"seconds_to.py: {path}: {error!r}")
        if not epochs:
            sys.exit(f"seconds_to.py: {path}: no epoch was evaluated")
        methods.setdefault(name, []).append(epochs)
    levels = [float(level) for level in options.levels.split(",")]
    print("| seconds until valid accuracy | " + " | ".join(f"{level:g}" for level in levels)
          + " | best | test |")
    print("|---" * (len(levels) + 3) + "|")
    for name, runs in methods.items():
        print(f"| {name} | " + " | ".join(cells(runs, levels)) + " |")


if __name__ == "__main__":
    main()
