"""Errors of the engine as exceptions."""

import difflib
import re

# Names in other libraries for options of `atoll train`.
OTHER_NAMES = {
    "hidden": ("hidden_channels", "hidden_dim", "hidden_size", "hidden_feats", "num_hidden",
               "n_hidden", "hid_dim", "channels", "units"),
    "layers": ("num_layers", "n_layers", "nlayers", "depth"),
    "heads": ("num_heads", "n_heads", "nheads", "attention_heads"),
    "epochs": ("num_epochs", "n_epochs", "max_epochs", "epoch", "iterations"),
    "lr": ("learning_rate", "alpha"),
    "weight_decay": ("wd", "l2", "decay"),
    "dropout": ("drop", "drop_rate", "dropout_rate", "feat_drop"),
    "attention_dropout": ("attn_drop", "att_dropout"),
    "activation": ("act", "nonlinearity"),
    "norm": ("normalization", "norm_type", "batch_norm"),
    "skip": ("residual", "skip_connection"),
    "jump": ("jk", "jumping_knowledge"),
    "aggregator": ("aggr", "aggregator_type"),
    "patience": ("early_stopping", "early_stop"),
    "seed": ("random_state", "random_seed"),
    "seeds": ("num_seeds", "n_runs", "num_runs", "runs"),
    "model": ("conv", "arch", "architecture", "model_name"),
    "loss": ("criterion", "loss_fn"),
    "optimizer": ("optim",),
    "lr_schedule": ("scheduler", "lr_scheduler"),
    "class_weights": ("class_weight",),
    "backend": ("device",),
    "dtype": ("precision",),
    "threads": ("num_threads", "n_jobs"),
    "ranks": ("world_size", "num_workers", "workers", "nproc", "num_parts"),
    "run_dir": ("output_dir", "save_dir", "log_dir", "out_dir", "checkpoint_dir"),
    "progress": ("callback", "callbacks", "verbose", "progress_bar"),
    "launcher": ("launch",),
}
_BY_OTHER_NAME = {other: name for name, others in OTHER_NAMES.items() for other in others}
_COMMAND = re.compile(r"(\b(?:atoll|mpirun|srun) [a-z-][^;()`'\"]*)")
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")
# Options that Python has under another name.
_ARGUMENTS = {"model-file": "model", "out": "path"}


class AtollError(RuntimeError):
    """A command failed. `exit_code` is that of the program: 1 if a device, the network or another
    rank failed."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


class InputError(AtollError, ValueError):
    """The request can't be carried out: an option, a file or an array is wrong, or there is too
    little memory. The message names the place, the value found and the values allowed."""

    def __init__(self, message, exit_code=2):
        super().__init__(message, exit_code)


def _argument(flag):
    return _ARGUMENTS.get(flag[1], flag[1].replace("-", "_"))


def in_python(text):
    """A line of the engine with arguments of Python in place of flags. Commands that it quotes stay
    as they are."""
    at_start = re.match(r"--([a-z][a-z0-9-]*) ([^\s:]+): ", text)
    if at_start:
        text = f"{_argument(at_start)}={at_start[2]}: {text[at_start.end():]}"
    parts = _COMMAND.split(text)
    parts[::2] = [_FLAG.sub(_argument, part) for part in parts[::2]]
    return "".join(parts)


def _meant(name):
    """' (did you mean ...?)' where that can be told."""
    meant = _BY_OTHER_NAME.get(name)
    if meant is None:
        close = difflib.get_close_matches(name, [*OTHER_NAMES, *_BY_OTHER_NAME], 1, 0.8)
        meant = _BY_OTHER_NAME.get(close[0], close[0]) if close else None
    return f" (did you mean '{meant}'?)" if meant else "; atoll.options() lists all"


def failure(message, exit_code):
    """The exception for a command that ended with `exit_code`, which is not 0."""
    message = in_python(message)
    unknown = re.fullmatch(r"unknown option '(\w+)'", message)
    if unknown:
        message += _meant(unknown[1])
    return InputError(message) if exit_code == 2 else AtollError(message, exit_code)
