"""Losses and metrics that are functions of the caller's own."""

import functools
import importlib
import os
import runpy
import sys

import numpy as np

from atoll._errors import InputError
from atoll._path import python_path

PREFIX = "python-"  # of their names in the engine, so that they are no others


def autograd(function):
    """Makes a loss for train() of a function of PyTorch tensors: loss=atoll.autograd(function).

    function(logits, labels) -> a tensor: the sum of the losses of all rows, or the loss of each.
        logits: f32 [n, outputs]; labels: i64 [n] (single-label), or f32 [n, outputs].

    PyTorch differentiates it. It may also be used as a decorator."""
    @functools.wraps(function)
    def loss(logits, labels):
        import torch
        rows = torch.from_numpy(logits).requires_grad_()
        wanted = torch.from_numpy(labels)
        result = function(rows, wanted.long() if wanted.ndim == 1 else wanted.float())
        if not isinstance(result, torch.Tensor) or result.is_complex():
            found = getattr(result, "dtype", type(result).__name__)
            raise InputError(f"it returned {found}; it must return a tensor of real numbers")
        _require_loss_shape(result, logits)
        value = result.sum()
        gradient, = torch.autograd.grad(value, rows)
        return float(value), gradient.numpy()
    return loss


def _array(value, name):
    """An array of real numbers of NumPy, of any that Python's libraries have. `name` is what it is
    called in errors."""
    kind = getattr(value, "dtype", type(value).__name__)
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        elif hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            value = np.from_dlpack(value)
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:  # ragged, sparse, bf16
        raise InputError(f"{name} is {kind}, which can't be a NumPy array ({error}); allowed are "
                         "real numbers and arrays of them") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} is {array.dtype}; allowed are real numbers and arrays of them")
    return array


def _require_loss_shape(value, logits):
    """Refuses other shapes: [n, 1] - [n] is [n, n], say, whose sum is no loss."""
    n = len(logits)
    shapes = [(), (n,), (n, 1), logits.shape]
    if tuple(value.shape) not in shapes:
        allowed = ", ".join(str(list(shape)) for shape in dict.fromkeys(shapes[1:]))
        raise InputError(f"its loss has the shape {list(value.shape)}; allowed are a single number, "
                         f"the sum over the {n} rows, and the shapes {allowed}, one loss for each row "
                         "or output")


def _checked_loss(result, logits):
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise InputError(f"it returned {type(result).__name__}; it must return (value, gradient): "
                         "the sum of the rows' losses, or an array with one each, and its "
                         "derivatives, an array of the logits' shape")
    losses = _array(result[0], "its loss")
    _require_loss_shape(losses, logits)
    value = float(losses.sum(dtype=np.float64))
    gradient = _array(result[1], "its gradient")
    if gradient.shape != logits.shape:
        raise InputError(f"its gradient has the shape {list(gradient.shape)}; the logits have "
                         f"{list(logits.shape)}")
    gradient = np.ascontiguousarray(gradient, dtype=np.float32)
    wrong = ~np.isfinite(gradient)
    if wrong.any() and np.isfinite(logits).all():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        raise InputError(f"its gradient of row {row}, column {column}, is {gradient[row, column]}; "
                         "allowed are finite numbers")
    return value, gradient


def _checked_metric(result, logits):
    del logits
    problem = f"it returned {type(result).__name__}; it must return a number"
    try:
        value = _array(result, "it")
    except InputError:
        raise InputError(problem) from None
    if value.size != 1:
        raise InputError(problem)
    return float(value.item())


class _Function:
    """As the engine calls it: it returns what is wrong as a text."""

    def __init__(self, argument, function, checked, failures):
        self._what = f"{argument}: {_name_of(function)}"
        self._function, self._checked, self._failures = function, checked, failures

    def __call__(self, logits, labels):
        try:
            return self._checked(self._function(logits, labels), logits)
        except InputError as error:
            return f"{self._what}: {error}"
        except BaseException as error:  # nothing of Python's may pass through the engine
            self._failures.append(error)
            return f"{self._what} raised {type(error).__name__}: {error}"


def _name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def _word_of(function):
    """The name in options and records."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_"
                   for c in _name_of(function))
    return PREFIX + name[:50]


class Functions:
    """A training's loss and metric, where they are functions."""

    def __init__(self, loss=None, metric=None):
        self._loss, self._metric = loss, metric
        self.failures = []  # exceptions that they raised

    @classmethod
    def of_options(cls, options):
        """(the functions, the options with their names in place of them)."""
        functions = cls(**{name: options[name] for name in ("loss", "metric")
                           if callable(options.get(name))})
        return functions, {**options, **functions._names()}

    def _names(self):
        return {name: _word_of(function) for name, function in self.given().items()}

    def given(self):
        """The functions as options."""
        return {name: function
                for name, function in (("loss", self._loss), ("metric", self._metric)) if function}

    def __bool__(self):
        return self._loss is not None or self._metric is not None

    def for_engine(self):
        """The arguments `losses` and `metrics` of the compiled part."""
        losses, metrics = [], []
        if self._loss is not None:
            losses.append((_word_of(self._loss),
                           _Function("loss", self._loss, _checked_loss, self.failures)))
        if self._metric is not None:
            metrics.append((_word_of(self._metric), lower_is_better(self._metric),
                            _Function("metric", self._metric, _checked_metric, self.failures)))
        return losses, metrics

    def program(self):
        """(words in place of the program's path, variables): ranks that are processes of Python."""
        words = [sys.executable, "-m", "atoll._rank"]
        for argument, function in (("loss", self._loss), ("metric", self._metric)):
            if function is not None:
                words.append(f"{argument}={_place_of(argument, function)}")
        return [*words, "--"], python_path()

    def raise_failure(self):
        """The exception of a function, as the caller would see it without an engine between."""
        if self.failures:
            raise self.failures[0]


def lower_is_better(metric):
    return bool(getattr(metric, "lower_is_better", False))


def require_given(loss, metric, functions):
    """Refuses a run whose recorded loss or metric was a function that is not given again."""
    given = functions._names()
    for argument, recorded in (("loss", loss), ("metric", metric)):
        if str(recorded or "").startswith(PREFIX) and given.get(argument) != recorded:
            name = recorded[len(PREFIX):]
            raise InputError(f"{argument}: the run was trained with the function {name} of Python; "
                             f"give it again: resume({argument}={name})")


def _place_of(argument, function):
    """Where another process finds the function: FILE:NAME or MODULE:NAME."""
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", None)
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    place = os.path.abspath(file) if module == "__main__" and file else module
    if found is not function or not place or place == "__main__":
        raise InputError(f"{argument}: ranks that are processes of their own must find the function "
                         f"by its name, in a module or script; {_name_of(function)} is not there, or "
                         "another object has this name. Define it at the top of a file (atoll.autograd "
                         "as a decorator), or take launcher='threads'")
    return f"{place}:{name}"


@functools.lru_cache(maxsize=None)
def _script(path):
    """The names in a script: run not as __main__, so that it doesn't train."""
    return runpy.run_path(path, run_name="__atoll_rank__")


def found_at(place):
    """The function at a place of _place_of()."""
    where, _, name = place.rpartition(":")
    if os.path.isabs(where):
        first, *rest = name.split(".")
        found = _script(where)[first]
    else:
        found, rest = importlib.import_module(where), name.split(".")
    for part in rest:
        found = getattr(found, part)
    return found
