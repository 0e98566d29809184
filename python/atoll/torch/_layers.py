"""Layers that work on the rows of all processes: convolutions of PyTorch Geometric, batch norm,
dropout."""

import weakref

import torch
import torch_geometric.nn as pyg
from torch_geometric.utils import add_remaining_self_loops, is_torch_sparse_tensor, to_edge_index

from atoll import _program
from atoll._errors import InputError
from atoll.torch import _ranks, _shard
from atoll.torch._exchange import drop_dead, version_of

# How layers of PyG are run; each by its own class, since a class derived from it may do otherwise.
# `rows` has a row for every source, `own` for every target: a layer of this list takes them as a
# pair, reads each row of a neighbour once, and weighs it by what the edges into a node say.
PAIR = ("CGConv", "EdgeConv", "FiLMConv", "GATConv", "GATv2Conv", "GENConv", "GINConv", "GINEConv",
        "GMMConv", "GeneralConv", "GraphConv", "LEConv", "MFConv", "NNConv", "ResGatedGraphConv",
        "SAGEConv", "TransformerConv")
# These take one matrix, so rows of halo nodes are computed and dropped.
WHOLE = ("PNAConv", "RGCNConv", "FastRGCNConv")
# GCN weighs a row by degrees of both ends.
DEGREES = ("GCNConv",)
KINDS = {"pair": PAIR, "whole": WHOLE, "degrees": DEGREES}


def kind_of(conv):
    """How a layer is run, or None."""
    for kind, names in KINDS.items():
        if any(type(conv) is getattr(pyg, name, None) for name in names):
            return kind
    return None


class DistributedConv(torch.nn.Module):
    """A MessagePassing layer of PyTorch Geometric on the rows of all processes: the same result as in
    one process, up to rounding.

        conv = DistributedConv(SAGEConv(data.num_features, 256))
        x = conv(data.x, data.edge_index)             # [n, F] -> [n, 256]

    conv: GCNConv, SAGEConv, GATConv, GATv2Conv, GINConv and others (docs/torch.md has all). A class
        of your own needs `reads`.
    exchange: None: that of the last shard.
    reads: what a layer of an unknown class does with the rows of neighbours. "pair": its forward
        takes a pair (rows of sources, rows of targets), as SAGEConv's does. "whole": it takes one
        matrix. Both say that the layer reads rows along edges once, and does not compute degrees of
        sources, or other sums over the edges that leave a node, by itself: these would be those of
        one process.

    forward(x [n, F], edge_index, ...) takes what the layer takes. x and edge_index are those of the
    shard. The state_dict has the names that it has without DistributedConv. Raises InputError for a
    layer that can't be distributed.
    """

    def __init__(self, conv, exchange=None, *, reads=None):
        super().__init__()
        self.kind = reads or kind_of(conv)
        if self.kind not in ("pair", "whole") and reads is not None or self.kind is None:
            raise InputError(f"{type(conv).__name__}: it is not known how this layer reads its "
                             f"neighbours{'' if reads is None else f' (reads={reads!r})'}. Known are "
                             f"{', '.join(sorted(PAIR + WHOLE + DEGREES))}; or say "
                             "reads='pair' or reads='whole', see DistributedConv")
        if getattr(conv, "flow", "source_to_target") != "source_to_target":
            raise InputError(f"{type(conv).__name__}: flow={conv.flow!r}; allowed is "
                             "'source_to_target', whose edges the shard has")
        self.conv = conv
        self.exchange = exchange if exchange is not None else _shard.current().exchange
        self._seen = {}  # edges that have been checked, by id
        self._register_load_state_dict_pre_hook(self._rename)

    knows = staticmethod(kind_of)

    def forward(self, x, edge_index, *arguments, **options):
        if self.exchange.ranks.size == 1:
            return self.conv(x, edge_index, *arguments, **options)
        self._check_edges(edge_index)
        if self.kind == "degrees":
            return self._run_by_degrees(x, edge_index, *arguments, **options)
        rows = self.exchange(x)
        if self.kind == "pair":
            return self.conv((rows, x), edge_index, *arguments, **options)
        result = self.conv(rows, edge_index, *arguments, **options)
        if not isinstance(result, torch.Tensor):
            raise InputError(f"{type(self.conv).__name__}: it gives {type(result).__name__}; allowed "
                             "with reads='whole' is one tensor")
        return result[:self.exchange.num_nodes]

    def _run_by_degrees(self, x, edge_index, edge_weight=None):
        """GCNConv.forward() with degrees of the whole graph."""
        conv = self.conv
        if conv.normalize:
            edge_index, edge_weight = normalized(self.exchange, edge_index, edge_weight,
                                                 2.0 if conv.improved else 1.0,
                                                 conv.add_self_loops, x.dtype)
        size = (self.exchange.num_nodes + self.exchange.num_halo, self.exchange.num_nodes)
        # Whichever sends fewer columns; if both are equal, fewer rows are multiplied.
        if self.exchange.is_constant(x) or conv.lin.in_channels < conv.lin.out_channels:
            rows = conv.lin(self.exchange(x))
        else:
            rows = self.exchange(conv.lin(x))
        out = conv.propagate(edge_index, size=size, x=rows, edge_weight=edge_weight)
        return out if conv.bias is None else out + conv.bias

    def _check_edges(self, edge_index):
        found = self._seen.get(id(edge_index))
        if found is not None and found() is edge_index:
            return
        n = self.exchange.num_nodes
        with_halo = n + self.exchange.num_halo
        if hasattr(edge_index, "sparse_sizes"):  # torch_sparse
            good = tuple(edge_index.sparse_sizes()) == (n, with_halo)
        elif is_torch_sparse_tensor(edge_index):
            good = tuple(edge_index.shape) == (n, with_halo)
        else:
            edges = edge_index.detach()
            good = edges.numel() == 0 or (int(edges[1].max()) < n and int(edges[0].max()) < with_halo)
        if not good:
            raise InputError("edge_index: it is not that of the shard; allowed are edges into local "
                             f"nodes, from sources below {with_halo} to targets below {n}, or a matrix "
                             f"[{n}, {with_halo}]")
        self._seen = {id(edge_index): weakref.ref(edge_index)}

    # The layer's own names in files, so that they are those of one process.

    def state_dict(self, *arguments, destination=None, prefix="", keep_vars=False):
        return self.conv.state_dict(*arguments, destination=destination, prefix=prefix,
                                    keep_vars=keep_vars)

    def _rename(self, state, prefix, *_):
        for name in [name for name in state if name.startswith(prefix)]:
            state[f"{prefix}conv.{name[len(prefix):]}"] = state.pop(name)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("conv"), name)


