"""A stand-in for PyTorch and PyTorch Geometric, for tests of python/atoll/pyg_model.py where they are
not installed. Modules keep what they were made with, and give something that any arithmetic takes."""

import importlib.util
import sys
import types
from unittest import mock


class Module:
    def __init__(self, *arguments, **options):
        self.arguments, self.options = arguments, options

    def __call__(self, *arguments, **options):
        return self.forward(*arguments, **options)

    def forward(self, *_, **__):
        return mock.MagicMock()

    def __repr__(self):
        words = [repr(value) for value in self.arguments]
        words += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{type(self).__name__}({', '.join(words)})"


class Classes(types.ModuleType):
    """A module that has a class of any name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (Module,), {}))
        return getattr(self, name)


def load(path):
    """The Python file at `path` as a module that finds the stand-in, and no other package."""
    torch = mock.MagicMock()
    torch.nn = Classes("torch.nn")
    torch.nn.Module, torch.nn.ModuleList = Module, list
    packages = {"numpy": mock.MagicMock(), "safetensors": mock.MagicMock(),
                "safetensors.torch": mock.MagicMock(), "torch": torch,
                "torch_geometric": types.SimpleNamespace(nn=Classes("torch_geometric.nn"))}
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, packages):
        spec.loader.exec_module(module)
    return module
