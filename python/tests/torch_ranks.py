"""Processes for torch_test.py: how they are started, and what they compute. Each writes what it has
found to OUT.RANK.json: torch_ranks.py FUNCTION OUT ARGUMENTS (JSON)."""

import functools
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

import atoll
import atoll.torch

NODES, FEATURES, CLASSES = 300, 10, 4
MODELS = ("gcn", "sage", "gatv2")
EPOCHS = 3


def make_datasets():
    """Two graphs in the current folder. Directed has weights, a node without edges, and training nodes
    in one community alone, so that some ranks have none. Plain is undirected."""
    random = np.random.default_rng(5)
    community = np.arange(NODES) * 4 // NODES
    edges = random.integers(0, NODES, (2, 12 * NODES))
    near = community[edges[0]] == community[edges[1]]
    edges = edges[:, near | (random.random(edges.shape[1]) < 0.1)]
    edges = np.unique(edges[:, (edges[0] != edges[1]) & (edges != 17).all(0)], axis=1)
    x = random.normal(size=(NODES, FEATURES)).astype(np.float32)
    y = random.integers(0, CLASSES, NODES)
    x[np.arange(NODES), y] += 1
    train = (community == 0) & (random.random(NODES) < 0.5)
    valid = ~train & (random.random(NODES) < 0.5)
    test = ~train & ~valid
    atoll.Dataset.from_arrays(edges, x, y, train, valid, test, directed=True, path="directed",
                              edge_weight=random.random(edges.shape[1]).astype(np.float32) + 0.2)
    part = random.integers(0, 3, NODES)
    atoll.Dataset.from_arrays(edges, x, y, part == 0, part == 1, part == 2, path="plain")


class Net(torch.nn.Module):
    def __init__(self, kind, norm, heads=2):
        super().__init__()
        torch.manual_seed(3)
        make = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv,
                "gatv2": lambda i, o, bias=True: pyg.GATv2Conv(i, o // heads, heads,
                                                               bias=bias)}[kind]
        self.kind = kind
        # Before a norm, a bias has a gradient of rounding errors, of which Adam makes whole steps.
        self.first, self.second = make(FEATURES, 16, bias=not norm), make(16, CLASSES)
        self.norm = torch.nn.BatchNorm1d(16) if norm else torch.nn.Identity()

    def forward(self, x, edge_index, edge_weight=None):
        more = (edge_weight,) if self.kind == "gcn" else ()
        x = self.norm(self.first(x, edge_index, *more)).relu()
        return self.second(x, edge_index, *more)


def whole(name):
    """x, y, edges, weights and masks of a dataset as tensors."""
    dataset = atoll.Dataset(name)
    weight = dataset._read("edge_weights")
    return (torch.from_numpy(np.array(dataset.x)), torch.from_numpy(np.array(dataset.y)).long(),
            torch.from_numpy(dataset.edge_index),
            None if weight is None else torch.from_numpy(np.array(weight)),
            torch.from_numpy(np.array(dataset.train_mask)))


def train_alone(name, kind, norm):
    """Losses of PyTorch Geometric in one process, and the last logits."""
    x, y, edges, weight, mask = whole(name)
    model = Net(kind, norm)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges, weight)[mask], y[mask])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logits = model(x, edges, weight)
    right = (logits.argmax(1) == y).float().mean().item()
    return {"losses": losses, "logits": logits.tolist(), "accuracy": right}


def train(data, kind, norm, sparse=False):
    """The same by atoll.torch."""
    model = atoll.torch.distribute(Net(kind, norm))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    edges, weight = (data.adj_t, None) if sparse else (data.edge_index, data.edge_weight)
    losses = []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = atoll.torch.loss(F.cross_entropy, model(data.x, edges, weight), data.y,
                                data.train_mask)
        loss.backward()
        atoll.torch.sum_gradients(model)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logits = model(data.x, edges, weight)
    gathered = atoll.torch.gather(logits)
    state = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    return {"losses": losses, "bits": hashlib.sha256(state).hexdigest(),
            "logits": None if gathered is None else gathered.tolist(),
            "accuracy": atoll.torch.accuracy(logits, data.y), "names": list(model.state_dict())}


