#!/usr/bin/env python3
"""Link prediction by PyTorch Geometric on a dataset folder with links (`atoll split --links`), for
comparison of its ranking with `atoll train`'s.

The same model: GCN or GraphSAGE (mean), `--layers` x `--hidden`, ReLU and dropout, embeddings of
`--hidden` columns, inner products or `--decoder mlp`, `--negatives` evenly drawn pairs per training edge, the mean of the
binary cross-entropy, Adam. Validation and test edges are ranked against the folder's negatives, one
list for each edge, by OGB's mean reciprocal rank. Prints one JSON object: MRR of the epoch with the
best of validation."""

import json
import time

from peer_options import make_parser, read_options


def read_array(options, name):
    import numpy
    import torch

    return torch.from_numpy(numpy.load(options.dataset / f"{name}.npy")).to(options.device)


def make_model(options, inputs):
    import torch
    from torch_geometric.nn import GCNConv, SAGEConv

    layer = GCNConv if options.model == "gcn" else SAGEConv
    settings = {"cached": True} if options.model == "gcn" else {"aggr": "mean"}

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [inputs] + [options.hidden] * options.layers
            self.layers = torch.nn.ModuleList(
                layer(a, b, **settings) for a, b in zip(widths, widths[1:]))

        def forward(self, x, edges):
            for index, one in enumerate(self.layers):
                x = one(x, edges)
                if index + 1 < len(self.layers):
                    x = torch.nn.functional.dropout(torch.relu(x), options.dropout, self.training)
            return x

    return Encoder().to(options.device)


def make_decoder(options):
    """Scores of the products of embeddings: their sums, or OGB's LinkPredictor."""
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [options.hidden] * options.decoder_layers + [1]
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = torch.nn.functional.dropout(torch.relu(layer(x)), options.decoder_dropout,
                                                self.training)
            return self.layers[-1](x).squeeze(-1)

    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.sum(-1)

    return (Sum() if options.decoder == "dot" else Decoder()).to(options.device)


def reciprocal_rank(score, z, edges, others):
    """OGB: ties count half."""
    import torch

    ranks = []
    for part, negatives in zip(edges.split(4096), others.split(4096)):
        source = z[part[:, 0]]
        edge = score(source * z[part[:, 1]]).unsqueeze(1)
        scores = score(z[negatives] * source.unsqueeze(1))
        ranks.append(1 + ((scores > edge).sum(1) + (scores >= edge).sum(1)) / 2)
    return (1 / torch.cat(ranks)).mean().item()


def main():
    parser = make_parser(__doc__, device="cpu")
    parser.add_argument("--negatives", type=int, default=1)
    parser.add_argument("--decoder", choices=["dot", "mlp"], default="dot")
    parser.add_argument("--decoder-layers", type=int, default=3)
    parser.add_argument("--decoder-dropout", type=float, default=0.0)
    parser.add_argument("--eval-every", type=int, default=5)
    options = read_options(parser, ["numpy", "torch", "torch_geometric"])
    import torch
    import torch_geometric

    if options.norm != "none" or options.precision != "f32":
        parser.error("--norm none and --precision f32 alone are compared")
    row_ptr, columns = read_array(options, "row_ptr"), read_array(options, "col_idx").long()
    nodes = len(row_ptr) - 1
    targets = torch.repeat_interleave(torch.arange(nodes, device=options.device), row_ptr.diff())
    graph = torch.stack([columns, targets])
    x = read_array(options, "features")
    edges = {name: read_array(options, f"links_{name}") for name in ("train", "valid", "test")}
    others = {name: read_array(options, f"links_{name}_negatives") for name in ("valid", "test")}
    model = make_model(options, x.shape[1])
    decoder = make_decoder(options)
    optimizer = torch.optim.Adam([*model.parameters(), *decoder.parameters()], lr=options.lr)
    sources = edges["train"][:, 0].repeat_interleave(options.negatives)
    best, losses, seconds = {"valid": -1.0}, [], 0.0
    for epoch in range(1, options.epochs + 1):
        start = time.perf_counter()
        model.train()
        decoder.train()
        optimizer.zero_grad(set_to_none=True)
        z = model(x, graph)
        drawn = torch.randint(nodes, (len(sources),), device=options.device)
        scores = torch.cat([decoder(z[edges["train"][:, 0]] * z[edges["train"][:, 1]]),
                            decoder(z[sources] * z[drawn])])
        wanted = torch.zeros_like(scores)
        wanted[:len(edges["train"])] = 1
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds += time.perf_counter() - start
        if epoch % options.eval_every and epoch != options.epochs:
            continue
        model.eval()
        decoder.eval()
        with torch.no_grad():
            z = model(x, graph)
            found = {name: reciprocal_rank(decoder, z, edges[name], others[name]) for name in others}
        if found["valid"] > best["valid"]:
            best = {"epoch": epoch, **found}
    print(json.dumps({"peer": f"PyG {torch_geometric.__version__}, torch {torch.__version__}",
                      "model": options.model, "layers": options.layers, "hidden": options.hidden,
                      "decoder": options.decoder,
                      "seed": options.seed, "epochs": options.epochs, "loss": losses[-1],
                      "mrr": best, "epoch_ms_mean": 1000 * seconds / options.epochs}))


if __name__ == "__main__":
    main()
