#!/usr/bin/env python3
"""A GCN of plain PyTorch under torchrun, which starts all workers again when one dies; what a failure
costs there is compared with `atoll launch` by tests/storm/restarts.py.

    torchrun --standalone --nproc-per-node 2 --max-restarts 10 torchrun_epoch.py DATASET --folder F

Every worker trains on the whole graph, since PyTorch has nothing that distributes one, and
DistributedDataParallel averages the gradients. As PyTorch advises, the first worker writes a
snapshot after every epoch (F/snapshot.pt), with which all go on after a new start. F/metrics.jsonl
gets a line per epoch. Needs torch. With 2.15.0, new workers waited in init_process_group for
minutes after a failure, in two of two tries, so docs/performance.md has figures of 2.2.1."""

import json
import os
import pathlib

from peer_options import make_parser, read_options


def arguments():
    parser = make_parser(__doc__, device="cpu")
    parser.add_argument("--cache-aggregate", choices=["on", "off"], default="on")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    return read_options(parser, ["numpy", "torch"])


def main():
    options = arguments()
    import torch
    from peer_training import Task, Trainer
    from torch_epoch import build_model, make_aggregate

    torch.distributed.init_process_group("gloo")
    task = Task(options)
    model = build_model(options, task, make_aggregate(options, task)[1])
    trainer = Trainer(options, task, torch.nn.parallel.DistributedDataParallel(model))
    snapshot, done = options.folder / "snapshot.pt", 0
    if snapshot.exists():
        state = torch.load(snapshot)
        model.load_state_dict(state["model"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
    for epoch in range(done + 1, options.epochs + 1):
        loss, milliseconds = trainer.epoch()
        if torch.distributed.get_rank() > 0:
            continue
        torch.save({"model": model.state_dict(), "epoch": epoch,
                    "optimizer": trainer.optimizer.state_dict()}, f"{snapshot}.new")
        os.replace(f"{snapshot}.new", snapshot)
        with open(options.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch, "loss": loss, "epoch_ms": milliseconds}) + "\n")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