def equality(ranks):
    """Every model on both graphs, with and without batch norm, and one of them again."""
    found = {}
    for name in ("directed", "plain"):
        data = atoll.torch.shard(name, ranks)
        found[f"{name} training nodes"] = int(data.train_mask.sum())
        for kind in MODELS:
            for norm in (False, True):
                found[f"{name} {kind} {norm}"] = train(data, kind, norm)
        if name == "directed":
            found["again"] = train(data, "gcn", True)["bits"]
    for kind in ("gcn", "sage"):
        found[f"sparse {kind}"] = train(data, kind, False, sparse=True)
    return found


LAYERS = {
    "CGConv": lambda: pyg.CGConv(FEATURES, batch_norm=True),
    "EdgeConv": lambda: pyg.EdgeConv(torch.nn.Sequential(torch.nn.Linear(2 * FEATURES, 6),
                                                         torch.nn.BatchNorm1d(6))),
    "FiLMConv": lambda: pyg.FiLMConv(FEATURES, 6),
    "GATConv": lambda: pyg.GATConv(FEATURES, 6, heads=2, residual=True),
    "GATv2Conv": lambda: pyg.GATv2Conv(FEATURES, 6, heads=2, share_weights=True),
    "GENConv": lambda: pyg.GENConv(FEATURES, 6, norm="batch"),
    "GINConv": lambda: pyg.GINConv(torch.nn.Sequential(torch.nn.Linear(FEATURES, 6),
                                                       torch.nn.BatchNorm1d(6)), train_eps=True),
    "GeneralConv": lambda: pyg.GeneralConv(FEATURES, 6, attention=True),
    "GraphConv": lambda: pyg.GraphConv(FEATURES, 6, aggr="mean"),
    "LEConv": lambda: pyg.LEConv(FEATURES, 6),
    "MFConv": lambda: pyg.MFConv(FEATURES, 6, max_degree=4),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(FEATURES, 6),
    "SAGEConv": lambda: pyg.SAGEConv(FEATURES, 6, aggr="max", project=True, normalize=True),
    "TransformerConv": lambda: pyg.TransformerConv(FEATURES, 6, heads=2, beta=True),
    "GCNConv": lambda: pyg.GCNConv(FEATURES, 6, improved=True),
    "GCNConv without degrees": lambda: pyg.GCNConv(FEATURES, 6, normalize=False),
    "PNAConv": lambda: pyg.PNAConv(FEATURES, 6, ["mean", "max"], ["identity", "amplification"],
                                   deg=torch.tensor([1, 5, 20, 40, 30, 8])),
}
EDGE_LAYERS = {  # of edges with features [E, 3] or types
    "GINEConv": lambda: (pyg.GINEConv(torch.nn.Linear(FEATURES, 6), edge_dim=3), "attr"),
    "NNConv": lambda: (pyg.NNConv(FEATURES, 6, torch.nn.Linear(3, 6 * FEATURES)), "attr"),
    "GMMConv": lambda: (pyg.GMMConv(FEATURES, 6, dim=3, kernel_size=2), "attr"),
    "GATv2Conv": lambda: (pyg.GATv2Conv(FEATURES, 6, edge_dim=3), "attr"),
    "RGCNConv": lambda: (pyg.RGCNConv(FEATURES, 6, 3), "type"),
    "FastRGCNConv": lambda: (pyg.FastRGCNConv(FEATURES, 6, 3), "type"),
}


def edges_with_more(edge_index, ids):
    """Features and types of edges that depend on their ends alone."""
    first, second = ids[edge_index[0]], ids[edge_index[1]]
    attr = torch.stack([(first % 7) / 7, (second % 5) / 5, ((first + second) % 3) / 3], 1).float()
    return {"attr": attr, "type": (first + 2 * second) % 3}


