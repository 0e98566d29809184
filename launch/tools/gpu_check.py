#!/usr/bin/env python3
"""Runs the checks of gpu-check.sh, which prepares the environment and starts this."""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import gpu_check_archive
import gpu_check_table
from gpu_check_judge import JUDGES, Verdict, outputs_of, read_json
from gpu_check_list import HUBS, STAGES, Setting, chosen_checks
from gpu_check_probes import Probes
from gpu_check_run import Deadline, Preparation, Processes, words_of_code

SECONDS_AT_END = 10  # of --minutes, to end what still runs and to write the results
SECONDS_TO_WAIT = 0.2  # for a data set, before looking again for a check that can run

DESCRIPTION = """\
Everything that only a GPU can show, on the host it is started on: tests with a GPU required, epochs
on graphs of published shapes, SpMM against cuSPARSE, PyTorch Geometric on the same tasks where it
can be imported, kernels beside measured ceilings, compute-sanitizer, hardware counters, several
ranks on one device, NCCL. Says which targets are reached, and leaves one archive of all results.
Changes no clock, power or MIG setting."""

EPILOG = f"""\
Checks run in order of worth; with --minutes those that fit. Data sets are made beside other checks.
Stages, in this order: {', '.join(STAGES)}.
A check that an earlier call with the same --out has passed is not repeated, unless --checks names
it; --continue takes the results of an earlier call from its archive.
Exit codes: 0 all checks of this call passed, 1 some failed, 2 wrong options, 143 ended by a signal.
PYTHON names the interpreter that has PyTorch (default python3)."""


def positive(kind):
    def parse(text):
        value = kind(text)
        if not 0 < value < 1e9:
            raise ValueError
        return value
    parse.__name__ = f"{'whole ' if kind is int else ''}number above 0"
    return parse


def arguments():
    parser = argparse.ArgumentParser(prog="gpu-check.sh", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=positive(float),
                        help="this call ends after so long, whatever is left to do")
    parser.add_argument("--checks", help="comma list of stages and patterns of check names")
    parser.add_argument("--list", action="store_true", help="only print the checks")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/gpu"),
                        help="folder of the results (default runs/gpu)")
    parser.add_argument("--archive", type=pathlib.Path,
                        help="all results as one file, or a folder for it (default OUT.tar.xz)")
    parser.add_argument("--continue", dest="earlier", type=pathlib.Path, metavar="ARCHIVE",
                        help="go on after the call that wrote it")
    parser.add_argument("--build", default="build", help="folder of the programs (default build)")
    parser.add_argument("--data", type=pathlib.Path, help="of data sets (default OUT/data)")
    parser.add_argument("--real-arxiv", type=pathlib.Path, metavar="DATASET",
                        help="folder of the real ogbn-arxiv, imported by atoll, for the checks of "
                             "attention (default: generated with hubs like it)")
    parser.add_argument("--scale", type=positive(float), default=1,
                        help="shrinks the graphs; 1: the published sizes")
    parser.add_argument("--epochs", type=positive(int), default=20, help="measured each time")
    parser.add_argument("--limit", type=positive(int), default=240,
                        help="seconds that one check may take")
    options = parser.parse_args()
    name = options.out.name + gpu_check_archive.suffix()
    if options.archive is None:
        options.archive = options.out.with_name(name)
    elif options.archive.is_dir():
        options.archive /= name
    if options.real_arxiv and not (options.real_arxiv / "dataset.json").is_file():
        parser.error(f"--real-arxiv {options.real_arxiv}: there is no dataset.json in it; make it by "
                     "atoll import ogb")
    options.data = options.data or options.out / "data"
    return parser, options


def write_whole(path, text):
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


