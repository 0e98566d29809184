#!/usr/bin/env python3
"""Collects the results of gpu-check.sh from a folder and sets them beside targets and peers. Alone:
gpu_check_table.py FOLDER prints the tables of a folder or of an unpacked archive."""

import collections
import json
import pathlib
import sys

from gpu_check_judge import read_json
from gpu_check_list import STAGES

TARGETS = pathlib.Path(__file__).with_name("gpu_targets.json")
FIGURES = ("bytes_per_second", "no_reuse_bytes_per_second", "compulsory_bytes_per_second", "flops")


def collect(folder):
    records = [read_json(path) for path in sorted((folder / "checks").glob("*/check.json"))]
    order = list(STAGES)
    records = sorted((record for record in records if record),
                     key=lambda record: order.index(record["stage"]))
    checks = {record["name"]: record for record in records}
    return {"machine": read_json(folder / "machine.json") or {}, "checks": checks}


def epoch_figures(result):
    times = result["epoch_ms"]
    text = f"{times['median']:.2f} ms ({times['min']:.2f} .. {times['max']:.2f})"
    memory = result.get("device_memory_mb") or result.get("peak_device_mb")
    if memory:
        text += f", {memory / 1000:.2f} GB"
    costs = result.get("profile", {}).get("operations", {})
    for operation, cost in sorted(costs.items(), key=lambda item: -item[1]["ms"])[:3]:
        text += f", {operation} {100 * cost['share']:.0f} %"
    return text


def figures_of(record):
    """One check's outcome in a line."""
    result = record.get("result") or {}
    words = [record["why"]] if record["why"] else []
    if "tests" in record:
        tests = record["tests"]
        words.append(f"{tests['ran']} tests, {tests['skipped']} skipped")
        words += [f"failed: {', '.join(tests['failed'])}"] if tests["failed"] else []
    if "epoch_ms" in result:
        words.append(epoch_figures(result))
    if "benchmarks" in result:
        words.append(f"{len(result['benchmarks'])} benchmarks")
    if "kernels" in result:
        words.append(f"{len(result['kernels'])} kernels")
    if record.get("seconds"):
        words.append(f"took {record['seconds']:.0f} s")
    if record.get("beside"):
        words.append(f"beside {record['beside']}")
    return ", ".join(words)


def median_ms(checks, name):
    """The median epoch of a check that passed, else None."""
    record = checks.get(name, {})
    if record.get("state") != "ok":
        return None
    return ((record.get("result") or {}).get("epoch_ms") or {}).get("median")


def spmm_ms(checks, name):
    """The mean time of one SpMM in the profile of a check that passed, else None."""
    record = checks.get(name, {})
    profile = (record.get("result") or {}).get("profile") or {}
    phase = profile.get("phases", {}).get("spmm central")
    if record.get("state") != "ok" or not phase or not phase["calls"]:
        return None
    return phase["ms"] / phase["calls"]


def compared_with_targets(document):
    """Rows (name, target, found, verdict)."""
    checks, scale = document["checks"], document["machine"].get("scale", 1)
    for target in json.loads(TARGETS.read_text(encoding="utf-8"))["targets"]:
        measure = {"epoch": median_ms, "spmm": spmm_ms}[target["of"]]
        found = measure(checks, target["check"])
        if found is None:
            verdict = "not measured"
        elif scale != 1:
            verdict = f"not compared: graphs of scale {scale:g}"
        else:
            verdict = "reached" if found <= target["ms"] else f"missed x {found / target['ms']:.2f}"
        yield target["name"], target["ms"], found, verdict


def compared_with_peers(checks):
    """Rows (task, own ms, the peer's best ms, how), at the same precision."""
    best = {}
    for name, record in checks.items():
        found = median_ms(checks, name)
        if not name.startswith("peer_") or found is None:
            continue
        peer = record["result"]
        task = f"{peer['dataset'].removeprefix('like:')}_{peer['model']}_{peer['precision']}"
        if found < best.get(task, (float("inf"),))[0]:
            best[task] = (found, f"{peer['adjacency']}, "
                                 f"{'compiled' if peer.get('compiled') else 'eager'}")
    for task, (found, how) in sorted(best.items()):
        own = median_ms(checks, f"epoch_{task}")
        if own is not None:
            yield task, own, found, how


