"""Compares the modes of a list of jobs: means over seeds, and differences paired by seed with their
confidence intervals."""

import math
import statistics

from job_runner import summary_of

CONFIDENCE = 0.95


def sine_share(nu, theta):
    """Integral of cos^(nu - 1) from 0 to theta over that from 0 to pi / 2: the probability that
    |T| < sqrt(nu) tan(theta) for Student's T with nu degrees of freedom (Abramowitz and Stegun,
    26.7.1 with t = sqrt(nu) tan(theta)). Integrated by parts down to cos^0 or cos^1."""
    power = nu - 1
    partial, whole = (theta, math.pi / 2) if power % 2 == 0 else (math.sin(theta), 1.0)
    for n in range(2 + power % 2, power + 1, 2):
        partial = math.cos(theta) ** (n - 1) * math.sin(theta) / n + (n - 1) / n * partial
        whole *= (n - 1) / n
    return partial / whole


def student_t(nu, confidence=CONFIDENCE):
    """The t with P(|T| < t) = confidence for nu >= 1 degrees of freedom, by bisection."""
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        if sine_share(nu, middle) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(nu) * math.tan(low)


def interval(differences):
    """Mean of the differences and the half width of its 95 % confidence interval; None for what
    so few numbers do not give."""
    if not differences:
        return None, None
    mean = statistics.fmean(differences)
    count = len(differences)
    if count < 2:
        return mean, None
    return mean, student_t(count - 1) * statistics.stdev(differences) / math.sqrt(count)


def number(summary, field):
    value = summary.get(field)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def known(values):
    return [value for value in values if value is not None]


def compare_mode(name, planned, summaries, baseline):
    """One row. summaries and baseline: seed -> summary of the mode, and of the mode to compare with
    (None if there is none). Scores in percent, differences in percentage points."""
    tests = {seed: 100 * number(summary, "test") for seed, summary in summaries.items()
             if number(summary, "test") is not None}
    row = {"mode": name, "runs": len(summaries), "planned": planned,
           "test_mean": statistics.fmean(tests.values()) if tests else None,
           "test_sd": statistics.stdev(tests.values()) if len(tests) > 1 else None,
           "difference": None, "half_width": None, "pairs": 0}
    if baseline is not None and baseline is not summaries:
        differences = [test - 100 * number(baseline[seed], "test") for seed, test in tests.items()
                       if seed in baseline and number(baseline[seed], "test") is not None]
        row["pairs"] = len(differences)
        row["difference"], row["half_width"] = interval(differences)
    traffic = known(number(summary, "bytes_sent_per_epoch") for summary in summaries.values())
    times = known(number(summary, "epoch_ms_median") for summary in summaries.values())
    row["mb_per_epoch"] = statistics.fmean(traffic) / 1e6 if traffic else None
    row["epoch_ms"] = statistics.median(times) if times else None
    row["tests"] = {str(seed): test for seed, test in sorted(tests.items())}
    return row


def compare(jobs, out, baseline):
    """The groups of the list with a row per mode, from the jobs that have finished."""
    planned = {}
    for job in jobs:
        planned.setdefault(job.group, {}).setdefault(job.mode, []).append(job)
    groups = []
    for group, modes in planned.items():
        summaries = {}
        for mode, members in modes.items():
            found = {job.seed: summary_of(job, out) for job in members}
            summaries[mode] = {seed: summary for seed, summary in found.items()
                               if summary is not None}
        commits = {str(summary.get("commit", "unknown")) for mode in summaries.values()
                   for summary in mode.values()}
        rows = [compare_mode(mode, len(modes[mode]), summaries[mode], summaries.get(baseline))
                for mode in modes]
        groups.append({"group": group, "dataset": next(iter(modes.values()))[0].dataset,
                       "baseline": baseline, "commits": sorted(commits), "modes": rows})
    return groups


def cell(value, digits, sign=""):
    return "–" if value is None else f"{value:{sign}.{digits}f}"


def markdown_rows(group):
    yield ["mode", "runs", "test %", "sd", f"minus {group['baseline']}", "95 % interval",
           "MB per epoch", "ms per epoch"]
    yield ["---"] + ["---:"] * 7
    for row in group["modes"]:
        runs = str(row["runs"]) + (f" of {row['planned']}" if row["runs"] < row["planned"] else "")
        span = "–"
        if row["half_width"] is not None:
            span = (f"{row['difference'] - row['half_width']:+.3f} .. "
                    f"{row['difference'] + row['half_width']:+.3f}")
            if row["pairs"] < row["runs"]:
                span += f" ({row['pairs']} pairs)"
        yield [row["mode"], runs, cell(row["test_mean"], 3), cell(row["test_sd"], 3),
               cell(row["difference"], 3, "+"), span, cell(row["mb_per_epoch"], 4),
               cell(row["epoch_ms"], 2)]


def markdown(groups):
    """A table per group. Differences are in percentage points, per seed, then averaged."""
    text = []
    for group in groups:
        text.append(f"### {group['group']} ({group['dataset']})\n")
        text += ["| " + " | ".join(row) + " |" for row in markdown_rows(group)]
        if group["commits"]:
            several = "s" if len(group["commits"]) > 1 else ""
            text.append(f"\nCommit{several} {', '.join(group['commits'])}.")
        text.append("")
    return "\n".join(text)
