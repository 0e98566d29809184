"""Stands for the package of this name: the interface that atoll.partition uses."""

import enum

from fake_cut import answer, record, shares_of

Objective = enum.Enum("Objective", ["CUT", "KM1", "SOED"])
FileFormat = enum.Enum("FileFormat", ["HMETIS", "METIS"])


class PresetType:
    __members__ = {"DEFAULT": "default", "QUALITY": "quality"}


def set_seed(seed):
    record(seed=seed)


class initialize:
    def __init__(self, threads):
        record(threads=threads)

    def context_from_preset(self, preset):
        record(preset=preset)
        return Context()

    def graph_from_file(self, path, context, form):
        assert form == FileFormat.METIS
        lines = open(path, encoding="ascii").read().splitlines()
        nodes, edges, kinds = map(int, lines[0].split())
        rows = [list(map(int, line.split())) for line in lines[1:]]
        assert (len(rows), kinds) == (nodes, 10)
        assert sum(len(row) - 1 for row in rows) == 2 * edges
        record(weights=[row[0] for row in rows],
               neighbours=[[node - 1 for node in row[1:]] for row in rows])
        return Graph(nodes)

    def hypergraph_from_file(self, path, context, form):
        assert form == FileFormat.HMETIS
        lines = open(path, encoding="ascii").read().splitlines()
        nets, nodes, kinds = map(int, lines[0].split())
        rows = [list(map(int, line.split())) for line in lines[1:]]
        assert (len(rows), kinds) == (nets + nodes, 10)
        assert all(len(row) > 1 for row in rows[:nets])
        record(nets=[[node - 1 for node in row] for row in rows[:nets]],
               weights=[weight for weight, in rows[nets:]])
        return Graph(nodes)


class Context:
    most = None

    def set_partitioning_parameters(self, parts, imbalance, objective):
        self.parts = parts
        record(parts=parts, imbalance=imbalance, objective=objective.name)

    def set_individual_target_block_weights(self, most):
        self.most = most


class Graph:
    def __init__(self, nodes):
        self._nodes = nodes

    def partition(self, context):
        most = context.most
        record(most=most)
        self._parts = answer(self._nodes, context.parts, most and shares_of(most))
        return self

    def get_partition(self):
        return self._parts