def layers(ranks):
    """For every layer, how far results, and gradients of its input and parameters, are from those of one
    process, relative to the largest of them."""
    data = atoll.torch.shard("directed", ranks)
    x, _, edges, _, _ = whole("directed")
    own = data.n_id[:data.num_nodes]
    makers = {name: (lambda make=make: (make(), None)) for name, make in LAYERS.items()}
    makers.update({f"{name} of edges": make for name, make in EDGE_LAYERS.items()})
    found = {}
    for name, make in makers.items():
        torch.manual_seed(2)
        conv, more = make()
        torch.manual_seed(2)
        alone, _ = make()
        given = alone_given = ()
        if more is not None:
            given = (edges_with_more(data.edge_index, data.n_id)[more],)
            alone_given = (edges_with_more(edges, torch.arange(NODES))[more],)
        local = data.x.clone().requires_grad_()
        full = x.clone().requires_grad_()
        conv = atoll.torch.distribute(conv)
        result = conv(local, data.edge_index, *given)
        expected = alone(full, edges, *alone_given)
        weights = torch.linspace(-1, 1, expected.numel()).view_as(expected).sin()
        (result * weights[own]).sum().backward()
        (expected * weights).sum().backward()
        atoll.torch.sum_gradients(conv)

        def off(a, b):
            return float((a - b).abs().max() / (b.abs().max() + 1e-3))

        # Some gradients are sums that cancel, such as of a bias before batch norm.
        mine, others = (torch.cat([p.grad.reshape(-1) for p in module.parameters()
                                   if p.grad is not None]) for module in (conv, alone))
        found[name] = [off(result, expected[own]), off(local.grad, full.grad[own]),
                       off(mine, others)]
    return found


