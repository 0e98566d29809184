#!/usr/bin/env python3
"""`atoll schedule --run` on an emulated cluster: a list of jobs whose ranks change while the
scheduler is killed (SIGKILL) again and again, and hosts lose their network or freeze in between and
come back. Once all is done, the model of each job is compared with that of a run that nothing
happened to, byte for byte where its number of ranks stayed the same, otherwise by all its losses.
Prints what happened, and a table. As root, like the cluster.

    tests/storm/schedule_storm.py --program build/atoll --kills 10"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import launch_storm as storm

# At this rate rounding doesn't grow beyond the bound where ranks change.
TRAINING = {"model": "gcn", "norm": "batch", "dropout": "0.5", "lr": "0.001", "hidden": "32",
            "threads": "1", "eval-every": "10", "checkpoint-every": "1h"}
HOST_KINDS = ["network lost", "host frozen"]
MOST_WAIT = 120  # seconds until a host is noticed to be lost, or to be back


def make_list(options, draws, path):
    """Jobs of several lengths, arrivals and numbers of ranks. Returns (name, epochs) of each."""
    text = "[options]\n" + "".join(f'{name} = "{value}"\n' for name, value in TRAINING.items())
    text += f'snapshot-dir = "{options.memory}"\n'
    jobs = []
    for number in range(options.jobs):
        epochs = draws.randrange(options.epochs // 2, options.epochs + 1)
        most = draws.choice([1, 2, options.hosts])
        arrival = 0 if number < 2 else round(draws.uniform(0, 4 * number), 1)
        jobs.append((f"job{number}", epochs))
        text += (f'[[group]]\nname = "job{number}"\ndataset = "{options.dataset}"\n'
                 f"seeds = [{number + 1}]\nmost-ranks = {most}\narrival = {arrival}\n"
                 f"[group.options]\nepochs = {epochs}\n[group.modes]\nexact = {{}}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return jobs


def topology(options):
    """Hosts with one slot each, about as fast as those of the cluster."""
    rank = {"kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"32": 2}, "gemm_gflop_per_s": {"32": 5},
            "elementwise_gb_per_s": 2, "quantize_gb_per_s": 1}
    hosts = [f"{storm.NET}.{2 + host}" for host in range(options.hosts)]
    return {"format": 1,
            "hosts": [{"name": host, "send_mbit_per_s": 950, "receive_mbit_per_s": 950}
                      for host in hosts],
            "ranks": [{"host": host, **rank} for host in hosts],
            "links": {"between_hosts": {"latency_us": 200, "gbit_per_s": 0.95}}}


def schedule_words(options, place):
    return [options.program, "schedule", os.path.join(place, "jobs.toml"), "--topology",
            os.path.join(place, "cluster.json"), "--policy", options.policy, "--out",
            os.path.join(place, "out"), "--run", "--rsh",
            f"{storm.CLUSTER} agent --name {storm.NAME}", "--mpirun",
            f"{storm.CLUSTER} mpirun --name {storm.NAME}", "--address", f"{storm.NET}.1"]


def start(options, place, log):
    return subprocess.Popen(storm.on_head(schedule_words(options, place)), stdout=log, stderr=log,
                            env=storm.environment())


def kill_scheduler(place):
    """True once it was there and is killed."""
    out = os.path.join(place, "out")
    found = [process for process, words, _ in storm.all_processes()
             if words[1:2] == ["schedule"] and out in words]
    storm.signal_all(found, signal.SIGKILL)
    return bool(found)


def journal(place):
    return storm.lines_of(os.path.join(place, "out", ".schedule"), "journal.jsonl")


def count_of(place, event):
    return sum(line["event"] == event for line in journal(place))


class HostLoss:
    """A host that is away until the scheduler has noticed, and some seconds longer."""

    def __init__(self, kind, host, place):
        self.host = host
        self.place = place
        self.noticed = count_of(place, "lost")
        self.since = time.monotonic()
        self.until = None
        self.frozen = storm.processes_on(host) if kind == "host frozen" else []
        storm.signal_all(self.frozen, signal.SIGSTOP)
        storm.set_link(host, "down")

    def is_over(self):
        """Gives the host back in time."""
        now = time.monotonic()
        if self.until is None and count_of(self.place, "lost") > self.noticed:
            print(f"     noticed after {now - self.since:.1f} s", flush=True)
            self.until = now + 5
        if now < (self.until or self.since + MOST_WAIT):
            return False
        self.give_back()
        return True

    def give_back(self):
        storm.set_link(self.host, "up")
        storm.signal_all(self.frozen, signal.SIGCONT)


def disturbed(options, place, draws):
    """Runs the schedule; returns its last exit code, the kills and the hosts that were lost."""
    log = open(os.path.join(place, "log.txt"), "w", encoding="utf-8")
    job = start(options, place, log)
    begin = time.monotonic()
    kills, losses = 0, 0
    away = None
    next_kill = begin + draws.uniform(1, options.pause)
    while True:
        time.sleep(0.05)
        if away is not None and away.is_over():
            away = None
        if job.poll() is not None:
            break
        if time.monotonic() < next_kill or kills == options.kills:
            continue
        if losses < len(options.kinds) and away is None and kills >= 2 + 4 * losses:
            kind = options.kinds[losses]
            host = draws.randrange(2, options.hosts + 2)  # the first one has the scheduler
            away = HostLoss(kind, host, place)
            losses += 1
            print(f"{time.monotonic() - begin:6.1f} s  {kind}: host {host}", flush=True)
        elif kill_scheduler(place):
            job.wait()
            kills += 1
            print(f"{time.monotonic() - begin:6.1f} s  scheduler killed, {kills} of {options.kills}",
                  flush=True)
            time.sleep(draws.choice([0, draws.uniform(0, 3)]))
            job = start(options, place, log)
        next_kill = time.monotonic() + draws.uniform(0.2, options.pause)
    if away is not None:
        away.give_back()
    print(f"{time.monotonic() - begin:6.1f} s  ended with exit code {job.returncode}", flush=True)
    return job.returncode, kills, losses


def undisturbed(options, place, name, seed, epochs, ranks):
    folder = os.path.join(place, f"{name}-on-{ranks}")
    words = [word for option, value in TRAINING.items() for word in (f"--{option}", value)]
    subprocess.run(["mpirun", "--bind-to", "none", "--oversubscribe", "-n", str(ranks),
                    options.program, "train", options.dataset, *words, "--seed", str(seed), "--epochs",
                    str(epochs), "--run-dir", folder], check=True, env=storm.environment(),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def model_of(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        return file.read()


def compare(options, place, jobs):
    """Prints a line for each job; True if all are as they should be."""
    good = True
    starts = [line for line in journal(place) if line["event"] == "started"]
    print(f"{'job':8}{'epochs':>8}{'starts':>8}  {'ranks':20}{'model':>12}{'losses differ by':>18}")
    for number, (name, epochs) in enumerate(jobs):
        run_dir = os.path.join(place, "out", name, "exact", f"seed-{number + 1}")
        ranks = [len(line["hosts"]) * line["ranks_per_host"] for line in starts
                 if line["job"] == number]
        whole = undisturbed(options, place, name, number + 1, epochs, max(set(ranks), key=ranks.count))
        found = [line["epoch"] for line in storm.lines_of(run_dir, "metrics.jsonl")]
        difference = storm.loss_difference(whole, run_dir)
        same = model_of(whole) == model_of(run_dir)
        as_wanted = same if len(set(ranks)) == 1 else difference <= storm.LOSS_BOUND
        good = good and as_wanted and found == list(range(1, epochs + 1))
        changes = [rank for k, rank in enumerate(ranks) if k == 0 or ranks[k - 1] != rank]
        print(f"{name:8}{len(found):8}{len(ranks):8}  {', '.join(map(str, changes))[:19]:20}"
              f"{'the same' if same else 'close' if as_wanted else 'DIFFERS':>12}{difference:18.1e}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/atoll")
    parser.add_argument("--dataset", help="default: a generated one")
    parser.add_argument("--nodes", type=int, default=20000, help="of the generated one")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit", help="of each host's card")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=400, help="most of a job; at least half of it")
    parser.add_argument("--policy", default="marginal")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pause", type=float, default=8.0, help="most seconds between two strikes")
    parser.add_argument("--kinds", nargs="*", choices=HOST_KINDS, default=HOST_KINDS, metavar="KIND",
                        help=f"what happens to hosts in between, in turns; of: {'; '.join(HOST_KINDS)}")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    place = tempfile.mkdtemp(prefix="atoll-schedule-storm-")
    options.memory = os.path.join(place, "memory")
    os.mkdir(options.memory)
    draws = random.Random(options.seed)
    if options.dataset is None:
        options.dataset = os.path.join(place, "data")
        subprocess.run([options.program, "generate", "sbm", "--nodes", str(options.nodes), "--features",
                        "32", "--out", options.dataset, "-q"], check=True, stdout=subprocess.DEVNULL)
    options.dataset = os.path.abspath(options.dataset)
    jobs = make_list(options, draws, os.path.join(place, "jobs.toml"))
    with open(os.path.join(place, "cluster.json"), "w", encoding="utf-8") as file:
        json.dump(topology(options), file)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={storm.MEMORY_MB}m", "tmpfs", options.memory],
                   check=True)
    subprocess.run([storm.CLUSTER, "up", str(options.hosts + 1), "--name", storm.NAME, "--net",
                    f"{storm.NET}.0/24", "--rate", options.rate, "--replace"], check=True)
    good = False
    try:
        code, kills, losses = disturbed(options, place, draws)
        lost, back = count_of(place, "lost"), count_of(place, "back")
        print(f"{kills} kills of the scheduler, {losses} hosts away; {lost} times a host was lost, "
              f"{back} times one was back")
        if code == 0:
            good = compare(options, place, jobs) and kills == options.kills
            if kills < options.kills:
                print(f"only {kills} of {options.kills} kills happened; use more --epochs")
    finally:
        subprocess.run([storm.CLUSTER, "down", "--name", storm.NAME], check=True)
        subprocess.run(["umount", options.memory], check=True)
    print("all is as it should be" if good else f"NOT as it should be; kept: {place}")
    if good:
        shutil.rmtree(place)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
