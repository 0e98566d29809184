#!/usr/bin/env python3
"""The least time of an epoch on many GPUs, kernel by kernel: `atoll plan` simulates it on a
machine whose kernels and links run at the rates of the data sheet.

gpu_bounds.py FILE [--graph NAME] [--storage bf16|f32] [--atoll PROGRAM] [OPTION OF ATOLL PLAN...]

FILE (docs/examples/gpu-bounds.json) has the rates of a device, its host and network, and graphs
with what their cuts into P parts look like. Prints a table in Markdown, milliseconds of rank 0."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

WIDTHS = (16, 64, 128, 256)
KERNELS = {
    "SpMM": ("spmm central", "spmm marginal"),
    "products, epilogues": ("prepare central", "prepare marginal", "complete central",
                            "complete marginal"),
    "norm": ("norm statistics", "norm apply"),
    "pack, unpack": ("pack", "unpack"),
    "loss, Adam": ("loss", "step"),
}


def topology_of(machine, ranks, storage):
    """The simulator counts f32 values: at two bytes each, memory and links move twice as many."""
    values = 2 if storage == "bf16" else 1
    memory = machine["memory_gb_per_s"]
    # [rows, c] x [c, c] makes c / 2 (f32) or c (bf16) operations per byte: a roofline.
    products = {str(c): min(1000 * machine["tflop_per_s"][storage], memory * values * c / 4)
                for c in WIDTHS}
    on_host = min(ranks, machine["per_host"])
    hosts = ranks // on_host
    if hosts * on_host != ranks:
        sys.exit(f"gpu_bounds.py: {ranks} ranks do not fill hosts of {on_host}")
    card = 1000 * machine["network_gbit_per_s"] * on_host * values
    links = {}
    if on_host > 1:  # a device shares what it can send among the others of its host
        links["within_island"] = {
            "latency_us": machine["latency_us"]["within_host"],
            "gbit_per_s": 8 * machine["device_link_gb_per_s"] * values / (on_host - 1)}
    if hosts > 1:
        links["between_hosts"] = {"latency_us": machine["latency_us"]["between_hosts"],
                                  "gbit_per_s": machine["network_gbit_per_s"] * values}
    rates = {str(c): memory * values for c in WIDTHS}
    return {"format": 1,
            "hosts": [{"name": "host", "count": hosts, "send_mbit_per_s": card,
                       "receive_mbit_per_s": card}],
            "ranks": [{"host": "host", "count": on_host, "kind": "cuda",
                       "memory_gib": machine["memory_gib"] * values, "spmm_gb_per_s": rates,
                       "gemm_gflop_per_s": products, "elementwise_gb_per_s": memory * values,
                       "quantize_gb_per_s": memory * values}],
            **({"links": links} if links else {})}


def shape_of(machine, graph, ranks):
    cut = graph["cuts"][str(ranks)] if ranks > 1 else dict.fromkeys(
        ("within_host", "between_hosts", "marginal_edges_share"), 0) | {"central_share": 1}
    on_host = min(ranks, machine["per_host"])
    nodes = graph["nodes"] / ranks
    return {"format": 1, "name": graph["name"], "nodes": graph["nodes"], "edges": graph["edges"],
            "features": graph["features"], "classes": graph["classes"],
            "parts": {"count": ranks, "per_host": on_host, "central_share": cut["central_share"],
                      "marginal_edges_share": cut["marginal_edges_share"],
                      "training_nodes": graph["training_nodes"],
                      "halo_rows": {
                          "within_host": round(nodes * cut["within_host"] / max(1, on_host - 1)),
                          "between_hosts": round(nodes * cut["between_hosts"]
                                                 / max(1, ranks - on_host))}}}


def simulate(program, folder, topology, shape, options):
    """Milliseconds of the epoch, and by phase of rank 0; None if it needs more memory. Ends the
    program with atoll's message for everything else."""
    for name, document in (("topology", topology), ("shape", shape)):
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    result = subprocess.run(
        [program, "plan", "--shape", str(folder / "shape.json"), "--topology",
         str(folder / "topology.json"), "--search", "none", "--out", str(folder / "plan.json"),
         "--predicted-trace", str(folder / "trace.json"), *options],
        capture_output=True, text=True, check=False)
    if "no plan fits into the memory" in result.stderr:
        return None, {}
    if result.returncode != 0:
        sys.exit(result.stderr.strip())
    epoch = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["predicted_ms"]
    phases = collections.Counter()
    events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    for event in events:
        if event.get("ph") == "X" and event["pid"] == 0 and event["name"] != "packet":
            phases[event["name"]] += event["dur"] / 1000
    return epoch, phases


def cells_of(ranks, epoch, phases):
    """Column -> text of one row."""
    cells = {name: sum(phases[phase] for phase in names) for name, names in KERNELS.items()}
    # Posting messages, sums over ranks, and waiting for both.
    cells["messages, sums"] = max(0, epoch - sum(cells.values()))
    cells["epoch"] = epoch
    return {"P": str(ranks), **{name: f"{round(ms, 4):.3g}" for name, ms in cells.items()}}


def print_table(rows):
    """In Markdown, without kernels that no row has. An empty row is one that does not fit."""
    columns = [name for name in ("P", *KERNELS, "messages, sums", "epoch")
               if any(row.get(name, "0") != "0" for row in rows)]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(row.get(name, "-") for name in columns) + " |")
    if any(len(row) == 1 for row in rows):
        print("\n-: does not fit into memory")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--graph", help="only this one of the file")
    parser.add_argument("--storage", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--ranks", help="comma list (default: 1 and those that FILE has cuts for)")
    parser.add_argument("--atoll", default="build/atoll")
    given, options = parser.parse_known_args()
    document = json.loads(given.file.read_text(encoding="utf-8"))
    machine = document["machine"]
    for graph in document["graphs"]:
        if given.graph not in (None, graph["name"]):
            continue
        ranks = [int(word) for word in given.ranks.split(",")] if given.ranks \
            else [1, *map(int, graph["cuts"])]
        print(f"{graph['name']}, {given.storage}, ms:\n")
        rows = []
        for count in ranks:
            with tempfile.TemporaryDirectory() as folder:
                epoch, phases = simulate(given.atoll, pathlib.Path(folder),
                                         topology_of(machine, count, given.storage),
                                         shape_of(machine, graph, count), options)
            rows.append({"P": str(count)} if epoch is None else cells_of(count, epoch, phases))
        print_table(rows)


if __name__ == "__main__":
    main()