def few_bits(ranks):
    """Rows and gradients at 4 bits: their mean over epochs, and the bytes of an epoch."""
    data = atoll.torch.shard("directed", ranks)
    exchange = atoll.torch.HaloExchange(data, bits=4, seed=9)
    columns, epochs, n = 13, 400, data.num_nodes
    torch.manual_seed(data.ranks.rank)
    x = torch.randn(n, columns, requires_grad=True)
    weights = torch.randn(n + data.num_halo, columns)
    exact = data.exchange(x)
    exact_gradient, = torch.autograd.grad((exact * weights).sum(), x)
    rows, gradients, sample = 0, 0, []
    for epoch in range(epochs):
        if epoch == 1:  # ranks have told each other how messages travel
            before = data.ranks.bytes_sent
        result = exchange(x)
        gradient, = torch.autograd.grad((result * weights).sum(), x)
        exchange.end_epoch()
        rows, gradients = rows + result.detach() / epochs, gradients + gradient / epochs
        sample.append(result.detach()[n:])
    noise = torch.stack(sample).std(0)
    sent = data.ranks.bytes_sent - before
    with torch.no_grad():
        evaluated = exchange(x)
    message = 4 + -(-columns * 4 // 32) * 4
    return {"bytes": sent / (epochs - 1),
            "expected_bytes": message * (len(data.send_rows) + data.num_halo),
            "own_rows": bool(torch.equal(result[:n], x)),
            "off": float((rows - exact.detach())[n:].abs().max()) if data.num_halo else 0.0,
            "noise": float(noise.max()) if data.num_halo else 0.0,
            "off_of_gradient": float((gradients - exact_gradient).abs().max()),
            "noise_of_gradient": float((gradient - exact_gradient).abs().max()),
            "evaluated": bool(torch.equal(evaluated, exact)), "epochs": epochs,
            "changes": bool((sample[0] != sample[1]).any()) if data.num_halo else True}


def slow_network(seconds_per_byte):
    """From now on packets of the engine take as long as on a slow network."""
    wait = atoll.torch._ranks.Carried.wait

    def slow_wait(self, rank):
        first = self._works.get(rank, ())
        wait(self, rank)
        if first:
            time.sleep(seconds_per_byte * sum(packet.nbytes for packet in self._packets) /
                       len(self._packets))

    atoll.torch._ranks.Carried.wait = slow_wait


def adaptive(ranks):
    """Trains with widths that are chosen; the news of the last assignment."""
    slow_network(2e-7)
    data = atoll.torch.shard("plain", ranks, bits="adaptive")
    model = atoll.torch.distribute(Net("sage", True))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(18):
        optimizer.zero_grad()
        loss = atoll.torch.loss(F.cross_entropy, model(data.x, data.edge_index), data.y,
                                data.train_mask)
        loss.backward()
        atoll.torch.sum_gradients(model)
        optimizer.step()
        losses.append(loss.item())
    return {"news": data.exchange.news, "losses": losses, "epoch": data.exchange.epoch}


def batch_norm(ranks):
    """A norm over rows of which the last rank has none, against that of all rows in one process."""
    data = atoll.torch.shard("plain", ranks)
    rank, size = data.ranks.rank, data.ranks.size
    torch.manual_seed(4)
    rows = torch.randn(40, 5) * torch.tensor([1.0, 0.1, 10.0, 1.0, 3.0]) + 5
    weights = torch.randn(40, 5)
    mine = slice(40 * rank // (size - 1), 40 * (rank + 1) // (size - 1)) if rank < size - 1 \
        else slice(0, 0)
    found = {}
    for momentum in (0.1, None):
        alone = torch.nn.BatchNorm1d(5, momentum=momentum)
        with torch.no_grad():
            alone.weight.copy_(torch.linspace(0.5, 2, 5))
        norm = atoll.torch.DistributedBatchNorm.of(torch.nn.BatchNorm1d(5, momentum=momentum))
        norm.load_state_dict(alone.state_dict())
        full = rows.clone().requires_grad_()
        local = rows[mine].clone().requires_grad_()
        for _ in range(2):
            expected, result = alone(full), norm(local)
        (expected * weights).sum().backward()
        (result * weights[mine]).sum().backward()
        atoll.torch.sum_gradients(norm)
        pairs = [(result, expected[mine]), (local.grad, full.grad[mine]),
                 (norm.weight.grad, alone.weight.grad), (norm.bias.grad, alone.bias.grad),
                 (norm.running_mean, alone.running_mean), (norm.running_var, alone.running_var)]
        found[str(momentum)] = [float((a - b).abs().max()) if a.numel() else 0.0 for a, b in pairs]
    found["state"] = hashlib.sha256(norm.running_var.numpy().tobytes()).hexdigest()
    return found


def dropout(ranks):
    """The rows that dropout leaves of ones, in the order of the dataset."""
    data = atoll.torch.shard("plain", ranks)
    layer = atoll.torch.DistributedDropout(0.3, number=2)
    ones = torch.ones(data.num_nodes, 11)
    first, second = layer(ones), layer(ones)
    layer.eval()
    rows = [atoll.torch.gather(part) for part in (first, second)]
    return {"rows": None if rows[0] is None else [part.tolist() for part in rows],
            "evaluated": bool(torch.equal(layer(ones), ones))}


def gradients(ranks):
    """Parameters of which only some have gradients, and masks of nothing."""
    data = atoll.torch.shard("plain", ranks)
    rank = data.ranks.rank
    first, second, third = (torch.nn.Parameter(torch.zeros(3)) for _ in range(3))
    first.grad = torch.full((3,), float(rank + 1))
    if rank == 1:
        second.grad = torch.tensor([1.0, 2.0, 3.0])
    atoll.torch.sum_gradients([first, second, third])
    empty = torch.zeros(data.num_nodes, dtype=torch.bool)
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0])
    logits = torch.linspace(-1, 1, data.global_nodes * CLASSES).view(-1, CLASSES).cos()
    _, y, _, _, _ = whole("plain")
    own = data.n_id[:data.num_nodes]
    weighted = atoll.torch.loss(F.cross_entropy, logits[own], y[own], weight=weight)
    return {"first": first.grad.tolist(), "second": second.grad.tolist(), "third": third.grad is None,
            "weighted": weighted.item(), "expected": F.cross_entropy(logits, y, weight=weight).item(),
            "mean": atoll.torch.mean(logits[own]).item(), "mean_expected": logits.mean().item(),
            "nothing": message(lambda: atoll.torch.loss(F.cross_entropy, logits[own], y[own], empty))}


