"""Shared by the scripts that train a peer by mini-batches of sampled neighbours: options, the timed
epochs, evaluation on the whole graph, and the printed result. Needs torch, which is imported after
the options were read."""

import json
import time

from peer_options import make_parser, read_options


def sampling_options(description, packages):
    """The defaults are those of DGL's own example of node classification by sampling."""
    parser = make_parser(description, device="cpu")
    parser.add_argument("--fan-out", type=int, nargs="+",
                        help="neighbours per layer, that of the input first; default: ten each")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.set_defaults(model="sage", warmup=0, lr=5e-4)
    options = read_options(parser, packages)
    options.fan_out = options.fan_out or [10] * options.layers
    if len(options.fan_out) != options.layers:
        parser.error(f"--fan-out: {len(options.fan_out)} numbers for {options.layers} layers")
    return options


def train_by_batches(options, task, sampled, peer):
    """sampled: the model; batches(), which yields the logits and the nodes of each batch of an epoch;
    and whole_graph(), the logits of all nodes [N, classes]. Seconds count training, not the
    evaluation after every epoch."""
    import torch

    model, batches, whole_graph = sampled
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr,
                                 weight_decay=options.weight_decay)
    seconds, epochs = 0.0, []
    for _ in range(options.epochs):
        start = time.perf_counter()
        model.train()
        for logits, nodes in batches():
            loss = torch.nn.functional.cross_entropy(logits, task.y[nodes])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        seconds += time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            right = (whole_graph().argmax(1) == task.y).double()
        epochs.append({"seconds": seconds, **{name: right[rows].mean().item()
                                              for name, rows in task.rows.items()}})
    print(json.dumps({"peer": peer, "threads": torch.get_num_threads(), "epochs": epochs}))
