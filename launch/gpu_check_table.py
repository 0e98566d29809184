#!/usr/bin/env python3
"""Collects the results of gpu-check.sh: writes FOLDER/gpu-check.json and prints one table."""

import json
import pathlib
import sys


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None


def collect(folder):
    results = folder / "results"
    gpu = results / "gpu.txt"
    document = {"gpu": gpu.read_text().strip() if gpu.exists() else None,
                "machine": read_json(results / "machine.json"), "checks": {}}
    for path in sorted(results.glob("*.exit")):
        code, seconds = path.read_text().split()
        name = path.stem
        document["checks"][name] = {
            "exit_code": int(code), "seconds": int(seconds),
            "command": (results / f"{name}.command").read_text().strip(),
            "result": read_json(results / f"{name}.json")}
        tests = results / f"{name}.tests"
        if tests.exists():
            ran, skipped = tests.read_text().split()
            document["checks"][name]["tests"] = {"ran": int(ran), "skipped": int(skipped)}
    for path in sorted(results.glob("*.skipped")):
        document["checks"][path.stem] = {"skipped": path.read_text().strip()}
    for path in sorted(results.glob("*.command")):  # ended from outside while it ran
        document["checks"].setdefault(path.stem, {"unfinished": path.read_text().strip()})
    return document


def rows_of(document):
    for name, check in document["checks"].items():
        if "skipped" in check:
            yield name, "skipped", check["skipped"]
            continue
        if "unfinished" in check:
            yield name, "unfinished", check["unfinished"]
            continue
        state = "ok" if check["exit_code"] == 0 else f"exit code {check['exit_code']}"
        result = check["result"] or {}
        if "tests" in check:
            tests = check["tests"]
            yield name, state, (f"{tests['ran']} tests, {tests['skipped']} skipped, "
                                f"{check['seconds']} s")
        elif "epoch_ms" in result:
            times = result["epoch_ms"]
            text = f"{times['median']:.2f} ms ({times['min']:.2f} .. {times['max']:.2f})"
            memory = result.get("device_memory_mb") or result.get("peak_device_mb")
            if memory:
                text += f", {memory / 1000:.2f} GB"
            for operation, cost in sorted(result.get("profile", {}).get("operations", {}).items(),
                                          key=lambda item: -item[1]["ms"])[:4]:
                text += f", {operation} {100 * cost['share']:.0f} %"
            yield name, state, text
        elif "benchmarks" in result:
            yield name, state, f"{len(result['benchmarks'])} benchmarks"
            for benchmark in result["benchmarks"]:
                if benchmark.get("aggregate_name") not in (None, "median"):
                    continue
                text = f"{benchmark['real_time']:.3f} {benchmark['time_unit']}"
                for counter in ("bytes_per_second", "no_reuse_bytes_per_second",
                                "compulsory_bytes_per_second", "flops"):
                    if counter in benchmark:
                        text += f", {counter} {benchmark[counter] / 1e9:.1f} G/s"
                yield "  " + benchmark.get("run_name", benchmark["name"]), "", text
        else:
            yield name, state, f"{check['seconds']} s"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: gpu_check_table.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    document = collect(folder)
    (folder / "gpu-check.json").write_text(json.dumps(document, indent=1) + "\n")
    rows = list(rows_of(document))
    width = max((len(row[0]) for row in rows), default=0)
    for name, state, text in rows:
        print(f"{name:<{width}}  {state:<12}  {text}")


if __name__ == "__main__":
    main()
