"""Trainings and their run folders."""

import importlib.util
import itertools
import json
import os
import sys
import tempfile

import numpy as np

from atoll import _program
from atoll._errors import InputError, failure
from atoll._model_file import to_toml
from atoll._progress import MetricsFollower, ProgressLine
from atoll._report import Report
from atoll._table import Table
from atoll.dataset import Dataset

_MODEL_NUMBERS = itertools.count(1)
STOPPED = 128  # exit codes of trainings that a signal has ended: this and its number


class Interrupted(KeyboardInterrupt):
    """Ctrl-C has ended a training after its epoch. `run` has everything up to this point."""

    def __init__(self, run):
        super().__init__(f"stopped after epoch {run.epochs}; nothing is lost: "
                         f"atoll.Run({run.path!r}).resume() continues")
        self.run = run


def _new_folder(dataset, model):
    """runs/DATASET-MODEL-K, as `atoll train` names them."""
    os.makedirs("runs", exist_ok=True)
    k = 1
    while True:
        folder = os.path.join("runs", f"{os.path.basename(dataset)}-{model}-{k}")
        try:
            os.mkdir(folder)
            return folder
        except FileExistsError:
            k += 1


def _launch(words, ranks, launcher):
    """Words of the command, and of the launcher before the program; None: this process."""
    if launcher == "threads":
        return [*words, "--transport=local", f"--ranks={ranks}"], None
    if launcher == "mpirun":
        return words, ["mpirun", "--bind-to", "none", "-n", str(ranks)]
    if isinstance(launcher, dict):
        options = {"ranks_per_host": ranks, **launcher}
        return ["launch", *_program.option_words("launch", options), "--", *words], []
    if isinstance(launcher, (list, tuple)) and launcher:
        return words, [str(word) for word in launcher]
    raise InputError(f"launcher is {launcher!r}; allowed are 'threads', 'mpirun', the command of "
                     "another launcher as a list (['srun', '-n', '8']), or a dictionary of options "
                     "of `atoll launch`")


def _follow(words, ranks, launcher, path, epochs, progress):
    """Runs a training to its end, showing its epochs."""
    words, program_launcher = _launch(words, ranks, launcher)
    run = Run._begun(path, ranks, launcher)
    follower = MetricsFollower(os.path.join(path, "metrics.jsonl"))
    follower.skip()
    line = ProgressLine(epochs) if progress is True else None
    show = line if progress is True else progress or None
    command = _program.start(words, program_launcher)
    interrupts = 0
    ended = False
    while not ended:
        try:
            ended = command.wait(_program.POLL)
            for record in follower.take():
                if show is not None:
                    show(record)
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > 1 and hasattr(command, "kill"):
                command.kill()
                raise
            command.stop()
        except BaseException:  # of a caller's own `progress`: the training must not go on alone
            command.stop()
            while not command.wait(_program.POLL):
                pass
            raise
    follower.close()
    if line is not None:
        line.end()
    code, _, error = command.result()
    if interrupts:
        # MPICH's launcher may end with 0 all the same.
        stopped = code > STOPPED or (code == 0 and not run.summary)
        if stopped and run.epochs > 0:
            raise Interrupted(run)
        raise KeyboardInterrupt
    if code != 0:
        raise failure(error, code)
    return run