class Call:
    """One call of the script: what to run, where its results lie."""

    def __init__(self, parser, options):
        self.options = options
        self.deadline = Deadline(float(os.environ.get("ATOLL_GPU_CHECK_START", time.time())),
                                 options.minutes, SECONDS_AT_END)
        self.environment = {"ATOLL_REQUIRE_GPU": "1"}
        libraries = os.environ.get("ATOLL_GPU_CHECK_LIBRARIES")  # of CUDA, for our programs only
        if libraries:
            self.environment["LD_LIBRARY_PATH"] = libraries
        self.processes = Processes()
        self.python = shutil.which(os.environ.get("PYTHON", "python3")) or sys.executable
        self.version = self._ask_version()
        setting = Setting(options.build, self.python, options.scale, options.epochs, self.folder_of)
        try:
            self.checks = chosen_checks(setting, options.checks)
        except ValueError as error:
            parser.error(str(error))
        self.failures = 0

    def folder_of(self, dataset):
        if dataset == HUBS and self.options.real_arxiv:
            return str(self.options.real_arxiv)
        return str(self.options.data / f"{dataset}-{self.options.scale:g}")

    def _ask_version(self):
        """Ends the call if the program doesn't start."""
        program = f"{self.options.build}/atoll"
        try:
            result = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60,
                                    check=False, env={**os.environ, **self.environment})
        except (OSError, subprocess.TimeoutExpired) as error:
            sys.exit(f"gpu-check.sh: {program} does not start: {error}")
        if result.returncode != 0:
            sys.exit(f"gpu-check.sh: {program} does not start: {result.stderr.strip()}")
        return result.stdout.strip()

    def open(self):
        """Makes the folders; takes over what an earlier call has left. Ends the call where there is
        no device."""
        for folder in (self.options.out / "checks", self.options.data, self.options.archive.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if self.options.earlier:
            try:
                gpu_check_archive.read_archive(self.options.earlier, self.options.out)
            except (OSError, tarfile.TarError) as error:
                print(f"gpu-check.sh: --continue {self.options.earlier}: {error}", file=sys.stderr)
                sys.exit(2)
        self._describe_machine()

    def _describe_machine(self):
        log = self.options.out / "doctor.json"
        code, _ = self.processes.run([f"{self.options.build}/atoll", "doctor", "--json"], log,
                                     self.deadline.limit(60), self.environment,
                                     errors=self.options.out / "doctor.txt")
        query = ["nvidia-smi", "--format=csv,noheader", "--query-gpu=name,driver_version,"
                 "memory.total,clocks.sm,clocks.mem"]
        gpu = "no nvidia-smi"
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            gpu = subprocess.run(query, capture_output=True, text=True, timeout=60,
                                 check=False).stdout.strip() or "nvidia-smi names no GPU"
        machine = {"gpu": gpu, "version": self.version, "scale": self.options.scale,
                   "doctor": read_json(log)}
        write_whole(self.options.out / "machine.json", json.dumps(machine, indent=1) + "\n")
        print(f"{self.version}; GPU: {gpu}" + ("" if code == 0 else f"; faults in {log}"),
              flush=True)
        for finding in (machine["doctor"] or {}).get("findings", []):
            if (finding["section"], finding["name"]) == ("devices", "CUDA") \
                    and finding["level"] != "ok":
                sys.exit(f"gpu-check.sh: CUDA devices: {finding['value']}")

    def passed_before(self, check):
        """Whether the same program has passed the same check; one that was asked for is repeated."""
        if self.options.checks:
            return False
        record = read_json(self.options.out / "checks" / check.name / "check.json")
        return bool(record) and record.get("state") == "ok" and record.get("version") == self.version

    def run(self):
        todo = [check for check in self.checks if not self.passed_before(check)]
        if len(todo) < len(self.checks):
            print(f"{len(self.checks) - len(todo)} checks passed in an earlier call")
        logs = self.options.out / "preparation"
        logs.mkdir(exist_ok=True)
        needed = list(dict.fromkeys(check.needs for check in todo if check.needs))
        self.preparation = Preparation(needed, self.options.build, self.options.scale,
                                       self.folder_of, logs, self.processes, self.deadline)
        self.preparation.start()
        probes = Probes(self.options.build, self.python, self.environment, self.deadline)
        stage = ""
        while todo:
            check = self.next_check(todo)
            if check is None:
                break
            todo.remove(check)
            if check.stage != stage:
                stage = check.stage
                print(stage, flush=True)
                self.record()
            self.run_check(check, probes.problem(check.probe))
        for check in todo:
            self.put_off(check)

    def next_check(self, todo):
        """The most valuable one for which there is time and data; waits if only data is missing.
        None if there is no time for any."""
        while True:
            fitting = [check for check in todo if self.deadline.allows(self.expected(check))]
            for check in fitting:
                if not check.needs or check.needs in self.preparation.state:
                    return check
            if not fitting:
                return None
            self.preparation.wait(SECONDS_TO_WAIT)

    def expected(self, check):
        """Seconds, of which a tenth does not depend on the size of graphs."""
        return check.seconds * max(0.1, min(1, self.options.scale))

    def put_off(self, check):
        folder = self.options.out / "checks" / check.name
        if not (folder / "check.json").exists():
            self.write_check(check, folder, Verdict("put off", "no time was left"))

    def run_check(self, check, problem):
        folder = self.options.out / "checks" / check.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        problem = problem or self.preparation.state.get(check.needs, "")
        if problem:
            self.report(check, folder, Verdict("skipped", problem), 0)
            return
        words = check.words + outputs_of(check, folder)
        # A host that is taken back leaves this.
        self.write_check(check, folder, Verdict("unfinished"), command=shlex.join(words))
        beside = self.preparation.working_on
        ours = {} if check.kind == "peer" else self.environment
        limit = self.deadline.limit(self.options.limit)
        code, seconds = self.processes.run(words, folder / "log.txt", limit,
                                           {**ours, **check.environment})
        text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        verdict = JUDGES[check.kind](check, folder, text, words_of_code(code, seconds))
        self.report(check, folder, verdict, seconds, command=shlex.join(words), code=code,
                    beside=beside)

    def write_check(self, check, folder, verdict, **more):
        folder.mkdir(parents=True, exist_ok=True)
        record = {"name": check.name, "stage": check.stage, "version": self.version,
                  "state": verdict.state, "why": verdict.why, **more, **verdict.more,
                  "result": verdict.result}
        write_whole(folder / "check.json", json.dumps(record, indent=1) + "\n")
        return record

    def report(self, check, folder, verdict, seconds, **more):
        record = self.write_check(check, folder, verdict, seconds=round(seconds, 1), **more)
        print(f"  {verdict.state:<8}{check.name}  {gpu_check_table.figures_of(record)}", flush=True)
        if verdict.state == "failed":
            self.failures += 1
            log = folder / "log.txt"
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]:
                print(f"          {line[:200]}", flush=True)

    def record(self):
        """All results so far as JSON, table and archive."""
        document = gpu_check_table.collect(self.options.out)
        write_whole(self.options.out / "gpu-check.json", json.dumps(document, indent=1) + "\n")
        table = gpu_check_table.format_document(document)
        write_whole(self.options.out / "table.txt", table)
        gpu_check_archive.write_archive(self.options.out, self.options.archive)
        return table


def print_list(checks):
    width = max(len(check.name) for check in checks)
    for check in checks:
        print(f"{check.stage:<10}  {check.name:<{width}}  {check.seconds:>4} s  "
              f"{shlex.join(check.words)}")


def end_by_signal(number, frame):
    sys.exit(128 + number)


def main():
    parser, options = arguments()
    call = Call(parser, options)
    if options.list:
        print_list(call.checks)
        return 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_by_signal)
    call.open()
    try:
        call.run()
    finally:
        call.processes.end_all()
        print(call.record(), end="")
        print(f"{call.failures or 'no'} checks of this call failed; results in {options.archive}",
              flush=True)
    return 1 if call.failures else 0


if __name__ == "__main__":
    sys.exit(main())