def compared_with_cusparse(checks):
    """Rows (graph and model, width and type, ms by kernel, what was chosen) of --spmm auto."""
    for name, record in checks.items():
        for choice in (record.get("calibration") or {}).get("kernel_choices", []):
            times = ", ".join(f"{kernel} {ms:.3f} ms"
                              for kernel, ms in choice["milliseconds"].items())
            yield (name.removeprefix("auto_"), f"{choice['width']} columns, {choice['dtype']}",
                   times or "not measured", f"takes {choice['kernel']}")


def epochs_with_cusparse(checks):
    """Rows (task, ms by default, ms with cuSPARSE alone)."""
    for name in checks:
        if name.startswith("cusparse_"):
            task = name.removeprefix("cusparse_")
            own, other = median_ms(checks, f"epoch_{task}"), median_ms(checks, name)
            if own is not None and other is not None:
                yield task, own, other


def benchmark_rows(checks):
    for record in checks.values():
        for benchmark in (record.get("result") or {}).get("benchmarks", []):
            if benchmark.get("aggregate_name") not in (None, "median"):
                continue
            text = f"{benchmark['real_time']:.3f} {benchmark['time_unit']}"
            for figure in FIGURES:
                if figure in benchmark:
                    text += f", {figure} {benchmark[figure] / 1e9:.1f} G/s"
            yield benchmark.get("run_name", benchmark["name"]), text


def counter_rows(checks):
    for name, record in checks.items():
        kernels = (record.get("result") or {}).get("kernels", {})
        for kernel, figures in sorted(kernels.items(), key=lambda item: -item[1].get("ms", 0)):
            text = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
            yield f"{name.removeprefix('counters_')}  {kernel[:60]}", text


def lines_of(title, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    if not rows:
        return
    yield f"\n{title}"
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip()


def format_document(document):
    """All tables as text; what matters most stands last, where a terminal shows it."""
    checks, machine = document["checks"], document["machine"]
    lines = [f"{machine.get('version')}; GPU: {machine.get('gpu')}; scale {machine.get('scale')}"]
    lines += lines_of("Kernels", benchmark_rows(checks))
    lines += lines_of("Counters", counter_rows(checks))
    lines += lines_of("Checks", [(name, record["state"], figures_of(record))
                                 for name, record in checks.items()
                                 if record["state"] != "put off"])
    put_off = collections.Counter(record["stage"] for record in checks.values()
                                  if record["state"] == "put off")
    if put_off:
        stages = ", ".join(f"{count} of {stage}" for stage, count in put_off.items())
        lines += ["", f"Put off, for want of time: {stages}"]
    lines += lines_of("Own SpMM against cuSPARSE", compared_with_cusparse(checks))
    lines += lines_of("Epochs by default (--spmm auto) and with cuSPARSE alone", [
        (task, f"{own:.2f} ms", f"{other:.2f} ms", f"x {other / own:.2f}")
        for task, own, other in epochs_with_cusparse(checks)])
    lines += lines_of("Epochs against PyTorch Geometric at the same precision", [
        (task, f"{own:.2f} ms", f"{found:.2f} ms", f"x {found / own:.2f}", how)
        for task, own, found, how in compared_with_peers(checks)])
    lines += lines_of("Targets", [
        (name, f"{target:g} ms", "-" if found is None else f"{found:.2f} ms", verdict)
        for name, target, found, verdict in compared_with_targets(document)])
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        print("usage: gpu_check_table.py FOLDER", file=sys.stderr)
        return 2
    print(format_document(collect(pathlib.Path(sys.argv[1]))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
