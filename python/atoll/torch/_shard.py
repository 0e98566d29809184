"""The part of a graph that one process holds."""

import json
import os

import numpy as np
import torch

from atoll import _program
from atoll._errors import InputError, failure
from atoll.torch import _launcher, _ranks

TRAIN, VALID, TEST = 0, 1, 2  # values of split.npy
_current = None  # the last shard


class Shard:
    """The rows and edges of one process: n local nodes, and behind them h halo nodes, which other
    processes own and of which local ones read rows. Names and types are those of
    torch_geometric.data.Data; what the dataset does not have is None.

    x: f32 [n, F]. y: int64 [n] (-1: none), f32 [n] or [n, C]. train_mask, val_mask, test_mask: bool
        [n], or [n, K] of K splits.
    edge_index: int64 [2, E], the edges into local nodes: edge_index[0] the sources, below n + h, and
        edge_index[1] the targets, below n and ascending. edge_weight: f32 [E]. edge_type: int64 [E].
        edge_attr: f32 [E, G]. node_type: int64 [n].
    adj_t: the same edges as a sparse CSR matrix [n, n + h], with their weights.
    n_id: int64 [n + h], the global id of each node. Local ones come first: `central` of them, that
        neither read rows of other ranks nor are read there, then the marginal ones. The halo nodes of
        a rank follow each other, ranks ascending.
    in_degree: f32 [n + h], the sum of the weights of all edges into each node, in the whole graph.
    num_nodes, num_halo: n and h. rows: n of every rank. global_nodes: their sum.
    send_rows: int64 [M], local nodes that other ranks read; send_counts: how many of them go to each
        rank. halo_counts: halo nodes of each rank.
    ranks: the Ranks. exchange: the HaloExchange that layers use.
    """

    def __init__(self, folder, ranks):
        self.folder, self.ranks = folder, ranks
        self._path = os.path.join(folder, f"part-{ranks.rank}")
        with open(os.path.join(self._path, "shard.json"), encoding="utf-8") as file:
            description = json.load(file)
        dataset = description["dataset"]
        self.central = description["central"]
        self.global_nodes = int(dataset["nodes"])
        self.num_classes = int(dataset.get("classes") or 0)
        self.task = dataset.get("task")
        self.exchange = None
        self._read_nodes()
        self._read_edges()

    def _array(self, name, dtype=None):
        """A tensor of its own, or None."""
        path = os.path.join(self._path, name + ".npy")
        if not os.path.exists(path):
            return None
        return torch.from_numpy(np.array(np.load(path, mmap_mode="r"), dtype=dtype))

    def _read_nodes(self):
        inner = self._array("inner_ids")
        self.num_nodes = len(inner)
        halo = self._array("forward_halo_ids")
        self.num_halo = len(halo)
        self.n_id = torch.cat([inner, halo])
        self.x = self._array("features")
        self.y = self._array("labels")
        if self.y is not None and self.y.dtype != torch.float32:
            # Several labels per node are targets of a sigmoid; 255 is none.
            self.y = self.y.long() if self.y.dim() == 1 else self.y.float().masked_fill_(
                self.y == 255, float("nan"))
        self.node_type = self._array("node_types", np.int64)
        self.in_degree = self._array("in_degree")  # halo rows follow in shard()
        split = self._array("split")
        for name, value in (("train_mask", TRAIN), ("val_mask", VALID), ("test_mask", TEST)):
            mask = None if split is None else (split == value).t().contiguous()
            setattr(self, name, mask[:, 0] if mask is not None and mask.shape[1] == 1 else mask)

    def _read_edges(self):
        self._row_ptr = self._array("forward_row_ptr")
        source = self._array("forward_col_idx", np.int64)
        target = torch.repeat_interleave(torch.arange(self.num_nodes), self._row_ptr.diff())
        self.edge_index = torch.stack([source, target])
        self.edge_weight = self._array("forward_values")
        self.edge_type = self._array("forward_edge_types", np.int64)
        self.edge_attr = self._array("forward_edge_features")
        self._adj_t = None
        self.send_rows = self._array("forward_send_rows", np.int64)
        self.send_counts = self._array("forward_send_offset").diff().tolist()
        self.halo_counts = self._array("forward_recv_offset").diff().tolist()

    @property
    def num_features(self):
        return 0 if self.x is None else self.x.shape[1]

    @property
    def num_edges(self):
        return self.edge_index.shape[1]

    @property
    def adj_t(self):
        if self._adj_t is None:
            weight = self.edge_weight
            if weight is None:
                weight = torch.ones(self.num_edges, device=self.edge_index.device)
            self._adj_t = torch.sparse_csr_tensor(self._row_ptr, self.edge_index[0], weight,
                                                  (self.num_nodes, self.num_nodes + self.num_halo))
        return self._adj_t

    def to(self, device):
        """Moves all tensors to a device. Returns this shard."""
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(device))
        return self

    def __repr__(self):
        return (f"Shard(rank {self.ranks.rank} of {self.ranks.size}: {self.num_nodes:,} of "
                f"{self.global_nodes:,} nodes, {self.num_halo:,} halo nodes, {self.num_edges:,} "
                f"edges)")


