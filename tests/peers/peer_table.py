"""Sums up the rounds of a comparison and writes them as Markdown."""

import statistics

ATOLL = "atoll"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(peer, atoll):
    """Quotients of what was measured in the same round; each maps round -> epoch milliseconds."""
    return [peer[number] / atoll[number] for number in sorted(peer) if number in atoll]


def row(name, runs, atoll_runs):
    """One peer's results. runs and atoll_runs map round -> result with epoch_ms and peak_rss_mb."""
    medians = {number: run["epoch_ms"]["median"] for number, run in runs.items()}
    atoll = {number: run["epoch_ms"]["median"] for number, run in atoll_runs.items()}
    result = {"peer": name, "rounds": len(runs), "epoch_ms": None, "ratio": None,
              "peak_rss_mb": None}
    if medians:
        result["epoch_ms"] = spread(medians.values())
        result["epoch_ms"]["by_round"] = [medians[number] for number in sorted(medians)]
        peaks = [run["peak_rss_mb"] for run in runs.values() if run["peak_rss_mb"] is not None]
        result["peak_rss_mb"] = max(peaks) if peaks else None
    quotients = ratios(medians, atoll)
    if quotients:
        result["ratio"] = spread(quotients)
    return result


def spread_cell(values, digits):
    if values is None:
        return "–"
    return (f"{values['median']:.{digits}f} ({values['min']:.{digits}f} .. "
            f"{values['max']:.{digits}f})")


def percent_cell(value):
    return "–" if value is None else f"{100 * value:.2f}"


def table_rows(group):
    yield ["peer", "ms per epoch", "peer / Atoll", "peak MB", "train %", "valid %", "test %", ""]
    yield ["---"] + ["---:"] * 6 + ["---"]
    for entry in group["rows"]:
        peak = entry["peak_rss_mb"]
        note = entry.get("description", "")
        if entry["state"] != "ok":
            note = f"{entry['state']}: {entry['reason']}"
        yield [entry["peer"], spread_cell(entry["epoch_ms"], 1), spread_cell(entry["ratio"], 2),
               "–" if peak is None else f"{peak:.0f}",
               *(percent_cell(entry.get(split)) for split in ("train", "valid", "test")),
               note.replace("|", "\\|")]


def markdown(group):
    """One table: a model, a type and a number of threads."""
    threads = f"{group['threads']} thread" + ("s" if group["threads"] > 1 else "")
    ranks = f" on {group['atoll_ranks']} ranks of Atoll" if group["atoll_ranks"] > 1 else ""
    text = [f"### {group['dataset']}: {group['model']} {group['layers']}x{group['hidden']}, norm "
            f"{group['norm']}, {group['dtype']}, {threads}{ranks}", ""]
    text += ["| " + " | ".join(cells) + " |" for cells in table_rows(group)]
    text += ["", f"Medians over {group['rounds']} rounds (least .. most), each of "
             f"{group['epochs']} epochs after {group['warmup']}; accuracy after all "
             f"{group['warmup'] + group['epochs']} epochs, seed {group['seed']}.", ""]
    return "\n".join(text)