class OwnConv(pyg.MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


def refusals(ranks):
    """Requests that are refused, and how."""
    found = {"ranks": message(lambda: atoll.torch.shard("plain", ranks + 1)),
             "option": message(lambda: atoll.torch.shard("plain", objective="best")),
             "dataset": message(lambda: atoll.torch.shard("nowhere"))}
    data = atoll.torch.shard("plain", ranks)
    found["bits"] = message(lambda: atoll.torch.HaloExchange(data, bits=3))
    found["unknown"] = message(lambda: atoll.torch.distribute(OwnConv()))
    found["hops"] = message(lambda: atoll.torch.distribute(pyg.APPNP(2, 0.1)))
    found["turned"] = message(lambda: atoll.torch.distribute(pyg.DirGNNConv(pyg.SAGEConv(3, 3))))
    found["norm"] = message(lambda: atoll.torch.distribute(pyg.LayerNorm(4)))
    conv = atoll.torch.distribute(pyg.SAGEConv(FEATURES, 3))
    found["edges"] = message(lambda: conv(data.x, data.edge_index.flip(0)))
    found["rows"] = message(lambda: data.exchange(data.x[1:]))
    found["sums"] = message(lambda: atoll.torch.distribute(torch.nn.Sequential(pyg.SumAggregation())))
    found["batch"] = message(lambda: atoll.torch.distribute(torch.nn.SyncBatchNorm(4)))
    norm, layer = torch.nn.BatchNorm1d(4), pyg.SAGEConv(4, 4)
    shared = atoll.torch.distribute(torch.nn.ModuleList([norm, layer, norm, layer]))
    found["shared"] = [type(module).__name__ for module in shared]
    found["same"] = shared[0] is shared[2] and shared[1] is shared[3]
    own = atoll.torch.distribute(OwnConv(), reads="whole")
    found["own"] = list(own(data.x, data.edge_index).shape) == list(data.x.shape)
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight += data.ranks.rank
    found["parameters"] = message(lambda: atoll.torch.sum_gradients(model))
    return found


def message(function):
    try:
        function()
    except (atoll.AtollError, atoll.InputError) as error:
        return str(error)
    return "nothing was refused"


def fail_alone(ranks, way):
    """One rank fails while the others wait for it."""
    data = atoll.torch.shard("plain", ranks)
    rank, how = way.split()
    if data.ranks.rank == int(rank):
        time.sleep(0.5)
        with open("failed", "w", encoding="utf-8"):  # when
            pass
        if how == "kill":
            os.kill(os.getpid(), 9)
        raise ValueError("a mistake of this rank")
    data.exchange.exact(data.x)
    data.exchange.exact(data.x)
    time.sleep(120)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(function, ranks, *arguments, launcher=None, timeout=240):
    """Runs a function on so many ranks. Returns what they have found, and (exit code, standard error)
    of each, or of the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "found")
        words = [os.path.abspath(__file__), function, out, json.dumps([ranks, *arguments])]
        variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                         OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
        if launcher is not None:
            commands = [([*launcher, *words], variables)]
        else:
            port = str(free_port())
            commands = [([sys.executable, *words],
                         dict(variables, RANK=str(rank), WORLD_SIZE=str(ranks),
                              LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                              MASTER_PORT=port)) for rank in range(ranks)]
        processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True)
                     for command, environment in commands]
        ends = []
        for process in processes:
            try:
                text = process.communicate(timeout=timeout)[1]
                ends.append((process.returncode, text))
            except subprocess.TimeoutExpired:
                for other in processes:
                    other.kill()
                raise
        found = []
        for rank in range(ranks):
            if os.path.exists(f"{out}.{rank}.json"):
                with open(f"{out}.{rank}.json", encoding="utf-8") as file:
                    found.append(json.load(file))
        return found, ends


@functools.lru_cache(maxsize=None)
def found_by(function, ranks, *arguments):
    """The findings of the ranks, once for all tests. The current folder has the datasets."""
    found, ends = start(function, ranks, *arguments)
    if any(code != 0 for code, _ in ends) or len(found) != ranks:
        raise AssertionError("\n".join(text for _, text in ends))
    return found


def main():
    function, out, arguments = sys.argv[1:]
    found = globals()[function](*json.loads(arguments))
    with open(f"{out}.{atoll.torch.start().rank}.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