def _partition(path, ranks, options):
    """Folder and checksum of the partition, made by rank 0 if it is not there. Collective."""
    found = None
    if ranks.rank == 0:
        try:
            # A program, not a thread of this process, which would take itself for one rank of the
            # job; and one that knows of no job.
            text = _program.run(["partition", path, "--parts", ranks.size, "--json",
                                 *_program.option_words("partition", options)], launcher=[],
                                variables=_launcher.ALONE)
            made = json.loads(text)
            found = {"folder": os.path.abspath(made["folder"]),
                     "checksum": made["partition"]["checksum"]}
        except InputError as error:
            found = {"error": str(error), "code": 2}
        except Exception as error:  # the others wait for an answer, whatever it is
            found = {"error": str(error), "code": 1}
    found = ranks.tell_all(found)
    if "error" in found:
        raise failure(found["error"], found["code"])
    return found["folder"], found["checksum"]


def shard(dataset, ranks=None, *, bits=None, seed=1, group=None, **options):
    """The part of a dataset that belongs to this process; collective over all processes.

    dataset: an atoll.Dataset or its folder, which every process must be able to read. Rank 0 cuts it,
        or takes the cut that is there (`atoll partition`), while the others wait.
    ranks: how many processes there must be; None: as many as were started.
    bits: of the messages of training, see HaloExchange. seed: of their rounding, and of dropout.
    group: of torch.distributed, see start().
    options: those of `atoll partition`, as in objective="cut".

    Returns a Shard, to which layers and losses made afterwards refer unless they are given another.
    Raises InputError on all ranks for a dataset, an option or a number of ranks that can't be.
    """
    global _current
    from atoll.torch._exchange import HaloExchange
    members = _ranks.start(group)
    if ranks is not None and ranks != members.size:
        raise InputError(f"ranks={ranks}: {members.size} process{'es' * (members.size > 1)} have been "
                         f"started; start as many, as in torchrun --nproc-per-node {ranks} SCRIPT")
    path = os.path.abspath(os.fspath(dataset))
    folder, checksum = _partition(path, members, options)
    made, part = members.agree(lambda: _open(folder, checksum, members))
    counts = members.all_gather(torch.tensor([made.num_nodes]))
    made.rows = [int(count) for count in counts]
    made.exchange = HaloExchange(made, bits, seed=seed, part=part)
    made.in_degree = made.exchange.exact(made.in_degree)
    _current = made
    return made


def _open(folder, checksum, ranks):
    """The shard of this rank, and the same opened by the engine, which compares every checksum; None
    where the package has no compiled part."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: rank {ranks.rank} can't see the partition that rank 0 has made; "
                         "the dataset's folder must be visible on all hosts")
    part = None
    if _program._engine is not None:
        part = _program._engine.Part(folder, ranks.rank, checksum)
    return Shard(folder, ranks), part


def current(given=None):
    """The shard given, else the last one of shard()."""
    if given is not None:
        return given
    if _current is None:
        raise InputError("there is no shard yet: call atoll.torch.shard() first")
    return _current


def gather(rows, shard=None):
    """The rows [n, ...] of all ranks as one tensor [nodes, ...] in the order of the dataset, on rank
    0; None on the others. Collective. shard: None: the last one."""
    shard = current(shard)
    ranks = shard.ranks
    if len(rows) != shard.num_nodes:
        raise InputError(f"gather: {len(rows)} rows; allowed are {shard.num_nodes}, one for each local "
                         "node")
    send = [len(rows) if rank == 0 else 0 for rank in range(ranks.size)]
    receive = shard.rows if ranks.rank == 0 else [0] * ranks.size
    rows = rows.detach()
    if ranks.size > 1:
        ids = ranks.exchange_rows(shard.n_id[:shard.num_nodes], send, receive)
        rows = ranks.exchange_rows(rows, send, receive)
    else:
        ids = shard.n_id
    if ranks.rank != 0:
        return None
    result = torch.empty_like(rows)
    result[ids.to(rows.device)] = rows
    return result
