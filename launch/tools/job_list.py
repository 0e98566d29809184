"""Reads lists of training jobs: groups of options that are multiplied with seeds and modes."""

import dataclasses
import json
import pathlib
import re
import shlex

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

LIST_KEYS = ("group", "options", "modes", "seeds")
GROUP_KEYS = ("name", "dataset", "launcher", "options", "modes", "seeds", "per-seed")
# Options that the list itself sets for each job.
RESERVED_OPTIONS = ("config", "dataset", "overwrite", "resume", "run-dir", "seed", "take-over")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]*")
OPTION = re.compile(r"[a-z][a-z0-9-]*")


class UserError(Exception):
    """Something the user can mend; the message says what, where, what was found and is allowed."""


@dataclasses.dataclass(frozen=True)
class Job:
    group: str
    mode: str
    seed: int
    launcher: tuple  # words in front of the program: ("mpirun", "-n", "2"), or none
    dataset: str
    options: tuple  # pairs of option and text, sorted by option; True instead of a text: a flag

    @property
    def title(self):
        return f"{self.group}, {self.mode}, seed {self.seed}"

    def folder(self, out):
        """The job's run folder below `out`."""
        return pathlib.Path(out, as_path(self.group), as_path(self.mode), f"seed-{self.seed}")

    def identity(self):
        """The job's part of job.json that decides its result: neither the program nor where
        the run folder is."""
        return {"launcher": list(self.launcher), "dataset": self.dataset,
                "options": dict(self.options), "seed": self.seed}


def train_words(identity):
    """The words of `atoll train` that an identity stands for."""
    words = ["train", identity["dataset"]]
    for option, text in identity["options"].items():
        words += [f"--{option}"] if text is True else [f"--{option}", text]
    return words + ["--seed", str(identity["seed"])]


def as_text(identity):
    return shlex.join(identity["launcher"] + ["atoll"] + train_words(identity))


def as_path(name):
    return name.replace(" ", "-")


def require(condition, message):
    if not condition:
        raise UserError(message)


def require_table(value, place, allowed=None):
    require(isinstance(value, dict), f"{place}: found {value!r}; a table is expected")
    for key in value:
        require(allowed is None or key in allowed,
                f"{place}: unknown key '{key}'; known are {', '.join(allowed or ())}")
    return value


def read_options(value, place):
    """Option -> text, True for a flag, or False for one that is taken back."""
    options = {}
    for option, setting in require_table(value, place).items():
        where = f"{place}: option '{option}'"
        require(OPTION.fullmatch(option), f"{where}: must be the name of an option of atoll train, "
                "without its dashes")
        require(option not in RESERVED_OPTIONS, f"{where}: is set by the list itself")
        require(isinstance(setting, (bool, int, float, str)),
                f"{where}: found {setting!r}; it must be a number, a text, true or false")
        options[option] = setting if isinstance(setting, bool) else str(setting)
    return options


def read_seeds(value, place):
    """Seeds in the order given: 3, "1-100", "1,3,7-9" or [1, 2]."""
    where = f"{place}: seeds"
    seeds = []
    for item in value if isinstance(value, list) else str(value).split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", str(item))
        allowed = "allowed are numbers and ranges such as \"1-100\", \"1,3,7-9\" or [1, 2]"
        require(match and not isinstance(item, bool), f"{where}: found {item!r}; {allowed}")
        first = int(match[1])
        last = int(match[2] or match[1])
        require(first <= last, f"{where}: the range {item!r} is empty; {allowed}")
        seeds += range(first, last + 1)
    repeated = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    require(repeated is None, f"{where}: {repeated} stands there twice")
    require(seeds, f"{where}: there is none")
    return seeds


def read_modes(value, place):
    """Name -> options, in file order."""
    modes = {}
    for name, options in require_table(value, f"{place}: modes").items():
        require(NAME.fullmatch(name), f"{place}: modes: the name {name!r} must consist of letters, "
                "digits, spaces and ._+-")
        modes[name] = read_options(options, f"{place}: mode '{name}'")
    require(modes, f"{place}: modes: there is none")
    return modes


def read_per_seed(group, place):
    """The option that takes the number of the seed as well, or None."""
    option = group.get("per-seed")
    require(option is None or (isinstance(option, str) and OPTION.fullmatch(option)
                               and option not in RESERVED_OPTIONS),
            f"{place}: per-seed: found {option!r}; the name of an option that the list does not set "
            "itself is expected, such as \"split-index\"")
    return option


def read_launcher(value, place):
    require(isinstance(value, str), f"{place}: launcher: found {value!r}; a text such as "
            "\"mpirun -n 2\" is expected")
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise UserError(f"{place}: launcher: found {value!r}: {error}") from error


def read_group(group, defaults, number, path):
    """The group's jobs: seeds outside, modes inside, so that an unfinished list has the same seeds
    of every mode."""
    require_table(group, f"{path}: group {number}", GROUP_KEYS)
    name = group.get("name")
    require(isinstance(name, str) and NAME.fullmatch(name),
            f"{path}: group {number}: name: found {name!r}; a text of letters, digits, spaces and "
            "._+- is expected")
    place = f"{path}: group '{name}'"
    dataset = group.get("dataset")
    require(isinstance(dataset, str) and dataset,
            f"{place}: dataset: found {dataset!r}; the path of a dataset folder is expected")
    for key in ("modes", "seeds"):
        require(key in group or key in defaults,
                f"{place}: {key} are missing, in the group and at the top of the file")
    options = read_options(defaults.get("options", {}), f"{path}: options")
    options |= read_options(group.get("options", {}), place)
    modes = read_modes(group.get("modes", defaults.get("modes")), place)
    launcher = read_launcher(group.get("launcher", ""), place)
    per_seed = read_per_seed(group, place)
    for seed in read_seeds(group.get("seeds", defaults.get("seeds")), place):
        of_seed = {per_seed: str(seed)} if per_seed else {}
        for mode, changes in modes.items():
            settings = [item for item in (options | changes | of_seed).items()
                        if item[1] is not False]
            yield Job(name, mode, seed, launcher, dataset, tuple(sorted(settings)))


def read_document(path):
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: can't read: {error}") from error
    require(tomllib or str(path).endswith(".json"),
            f"{path}: lists in TOML need Python 3.11; write it as JSON, or use a newer Python")
    try:
        return json.loads(text) if str(path).endswith(".json") else tomllib.loads(text)
    except ValueError as error:  # of both parsers; names line and column
        raise UserError(f"{path}: {error}") from error


def read_jobs(path, only_groups=()):
    """The jobs of the list in `path` (.json, otherwise TOML), in the order in which they run.
    Raises UserError."""
    document = require_table(read_document(path), str(path), LIST_KEYS)
    groups = document.get("group")
    require(isinstance(groups, list) and groups,
            f"{path}: group: found {groups!r}; at least one [[group]] is expected")
    jobs = []
    for number, group in enumerate(groups, 1):
        jobs += read_group(group, document, number, path)
    places = {}
    for job in jobs:
        other = places.setdefault(job.folder(""), job)
        require(other is job, f"{path}: '{other.title}' and '{job.title}' would share the folder "
                f"{job.folder('')}; use other names")
    names = list(dict.fromkeys(job.group for job in jobs))
    for name in only_groups:
        require(name in names,
                f"--group {name}: is not in {path}; its groups are {', '.join(names)}")
    return [job for job in jobs if not only_groups or job.group in only_groups]
