"""Reads what the programs of gpu-check.sh have said: whether a check passed, in a few words, and its
figures. A program's exit code alone is not trusted: a test program ends well if no test ran, an
epoch is slow but right if its recording failed."""

import csv
import io
import json
import re
import statistics

RAN = re.compile(r"^\[ +(?:OK|FAILED) +\] .*\([0-9]+ ms\)$", re.MULTILINE)
SKIPPED = re.compile(r"^\[ +SKIPPED +\] .*\([0-9]+ ms\)$", re.MULTILINE)
FAILED = re.compile(r"^\[ +FAILED +\] (.*) \([0-9]+ ms\)$", re.MULTILINE)

# Names of ncu for the figures that say what a kernel waits for.
COUNTERS = {"Duration": "duration", "Memory Throughput": "memory", "DRAM Throughput": "dram_percent",
            "L2 Hit Rate": "l2_hit_percent", "L1/TEX Hit Rate": "l1_hit_percent",
            "Compute (SM) Throughput": "sm_percent", "Achieved Occupancy": "occupancy_percent",
            "Registers Per Thread": "registers"}
MILLISECONDS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0,
                "msecond": 1.0, "s": 1e3, "second": 1e3}


class Verdict:
    """state: ok, failed or skipped (the host's or a peer's fault); why: in words."""

    def __init__(self, state, why="", result=None, **more):
        self.state, self.why, self.result, self.more = state, why, result, more


def read_json(path):
    """The document; None if it is not there or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def judge_plain(check, folder, text, why):
    return Verdict("failed", why) if why else Verdict("ok")


def judge_tests(check, folder, text, why):
    """A GoogleTest program."""
    ran, skipped = len(RAN.findall(text)), len(SKIPPED.findall(text))
    counts = {"ran": ran, "skipped": skipped, "failed": sorted(set(FAILED.findall(text)))}
    if not why and ran == 0:
        why = "no test ran"
    return Verdict("failed" if why else "ok", why, tests=counts)


def judge_epochs(check, folder, text, why):
    """`atoll bench`, whose JSON comes whole or not at all."""
    result = read_json(folder / "bench.json")
    if why:
        return Verdict("failed", why)
    if not result or "epoch_ms" not in result:
        return Verdict("failed", "left no bench.json")
    calibration = read_json(folder / "calibration.json")
    more = {"calibration": calibration} if calibration else {}
    if check.replayed and not result.get("replayed"):
        return Verdict("failed", "epochs were not replayed from a recording", result, **more)
    if not check.replayed and "off" in check.words and result.get("replayed"):
        return Verdict("failed", "epochs were replayed in spite of --cuda-graph off", result, **more)
    return Verdict("ok", "", result, **more)


def judge_benchmarks(check, folder, text, why):
    """Google Benchmark writes its JSON bit by bit: it counts if the program came to its end. Wrong
    results do not show in its exit code."""
    unfinished = folder / "benchmarks.json.part"
    result = read_json(unfinished)
    if why or not result:
        unfinished.unlink(missing_ok=True)
        return Verdict("failed", why or "left no JSON")
    unfinished.rename(folder / "benchmarks.json")
    wrong = [one["name"] for one in result["benchmarks"] if one.get("error_occurred")]
    if wrong or not result["benchmarks"]:
        return Verdict("failed", f"wrong results: {', '.join(wrong)}" if wrong else "none ran",
                       result)
    return Verdict("ok", "", result)


def judge_peer(check, folder, text, why):
    """A peer's limit (memory, a missing kernel, time) is no failure of ours."""
    if why:
        return Verdict("skipped", f"{why}: {last_line(text)}")
    try:
        return Verdict("ok", "", json.loads(last_line(text)))
    except ValueError:
        return Verdict("skipped", f"printed no JSON: {last_line(text)}")


def counters_by_kernel(text):
    """Medians over the launches of each kernel, from the lines that ncu --csv prints among the
    program's own."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    launches = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        name, metric = row.get("Kernel Name"), COUNTERS.get(row.get("Metric Name"))
        if not name or not metric:
            continue
        try:
            value = float((row.get("Metric Value") or "").replace(",", ""))
        except ValueError:
            continue
        unit = row.get("Metric Unit")
        if metric == "duration":
            metric, value = "ms", value * MILLISECONDS.get(unit, float("nan"))
        elif metric == "memory":  # the same name in two sections: a rate and a share
            metric = "memory_percent" if unit == "%" else None
        if metric:
            launches.setdefault(name, {}).setdefault(metric, []).append(value)
    return {name: {"launches": max(map(len, figures.values())),
                   **{metric: statistics.median(values) for metric, values in figures.items()}}
            for name, figures in launches.items()}


def judge_counters(check, folder, text, why):
    """Hosts may refuse counters to their guests, which is no failure of ours either."""
    kernels = counters_by_kernel(text)
    if not kernels:
        return Verdict("skipped", f"{why or 'no counters'}: {last_line(text)}")
    return Verdict("ok", why, {"kernels": kernels})


JUDGES = {"plain": judge_plain, "tests": judge_tests, "epochs": judge_epochs,
          "benchmarks": judge_benchmarks, "peer": judge_peer, "counters": judge_counters}


def outputs_of(check, folder):
    """The options by which a check's program writes its figures into the folder of the check."""
    if check.kind == "epochs":
        return ["--out", str(folder / "bench.json")]
    if check.kind == "benchmarks":
        return [f"--benchmark_out={folder / 'benchmarks.json.part'}"]
    return []
