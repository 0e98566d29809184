#!/usr/bin/env python3
"""Failures of a training under `atoll launch` on an emulated cluster: a rank, the launcher or a
host's daemon is killed or stopped, two at once, memory for snapshots is full, again and again, and once all is
done the model is compared with that of a run that nothing happened to. With `--kinds "network lost"
"host frozen"` hosts are lost until the run goes on without them, and given back: then all losses are
compared. Prints what each failure cost: seconds from it to the end of the first epoch that had not
been done, less the time of an epoch. As root, like the cluster.

    tests/storm/launch_storm.py --program build/atoll --dataset data/arxiv --failures 20"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTER = os.path.join(HERE, "..", "..", "launch", "tools", "emulated-cluster")
NAME = "storm"
NET = "10.79.0"
TRAINING = ["--model", "gcn", "--norm", "batch", "--dropout", "0.5", "--threads", "1",
            "--eval-every", "10", "--checkpoint-every", "0"]
# On the same number of ranks ever after.
SAME_RANKS = ["rank killed", "launcher killed", "daemon killed", "rank stopped",
              "two ranks killed", "rank and launcher killed", "rank killed, memory full"]
# The host is lost until the run goes on without it.
FEWER_RANKS = ["network lost", "host frozen"]
MEMORY_MB = 64  # for snapshots: a file system in memory that is the storm's own, so that it can be full
LOSS_BOUND = 1e-4  # relative, between runs on different numbers of ranks


def environment():
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def on_head(words):
    """The command that runs words on the host without ranks."""
    return [CLUSTER, "agent", "--name", NAME, f"{NET}.1", " ".join(f"'{word}'" for word in words)]


def mpirun_options():
    return (f"--mca routed direct --mca oob_tcp_if_include {NET}.0/24 --mca pml ob1 --mca btl tcp,self "
            f"--mca btl_tcp_if_include {NET}.0/24 --mca btl_base_warn_component_unused 0")


def launch(options, run_dir):
    hosts = ",".join(f"{NET}.{2 + host}" for host in range(options.hosts))
    return [options.program, "launch", "--rsh", f"{CLUSTER} agent --name {NAME}", "--hosts", hosts,
            "--address", f"{NET}.1", "--restarts", "1000", "--silence", "3",
            *(["--regrow-every", "3s", "--spare-partitions", str(options.hosts - 1)]
              if set(options.kinds) & set(FEWER_RANKS) else []),
            "--mpirun", f"mpirun --bind-to none {mpirun_options()}", "--",
            "train", options.dataset, *TRAINING, "--hidden", str(options.hidden),
            "--epochs", str(options.epochs), "--run-dir", run_dir, "--snapshot-dir", options.memory,
            *options.train]


def all_processes():
    """Number, words of the command and environment of each process of this machine."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield int(name), words, variables


def ranks_in(variables, process, ranks, variable="OMPI_COMM_WORLD_RANK"):
    """Adds the process to the ranks by number if its environment gives it one."""
    for line in variables:
        if line.startswith(variable + "="):
            ranks[int(line.split("=")[1])] = process


def processes(run_dir):
    """Ranks by number, launcher and daemons of the job that works in run_dir."""
    ranks, launchers, daemons = {}, [], []
    for process, words, variables in all_processes():
        program = os.path.basename(words[0])
        if program == "orted" and any(NAME in word or NET in word for word in words):
            daemons.append(process)
        if run_dir not in words:
            continue
        if program == "mpirun":
            launchers.append(process)
        ranks_in(variables, process, ranks)
    return ranks, launchers, daemons


def lines_of(run_dir, name):
    """Objects of a file of JSON lines; of a file that is not there: none."""
    try:
        with open(os.path.join(run_dir, name), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []


def epochs_of(run_dir):
    return len(lines_of(run_dir, "metrics.jsonl"))


def wait_for(job, run_dir, event, count, begin, most):
    """Seconds since begin when the supervisor has told of `count` such events; None: it did not
    within `most`, or has ended."""
    while job.poll() is None and time.monotonic() - begin < most:
        if sum(line["event"] == event for line in lines_of(run_dir, "events.jsonl")) >= count:
            return time.monotonic() - begin
        time.sleep(0.02)
    return None


def wait_for_ranks(job, run_dir, ranks):
    """Until the newest start had so many, or the job has ended."""
    while job.poll() is None:
        starts = [line["ranks"] for line in lines_of(run_dir, "events.jsonl")
                  if line["event"] == "started"]
        if starts[-1] == ranks:
            return
        time.sleep(0.05)


def signal_all(processes, how):
    for process in processes:
        try:
            os.kill(process, how)
        except ProcessLookupError:
            pass


def set_link(host, state):
    subprocess.run(["ip", "-n", f"{NAME}-h{host}", "link", "set", "eth0", state], check=True)


def processes_on(host):
    pids = subprocess.run(["ip", "netns", "pids", f"{NAME}-h{host}"], check=True, text=True,
                          capture_output=True).stdout
    return [int(pid) for pid in pids.split()]


def fill_memory(memory, run_dir):
    """To the last page, for three epochs."""
    state = os.statvfs(memory)
    with open(os.path.join(memory, "fill"), "wb") as file:
        os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize)
    until = epochs_of(run_dir) + 3
    deadline = time.monotonic() + 60
    while epochs_of(run_dir) < until and time.monotonic() < deadline:
        time.sleep(0.02)


