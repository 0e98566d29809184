"""Rows of other processes, and their gradients on the way back."""

import time
import weakref

import torch

from atoll import _program
from atoll._errors import InputError
from atoll.torch import _ranks

WIDTHS = (1, 2, 4, 8, 16, 32)
PADDING = 8  # the engine's rows start at multiples of so many values


class HaloExchange:
    """Rows of local nodes become rows of local and halo nodes; their gradients go back.

        rows = exchange(x)            # [n, F] -> [n + h, F]

    Backward, the gradients of halo rows travel to the owners of the nodes, which add them to their
    own, rank after rank. All calls are collective: every process makes the same ones.

    bits: None sends rows as they are, of any type and on any device. 1, 2, 4, 8, 16 or 32, or
        "adaptive", sends float32 rows of training at so many bits per value, in packets that Atoll's
        kernels make on the CPU: the rounding is stochastic, so that its expectation is exact
        (docs/exchange.md, after AdaQP: Wan, Zhao, Wu, MLSys 2023). "adaptive" measures five epochs
        and then chooses a width for each message, every ten epochs anew (docs/exchange.md).
        Rows are exact without gradients (torch.no_grad()), and those of shard.x, which travel once.
    seed: of the rounding, whose noise is a function of seed, epoch, exchange, node and column.
    """

    def __init__(self, shard, bits=None, *, seed=1, part=None):
        """part: what the engine knows of the shard; for atoll.torch.shard()."""
        if bits is not None and bits != "adaptive" and bits not in WIDTHS:
            raise InputError(f"bits={bits!r}; allowed are None, {', '.join(map(str, WIDTHS))} and "
                             "'adaptive'")
        # Without a reference to the shard, which refers to its own exchange.
        self._shard = weakref.ref(shard)
        self.ranks, self.bits, self.seed = shard.ranks, bits, seed
        self.num_nodes, self.num_halo = shard.num_nodes, shard.num_halo
        self.epoch = 1
        self.seconds = 0.0  # in exchanges so far, waits for others and packing included
        self.news = None  # how messages travel, when it has changed last: mean_bits, messages, gap
        self._send_rows, self._send_counts = shard.send_rows, shard.send_counts
        self._halo_counts = shard.halo_counts
        self._channels = 0  # exchanges of this epoch so far
        self._columns = {}  # of each
        self._kept = {}  # by the id of a constant: weak reference, version and rows
        self.normalized = {}  # of _layers.normalized(), by the ids of its arguments
        self._part = part if part is not None else getattr(shard.exchange, "_part", None)
        self._engine = None
        if bits is not None and self.ranks.size > 1:
            if self._part is None:
                raise InputError("bits: packets are made by the compiled part of the package, which "
                                 "is not there; install the package with pip install .")
            self._engine = _program._engine.Exchange(self._part, str(bits), seed,
                                                     torch.get_num_threads(), self.ranks.carry)
        self.ranks.exchanges.append(weakref.ref(self))

    def __deepcopy__(self, _):
        return self  # a copy of a module is one of the same ranks

    @property
    def shard(self):
        return self._shard()

    @property
    def bytes_sent(self):
        """Bytes that this process has sent to others so far, sums over ranks included."""
        return self.ranks.bytes_sent

    def __call__(self, x):
        """x: [n, ...]. Returns [n + h, ...], of which the first n rows are x. Raises InputError for
        another number of rows, or with `bits` for rows of another type than float32."""
        if len(x) != self.num_nodes:
            raise InputError(f"{len(x)} rows; allowed are {self.num_nodes}, one for each local node of "
                             f"rank {self.ranks.rank}")
        if self.ranks.size == 1:
            return x
        if self.is_constant(x):
            return self._kept_rows(x)
        few = self._engine is not None and torch.is_grad_enabled()
        if few and (x.dtype != torch.float32 or x.dim() != 2):
            raise InputError(f"bits={self.bits!r} with rows {x.dtype} {list(x.shape)}; allowed are "
                             "float32 [n, F]")
        return _Fetch.apply(x, self, self._next_channel(x.shape[1]) if few else None)

    def _next_channel(self, columns):
        """Number of this exchange in its epoch: what the engine keeps for it belongs to so many
        columns."""
        channel = self._channels
        before = self._columns.setdefault(channel, columns)
        if before != columns:
            raise InputError(f"exchange {channel} of this epoch is one of {columns} columns; in those "
                             f"before it had {before}. Every epoch makes the same exchanges: evaluate "
                             "in torch.no_grad(), and call sum_gradients() or end_epoch() after every "
                             "step")
        self._channels += 1
        return channel

    def exact(self, x):
        """The same, exact whatever `bits` are."""
        return x if self.ranks.size == 1 else _Fetch.apply(x, self, None)

    def constant(self, x):
        """From now on x [n, ...] counts as constant, as shard.x does: its rows travel exactly, and
        once. Without gradients; changing x in place makes it travel again. Returns x."""
        if x.requires_grad:
            raise InputError("constant: this tensor requires gradients")
        self._entry(x)
        return x

    def is_constant(self, x):
        found = self._kept.get(id(x))
        shard = self.shard
        return ((found is not None and found[0]() is x) or
                (shard is not None and x is shard.x and not x.requires_grad))

    def _entry(self, x):
        entry = self._kept.get(id(x))
        if entry is None or entry[0]() is not x:
            drop_dead(self._kept)
            entry = self._kept[id(x)] = [weakref.ref(x), None, None]
        return entry

    def _kept_rows(self, x):
        entry = self._entry(x)
        if entry[1] != version_of(x):
            # Rows that are kept from an evaluation serve a training, too.
            with torch.inference_mode(False), torch.no_grad():
                entry[1:] = version_of(x), self.exact(x)
        return entry[2]

    def end_epoch(self):
        """Ends an epoch of messages of few bits: the next one has other noise, and perhaps other
        widths. Collective. sum_gradients() calls it for every exchange that was used."""
        if self._engine is None or self._channels == 0:
            return
        news = self._engine.end_epoch(self.epoch)
        if news is not None:
            self.news = news
        for is_warning, line in _program._engine.take_log():
            _program.tell(is_warning, line)
        self.epoch += 1
        self._channels = 0

    def _fetch(self, x, channel):
        begin = time.perf_counter()
        rows = self._fetched(x, channel)
        self.seconds += time.perf_counter() - begin
        return rows

    def _give_back(self, gradient, channel):
        begin = time.perf_counter()
        total = self._returned(gradient, channel)
        self.seconds += time.perf_counter() - begin
        return total

    def _fetched(self, x, channel):
        n, h = self.num_nodes, self.num_halo
        if channel is None:
            rows = x.new_empty((n + h, *x.shape[1:]))
            rows[:n] = x
            rows[n:] = self.ranks.exchange_rows(x[self._send_rows], self._send_counts,
                                                self._halo_counts)
            return rows
        rows = _padded(n + h, x.shape[1])
        rows[:n, :x.shape[1]] = x
        self._engine.fetch(rows, x.shape[1], channel, self.epoch)
        return rows[:, :x.shape[1]].to(x.device)

    def _returned(self, gradient, channel):
        n, h = self.num_nodes, self.num_halo
        if channel is None:
            received = self.ranks.exchange_rows(gradient[n:], self._halo_counts, self._send_counts)
        else:
            columns = gradient.shape[1]
            rows = _padded(h + len(self._send_rows), columns)
            rows[:h, :columns] = gradient[n:]
            self._engine.give_back(rows, columns, channel, self.epoch)
            received = rows[h:, :columns].to(gradient.device)
        total = gradient[:n].clone()
        first = 0
        for count in self._send_counts:  # in the order of ranks, each of which has a node once
            nodes = self._send_rows[first:first + count]
            total[nodes] = total[nodes] + received[first:first + count]
            first += count
        return total


def version_of(x):
    """A number that differs once values of x were changed in place; 0 where PyTorch does not count."""
    if x is None or (isinstance(x, torch.Tensor) and x.is_inference()):
        return 0
    return getattr(x, "_version", 0)


def drop_dead(kept):
    """Removes entries whose first value, a weak reference, leads nowhere any more."""
    for key in [key for key, entry in kept.items() if entry[0]() is None]:
        del kept[key]


def _padded(rows, columns):
    """Memory for the engine, whose padding says nothing."""
    stride = -(-columns // PADDING) * PADDING
    memory = torch.empty(rows, stride)
    memory[:, columns:] = 0
    return memory


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, exchange, channel):
        ctx.exchange, ctx.channel = exchange, channel
        return exchange._fetch(x, channel)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return ctx.exchange._give_back(gradient, ctx.channel), None, None


def end_epochs(ranks):
    """Ends the epoch of every exchange of these ranks that was used in it. Collective."""
    ranks = _ranks.current(ranks)
    ranks.exchanges = [reference for reference in ranks.exchanges if reference() is not None]
    for reference in ranks.exchanges:
        reference().end_epoch()
