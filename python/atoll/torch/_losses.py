"""Losses, gradients and accuracies over the rows of all processes."""

import inspect

import torch

from atoll._errors import InputError
from atoll.torch import _ranks
from atoll.torch._exchange import end_epochs


class _SumOverRanks(torch.autograd.Function):
    """The sum, of which each rank differentiates its own part."""

    @staticmethod
    def forward(ctx, part, ranks):
        return ranks.sum(part)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def mean(values, ranks=None):
    """The mean of the values of all ranks, a scalar, the same on all. Backward each rank gets the
    gradients of its own values. Collective. values: of any shape, and on some ranks none. Raises
    InputError if there is none at all."""
    return _ratio(values.sum(), float(values.numel()), _ranks.current(ranks))


def _ratio(part, count, ranks):
    counts = ranks.sum(torch.tensor([count], dtype=torch.float64))
    total = float(counts[0])
    if total == 0:
        raise InputError("loss: no rank has a row for it; allowed are masks that hold for some node")
    return _SumOverRanks.apply(part / total, ranks)


def loss(function, out, y, mask=None, ranks=None, **options):
    """A loss over the rows of all ranks: a scalar, the same on all, that `reduction="mean"` has in one
    process. Its backward() leaves in each rank the gradients of the rank's own rows, which
    sum_gradients() adds. Collective.

    function: a loss of torch.nn.functional that takes (out, y, reduction="sum"): cross_entropy,
        nll_loss, binary_cross_entropy_with_logits, mse_loss, l1_loss, ...
    out: [n, ...]. y: [n, ...]. mask: bool [n] or numbers of local nodes; None: all.
    options: of the function. With weight= of classes the sum is divided by the sum of weights, as
        PyTorch does; rows with ignore_index do not count.
    """
    if isinstance(function, torch.nn.Module):
        raise InputError(f"loss: {type(function).__name__} is a module; allowed is a function, as "
                         "torch.nn.functional.cross_entropy")
    ranks = _ranks.current(ranks)
    if mask is not None:
        out, y = out[mask], y[mask]
    total = function(out, y, reduction="sum", **options)
    return _ratio(total, _count(function, y, options), ranks)


def _count(function, y, options):
    """The divisor of reduction="mean"."""
    parameters = inspect.signature(function).parameters
    if "ignore_index" not in parameters:
        return float(y.numel())
    if y.is_floating_point():  # shares of classes
        return float(len(y))
    kept = y[y != options.get("ignore_index", parameters["ignore_index"].default)]
    weight = options.get("weight")
    return float(kept.numel()) if weight is None else float(weight[kept].sum())


def accuracy(out, y, mask=None, ranks=None):
    """The share of right classes in the rows of all ranks, a number, the same on all. Collective.
    out: [n, C]. y: int64 [n]; -1 never counts. mask: bool [n] or numbers of nodes; None: all. NaN if
    there is none."""
    ranks = _ranks.current(ranks)
    if mask is not None:
        out, y = out[mask], y[mask]
    known = y >= 0
    right = (out.argmax(-1) == y) & known
    counts = ranks.sum(torch.stack([right.sum(), known.sum()]).cpu().double())
    return float(counts[0] / counts[1])


def sum_gradients(model, ranks=None):
    """Replaces the gradients of parameters by their sums over the ranks, added in the order of ranks:
    the same bits on all of them, in every run. Call it between backward() and the optimizer's step.
    Ends the epoch of messages of few bits. Collective.

    model: a module, or its parameters. A parameter without a gradient on some ranks has 0 there; one
    without any stays without. Raises InputError the first time if ranks have different parameters.
    """
    ranks = _ranks.current(ranks)
    parameters = list(model.parameters() if isinstance(model, torch.nn.Module) else model)
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    if ranks.size > 1 and parameters:
        _check_equal(model, parameters, ranks)
        for kind in dict.fromkeys((p.dtype, p.device) for p in parameters):
            _sum_of_kind([p for p in parameters if (p.dtype, p.device) == kind], ranks)
    end_epochs(ranks)


def _sum_of_kind(parameters, ranks):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    has_one = gradients[0].new_tensor([0.0 if p.grad is None else 1.0 for p in parameters])
    sums = ranks.sum_many(torch.cat([has_one, *(g.reshape(-1) for g in gradients)]))
    first = len(parameters)
    for place, (parameter, gradient) in enumerate(zip(parameters, gradients)):
        if sums[place] > 0:
            total = sums[first:first + gradient.numel()].view_as(gradient)
            if parameter.grad is None:
                parameter.grad = total.clone()
            else:
                parameter.grad.copy_(total)
        first += gradient.numel()


def _check_equal(model, parameters, ranks):
    if not isinstance(model, torch.nn.Module) or model in ranks._checked:
        return
    ranks._checked.add(model)
    counts = [int(count) for count in ranks.all_gather(torch.tensor([len(parameters)]))]
    if len(set(counts)) > 1:
        raise InputError(f"sum_gradients: ranks have {counts} parameters that are trained; all ranks must "
                         "have the same ones")
    sums = torch.stack([p.detach().double().sum().cpu() for p in parameters])
    for rank, others in enumerate(ranks.all_gather(sums)):
        if not torch.equal(others, sums):
            raise InputError(f"sum_gradients: ranks {ranks.rank} and {rank} have different parameters; "
                             "call distribute() after the model has got its last ones, or set the same "
                             "seed on all ranks")
