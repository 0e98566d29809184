"""Cuts of a dataset into parts, by Atoll's own partitioners or by those of other packages."""

import hashlib
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np

from atoll import _other_cuts, _program
from atoll._errors import InputError
from atoll._path import python_path
from atoll._structure import BALANCES
from atoll._table import Table
from atoll.dataset import Dataset

FIGURES = ("seconds", "cpu_seconds", "peak_bytes")
MOST_SEED = 2**31  # seeds of other packages are below


class Partition:
    """A cut of a dataset, in a folder that training uses.

    partition = atoll.partition(dataset, 4): `partition.halo_rows`, `.table`, `.seconds`, ...;
    atoll.train(dataset, partition=partition) trains on its parts."""

    def __init__(self, dataset, name, options, made_by):
        self.dataset = dataset
        self._name = name  # of the folder
        self._options = options  # of `atoll train`; parts_file is a name in the same place
        self._made_by = made_by

    @property
    def path(self):
        """The folder, as text."""
        return os.path.join(_place(self.dataset, self._options), self._name)

    def __fspath__(self):
        return self.path

    def _json(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return json.load(file)

    @property
    def options(self):
        """The keywords by which atoll.train() finds these parts."""
        options = dict(self._options)
        if "parts_file" in options:
            options["parts_file"] = os.path.join(_place(self.dataset, options),
                                                 options["parts_file"])
        return options

    @property
    def parts(self):
        """Number of parts."""
        return self._json("partition.json")["parts"]

    @property
    def quality(self):
        """All figures of the cut as a dictionary, as `atoll partition --json` prints them."""
        return self._json("quality.json")

    @property
    def table(self):
        """A Table with one row per part: nodes, edges, cost, halo_forward, halo_backward, ..."""
        return Table.from_records([{"part": part, **row}
                                   for part, row in enumerate(self.quality["per_part"])])

    @property
    def halo_rows(self):
        """Rows that each part receives from others in a forward pass, int64 [parts]."""
        return np.array([row["halo_forward"] for row in self.quality["per_part"]], np.int64)

    @property
    def edges_cut(self):
        """Edges between parts, as stored: an edge of an undirected graph counts twice."""
        return self.quality["cut_edges"]

    @property
    def balance(self):
        """The largest part against its share, of nodes, edges, cost, ...; 1 is perfect."""
        return self.quality["balance"]

    @property
    def part_of(self):
        """The part of every node, int32 [N]."""
        result = np.empty(self.dataset.num_nodes, np.int32)
        for part in range(self.parts):
            result[np.load(os.path.join(self.path, f"part-{part}", "inner_ids.npy"))] = part
        return result

    @property
    def growth(self):
        """How a cut with from_ came about since the graph was cut first: a list with a dictionary for
        each step, the last one its own. Its `cut` is "extended", "quick" or "anew". Empty without
        from_."""
        return self._json("partition.json").get("from", [])

    @property
    def made_by(self):
        """Who made the cut and how: method, seed, ...; of another package also its name and version,
        preset, objective and threads. It is kept beside the partition."""
        return {name: value for name, value in self._made_by.items() if name not in FIGURES}

    @property
    def seconds(self):
        """The time that making the cut took, without reading the dataset and writing the parts. Of another
        package: all of the process that cuts, and refining."""
        return self._made_by["seconds"]

    @property
    def cpu_seconds(self):
        """Processor time of the processes that made the cut. None: it was there already."""
        return self._made_by.get("cpu_seconds")

    @property
    def peak_bytes(self):
        """The most memory that one of these processes had. None: the cut was there already."""
        return self._made_by.get("peak_bytes")

    def __repr__(self):
        return (f"Partition({self.path!r}: {self.parts} parts by {self._made_by['method']}, "
                f"{int(self.halo_rows.sum()):,} halo rows, {self.edges_cut:,} edges cut)")


def _place(dataset, options):
    """The folder of a dataset's partitions."""
    return os.path.abspath(options.get("parts_dir") or os.path.join(dataset.path, "parts"))


def _by_engine(dataset, parts, options, threads, growth=()):
    """A Partition of `atoll partition`; growth: words that say what it grows from."""
    words = [_program.program_path(), "partition", dataset.path, f"--parts={parts}", "--json",
             *_program.option_words("partition", options), *growth]
    place = _place(dataset, options)
    before = set(os.listdir(place)) if os.path.isdir(place) else set()
    command = _program.MeasuredProcess(
        words, {} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    made = json.loads(_program.output_of(command))
    name = os.path.basename(made["folder"])
    made_by = {"method": made["partition"]["options"]["method"],
               "seed": made["partition"]["options"]["seed"], "refine": _refined(made["partition"]),
               "seconds": made["partition"]["partition_seconds"]}
    if name not in before:
        made_by.update(cpu_seconds=command.cpu_seconds, peak_bytes=command.peak_bytes)
    as_of_train = {"partition_seed" if key == "seed" else key: value
                   for key, value in options.items()}
    return Partition(dataset, name, as_of_train, made_by), made["partition"]


def _refined(description):
    """Whether the cut was refined, by its partition.json: False, True or "strong"."""
    return description["options"].get("refine", False)


def _shares(weights, parts):
    if weights is None:
        return None
    try:
        weights = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise InputError(f"weights: {weights!r} found; allowed is a list with a number for each "
                         "part") from None
    if len(weights) != parts or not all(0 < weight < float("inf") for weight in weights):
        raise InputError(f"weights: {weights} found for {parts} parts; allowed is a positive number "
                         "for each")
    return [weight / sum(weights) for weight in weights]


def _check_others_options(dataset, method, parts, options):
    """Refuses what the engine would refuse only after the cut."""
    known = _program.option_rows("partition")
    for name in options:
        if name.replace("_", "-") not in known:
            raise InputError(f"unknown option {name!r}; atoll.options('partition') lists all")
    for name in ("islands", "marginal_cost", "parts_file", "cuts"):
        if options.get(name):
            raise InputError(f"{name}: {options[name]!r} found with method {method!r}; allowed with "
                             "Atoll's own methods")
    if options.get("balance", "cost") not in BALANCES:
        raise InputError(f"balance: {options['balance']!r} found with method {method!r}; allowed "
                         f"are {', '.join(BALANCES)}")
    objectives = known["objective"]["words"]
    if options.get("objective", objectives[0]) not in objectives:
        raise InputError(f"objective: {options['objective']!r} found; allowed are "
                         f"{', '.join(objectives)}")
    if not 2 <= parts <= dataset.num_nodes:
        raise InputError(f"parts: {parts} found with method {method!r} for {dataset.num_nodes} "
                         f"nodes; allowed are 2 to {dataset.num_nodes}")
    imbalance = options.get("imbalance", float(known["imbalance"]["default"]))
    if not isinstance(imbalance, (int, float)) or not 0.001 <= imbalance <= 10:
        raise InputError(f"imbalance: {imbalance!r} found; allowed are 0.001 to 10")


def _request(dataset, method, parts, seed, preset, options):
    """All that decides the cut, for the process that makes it and for the name of its file."""
    known = _program.option_rows("partition")
    objective = options.get("objective", known["objective"]["default"])
    possible = _other_cuts.METHODS[method].objectives
    return {"method": method, "package": _other_cuts.METHODS[method].package,
            "version": _other_cuts.version(method), "parts": parts,
            "preset": preset or _other_cuts.METHODS[method].preset,
            "objective": objective if objective in possible else possible[0],
            "balance": options.get("balance", known["balance"]["default"]),
            "imbalance": float(options.get("imbalance", known["imbalance"]["default"])),
            "shares": _shares(options.get("weights"), parts), "seed": seed,
            "directed": dataset.directed}


def _mark(dataset, request):
    """8 hex digits for the graph and how it is cut."""
    files = dataset._fields.get("files", {})
    graph = [files.get(f"{name}.npy") for name in ("row_ptr", "col_idx")]
    if None in graph:  # made by hand
        graph = [hashlib.blake2b(dataset._read(name).tobytes()).hexdigest()
                 for name in ("row_ptr", "col_idx")]
    text = json.dumps([request, graph], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _cut_elsewhere(dataset, request, threads, file):
    """Lets the other package cut; writes FILE.npy and, last, FILE.json, which says how."""
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="atoll-", dir=os.path.dirname(file)) as folder:
        parts_file, said_file, request_file = (
            os.path.join(folder, name) for name in ("parts.npy", "said", "request"))
        with open(request_file, "w", encoding="utf-8") as text:
            json.dump({**request, "dataset": dataset._array_folder(), "threads": threads,
                       "out": parts_file, "said": said_file, "folder": folder}, text)
        command = _program.MeasuredProcess(
            [sys.executable, "-m", "atoll._cut_process", request_file],
            {**python_path(), "OMP_NUM_THREADS": str(threads)})
        _program.output_of(command)
        with open(said_file, encoding="utf-8") as text:
            said = json.load(text)
        record = {**request, "threads": threads, "seconds": command.seconds, **said,
                  "cpu_seconds": command.cpu_seconds, "peak_bytes": command.peak_bytes}
        os.replace(parts_file, file + ".npy")
        _write_record(file, record)
    return record


def _write_record(file, record):
    part = f"{file}.json.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as text:
        json.dump(record, text, indent=2)
    os.replace(part, file + ".json")


def _by_others(dataset, method, parts, seed, threads, preset, options):
    """A Partition whose cut another package makes, unless it has made it before."""
    other = _other_cuts.METHODS[method]
    if importlib.util.find_spec(other.module) is None:
        raise InputError(f"method {method!r} needs the package {other.package}, which is not "
                         f"installed: pip install {other.package}")
    if not isinstance(parts, int) or not isinstance(seed, int) or not 0 <= seed < MOST_SEED:
        raise InputError(f"parts: {parts!r} and seed: {seed!r} found; allowed are whole numbers, of "
                         f"seed 0 to {MOST_SEED - 1}")
    _check_others_options(dataset, method, parts, options)
    request = _request(dataset, method, parts, seed, preset, options)
    name = f"{parts}-{method}-{request['objective']}-{_mark(dataset, request)}"
    file = os.path.join(_place(dataset, options), name)
    try:
        with open(file + ".json", encoding="utf-8") as text:
            record = json.load(text)
    except FileNotFoundError:
        record = _cut_elsewhere(dataset, request, threads or _threads(), file)
    of_file = {**options, "method": "file", "parts_file": file + ".npy", "seed": seed}
    if options.get("refine", "auto") in ("auto", "off", False):
        of_file.pop("objective", None)  # it was the package's: nothing else is minimised
    made, description = _by_engine(dataset, parts, of_file, threads)
    if "parts_checksum" not in record:
        record["parts_checksum"] = description["options"]["parts_checksum"]
        _write_record(file, record)
    options = {**made._options, "parts_file": name + ".npy"}
    return Partition(dataset, made._name, options, _both(record, made))


def _both(record, made):
    """The record of a cut with what checking and refining it took, which `made` says."""
    figures = {"seconds": record["seconds"] + made.seconds, "refine": made.made_by["refine"]}
    if made.peak_bytes is not None:
        figures = {**figures, "cpu_seconds": record["cpu_seconds"] + made.cpu_seconds,
                   "peak_bytes": max(record["peak_bytes"], made.peak_bytes)}
    return {**record, **figures}


def _threads():
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def _growth_words(from_, drift):
    """The words of --from and --drift."""
    if from_ is None:
        if drift is not None:
            raise InputError(f"drift: {drift!r} found without from_; allowed with it only")
        return []
    place = from_.path if isinstance(from_, Dataset) else os.fspath(from_)
    return _program.option_words("partition", {"from": os.path.abspath(place), "drift": drift})


def partition(dataset, parts, method="auto", *, seed=1, threads=None, preset=None, from_=None,
              drift=None, **options):
    """Cuts a dataset into parts, one per rank, and returns a Partition. Options that name a cut that
    is there already find it.

    dataset: a Dataset, or the path of a dataset folder.
    parts: number of parts.
    method: "auto", "metis", "communities", "random", "contiguous" or "file" of `atoll partition`; or
        "kaminpar", "mt-kahypar" or "scotch", by their packages: pip install kaminpar, mtkahypar or
        scotchpy64.
    seed: for everything that is drawn at random.
    threads: for the cut. None: OMP_NUM_THREADS, or all cores.
    preset: of the other packages; see docs/partition.md.
    from_: a Partition of the dataset before it grew (or its path, or that dataset, which has one with
        these options): it is extended, or the dataset is cut anew if that is much better; see
        docs/growing.md. `partition.growth` says what was done.
    drift: with from_, how many times the halo rows of a fresh cut it may have. None: 1.1.
    options: those of `atoll partition`, with _ instead of -: balance="nodes", weights=[2, 1, 1],
        refine="strong", ... refine="on" or "strong" also improves the cut of another package.

    Raises InputError."""
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    options = {name: os.path.abspath(value) if name in ("parts_dir", "parts_file") else value
               for name, value in options.items() if value is not None}
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise InputError(f"threads: {threads!r} found; allowed are whole numbers from 1 on")
    growth = _growth_words(from_, drift)
    if method in _other_cuts.METHODS:
        if growth:
            raise InputError(f"from_: {from_!r} found with method {method!r}; allowed with Atoll's own "
                             "methods")
        return _by_others(dataset, method, parts, seed, threads, preset, options)
    if preset is not None:
        raise InputError(f"preset: {preset!r} found with method {method!r}; allowed with "
                         f"{', '.join(_other_cuts.METHODS)}")
    try:
        made, _ = _by_engine(dataset, parts, {**options, "method": method, "seed": seed}, threads,
                             growth)
    except InputError as error:
        text = str(error)
        if not text.startswith(f"method: {method} not in {{"):
            raise
        raise InputError(text.replace("}", f",{','.join(_other_cuts.METHODS)}}}", 1)) from None
    return made


def train_with(partition, dataset, ranks, launcher, options):
    """Ranks and options of a training on these parts. `ranks` may be left at 1."""
    if os.path.abspath(partition.dataset.path) != os.path.abspath(os.fspath(dataset)):
        raise InputError(f"partition: it is one of {partition.dataset.path}, but the dataset is "
                         f"{os.fspath(dataset)}")
    for name in partition.options:
        if name in options:
            raise InputError(f"{name}: the partition says it, too; give only one of the two")
    if launcher in ("threads", "mpirun") and "group_ranks" not in options:
        if ranks not in (1, partition.parts):
            raise InputError(f"ranks: {ranks} found with a partition into {partition.parts} parts; "
                             "allowed is one rank per part")
        ranks = partition.parts
    return ranks, {**options, **partition.options}