def strike(kind, run_dir, draws, options):
    """Does it. Returns what takes it back when the run has gone on, or None if what it is for is not
    there just now."""
    ranks, launchers, daemons = processes(run_dir)
    if not ranks or not launchers or not daemons:
        return None
    if kind in FEWER_RANKS:
        host = draws.randrange(2, options.hosts + 2)  # the first one has the supervisor
        frozen = processes_on(host) if kind == "host frozen" else []
        signal_all(frozen, signal.SIGSTOP)
        set_link(host, "down")

        def give_back():
            set_link(host, "up")
            signal_all(frozen, signal.SIGCONT)
        return give_back
    fills = kind.endswith("memory full")
    if fills:
        fill_memory(options.memory, run_dir)
    of_ranks = draws.sample(sorted(ranks.values()), 2)
    targets = {"launcher killed": launchers, "daemon killed": [draws.choice(sorted(daemons))],
               "two ranks killed": of_ranks,
               "rank and launcher killed": of_ranks[:1] + launchers}.get(kind, of_ranks[:1])
    signal_all(targets, signal.SIGSTOP if kind == "rank stopped" else signal.SIGKILL)
    return (lambda: os.remove(os.path.join(options.memory, "fill"))) if fills else lambda: None


def disturbed(options, run_dir, draws):
    """Runs under failures; what each has cost, and the job's exit code."""
    log = open(run_dir + ".log", "w", encoding="utf-8")
    job = subprocess.Popen(on_head(launch(options, run_dir)), stdout=log, stderr=log,
                           env=environment())
    costs = []
    failures = 0
    next_epoch = 4
    while job.poll() is None and len(costs) < options.failures:
        if epochs_of(run_dir) < next_epoch:
            time.sleep(0.02)
            continue
        time.sleep(draws.random() * options.pause)
        kind = options.kinds[len(costs) % len(options.kinds)]
        take_back = strike(kind, run_dir, draws, options)
        if take_back is None:
            continue
        begin = time.monotonic()
        seconds = wait_for(job, run_dir, "failed", failures + 1, begin, 40)
        if seconds is None:  # it has been survived without a new start
            costs.append((kind, 0))
        else:
            failures += 1
            noticed = seconds
            seconds = wait_for(job, run_dir, "recovered", failures, begin, 120)
            if seconds is None:
                print(f"{kind}: nothing followed within 120 s", flush=True)
                job.terminate()
                take_back()
                break
            costs.append((kind, seconds - options.epoch_s))
            print(f"{len(costs):3}  {kind:26} {costs[-1][1]:5.1f} s, {noticed:.1f} of them until the "
                  "job had ended", flush=True)
        take_back()
        if kind in FEWER_RANKS:
            wait_for_ranks(job, run_dir, options.hosts)
        next_epoch = epochs_of(run_dir) + 2
    return costs, job.wait()


def loss_difference(run_dir, other):
    """The largest relative one of an epoch."""
    return max(abs(a["loss"] - b["loss"]) / abs(a["loss"])
               for a, b in zip(lines_of(run_dir, "metrics.jsonl"), lines_of(other, "metrics.jsonl")))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/atoll")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit", help="of each host's card")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--failures", type=int, default=20)
    parser.add_argument("--pause", type=float, default=2.0, help="most seconds before a failure")
    parser.add_argument("--kinds", nargs="+", choices=SAME_RANKS + FEWER_RANKS,
                        default=SAME_RANKS, metavar="KIND", help="in turns; of: " + "; ".join(
                            SAME_RANKS + FEWER_RANKS) + "; default: those without loss of a host")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("train", nargs="*", help="more options of train, behind --")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    options.dataset = os.path.abspath(options.dataset)
    place = tempfile.mkdtemp(prefix="atoll-launch-storm-")
    options.memory = os.path.join(place, "memory")
    os.mkdir(options.memory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEMORY_MB}m", "tmpfs", options.memory],
                   check=True)
    whole, cut = os.path.join(place, "whole"), os.path.join(place, "cut")
    subprocess.run([CLUSTER, "up", str(options.hosts + 1), "--name", NAME, "--net", f"{NET}.0/24",
                    "--rate", options.rate, "--replace"], check=True)
    try:
        subprocess.run(on_head(launch(options, whole)), check=True, env=environment(),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(whole, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        options.epoch_s = summary["epoch_ms_median"] / 1e3
        print(f"an epoch takes {options.epoch_s:.3f} s, a snapshot "
              f"{summary['snapshot_ms_median']:.2f} ms")
        costs, code = disturbed(options, cut, random.Random(options.seed))
        models = []
        for run_dir in (whole, cut):
            with open(os.path.join(run_dir, "model.safetensors"), "rb") as file:
                models.append(file.read())
    finally:
        subprocess.run([CLUSTER, "down", "--name", NAME], check=True)
        subprocess.run(["umount", options.memory], check=True)
    if len(costs) < options.failures:
        print(f"{len(costs)} of {options.failures} failures happened before the run ended, exit code "
              f"{code}; use more --epochs, or see {place}")
        return 1
    seconds = [cost for _, cost in costs]
    for kind in options.kinds:
        of_kind = [cost for name, cost in costs if name == kind]
        if of_kind:
            print(f"{kind}: {len(of_kind)}, median {statistics.median(of_kind):.1f} s, "
                  f"worst {max(of_kind):.1f} s")
    print(f"all: {len(seconds)}, median {statistics.median(seconds):.1f} s, "
          f"worst {max(seconds):.1f} s; exit code {code}; "
          f"{epochs_of(cut)} of {options.epochs} epochs; models "
          f"{'are the same' if models[0] == models[1] else 'differ'}; "
          f"losses differ by at most {loss_difference(whole, cut):.1e}")
    equal = loss_difference(whole, cut) <= LOSS_BOUND if set(options.kinds) & set(
        FEWER_RANKS) else models[0] == models[1]
    good = code == 0 and equal and epochs_of(cut) == options.epochs
    if good:
        shutil.rmtree(place)
    else:
        print(f"kept: {place}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
