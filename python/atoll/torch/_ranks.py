"""The processes of a job and what they send each other."""

import datetime
import json
import os
import weakref

import torch
import torch.distributed as dist

from atoll._errors import AtollError, InputError
from atoll.torch import _launcher
from atoll.torch._watch import watch

MINUTES = 30  # that a collective waits at most, as torch.distributed does by default


class Ranks:
    """The processes of a group of torch.distributed, or this one alone.

    rank, size: of this process, and how many there are.
    bytes_sent: what this process has sent to others through atoll.torch so far.
    """

    def __init__(self, group=None):
        """group: of torch.distributed; None: all processes, or, where torch.distributed has not been
        started, this one."""
        self.group = group
        alone = not dist.is_initialized()
        self.rank = 0 if alone else dist.get_rank(group)
        self.size = 1 if alone else dist.get_world_size(group)
        self.bytes_sent = 0
        self.exchanges = []  # weak references to those of these ranks, in the order of their making
        self._checked = weakref.WeakSet()  # modules whose parameters were equal on all ranks
        self._on_device = self.size > 1 and dist.get_backend(group) == "nccl"
        # Packets of few bits, and errors, are in the host's memory.
        self._host_group = group
        if self._on_device:
            members = None if group is None else dist.get_process_group_ranks(group)
            self._host_group = dist.new_group(members, backend="gloo")

    def __deepcopy__(self, _):
        return self

    def _global_rank(self, rank):
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def _wire(self, values):
        """The values in memory that the group can send."""
        if self._on_device and values.device.type != "cuda":
            values = values.cuda()
        if not self._on_device and values.device.type != "cpu":
            values = values.cpu()
        return values.contiguous()

    def exchange_rows(self, rows, send_counts, receive_counts):
        """Sends rows [sum(send_counts), ...] to the ranks, the first ones to rank 0, and gives those
        of all ranks [sum(receive_counts), ...], of any type. Collective."""
        tail = rows.shape[1:]
        if self.size == 1:
            return rows.new_empty((0, *tail))
        # As bytes: Gloo does not know all types.
        columns = tail.numel()
        sent = self._wire(rows).reshape(len(rows), columns)
        received = sent.new_empty((sum(receive_counts), columns))
        if columns > 0:
            dist.all_to_all_single(received.view(torch.uint8), sent.view(torch.uint8),
                                   list(receive_counts), list(send_counts), group=self.group)
        self.bytes_sent += sent.nbytes - send_counts[self.rank] * columns * sent.element_size()
        return received.reshape(len(received), *tail).to(rows.device)

    def all_gather(self, values):
        """The tensors of all ranks, which have one shape, as a list. Collective."""
        if self.size == 1:
            return [values]
        sent = self._wire(values)
        parts = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(parts, sent, group=self.group)
        self.bytes_sent += (self.size - 1) * sent.nbytes
        return [part.to(values.device) for part in parts]

    def sum(self, values):
        """The sum of a few values over the ranks, added in their order: the same bits on all ranks.
        Collective."""
        first, *others = self.all_gather(values)
        total = first.clone()
        for part in others:
            total += part
        return total

    def sum_many(self, values):
        """The same of many values [K]: each rank adds up a part of them. Collective."""
        if self.size == 1:
            return values
        length = -(-len(values) // self.size)
        padded = torch.nn.functional.pad(values, (0, length * self.size - len(values)))
        parts = self.exchange_rows(padded, [length] * self.size, [length] * self.size)
        total = parts[:length].clone()
        for rank in range(1, self.size):
            total += parts[rank * length:(rank + 1) * length]
        return torch.cat(self.all_gather(total))[:len(values)]

    def broadcast(self, values):
        """Overwrites values with those of rank 0. Collective."""
        if self.size == 1:
            return
        sent = self._wire(values)
        dist.broadcast(sent, self._global_rank(0), group=self.group)
        if self.rank == 0:
            self.bytes_sent += (self.size - 1) * sent.nbytes
        values.copy_(sent)

    def tell_all(self, value=None):
        """Rank 0's value, of what JSON has, on all ranks. Collective."""
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.rank == 0 else b""
        length = torch.tensor([len(text)])
        dist.broadcast(length, self._global_rank(0), group=self._host_group)
        payload = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == 0:
            payload = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(payload, self._global_rank(0), group=self._host_group)
        return json.loads(payload.numpy().tobytes())

    def agree(self, function):
        """function(), which may fail on some ranks: all of them raise then. Collective."""
        result, error = None, None
        try:
            result = function()
        except (AtollError, OSError, ValueError) as failure:
            error = failure
        if self.size == 1:
            if error is not None:
                raise error
            return result
        failed = torch.tensor([0 if error is None else 1])
        counts = [torch.zeros_like(failed) for _ in range(self.size)]
        dist.all_gather(counts, failed, group=self._host_group)
        if error is not None:
            raise error
        ranks = [rank for rank, count in enumerate(counts) if count]
        if ranks:
            raise AtollError(f"rank {ranks[0]} has failed; its message says why")
        return result

    def carry(self, sends, receives):
        """Sends packets of bytes, one for each rank or None, and receives others: returns an object
        with wait(rank) and wait_all(). What atoll._engine moves its messages with."""
        works = {}
        kept = []
        for rank, memory in enumerate(receives):
            if memory is not None:
                packet = torch.frombuffer(memory, dtype=torch.uint8)
                works[rank] = [dist.irecv(packet, self._global_rank(rank), group=self._host_group)]
                kept.append(packet)
        for rank, memory in enumerate(sends):
            if memory is not None:
                packet = torch.frombuffer(memory, dtype=torch.uint8)
                self.bytes_sent += packet.nbytes
                works.setdefault(rank, []).append(
                    dist.isend(packet, self._global_rank(rank), group=self._host_group))
                kept.append(packet)
        return Carried(works, kept)


class Carried:
    """Packets under way."""

    def __init__(self, works, packets):
        self._works, self._packets = works, packets

    def wait(self, rank):
        """Waits for the packet that comes from a rank, and the one that goes there."""
        for work in self._works.pop(rank, ()):
            work.wait()

    def wait_all(self):
        for rank in list(self._works):
            self.wait(rank)


_current = None  # Ranks of the last start()
_watch = None


def start(group=None, *, backend="gloo", timeout=MINUTES * 60):
    """The ranks of this job, started where that has not been done yet; collective.

    group: a group of torch.distributed whose processes share a graph; None: all processes that
        torchrun, mpirun (Open MPI), mpiexec (MPICH) or srun has started, and without one of these
        the process alone. Processes that have called torch.distributed.init_process_group() stay as
        they are.
    backend: of torch.distributed: "gloo", or "nccl" where each process has a GPU.
    timeout: seconds that a collective waits at most.

    A rank that fails from then on ends all others within seconds, with a message that names it.
    Returns the Ranks. Raises InputError where the environment does not say where ranks meet.
    """
    global _current, _watch
    launcher, _, size, _, _ = _launcher.processes()
    if not dist.is_initialized() and size > 1:
        _launcher.name_meeting_place()
        try:
            dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout))
        except RuntimeError as error:
            place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise AtollError(f"rank {os.environ['RANK']} of {size} ({launcher}) could not meet the "
                             f"others at {place} (MASTER_ADDR, MASTER_PORT): {error}") from error
    if _watch is None and dist.is_initialized() and dist.get_world_size() > 1:
        _watch = watch(dist.get_rank(), dist.get_world_size(),
                       dist.distributed_c10d._get_default_store())
    if _current is None or group is not None:
        _current = Ranks(group)
    return _current


def current(ranks=None):
    """The ranks given, else those of the last start()."""
    if ranks is not None:
        return ranks
    if _current is None:
        raise InputError("atoll.torch has not been started: call atoll.torch.shard() or "
                         "atoll.torch.start() first")
    return _current
