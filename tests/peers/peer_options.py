"""Options shared by the scripts that time a peer, and what must happen before torch is imported."""

import argparse
import importlib
import os
import pathlib
import sys

SKIPPED = 77  # exit code of a script whose packages are not installed


def make_parser(description, device):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dataset", type=pathlib.Path, help="dataset folder")
    parser.add_argument("--model", choices=["gcn", "sage"], default="gcn")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate of Adam")
    parser.add_argument("--norm", choices=["none", "batch"], default="none")
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32",
                        help="bf16: autocast")
    parser.add_argument("--device", default=device)
    parser.add_argument("--threads", type=int, default=0, help="0: what the packages choose")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10, help="epochs timed after the warm-up")
    return parser


def add_exported(parser):
    parser.add_argument("--exported", type=pathlib.Path,
                        help="folder of `atoll export`, whose module is timed instead of a stack of "
                             "--model")


def read_options(parser, packages):
    """The options, after the packages have been imported with the threads asked for. Ends the
    script with SKIPPED and a line on stderr if one is not installed."""
    options = parser.parse_args()
    if options.threads > 0:  # OpenMP reads it once, and every wheel may bring an OpenMP of its own
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(options.threads)
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            print(f"skipped: {package} is not installed", file=sys.stderr)
            sys.exit(SKIPPED)
    import torch

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    torch.manual_seed(options.seed)
    return options
