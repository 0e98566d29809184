"""Options that two ranks of one job may be started with by mistake: what rank 1 has and rank 0 has
not, and the error that all ranks then end with."""

TRAIN = ["train", "data", "--epochs", "2", "--layers", "2", "--hidden", "4"]

# option, value on rank 0, value on rank 1; None: not given on that rank
OPTIONS = [
    ("--seed", None, "2"),
    ("--lr", None, "0.02"),
    ("--dropout", None, "0.25"),
    ("--input-dropout", None, "0.25"),
    ("--weight-decay", None, "0.01"),
    ("--weight-decay-layers", None, "first"),
    ("--lr-schedule", None, "cosine"),
    ("--lr-step-epochs", "10", "20"),
    ("--lr-step-factor", "0.5", "0.25"),
    ("--epochs", None, "3"),
    ("--eval-every", None, "2"),
    ("--patience", None, "4"),
    ("--split-index", "0", "1"),
    ("--model", None, "sage"),
    ("--layers", None, "3"),
    ("--hidden", None, "8"),
    ("--norm", None, "batch"),
    ("--norm", "layer", "batch"),
    ("--dtype", None, "bf16"),
    ("--tf32", None, "on"),
    ("--cuda-graph", None, "off"),
    ("--overlap", None, "off"),
    ("--order", None, "multiply-first"),
    ("--cache-aggregate", None, "off"),
    ("--recompute", None, "all"),
    ("--exchange", None, "quantized"),
    ("--bits", "4", "8"),
    ("--lambda", None, "0.25"),
    ("--reassign-every", None, "7"),
    ("--sensitivity", None, "upper-bound"),
    ("--timeout", None, "30"),
    ("--transport", None, "mpi"),
    ("--transport", None, "local"),
    ("--ranks", None, "2"),
    ("--run-dir", "run", "other"),
    ("--run-dir", "run", None),
    ("--method", None, "random"),
    ("--objective", None, "cut"),
    ("--balance", None, "nodes"),
    ("--weights", "2,1", "1,2"),
    ("--cuts", None, "2"),
    ("--imbalance", None, "0.25"),
    ("--marginal-cost", None, "0.5"),
    ("--node-order", None, "natural"),
    ("--part-order", None, "1,0"),
    ("--partition-seed", None, "2"),
    ("--plan-trial", None, "0"),
]


def with_option(command, option, value):
    """The command with the option set, also if it has it already."""
    if value is None:
        return list(command)
    changed = list(command)
    if option in changed:
        changed[changed.index(option) + 1] = value
        return changed
    return changed + [option, value]


def pairs():
    """(command of rank 0, command of rank 1, what the error must say) for every row."""
    for option, first, second in OPTIONS:
        yield (with_option(TRAIN, option, first), with_option(TRAIN, option, second),
               f"{option} is ")