def train(dataset, model="gcn", *, ranks=1, launcher="threads", run_dir=None, progress=True,
          **options):
    """Trains a model and returns its Run.

    dataset: a Dataset, or the path of a dataset folder.
    model: a name ("gcn", "sage", "gat", "gcnii", ...; see docs/models.md), or a dictionary with the
        keys of a model file: {"layer": [{"convolution": "gat", "columns": 64}, ...], "head": ...}.
    ranks: number of ranks. Each trains one part of the graph.
    launcher: how ranks are started.
        "threads": threads of this process.
        "mpirun": processes on this machine.
        ["srun", "-n", "8"]: processes of another launcher, given as its command.
        {"hosts": "a,b", "ranks_per_host": 4}: processes under `atoll launch`, which restarts them
            after failures; the keys are its options. `ranks` is the default of ranks_per_host.
    run_dir: folder for everything that the run keeps, new or empty. None: runs/DATASET-MODEL-K.
    progress: True shows a line. A function gets each epoch's record (a dictionary with epoch, loss,
        train, valid, test, epoch_ms, ...). False or None: shows nothing.
    options: those of `atoll train`, with _ instead of -: hidden=256, layers=3, epochs=200, lr=0.01,
        norm="batch", bits="adaptive", ...; atoll.options() lists them all.

    Ctrl-C ends the run after its epoch and raises Interrupted, which has the run; its resume()
    continues. Raises InputError for what you can fix, and AtollError for failures.
    """
    path = os.path.abspath(os.fspath(dataset))
    words = ["train", path]
    with tempfile.TemporaryDirectory(prefix="atoll-") as temporary:
        if isinstance(model, dict):
            file = os.path.join(temporary, "model.toml")
            with open(file, "w", encoding="utf-8") as text:
                text.write(to_toml(model))
            words.append(f"--model-file={file}")
        else:
            words.append(f"--model={model}")
        made = run_dir is None
        if made:
            run_dir = _new_folder(path, "file" if isinstance(model, dict) else model)
        run_dir = os.path.abspath(os.fspath(run_dir))
        words.append(f"--run-dir={run_dir}")
        words += _program.option_words("train", options)
        try:
            return _follow(words, ranks, launcher, run_dir, options.get("epochs", 100), progress)
        except InputError:
            if made and not os.listdir(run_dir):
                os.rmdir(run_dir)
            raise


