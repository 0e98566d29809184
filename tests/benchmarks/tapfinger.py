#!/usr/bin/env python3
"""Policies of schedules on lists like TapFinger's, beside the means of its own stored results.

    tapfinger.py CLONE [--program build/bench_schedule] [--draws 40] [--evaluations 300]

CLONE is a clone of github.com/nooblyh/TapFinger with commit 5fd9e3b0. Of each of its synthetic
experiments it stores completion times, in steps and in the order in which tasks ended, and how many
tasks were there after each step. It stores neither arrivals nor kinds of tasks, nor which servers a
task may use; and no number of arrivals per step fits what any two policies stored, so they did not
have the same list. So lists are drawn here by the rules of its settings, as often as --draws says:
Poisson arrivals; tasks of two kinds, one of four steps, one faster with more GPUs; for each task a
random set of servers.

Two rules are replayed on these lists as its servers work, each of which starts one task per step:
its own rule "Min" (a random task gets the least resources), which comes near its stored mean if the
rules are read rightly, and the shortest task first. The others may start any number at a time.

A slot is 2 CPUs and 2 GPUs of a server's 16 and 16: less choice than TapFinger has. Tasks are never
changed once they run, and policies know only tasks that have arrived.
"""

import argparse
import csv
import json
import math
import random
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

COMMIT = "5fd9e3b0"
EXPERIMENTS = ["synthetic", "multiple-gamma=1", "synthetic_6_agent", "synthetic_6_agent_ar=2",
               "synthetic_6_agent_ar=3"]
STORED = ["TapFinger", "Optimus", "Tiresias", "Random", "Min"]
SLOTS = 8
GPUS_PER_SLOT = 2
PENDING = 10  # tasks of a server that its policies choose from


def stored_file(clone, experiment, name):
    command = ["git", "-C", str(clone), "show", f"{COMMIT}:img/{experiment}/{name}"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def stored_mean(clone, experiment, policy):
    return statistics.mean(json.loads(stored_file(clone, experiment, f"{policy}_jct.json")))


def settings(clone, experiment):
    text = stored_file(clone, experiment, "config.py")

    def number(name):
        return float(re.search(rf"^{name} = ([\d.]+)$", text, re.MULTILINE).group(1))

    servers = int(number("agent_num"))
    assert re.search(r"^episode_task_num = 64 \* agent_num$", text, re.MULTILINE)
    assert re.search(r"^resource_capacity = \(16, 16\)$", text, re.MULTILINE)
    return servers, number("arrival_lambda"), 64 * servers


def steps(is_fixed, gpus):
    """How long a task takes: a quarter per step, or tanh(gpus / 16) sqrt(1.2 - progress)."""
    progress, count = 0.0, 0
    while progress < 1:
        progress += 0.25 if is_fixed else math.tanh(gpus / 16) * math.sqrt(1.2 - progress)
        count += 1
    return count


def poisson(draws, mean):
    count, product = 0, draws.random()
    while product > math.exp(-mean):
        count += 1
        product *= draws.random()
    return count


def draw_tasks(draws, servers, rate, total):
    tasks, step = [], 0
    while len(tasks) < total:
        for _ in range(min(poisson(draws, rate), total - len(tasks))):
            chosen = draws.sample(range(servers), draws.randint(1, servers))
            tasks.append({"arrival": step, "fixed": draws.random() < 0.5, "servers": sorted(chosen)})
        step += 1
    return tasks


def as_list(tasks, servers):
    by_ranks = {fixed: [steps(fixed, GPUS_PER_SLOT * slots) for slots in range(1, SLOTS + 1)]
                for fixed in (False, True)}
    return {"hosts": [SLOTS] * servers,
            "jobs": [{"arrival_s": task["arrival"], "hosts": task["servers"],
                      "epoch_s": by_ranks[task["fixed"]]} for task in tasks]}


def random_task(draws):
    """TapFinger's rule "Min": any task, the least resources."""
    def choose(pending, free):
        return draws.choice(pending), 1, 1 if free else None
    return choose


def shortest_task(pending, free):
    """The task that ends first, on the fewest slots with which it does."""
    if not free:
        return pending[0], 1, None
    ways = [(steps(task["fixed"], GPUS_PER_SLOT * slots), slots, k)
            for k, task in enumerate(pending) for slots in range(1, free + 1)]
    _, slots, k = min(ways)
    return pending[k], slots, GPUS_PER_SLOT * slots


def replay(tasks, servers, choose):
    """The mean completion where each server starts one task per step.

    choose(pending, free slots): the task, its slots and its GPUs, None where it does not start.
    """
    waiting, running, completions, step = [], [], [], 0
    coming = sorted(tasks, key=lambda task: task["arrival"])
    while coming or waiting or running:
        while coming and coming[0]["arrival"] <= step:
            waiting.append(coming.pop(0))
        started = []
        for server in range(servers):
            free = SLOTS - sum(slots for _, place, slots, _ in running if place == server)
            pending = [task for task in waiting if server in task["servers"]][:PENDING]
            if not pending:
                continue
            task, slots, gpus = choose(pending, free)
            # Two servers that choose one task: the second one starts none.
            if gpus and not any(task is other for other in started):
                started.append(task)
                running.append((task, server, slots, step + steps(task["fixed"], gpus)))
        waiting = [task for task in waiting if not any(task is other for other in started)]
        step += 1
        completions += [end - task["arrival"] for task, _, _, end in running if end <= step]
        running = [entry for entry in running if entry[3] > step]
    return statistics.mean(completions)


def simulate(program, lists, evaluations):
    """Means of completion by policy, a value per list."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.json"
        path.write_text(json.dumps(lists))
        command = [program, f"--file={path}", f"--evaluations={evaluations}"]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = list(csv.DictReader(text.splitlines()))
    return {name: [float(row[name]) for row in rows] for name in rows[0] if name != "list"}


def spread(values):
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def report(arguments, experiment):
    servers, rate, total = settings(arguments.clone, experiment)
    draws = random.Random(arguments.seed)
    drawn = [draw_tasks(draws, servers, rate, total) for _ in range(arguments.draws)]
    print(f"\n{experiment}: {total} tasks, {servers} servers, {rate:g} tasks per step, "
          f"{arguments.draws} lists drawn\n")
    print("| policy | mean completion, steps |\n|---|---:|")
    for policy in STORED:
        print(f"| {policy}, as stored | {stored_mean(arguments.clone, experiment, policy):.2f} |")
    for name, choose in (("Min", random_task(draws)), ("shortest task first", shortest_task)):
        replayed = [replay(tasks, servers, choose) for tasks in drawn]
        print(f"| {name}, replayed | {spread(replayed)} |")
    means = simulate(arguments.program, [as_list(tasks, servers) for tasks in drawn],
                     arguments.evaluations)
    for name, values in means.items():
        print(f"| {name} | {spread(values)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--program", default="build/bench_schedule")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=300)
    arguments = parser.parse_args()
    for experiment in EXPERIMENTS:
        report(arguments, experiment)


if __name__ == "__main__":
    main()