def normalized(exchange, edge_index, edge_weight, self_weight, add_self_loops, dtype):
    """D^-1/2 (A + I) D^-1/2 with in-degrees of the whole graph on both sides (Kipf and Welling, ICLR
    2017, equation 2), as gcn_norm of PyG has it: edges with their weights, or a sparse matrix of the
    kind given. Kept until edges or weights are others. Collective."""
    kept = exchange.normalized
    key = (id(edge_index), version_of(edge_index), id(edge_weight), version_of(edge_weight),
           self_weight, add_self_loops, dtype)
    found = kept.get(key)
    learned = edge_weight is not None and edge_weight.requires_grad
    if found is not None and not learned:
        *given, result = found
        if given[0]() is edge_index and (edge_weight is None or given[1]() is edge_weight):
            return result
    as_matrix = not isinstance(edge_index, torch.Tensor) or is_torch_sparse_tensor(edge_index)
    if as_matrix:
        edges, weight = _entries(edge_index)
    else:
        edges, weight = edge_index, edge_weight
    n = exchange.num_nodes
    if add_self_loops:
        edges, weight = add_remaining_self_loops(edges, weight, self_weight, n)
    if weight is None:
        weight = torch.ones(edges.shape[1], dtype=dtype, device=edges.device)
    weight = weight.to(dtype)
    degree = weight.new_zeros(n).index_add(0, edges[1], weight)
    scale = degree.pow(-0.5)
    scale = scale.masked_fill(scale == float("inf"), 0)
    of_all = exchange.exact(scale)
    weight = of_all[edges[0]] * weight * scale[edges[1]]
    result = (edges, weight)
    if as_matrix:
        result = (_matrix(edge_index, edges, weight, (n, n + exchange.num_halo)), None)
    if not learned:
        drop_dead(kept)
        kept[key] = (weakref.ref(edge_index), edge_weight if edge_weight is None else
                     weakref.ref(edge_weight), result)
    return result


def _entries(matrix):
    """Sources and targets [2, E], and weights."""
    if isinstance(matrix, torch.Tensor):
        indices, weight = to_edge_index(matrix)
        return indices.flip(0), weight
    target, source, weight = matrix.coo()
    return torch.stack([source, target]), weight


def _matrix(like, edges, weight, size):
    indices = edges.flip(0)
    if isinstance(like, torch.Tensor):
        return torch.sparse_coo_tensor(indices, weight, size).to_sparse_csr()
    return type(like)(row=indices[0], col=indices[1], value=weight, sparse_sizes=size)