class Run:
    """A run folder, of atoll.train() or of `atoll train`."""

    def __init__(self, path):
        self._path = os.path.abspath(os.fspath(path))
        self._ranks, self._launcher = None, "threads"
        self._config("dataset")  # or it is no run folder

    @classmethod
    def _begun(cls, path, ranks, launcher):
        """One that has just been started: its folder may still be empty."""
        run = cls.__new__(cls)
        run._path, run._ranks, run._launcher = path, ranks, launcher
        return run

    @property
    def path(self):
        return self._path

    def __fspath__(self):
        return self._path

    def _records(self):
        follower = MetricsFollower(os.path.join(self._path, "metrics.jsonl"))
        records = follower.take()
        follower.close()
        return records

    @property
    def summary(self):
        """The result of the run as a dictionary: model, metric, best_epoch, train, valid, test,
        epoch_ms_median, ... Empty if the run has not ended."""
        try:
            with open(os.path.join(self._path, "summary.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    @property
    def epochs(self):
        """Number of epochs that are done."""
        return max((record["epoch"] for record in self._records()), default=0)

    @property
    def metrics(self):
        """A Table with one row per epoch: epoch, loss, train, valid, test, epoch_ms, ..."""
        return Table.from_records([{name: value for name, value in record.items()
                                    if not isinstance(value, (dict, list))}
                                   for record in self._records()])

    @property
    def phases(self):
        """A Table with one row per epoch: milliseconds of each phase of the epoch."""
        return Table.from_records([{"epoch": record["epoch"], **record.get("phases", {})}
                                   for record in self._records()])

    def _config(self, key):
        """The value of a key of the configuration, or None if it is not there."""
        file = os.path.join(self._path, "config.resolved.toml")
        if not os.path.exists(file):  # a run of an older version
            file = os.path.join(self._path, "config.toml")
        try:
            with open(file, encoding="utf-8") as lines:
                for line in lines:
                    name, _, value = line.partition(" = ")
                    value = value.strip()
                    if name == key:  # the program writes literal strings where it can
                        return value[1:-1] if value.startswith("'") else json.loads(value)
        except FileNotFoundError:
            raise InputError(f"{self._path}: this is no run folder, it has no config.toml"
                             ) from None
        return None

    @property
    def dataset(self):
        """The Dataset that the run was trained on."""
        return Dataset(self._config("dataset"))

    def resume(self, *, ranks=None, launcher=None, progress=True, **options):
        """Continues from the last checkpoint and returns a Run of the same folder. Ranks and
        launcher stay the same unless you name others. epochs=300 makes the run longer."""
        ranks = ranks or self._ranks or self.summary.get("ranks") or self._config("ranks") or 1
        words = ["train", f"--config={os.path.join(self._path, 'config.toml')}", "--resume",
                 f"--run-dir={self._path}", *_program.option_words("train", options)]
        return _follow(words, ranks, launcher or self._launcher, self._path,
                       options.get("epochs", self._config("epochs")), progress)

    def predict(self, what="labels", dataset=None, *, ranks=1, launcher="threads", **options):
        """Applies the model of the best epoch. Returns an array with one row per node, in the order
        of the dataset.

        what: "labels" (int32 [N]; uint8 [N, C] for several labels per node; f32 in a regression),
            "logits" (f32 [N, outputs]) or "embeddings" (f32 [N, hidden], the input of the last
            layer).
        dataset: None for the dataset that the model was trained on, or another one with the same
            features.

        The array is memory-mapped from the file that the engine has written, without a copy.
        torch.from_dlpack() and torch.from_numpy() share its memory."""
        dataset = self.dataset if dataset is None else dataset
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            file = os.path.join(folder, "rows.npy")
            words = ["predict", self._path, os.path.abspath(os.fspath(dataset)), f"--what={what}",
                     f"--out={file}", *_program.option_words("predict", options)]
            words, launcher = _launch(words, ranks, launcher)
            _program.run(words, launcher)
            rows = np.load(file, mmap_mode="c")  # stays mapped when the folder has gone
        return rows.view(np.ndarray)

    def export(self, path, to="pyg"):
        """Makes a folder with a state_dict and a Python file for PyTorch Geometric, like
        `atoll export`. Returns its path."""
        _program.run(["export", self._path, f"--to={to}", f"--out={os.fspath(path)}"])
        return os.fspath(path)

    def to_pyg(self):
        """The model as a torch.nn.Module made of PyTorch Geometric's classes, with the weights of
        the best epoch, in evaluation mode. model(x, edge_index) gives logits. Needs torch,
        torch_geometric and safetensors."""
        for package in ("torch", "torch_geometric", "safetensors"):
            if importlib.util.find_spec(package) is None:
                raise InputError(f"to_pyg: the package {package} is not installed")
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            path = self.export(os.path.join(folder, "model"))
            # PyG's classes look their module up by its name, so each model has one of its own.
            name = f"atoll.models.{next(_MODEL_NUMBERS)}"
            spec = importlib.util.spec_from_file_location(name, os.path.join(path, "model.py"))
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module.load()

    def to_tensorboard(self, folder):
        """Writes the curves of `metrics` for TensorBoard and returns the folder. Needs tensorboardX
        (pip install 'atoll-gnn[tensorboard]') or PyTorch's tensorboard."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError("to_tensorboard: neither tensorboardX nor tensorboard with torch "
                                 "is installed") from None
        folder = os.fspath(folder)
        with SummaryWriter(folder) as writer:
            table = self.metrics
            for name in table.columns:
                if name == "epoch" or table[name].dtype == object:
                    continue
                for epoch, value in zip(table["epoch"], table[name]):
                    if not np.isnan(value):
                        writer.add_scalar(name, float(value), int(epoch))
        return folder

    def report(self, *others, path=None):
        """The page of `atoll report` on this run, compared with the others. Notebooks show it
        inline. path: of the HTML file. None: report.html in the run's folder."""
        path = os.path.join(self._path, "report.html") if path is None else os.fspath(path)
        _program.run(["report", self._path, *[os.fspath(other) for other in others],
                      f"--out={path}"])
        return Report(path)

    def __repr__(self):
        summary = self.summary
        if not summary:
            return f"Run({self._path!r}: {self.epochs} epochs, not finished)"

        def shown(name):
            value = summary.get(name)
            return "-" if value is None else f"{value:.4f}"
        return (f"Run({self._path!r}: {summary['model']} on {summary['dataset']}, "
                f"{summary['epochs']} epochs, best {summary['best_epoch']}, {summary['metric']} "
                f"valid {shown('valid')} test {shown('test')})")
