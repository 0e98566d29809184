#!/usr/bin/env python3
"""Storms: many commands of the program, killed and stopped at random moments, with damaged files,
or with options that differ between ranks. docs/reliability.md says what must hold; this says how
often it did.

    python3 tests/storm/storm.py --program build/atoll all
    python3 tests/storm/storm.py --program build/atoll kills --count 300 --seed 7

Ends with 0 if no promise was broken, 1 if one was (the folder of that case is kept, and the command
that repeats it is printed), 2 if the storm itself could not run."""

import argparse
import concurrent.futures
import os
import shlex
import shutil
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs import Program
from kills import Kills
from mutations import Mutations
from pairs import Pairs
from storm_case import Case, StormFailure, Violation

STORMS = {"kills": Kills, "mutations": Mutations, "pairs": Pairs}
COUNTS = {"kills": 300, "mutations": 300, "pairs": None}  # None: all there are
# A breath of each, for the tests that run every time.
SMOKE = {"kills": 5, "mutations": 10, "pairs": 3}


class Tally:
    """Counts of all cases of a storm."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        self.violations = []
        self.cases = 0

    def add(self, counts):
        with self.lock:
            self.cases += 1
            for name, number in counts.items():
                self.counts[name] = self.counts.get(name, 0) + number

    def get(self, name):
        with self.lock:
            return self.counts.get(name, 0)


def run_case(storm, tally, program, options, number, folder):
    """One case; its folder stays only if a promise was broken."""
    case = Case(program, storm.name, options.seed, number, os.path.join(folder, f"case-{number}"))
    problem = None
    try:
        storm.run(case)
    except Violation as violation:
        problem = f"{violation.kind}: {violation}"
    except StormFailure:
        raise
    except Exception:  # the case could not be judged: as bad as a violation, and to be read
        problem = "storm failed: " + traceback.format_exc()
    finally:
        case.clean()
    tally.add(case.counts)
    if problem is None:
        if not options.keep:
            shutil.rmtree(case.folder)
        return
    again = [sys.executable, sys.argv[0], "--program", options.program, storm.name,
             "--seed", str(options.seed), "--case", str(number)]
    text = "\n".join([f"VIOLATION in case {number} of {storm.name} (seed {options.seed})",
                      f"  {problem}", f"  folder: {case.folder}",
                      f"  again:  {shlex.join(again)}",
                      *(f"    {line}" for line in case.log.lines)])
    case.keep(problem)
    with tally.lock:
        tally.violations.append(problem.split(":")[0])
        print(text, flush=True)


def run_storm(name, program, options, folder):
    """Cases until `count` kills, mutations or pairs have been tried."""
    begin = time.monotonic()
    os.makedirs(folder)
    tally = Tally()
    storm = STORMS[name](program, folder)
    counts = SMOKE if options.storm == "smoke" else COUNTS
    count = storm.most(options.count or counts[name])
    numbers = iter([options.case] if options.case is not None else range(options.first, 10**9))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if options.case is None and tally.get(storm.counted) + busy[0] >= count:
                    return
                number = next(numbers, None)
                if number is None:
                    return
                busy[0] += 1
            try:
                run_case(storm, tally, program, options, number, folder)
            finally:
                with lock:
                    busy[0] -= 1

    busy = [0]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(work) for _ in range(options.jobs)]:
            future.result()
    seconds = time.monotonic() - begin
    print(f"{name}: {storm.summary(tally.counts)}, {len(tally.violations)} violations "
          f"(seed {options.seed}, {tally.cases} cases, {seconds:.0f} s)", flush=True)
    for kind in sorted(set(tally.violations)):
        print(f"  {kind}: {tally.violations.count(kind)}", flush=True)
    return not tally.violations


def parse():
    parser = argparse.ArgumentParser(description="Kills, damages and contradicts the program.")
    parser.add_argument("--program", default=os.environ.get("ATOLL", "build/atoll"))
    parser.add_argument("--mpiexec", default=os.environ.get("MPIEXEC", "mpirun"))
    parser.add_argument("storm", choices=[*STORMS, "all", "smoke"])
    parser.add_argument("--count", type=int, help="how many kills, mutations or pairs; default: 300, 300, all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="only this case")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once")
    parser.add_argument("--folder", help="where to work; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all cases")
    return parser.parse_args()


def main():
    options = parse()
    os.nice(10)
    program = Program(options.program, options.mpiexec)
    if not os.access(program.atoll, os.X_OK):
        print(f"--program {options.program}: is no program; build it first", file=sys.stderr)
        return 2
    folder = tempfile.mkdtemp(prefix="atoll-storm-", dir=options.folder)
    good = True
    try:
        for name in STORMS if options.storm in ("all", "smoke") else [options.storm]:
            good &= run_storm(name, program, options, os.path.join(folder, name))
    except StormFailure as failure:
        print(f"there is nothing to compare with: {failure}", file=sys.stderr)
        return 2
    if good and not options.keep:
        shutil.rmtree(folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
