"""Stands for the package of this name: the interface that atoll.partition uses."""

import numpy as np
from fake_cut import answer, record, shares_of


def context_names():
    return ["default", "strong"]


def context_by_name(name):
    return name


def reseed(seed):
    record(seed=seed)


class GraphFileFormat:
    PARHIP = "parhip"


def load_graph(path, form):
    assert form == GraphFileFormat.PARHIP
    content = open(path, "rb").read()
    version, nodes, entries = np.frombuffer(content, np.uint64, 3).tolist()
    assert version == 1 | 8 | 16 | 32
    places = np.frombuffer(content, np.uint64, nodes + 1, 24).astype(int)
    assert places[0] == 24 + 8 * (nodes + 1)
    weights = np.frombuffer(content, np.int32, nodes, places[-1])
    assert places[-1] + weights.nbytes == len(content)
    assert places[-1] - places[0] == 4 * entries
    record(weights=weights.tolist(), neighbours=[
        np.frombuffer(content, np.uint32, (end - start) // 4, start).tolist()
        for start, end in zip(places[:-1], places[1:])])
    return nodes


class KaMinPar:
    def __init__(self, threads, context):
        record(threads=threads, preset=context)

    def compute_partition(self, nodes, *how):
        if len(how) == 1:
            record(most=how[0])
            return answer(nodes, len(how[0]), shares_of(how[0]))
        record(parts=how[0], imbalance=how[1])
        return answer(nodes, how[0])
