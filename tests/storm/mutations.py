"""The storm of damage: one file of a folder is changed, and a command that reads it runs. It must
refuse the file by name, or not be touched by the change; never crash, hang, or be silently wrong."""

import os
import re
import subprocess

from damage import damage
from fixtures import EPOCHS, Fixture
from storm_case import ERROR, Shared, Violation, differences, last_lines, read, tree

SECONDS = 20
# Address space of a command: a number that makes it ask for more is a damage without a name.
LIMIT = "ulimit -v 8000000; exec \"$@\""


def options_in(folder, path):
    """A configuration that still can be read holds options, which are refused by their names."""
    if os.path.basename(path) != "config.toml":
        return []
    return re.findall(r"(?m)^([a-z-]+) =", read(os.path.join(folder, path)).decode())


class Mutations:
    name = "mutations"
    counted = "mutations"

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.shared = Shared()

    @staticmethod
    def most(count):
        return count

    @staticmethod
    def summary(counts):
        def number(name):
            return counts.get(name, 0)
        return (f"{number('mutations')} mutations: {number('refused')} refused by name, "
                f"{number('without effect')} without effect, {number('recorded')} were other valid "
                f"options and are recorded, {number('figures')} changed a figure that is only "
                f"reported, {number('from the start')} runs started from the beginning and said so, "
                f"{number('silent')} silent")

    def run(self, case):
        weighted = case.number % 2 == 1
        fixture = self.shared.get(weighted,
                                  lambda: Fixture(self.program, self.folder, weighted))
        damageable = [path for path in fixture.files if fixture.readers(path)]
        # A step that is prime to any such number of files: all of them come before one comes twice.
        path = damageable[case.number // 2 * 101 % len(damageable)]
        reader = case.random.choice(fixture.readers(path))
        subprocess.run(["cp", "-a", fixture.folder + "/.", case.folder], check=True)
        how, other = damage(case.folder, path, case.random)
        case.log.say(f"# {path}: {how}")
        case.count("mutations")
        before = tree_without_pipes(case.folder)
        job = case.start(reader.arguments, prefix=["sh", "-c", LIMIT, "sh"])
        code = case.finish(job, SECONDS)
        if code == 2:
            self.check_refusal(case, job, [path, other], options_in(fixture.folder, path))
            check_untouched(case, before)
            case.count("refused")
        elif code == 0:
            self.check_result(case, job, fixture, reader, path)
        else:
            raise Violation("crash", f"{reader.name}: exit code {code}: {last_lines(job.output())}")

    @staticmethod
    def check_refusal(case, job, paths, options):
        errors = [line for line in job.errors().split("\n") if ERROR in line]
        if len(errors) != 1:
            raise Violation("unnamed", f"{len(errors)} errors: {last_lines(job.output())}")
        names = [os.path.basename(path) for path in paths if path] + options
        if not any(name in job.errors() for name in names):
            raise Violation("unnamed", f"{' and '.join(names)} not named: {errors[0]}")
        if re.search("[\x00-\x1f]", errors[0]):
            raise Violation("escape", repr(errors[0]))

    @staticmethod
    def check_result(case, job, fixture, reader, path):
        """Exit code 0: the result must be that of the undamaged folder, or say what it is of."""
        result = reader.result(case.folder, job.output())
        expected, recorded = fixture.expected(reader)
        if reader.name == "resume":
            check_epochs(case, job)
        if result == expected:
            return case.count("without effect")
        if reader.records and read(case.path(reader.records)) != recorded:
            return case.count("recorded")
        if "holds no checkpoint" in job.errors():
            return case.count("from the start")  # and said so: the checkpoint had gone
        if reader.name == "report":
            return case.count("figures")  # a number of a valid line: no model depends on it
        case.count("silent")
        raise Violation("silent", f"{reader.name}: exit code 0, and another result after a change "
                        f"of {path}")


def tree_without_pipes(folder):
    """The files below a folder; opening a pipe would wait for ever."""
    pipes = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
             if not os.path.isfile(os.path.join(place, name))]
    for path in pipes:
        os.rename(path, path + ".pipe")
        os.remove(path + ".pipe")
    found = tree(folder)
    for path in pipes:
        os.mkfifo(path)
    return found


def check_untouched(case, before):
    """A refused command leaves everything as it was; only a finished cut may have come."""
    after = {path: digest for path, digest in tree_without_pipes(case.folder).items()
             if not path.startswith("data/parts") or path in before}
    changed = differences(after, {path: digest for path, digest in before.items()})
    if changed:
        raise Violation("half", f"refused, but: {changed}")


def check_epochs(case, job):
    """A resumed run's metrics tell every epoch once, or it has warned that they can't."""
    path = case.path("run/metrics.jsonl")
    epochs = [int(number) for number in re.findall(r"\"epoch\":\s*(\d+)", read(path).decode())]
    complete = epochs == list(range(1, len(epochs) + 1)) and len(epochs) == EPOCHS + 4
    if not complete and "metrics.jsonl" not in job.errors():
        case.count("silent")
        raise Violation("silent", f"run/metrics.jsonl has the epochs {epochs}")
