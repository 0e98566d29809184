#!/usr/bin/env python3
"""Warm starts and replay on a graph that grows: epochs, average performance and forgetting.

    sequence.py make ARXIV/raw FOLDER [--seed 1]
    sequence.py drift FOLDER [--seed 1] [--turn 15]
    sequence.py run ATOLL FOLDER RESULTS.jsonl [--methods joint,new-only,...] [--shares .01,.05] [--seeds 5]
    sequence.py warm ATOLL FOLDER RESULTS.jsonl [--seeds 5]
    sequence.py table RESULTS.jsonl

make  writes FOLDER/step-1 to step-7: ogbn-arxiv as it was at the end of 2014, 2015, ..., 2020. Nodes are
      numbered by year, so that ids stay when the graph grows; edges are undirected. Of the nodes of each
      year 60 % are for training, 10 % for validation, 30 % for the test, drawn with the seed.
drift writes seven steps of a generated graph whose classes drift: features of a class turn, by an angle
      per step, towards those of the next class; at 15 degrees those of step 7 are what the next class had
      in step 1. Neighbours are mostly of the same class, half of them of the same step.
run   trains each method on all steps in turn. joint: from the beginning, with the labels of all training
      nodes; the others begin with the model of the step before (--warm-start). new-only, random, degree,
      cover, cover+match: with the labels of new nodes and of a buffer (--replay), whose size is a share
      of the old training nodes.
warm  trains each step with the labels of all training nodes, from the beginning (cold) and with
      --warm-start of the step before, and finds how many epochs each of them takes until the best
      valid accuracy of the cold run. Epoch 0 is the model of the step before, as it is.
table prints both results as Markdown: means over the seeds with 95 % intervals (Student's t), and what
      each buffer has over a random one of the same size, seed by seed.

A line of RESULTS is one run of a sequence, or one step of `warm`; what is there already is not run
again, so the command may be interrupted and called again with more seeds. Options of training
stand behind --: sequence.py run atoll steps results.jsonl -- --layers 2 --hidden 64 --lr .01 --epochs 100.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import intervals

METHODS = {
    "joint": None,
    "new-only": [],
    "random": ["--replay-select", "random"],
    "degree": ["--replay-select", "degree"],
    "cover": ["--replay-select", "cover"],
    "cover+match": ["--replay-select", "cover", "--replay-weights", "match"],
}
TRAIN = ["--model", "gcn", "--layers", "2", "--hidden", "64", "--lr", ".01", "--epochs", "100"]
YEARS = range(2014, 2021)


def make(options):
    import numpy  # the other commands do without

    def table(name):
        with gzip.open(os.path.join(options.raw, name + ".csv.gz"), "rt") as file:
            return numpy.loadtxt(file, delimiter=",", dtype=numpy.float32 if name == "node-feat"
                                 else numpy.int64, ndmin=2)

    year = numpy.maximum(table("node_year")[:, 0], YEARS[0])
    order = numpy.argsort(year, kind="stable")
    number = numpy.empty(len(order), numpy.int64)
    number[order] = numpy.arange(len(order))
    write_steps(options, [f"arxiv-{one}" for one in YEARS], year[order] - YEARS[0], number[table("edge")],
                table("node-feat")[order], table("node-label")[order, 0])


def make_drift(options):
    import numpy

    random = numpy.random.default_rng(options.seed)
    step = numpy.repeat(numpy.arange(len(YEARS)), options.nodes)
    labels = random.integers(options.classes, size=len(step))
    # An orthogonal direction for each class, so that turning one class towards the next is a rotation.
    directions = numpy.linalg.qr(random.normal(size=(options.features, options.classes)))[0].T
    angle = numpy.radians(options.turn) * step[:, None]
    means = (numpy.cos(angle) * directions[labels]
             + numpy.sin(angle) * directions[(labels + 1) % options.classes])
    noise = random.normal(size=means.shape) / numpy.sqrt(options.features)
    features = (means + options.noise * noise).astype(numpy.float32)
    by_class = [numpy.flatnonzero(labels == one) for one in range(options.classes)]
    edges = []
    for one in range(len(YEARS)):
        end = (one + 1) * options.nodes
        nodes = numpy.repeat(numpy.arange(one * options.nodes, end), options.degree // 2)
        # Half of the neighbours are of the same step, half of any up to it.
        first = numpy.where(random.random(len(nodes)) < .5, one * options.nodes, 0)
        others = random.integers(first, end)
        for label, members in enumerate(by_class):
            alike = (labels[nodes] == label) & (random.random(len(nodes)) < options.homophily)
            least, most = numpy.searchsorted(members, first[alike]), numpy.searchsorted(members, end)
            others[alike] = members[random.integers(least, most)]
        edges.append(numpy.stack([nodes, others], axis=1))
    write_steps(options, [f"drift-{one + 1}" for one in range(len(YEARS))], step,
                numpy.concatenate(edges), features, labels)


def write_steps(options, names, step_of, edges, features, labels):
    """A dataset per step: of the nodes up to it, which are ordered by step, and the edges between them."""
    import numpy

    split = numpy.empty(len(step_of), numpy.uint8)
    random = numpy.random.default_rng(options.seed)
    for step in range(len(names)):
        nodes = random.permutation(numpy.flatnonzero(step_of == step))
        split[nodes] = 2
        split[nodes[:len(nodes) * 6 // 10]] = 0
        split[nodes[len(nodes) * 6 // 10:len(nodes) * 7 // 10]] = 1
    for step, name in enumerate(names):
        nodes = int((step_of <= step).sum())
        inside = edges[(edges < nodes).all(axis=1)]
        both = numpy.unique(numpy.concatenate([inside, inside[:, ::-1]]), axis=0)
        both = both[both[:, 0] != both[:, 1]]
        folder = pathlib.Path(options.folder) / f"step-{step + 1}"
        folder.mkdir(parents=True)
        counts = numpy.bincount(both[:, 0], minlength=nodes)
        numpy.save(folder / "row_ptr.npy", numpy.concatenate([[0], counts.cumsum()]).astype(numpy.int64))
        numpy.save(folder / "col_idx.npy", both[:, 1].astype(numpy.int32))
        numpy.save(folder / "features.npy", numpy.ascontiguousarray(features[:nodes]))
        numpy.save(folder / "labels.npy", labels[:nodes].astype(numpy.int32))
        numpy.save(folder / "split.npy", split[:nodes])
        (folder / "dataset.json").write_text(json.dumps({"name": name, "directed": False}))
        print(f"{folder}: {nodes} nodes, {len(both) // 2} edges, {(split[:nodes] == 0).sum()} for training")


def steps_of(folder):
    steps = sorted(pathlib.Path(folder).glob("step-*"), key=lambda path: int(path.name[5:]))
    if not steps:
        sys.exit(f"sequence.py: {folder}: no step-1; make it first")
    return steps


def nodes_of(step):
    with open(step / "row_ptr.npy", "rb") as file:  # the shape stands in the header
        return int(file.read(128).split(b"'shape': (")[1].split(b",")[0]) - 1


def atoll(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"sequence.py: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def summary(run):
    return json.loads((run / "summary.json").read_text(encoding="utf-8"))


def performance(matrix):
    """Average performance and forgetting of the last row, as atoll report --sequence has them."""
    last = matrix[-1]
    changes = [last[j] - matrix[j][j] for j in range(len(last) - 1)]
    return sum(last) / len(last), sum(changes) / len(changes) if changes else 0.0


def run_sequence(options, method, share, seed):
    """The matrix of one cell: row i has the test accuracy of run i on the nodes of steps 1 to i."""
    steps = steps_of(options.folder)[:options.steps]
    sequence = ",".join(str(nodes_of(step)) for step in steps)
    matrix, old = [], 0
    with tempfile.TemporaryDirectory() as home:
        for i, step in enumerate(steps):
            run = pathlib.Path(home) / f"run-{i}"
            words = ["train", step, *options.train, "--seed", seed, "--sequence", sequence,
                     "--checkpoint-every", 0, "--run-dir", run]
            if i > 0 and method != "joint":
                words += ["--warm-start", pathlib.Path(home) / f"run-{i - 1}", "--replay",
                          round(share * old), *METHODS[method]]
            atoll(options.atoll, *words)
            found = summary(run)
            matrix.append([entry["test"] for entry in found["sequence"]])
            replay = found.get("replay")
            old = replay["old_nodes"] + replay["new_nodes"] if replay else first_count(step)
    return matrix


def first_count(step):
    """Training nodes of a dataset: bytes of 0 in split.npy, behind its header."""
    data = (step / "split.npy").read_bytes()
    length = 10 + int.from_bytes(data[8:10], "little")
    return data[length:].count(0)


def epochs_to(lines, level, before=None):
    """The first epoch with that valid accuracy; 0 if it was there before; none: never."""
    if before is not None and before >= level:
        return 0
    return next((line["epoch"] for line in lines if (line.get("valid") or 0) >= level), None)


def run_warm(options, step, seed):
    steps = steps_of(options.folder)
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)

        def train(name, data, *words):
            atoll(options.atoll, "train", data, *options.train, "--seed", seed, "--checkpoint-every", 0,
                  "--run-dir", home / name, *words)
            return [json.loads(line)
                    for line in (home / name / "metrics.jsonl").read_text("utf-8").splitlines()]

        train("before", steps[step - 2])
        cold = train("cold", steps[step - 1])
        atoll(options.atoll, "evaluate", home / "before", steps[step - 1], "--out", home / "before.json")
        before = json.loads((home / "before.json").read_text(encoding="utf-8"))["valid"]
        warm = train("warm", steps[step - 1], "--warm-start", home / "before")
    best = max(line["valid"] for line in cold)
    return {"level": best, "before": before, "epochs_cold": epochs_to(cold, best),
            "epochs_warm": epochs_to(warm, best, before), "warm_best": max(line["valid"] for line in warm)}


def cells_of(options):
    """Names and makers of what `run` or `warm` has to find, seed by seed, so that an interrupted table is balanced."""
    for seed in range(1, options.seeds + 1):
        if options.command == "warm":
            for step in range(2, len(steps_of(options.folder)[:options.steps]) + 1):
                yield {"step": step, "seed": seed}, lambda step=step, seed=seed: run_warm(options, step, seed)
            continue
        for method in options.methods.split(","):
            if method not in METHODS:
                sys.exit(f"sequence.py: method '{method}'; allowed are {', '.join(METHODS)}")
            without = method in ("joint", "new-only")
            for share in [0.0] if without else map(float, options.shares.split(",")):
                def cell(method=method, share=share, seed=seed):
                    matrix = run_sequence(options, method, share, seed)
                    average, forgetting = performance(matrix)
                    return {"matrix": matrix, "ap": average, "af": forgetting}
                yield {"method": method, "share": share, "seed": seed}, cell


def fill(options):
    path = pathlib.Path(options.results)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = [json.loads(line) for line in lines]
    for name, cell in cells_of(options):
        name = {**name, "options": " ".join(options.train), "steps": options.steps}
        if any(all(line.get(key) == value for key, value in name.items()) for line in done):
            continue
        line = {**name, **cell()}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print({key: value for key, value in line.items() if key not in ("matrix", "options")}, flush=True)


def spread(values, form=".4f"):
    """The mean and half the width of its 95 % interval."""
    text = f"{statistics.mean(values):{form}}"
    return text if len(values) == 1 else f"{text} ± {intervals.half_width(values):{form.lstrip('+')}}"


def above_random(cells, method, share):
    """By how much a buffer is better than a random one of its size, seed by seed: AP and AF."""
    if method == "random" or not share or ("random", share) not in cells:
        return ["-", "-"]
    random = {line["seed"]: line for line in cells["random", share]}
    pairs = [(line, random[line["seed"]]) for line in cells[method, share] if line["seed"] in random]
    return [spread([line[key] - other[key] for line, other in pairs], "+.4f") if pairs else "-"
            for key in ("ap", "af")]


def print_table(options):
    lines = [json.loads(line) for line in
             pathlib.Path(options.results).read_text(encoding="utf-8").splitlines()]
    cells = {}
    for line in lines:
        if "method" in line:
            cells.setdefault((line["method"], line["share"]), []).append(line)
    if cells:
        print("| method | buffer | seeds | average performance | forgetting | AP - random | AF - random |\n"
              "|---|---|---|---|---|---|---|")
    for (method, share), found in cells.items():
        print(f"| {method} | {f'{100 * share:g} %' if share else '-'} | {len(found)} | "
              f"{spread([line['ap'] for line in found])} | {spread([line['af'] for line in found], '+.4f')} | "
              + " | ".join(above_random(cells, method, share)) + " |")
    steps = {}
    for line in lines:
        if "step" in line:
            steps.setdefault(line["step"], []).append(line)
    if steps:
        print("\n| step | seeds | valid accuracy to reach | of the model before | epochs cold | epochs warm | "
              "share |\n|---|---|---|---|---|---|---|")
    for step, found in sorted(steps.items()):
        shares = [line["epochs_warm"] / line["epochs_cold"] for line in found
                  if line["epochs_warm"] is not None]
        missing = sum(line["epochs_warm"] is None for line in found)
        print(f"| {step} | {len(found)} | {spread([line['level'] for line in found])} | "
              f"{spread([line['before'] for line in found])} | "
              f"{spread([line['epochs_cold'] for line in found], '.1f')} | "
              + (spread([line['epochs_warm'] for line in found if line['epochs_warm'] is not None], '.1f')
                 if shares else "-") + (f", {missing} never" if missing else "") + " | "
              + (f"{statistics.mean(shares):.2f}" if shares else "-") + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make", help="write the datasets of all steps")
    maker.add_argument("raw", help="raw/ of the dataset in OGB's layout, with node_year.csv.gz")
    maker.add_argument("folder")
    maker.add_argument("--seed", type=int, default=1, help="of the split (default %(default)s)")
    for name, text in (("run", "train the methods"), ("warm", "count epochs, warm and cold")):
        filler = commands.add_parser(name, help=text)
        filler.add_argument("atoll", help="the program")
        filler.add_argument("folder", help="with step-1, step-2, ...")
        filler.add_argument("results", help="file of JSON lines, which is added to")
        filler.add_argument("--seeds", type=int, default=5, help="seeds 1 to N (default %(default)s)")
        filler.add_argument("--steps", type=int, default=7, help="only the first N (default %(default)s)")
        if name == "run":
            filler.add_argument("--methods", default=",".join(METHODS), help="(default %(default)s)")
            filler.add_argument("--shares", default=".01,.05",
                                help="of the old training nodes in the buffer (default %(default)s)")
    drift = commands.add_parser("drift", help="write the datasets of a generated graph that drifts")
    drift.add_argument("folder")
    for name, value, text in (("seed", 1, "of graph and split"), ("nodes", 4000, "new ones of each step"),
                              ("classes", 8, ""), ("features", 32, "columns, at least one per class"),
                              ("degree", 10, "mean number of neighbours that new nodes come with"),
                              ("homophily", .6, "share of neighbours that are drawn from the same class"),
                              ("turn", 15., "degrees per step"), ("noise", 3., "length of the noise of features")):
        drift.add_argument("--" + name, type=type(value), default=value,
                           help=text + (" " if text else "") + "(default %(default)s)")
    commands.add_parser("table", help="print the results").add_argument("results")
    words = sys.argv[1:]
    train = words[words.index("--") + 1:] if "--" in words else TRAIN
    options = parser.parse_args(words[:words.index("--")] if "--" in words else words)
    options.train = train
    {"make": make, "drift": make_drift, "run": fill, "warm": fill, "table": print_table}[options.command](options)


if __name__ == "__main__":
    main()
