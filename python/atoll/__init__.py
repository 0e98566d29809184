"""Training of graph neural networks on the whole graph, on one machine or over MPI ranks.

    import atoll

    dataset = atoll.Dataset.from_arrays(edge_index, x, y, train_mask, val_mask, test_mask)
    run = atoll.train(dataset, model="gat", hidden=64, heads=8, epochs=200)
    print(run.summary["test"])        # about 0.79 on Cora
    rows = run.predict("embeddings")

Datasets and runs are plain folders that the command line reads, too. For example, `atoll report`
accepts `run.path`.
"""

from atoll._errors import AtollError, InputError
from atoll._evaluation import Evaluation
from atoll._functions import autograd
from atoll._partition import Partition, partition
from atoll._program import options, program_path
from atoll._report import Report
from atoll._runs import Runs
from atoll._table import Table
from atoll.dataset import Dataset
from atoll.run import Run, train

__all__ = ["AtollError", "Dataset", "Evaluation", "InputError", "Partition", "Report", "Run", "Runs",
           "Table", "__version__", "autograd", "options", "partition", "program_path", "train"]


def __getattr__(name):
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version
        try:
            return version("atoll-gnn")
        except PackageNotFoundError:  # a source tree
            return "0+unknown"
    raise AttributeError(f"module 'atoll' has no attribute {name!r}")