class DistributedBatchNorm(torch.nn.BatchNorm1d):
    """Batch norm of [n, F] over the rows of all processes: mean and variance divide by the number of
    all rows, and running statistics are the same on all ranks.

    Arguments are those of torch.nn.BatchNorm1d; ranks: None: those of the last shard. Gradients of
    weight and bias are those of the local rows, which sum_gradients() adds.
    """

    def __init__(self, *arguments, ranks=None, **options):
        super().__init__(*arguments, **options)
        self.ranks = _ranks.current(ranks)

    @classmethod
    def of(cls, norm, ranks=None):
        """A torch.nn.BatchNorm1d on the rows of all processes; the two share parameters and running
        statistics."""
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made.__dict__.update(norm.__dict__)
        made.ranks = _ranks.current(ranks)
        return made

    def forward(self, x):
        if self.ranks.size == 1 or not (self.training or self.running_mean is None):
            return super().forward(x)
        if x.dim() != 2:
            raise InputError(f"DistributedBatchNorm: {list(x.shape)}; allowed is [rows, columns]")
        mean, variance, count = _statistics(x.detach(), self.ranks)
        if count < 2:
            raise InputError("DistributedBatchNorm: one row on all ranks; allowed are two or more")
        if self.training and self.running_mean is not None:
            self._follow(mean, variance * (count / (count - 1)))
        return _Normalise.apply(x, self.weight, self.bias, mean, variance, count, self.eps, self.ranks)

    @torch.no_grad()
    def _follow(self, mean, variance):
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


def _statistics(x, ranks):
    """Mean and variance in f64, and the number of rows, of all ranks: each rank's own, put together
    by Chan, Golub and LeVeque, 1979, equation 2.1."""
    columns = x.shape[1]
    if len(x) > 0:
        variance, mean = torch.var_mean(x, 0, correction=0)
    else:
        variance = mean = x.new_zeros(columns)
    mine = torch.cat([mean.double(), variance.double() * len(x), mean.new_tensor([len(x)]).double()])
    parts = ranks.all_gather(mine)
    count = sum(float(part[-1]) for part in parts)
    mean = sum(part[:columns] * (part[-1] / count) for part in parts)
    squares = sum(part[columns:-1] + part[-1] * (part[:columns] - mean).square() for part in parts)
    return mean, squares / count, count


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, mean, variance, count, epsilon, ranks):
        mean, variance = mean.to(x.dtype), variance.to(x.dtype)
        ctx.save_for_backward(x, weight, mean, (variance + epsilon).rsqrt())
        ctx.count, ctx.ranks = count, ranks
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, weight, mean, scale = ctx.saved_tensors
        standard = (x - mean) * scale
        of_bias = gradient.sum(0)
        of_weight = (gradient * standard).sum(0)
        sums = ctx.ranks.sum(torch.stack([of_bias, of_weight]).double()) / ctx.count
        factor = scale if weight is None else scale * weight
        first, second = (sums * factor).to(x.dtype)
        of_x = gradient * factor - first - standard * second
        return (of_x, of_weight if ctx.needs_input_grad[1] else None,
                of_bias if ctx.needs_input_grad[2] else None, None, None, None, None, None)


class DistributedDropout(torch.nn.Module):
    """Dropout of [n, F] whose draws belong to nodes: the same elements are dropped on any number of
    processes. A function of seed, number of the module, pass and node, by Philox as in the engine
    (docs/formats.md). Needs the compiled part of the package.

    p: the probability of 0. number: 0 to 255; modules of one number drop the same elements.
    shard: None: the last one.
    """

    def __init__(self, p=0.5, *, number=0, seed=None, shard=None):
        super().__init__()
        if not 0 <= p < 1:
            raise InputError(f"DistributedDropout: p={p}; allowed are 0 to below 1")
        if not 0 <= number < 256:
            raise InputError(f"DistributedDropout: number={number}; allowed are 0 to 255")
        if _program._engine is None:
            raise InputError("DistributedDropout: draws are made by the compiled part of the package, "
                             "which is not there; install the package with pip install .")
        shard = _shard.current(shard)
        self.p, self.number = p, number
        self.seed = shard.exchange.seed if seed is None else seed
        self._ids = shard.n_id[:shard.num_nodes].cpu()
        self._passes = 0

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        if len(x) != len(self._ids) or x.dim() != 2:
            raise InputError(f"DistributedDropout: {list(x.shape)}; allowed is [{len(self._ids)}, F], "
                             "a row for each local node")
        self._passes += 1
        factors = torch.empty(x.shape)
        _program._engine.dropout_factors(self._ids, factors, self.p, self.seed, self.number,
                                         self._passes)
        return x * factors.to(x.device, x.dtype)

    def extra_repr(self):
        return f"p={self.p}, number={self.number}"
