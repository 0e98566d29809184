"""Partitioners from other packages, which _cut_process.py runs in a process of its own."""

import importlib.metadata
import os
import time
from typing import Callable, NamedTuple

import numpy as np

from atoll import _structure
from atoll._errors import InputError


class Task(NamedTuple):
    """A graph and how it is to be cut."""

    row_ptr: np.ndarray  # in-edges, of an undirected graph both directions
    col_idx: np.ndarray
    directed: bool
    weights: np.ndarray  # of the nodes
    parts: int
    shares: list  # of the parts, sum 1; None: equal
    imbalance: float
    objective: str
    preset: str
    seed: int
    threads: int
    folder: str  # for files on the way

    def file(self, name):
        return os.path.join(self.folder, name)

    def most(self):
        """The most that each part may weigh, whole numbers."""
        total = int(self.weights.sum())
        heaviest = int(self.weights.max())
        # A part can always take one node.
        return [max(int((1 + self.imbalance) * share * total), heaviest) for share in self.shares]


def _known(preset, presets):
    if preset not in presets:
        raise InputError(f"preset: {preset!r} found; allowed are {', '.join(presets)}")
    return preset


def _by_kaminpar(task):
    import kaminpar

    context = kaminpar.context_by_name(_known(task.preset, kaminpar.context_names()))
    start, others = _structure.neighbours(task.row_ptr, task.col_idx, task.directed)
    _structure.write_parhip(task.file("graph"), start, others, task.weights)
    del start, others
    begin = time.monotonic()
    kaminpar.reseed(task.seed)
    graph = kaminpar.load_graph(task.file("graph"), kaminpar.GraphFileFormat.PARHIP)
    partitioner = kaminpar.KaMinPar(task.threads, context)
    if task.shares is None:
        parts = partitioner.compute_partition(graph, task.parts, task.imbalance)
    else:
        parts = partitioner.compute_partition(graph, task.most())
    return parts, time.monotonic() - begin


def _by_mt_kahypar(task):
    import mtkahypar

    presets = {name.lower(): value for name, value in mtkahypar.PresetType.__members__.items()}
    preset = presets[_known(task.preset, presets)]
    by_rows = task.objective == "volume"
    if by_rows:
        _structure.write_hmetis(task.file("graph"), *_structure.nets(
            task.row_ptr, task.col_idx, task.directed), task.weights)
    else:
        _structure.write_metis(task.file("graph"), *_structure.neighbours(
            task.row_ptr, task.col_idx, task.directed), task.weights)
    begin = time.monotonic()
    program = mtkahypar.initialize(task.threads)
    mtkahypar.set_seed(task.seed)
    context = program.context_from_preset(preset)
    context.set_partitioning_parameters(
        task.parts, task.imbalance, mtkahypar.Objective.KM1 if by_rows else mtkahypar.Objective.CUT)
    if task.shares is not None:
        context.set_individual_target_block_weights(task.most())
    read, form = ((program.hypergraph_from_file, mtkahypar.FileFormat.HMETIS) if by_rows else
                  (program.graph_from_file, mtkahypar.FileFormat.METIS))
    cut = read(task.file("graph"), context, form).partition(context)
    return cut.get_partition(), time.monotonic() - begin


SCOTCH_PRESETS = {"default": 0, "quality": 1, "speed": 2, "balance": 4, "safety": 8}  # scotch.h


def _by_scotch(task):
    flags = SCOTCH_PRESETS[_known(task.preset, SCOTCH_PRESETS)]
    os.environ["SCOTCH_PTHREAD_NUMBER"] = str(task.threads)
    import scotchpy

    start, others = _structure.neighbours(task.row_ptr, task.col_idx, task.directed)
    begin = time.monotonic()
    scotchpy.common.random_seed(task.seed)
    graph = scotchpy.Graph()
    graph.build(verttab=start, edgetab=others.astype(np.int64), velotab=task.weights)
    strategy = scotchpy.Strat()
    strategy.graph_map_build(flags, task.parts, task.imbalance)
    parts = [0] * len(task.weights)
    if task.shares is None:
        graph.part(task.parts, strategy, parts)
    else:
        machine = scotchpy.Arch()
        machine.cmpltw([round(share * 1_000_000) or 1 for share in task.shares])
        graph.map(machine, strategy, parts)
    return parts, time.monotonic() - begin


class Method(NamedTuple):
    """A partitioner of another package."""

    cut: Callable  # Task -> parts of the nodes, seconds of the package
    module: str
    package: str  # its name for pip
    preset: str  # that is usual
    objectives: tuple = ("cut",)  # that it minimises


METHODS = {
    "kaminpar": Method(_by_kaminpar, "kaminpar", "kaminpar", "default"),
    "mt-kahypar": Method(_by_mt_kahypar, "mtkahypar", "mtkahypar", "default", ("volume", "cut")),
    "scotch": Method(_by_scotch, "scotchpy", "scotchpy64", "default"),
}


def version(method):
    """The version of a method's package, or None where it is not known."""
    try:
        return importlib.metadata.version(METHODS[method].package)
    except importlib.metadata.PackageNotFoundError:
        return None
