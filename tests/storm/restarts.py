#!/usr/bin/env python3
"""The cost of one of two ranks' death on this machine, in three ways to go on: `atoll launch`;
`atoll train --resume` typed at once, for checkpoints after every epoch and after every tenth; and,
where --python has torch, torchrun with a worker of plain PyTorch (tests/peers/torchrun_epoch.py).

A rank gets SIGKILL at a random moment. Counted are the seconds until the epoch after the last one
that was done has ended, less the time of an epoch, so that epochs that are computed again count.

    tests/storm/restarts.py --program build/atoll --dataset data/arxiv --python ENV/bin/python"""

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from launch_storm import all_processes, environment, lines_of, ranks_in

HERE = os.path.dirname(os.path.abspath(__file__))
TORCHRUN = os.path.join(HERE, "..", "peers", "torchrun_epoch.py")
# A variable that has the number of a rank in its environment.
RANK = {"launch": "OMPI_COMM_WORLD_RANK", "resume": "OMPI_COMM_WORLD_RANK", "torchrun": "LOCAL_RANK"}


def model_of(options):
    return ["--layers", "3", "--hidden", str(options.hidden), "--norm", "batch", "--dropout", "0.5",
            "--threads", "1"]


def command(way, options, folder, again):
    """That starts the way's job; `again`: after it has ended by a failure."""
    if way == "torchrun":
        return [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "--max-restarts", "1000", TORCHRUN, options.dataset, "--folder", folder,
                "--epochs", "100000", *model_of(options)]
    train = ["train", options.dataset, *model_of(options), "--epochs", "100000", "--eval-every", "0",
             "--run-dir", folder]
    if way == "launch":
        return [options.program, "launch", "--ranks-per-host", "2", "--restarts", "1000", "--",
                *train, "--checkpoint-every", "0"]
    every = way.split()[-1]
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", options.program, *train,
            "--checkpoint-every", every, *(["--resume"] if again else [])]


def ranks_of(way, folder):
    """Processes by number of rank."""
    ranks = {}
    for process, words, variables in all_processes():
        if folder in words:
            ranks_in(variables, process, ranks, RANK[way.split()[0]])
    return ranks


def last_epoch(folder):
    return max((line["epoch"] for line in lines_of(folder, "metrics.jsonl")), default=0)


class StoodStill(Exception):
    """No epoch was done for a long time."""


class Job:
    """The job of one way, started again where the way asks a person to."""

    def __init__(self, way, options, folder):
        self.way, self.options, self.folder = way, options, folder
        self.log = open(folder + ".log", "w", encoding="utf-8")
        self.process = self.start(again=False)

    def start(self, again):
        return subprocess.Popen(command(self.way, self.options, self.folder, again), stdout=self.log,
                                stderr=self.log, env=environment(), start_new_session=True)

    def wait_for_epoch(self, epoch, limit=300):
        """The moment at which it is done."""
        deadline = time.monotonic() + limit
        while last_epoch(self.folder) < epoch:
            if time.monotonic() > deadline:
                raise StoodStill(f"epoch {epoch} was not done within {limit} s; see {self.log.name}")
            if self.process.poll() is not None:
                if not self.way.startswith("resume"):
                    raise SystemExit(f"{self.way}: it has ended; see {self.log.name}")
                self.process = self.start(again=True)
            time.sleep(0.01)
        return time.monotonic()

    def end(self):
        for process in [*ranks_of(self.way, self.folder).values(), self.process.pid]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def costs(way, options, place, draws):
    folder = os.path.join(place, way.replace(" ", "-"))
    if way == "torchrun":
        os.mkdir(folder)
    job = Job(way, options, folder)
    seconds, end = [], ""
    try:
        job.wait_for_epoch(12)
        times = [line["epoch_ms"] for line in lines_of(folder, "metrics.jsonl")]
        epoch_s = statistics.median(times) / 1e3
        for _ in range(options.failures):
            job.wait_for_epoch(last_epoch(folder) + 2)
            time.sleep(draws.random() * 10 * epoch_s)
            ranks = ranks_of(way, folder)
            begin, done = time.monotonic(), last_epoch(folder)
            os.kill(ranks[draws.choice(sorted(ranks))], signal.SIGKILL)
            seconds.append(job.wait_for_epoch(done + 1) - begin - epoch_s)
    except StoodStill as still:
        # Another program's standing still is a finding.
        if way != "torchrun" or not seconds:
            raise SystemExit(f"{way}: {still}") from still
        end = f"; then {still}"
    finally:
        job.end()
    print(f"{way:12} epoch {epoch_s:.2f} s; lost: median {statistics.median(seconds):.1f} s, least "
          f"{min(seconds):.1f}, most {max(seconds):.1f} ({len(seconds)} failures){end}", flush=True)
    return not end


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/atoll")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--failures", type=int, default=5)
    parser.add_argument("--python", help="an interpreter that has torch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", nargs="+",
                        help='of "launch", "resume N" for checkpoints after every Nth epoch, "torchrun"')
    options = parser.parse_args()
    options.program, options.dataset = map(os.path.abspath, (options.program, options.dataset))
    ways = options.ways or ["launch", "resume 1", "resume 10",
                            *(["torchrun"] if options.python else [])]
    place = tempfile.mkdtemp(prefix="atoll-restarts-")  # kept if something fails
    if all([costs(way, options, place, random.Random(options.seed)) for way in ways]):
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
