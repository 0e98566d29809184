#!/usr/bin/env python3
"""Fails when an operation or a phase of an epoch got slower against what the machine can do.

    tests/benchmarks/regression.py [build/atoll] [--update]

Trains on a generated graph of arxiv's shape and hubs with `atoll bench --profile`, which measures the
machine's ceilings in the same run, and compares time / bound of everything that takes 3 % of an
epoch or more with tests/benchmarks/baseline.json. More than 20 % above it: exit code 1. Ratios
of another processor say little, so every processor has a baseline of its own; --update writes it.
Speed is measured here alone: no test of `launch/test.sh` depends on it.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = {"gcn": ["--model", "gcn"],
         "gcn batch norm": ["--model", "gcn", "--norm", "batch"],
         "sage batch norm": ["--model", "sage", "--norm", "batch"],
         "gcn bf16": ["--model", "gcn", "--dtype", "bf16"],
         "gatv2": ["--model", "gatv2", "--layers", "2", "--heads", "8"]}
LEAST_SHARE = 0.03
TOLERANCE = 0.2


def ratios(profile):
    """{"operations spmm": time / bound, ...} of one report of `atoll bench --profile`."""
    found = {}
    for kind in ("operations", "phases"):
        for name, cost in profile[kind].items():
            if cost["share"] >= LEAST_SHARE and cost["no_reuse_bound_ms"] > 0:
                found[f"{kind} {name}"] = cost["ms"] / cost["no_reuse_bound_ms"]
    found["epoch"] = profile["epoch_ms"] / profile["no_reuse_bound_ms"]
    return found


def medians(rounds):
    """Figures that every one of several rounds has, {name: (median, least, most)}."""
    names = [name for name in rounds[0] if all(name in one for one in rounds)]
    return {name: (statistics.median(one[name] for one in rounds),
                   min(one[name] for one in rounds), max(one[name] for one in rounds))
            for name in names}


def slower(measured, baseline, tolerance=TOLERANCE):
    """Names whose best round is above the baseline by more than the tolerance: noise only adds."""
    return [name for name, (_, least, _) in measured.items()
            if name in baseline and least > (1 + tolerance) * baseline[name]]


def bench(atoll, data, options, threads):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "bench.json"
        command = [str(atoll), "bench", str(data), *options, "--backend", "cpu", "--threads",
                   str(threads), "--warmup", "2", "--epochs", "1", "--profile", "3", "--out",
                   str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(report.read_text())


def graph(atoll, folder):
    data = folder / "arxiv-tail"
    if not data.exists():
        subprocess.run([str(atoll), "generate", "like:ogbn-arxiv", "--degree-tail", "--scale",
                        "0.5", "--out", str(data)], check=True, capture_output=True)
    return data


def show(case, measured, baseline):
    print(f"{case}\n  {'time / bound':<40} {'median':>8} {'least':>8} {'most':>8} {'baseline':>9}")
    for name, (median, least, most) in measured.items():
        before = f"{baseline[name]:9.2f}" if name in baseline else f"{'-':>9}"
        print(f"  {name:<40} {median:8.2f} {least:8.2f} {most:8.2f} {before}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("atoll", nargs="?", default="build/atoll", type=pathlib.Path)
    parser.add_argument("--baseline", default=HERE / "baseline.json", type=pathlib.Path)
    parser.add_argument("--data", default=pathlib.Path("build/benchmark-data"), type=pathlib.Path,
                        help="folder for the generated graph")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--threads", default=1, type=int)
    parser.add_argument("--update", action="store_true",
                        help="make what is measured now this processor's baseline")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    data = graph(options.atoll, options.data)
    rounds = {case: [] for case in CASES}
    for _ in range(options.rounds):  # in turn: what disturbs for a while disturbs all
        for case, arguments in CASES.items():
            report = bench(options.atoll, data, arguments, options.threads)
            rounds[case].append(ratios(report["profile"]))
    device = report["device"]
    known = json.loads(options.baseline.read_text()) if options.baseline.exists() else {}
    measured = {case: medians(rounds[case]) for case in CASES}
    failed = []
    for case in CASES:
        baseline = known.get(device, {}).get(case, {})
        show(case, measured[case], baseline)
        failed += [f"{case}: {name}" for name in slower(measured[case], baseline)]
    if options.update:
        known[device] = {case: {name: round(median, 3) for name, (median, _, _) in found.items()}
                         for case, found in measured.items()}
        options.baseline.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        print(f"baseline of '{device}' written to {options.baseline}")
    elif device not in known:
        sys.exit(f"{options.baseline} has no baseline of '{device}'; --update makes one")
    elif failed:
        sys.exit("SLOWER by more than 20 % against the ceilings of this run:\n  "
                 + "\n  ".join(failed))
    else:
        print("No operation and no phase is more than 20 % slower than its baseline.")


if __name__ == "__main__":
    main()
