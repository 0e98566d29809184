#!/usr/bin/env python3
"""Times full-graph training epochs of plain PyTorch on a dataset folder, for comparison.

Trains what pyg_epoch.py trains, written with torch's sparse CSR products alone and with the algebra
of Atoll: the transpose is kept, each layer multiplies before or after aggregating, whichever moves
fewer columns, and the aggregate of the features is computed once. Prints one JSON object. Needs
torch.
"""

import time

from peer_options import make_parser, read_options


def arguments():
    parser = make_parser(__doc__, device="cpu")
    parser.add_argument("--cache-aggregate", choices=["on", "off"], default="on",
                        help="compute the aggregate of the features once")
    return read_options(parser, ["numpy", "torch"])


def fastest_product(matrix, width):
    """Name and function of the quicker of torch's two products of a sparse CSR with a dense
    matrix."""
    import torch

    candidates = {"mm": lambda a, x: a @ x,
                  "mm with reduce": lambda a, x: torch.sparse.mm(a, x, "sum")}
    x = torch.ones(matrix.shape[1], width, dtype=matrix.dtype, device=matrix.device)
    seconds = {}
    for name, product in candidates.items():
        try:
            for _ in range(3):  # the last counts
                start = time.perf_counter()
                product(matrix, x)[0, 0].item()
                seconds[name] = time.perf_counter() - start
        except RuntimeError as error:  # not every type and device has both
            reason = error
    if not seconds:
        raise reason
    name = min(seconds, key=seconds.get)
    return name, candidates[name]


def make_aggregate(options, task):
    """x -> S x for a dense x, with a gradient that uses the kept transpose; and what it took."""
    import torch
    from peer_training import Csr, normalized

    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    csr = normalized(task, options.model)
    if task.directed:
        transpose = csr.transposed()
    elif options.model == "gcn":
        transpose = csr  # symmetric
    else:  # (D^-1 A)^T = A D^-1 in the same places
        transpose = Csr(csr.row_ptr, csr.columns,
                        csr.lengths().clamp(min=1).float().reciprocal()[csr.columns])
    forward_matrix = csr.to_torch(dtype)
    backward_matrix = forward_matrix if transpose is csr else transpose.to_torch(dtype)
    name, product = fastest_product(forward_matrix, options.hidden)

    class Aggregate(torch.autograd.Function):
        @staticmethod
        def forward(_context, x):
            return product(forward_matrix, x.to(dtype))

        @staticmethod
        def backward(_context, gradient):
            return product(backward_matrix, gradient.contiguous())

    return name, Aggregate.apply


def build_model(options, task, aggregate):
    import torch
    from peer_training import Stack

    class Convolution(torch.nn.Module):
        """y = S x W + x R + b; R for GraphSAGE only."""

        def __init__(self, inputs, outputs, bias):
            super().__init__()
            self.weight = torch.nn.Linear(inputs, outputs, bias=bias)
            self.root = (torch.nn.Linear(inputs, outputs, bias=False)
                         if options.model == "sage" else None)
            self.aggregates_first = inputs < outputs
            self.kept = None

        def keep(self, x):
            """x is the same in all epochs."""
            self.aggregates_first = True
            with torch.no_grad():
                self.kept = aggregate(x)

        def forward(self, x):
            if self.aggregates_first:
                y = self.weight(aggregate(x) if self.kept is None else self.kept)
            else:
                y = aggregate(torch.nn.functional.linear(x, self.weight.weight))
                if self.weight.bias is not None:
                    y = y + self.weight.bias
            return y if self.root is None else y + self.root(x)

    model = Stack(options, task, Convolution, lambda layer, x: layer(x))
    if options.cache_aggregate == "on":
        model.layers[0].keep(task.x)
    return model


def main():
    options = arguments()
    import torch
    from peer_training import Task, train_and_report

    task = Task(options)
    name, aggregate = make_aggregate(options, task)
    train_and_report(options, task, build_model(options, task, aggregate),
                     f"torch {torch.__version__}",
                     {"adjacency": "csr and its transpose", "product": name,
                      "cache_aggregate": options.cache_aggregate == "on"})


if __name__ == "__main__":
    main()
