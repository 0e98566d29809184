"""Trainings and their run folders."""

import importlib.util
import json
import numbers
import os
import shutil
import tempfile
import warnings

import numpy as np

from atoll import _program
from atoll._errors import InputError, failure
from atoll._evaluation import SPLITS, Evaluation
from atoll._functions import Functions, lower_is_better, require_given
from atoll._kept import KeptPlace
from atoll._model_file import to_toml
from atoll._partition import train_with
from atoll._progress import MetricsFollower, ProgressLine, Questions
from atoll._report import Report
from atoll._runs import Runs
from atoll._table import Table
from atoll.dataset import Dataset, node_numbers, path_of

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


def _say_where(error, run):
    """Adds to an exception of a caller's own function what has become of the training."""
    text = (f"the run was interrupted after epoch {run.epochs}: atoll.Run({run.path!r}).resume() "
            "continues") if run.status == "interrupted" else \
        f"the run {run.path!r} had ended by then, after epoch {run.epochs}"
    if hasattr(error, "add_note"):
        error.add_note(text)
    _program.log.warning("%s", text)


def _better(metric):
    """max or min: which value of the option `metric` is the best."""
    if callable(metric):
        return min if lower_is_better(metric) else max
    lower = [row["name"] for row in _program.reference()["metrics"] if row["lower_is_better"]]
    return min if metric in lower else max


def _answer_of(said):
    """The answer of a progress function in the engine's words."""
    if said is None:
        return "go on"
    if isinstance(said, (bool, np.bool_)):
        return "go on" if said else "enough"
    rate = said.get("lr") if isinstance(said, dict) and set(said) == {"lr"} else None
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < rate < float("inf"):
        raise InputError(f"progress: it returned {said!r}; allowed are False (stop), "
                         "{'lr': a number above 0} (the learning rate from now on), and None and True "
                         "(go on)")
    return f"rate {float(rate)!r}"


def _require_progress(progress):
    """Before anything is made of the run."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress: found {progress!r}; allowed are True (a line), a function of an "
                         "epoch's record, and False and None (nothing is shown)")


def _follow(words, ranks, launcher, path, epochs, progress, functions, before="", best=max):
    """Runs a training to its end, showing its epochs."""
    run = Run._begun(path, ranks, launcher)
    words, program_launcher = _launch(words, ranks, launcher)
    follower = MetricsFollower(os.path.join(path, "metrics.jsonl"))
    follower.skip()
    line = ProgressLine(epochs, before=before, best=best) if progress is True else None
    show = line if progress is True else progress or None
    # A function may stop the training, which therefore waits for it.
    questions = None if show is line else Questions(local=launcher in ("threads", "mpirun"))
    command = _program.start(words, program_launcher, questions and questions.variables, functions)
    interrupts = 0
    enough = False
    ended = False

    def records():
        """Those that have come, until the command has ended."""
        nonlocal ended
        if questions is not None and questions.connected():
            record = questions.next(_program.POLL)
            ended = record is None and command.wait(0)
            return [] if record is None else [record]
        ended = command.wait(_program.POLL)
        found = follower.take()
        # A training that asks has connected before its first epoch.
        asks = questions is not None and (questions.connected() or questions.has_asked)
        return [] if asks else found

    try:
        while not ended:
            try:
                for record in records():
                    answer = _answer_of(None if show is None or enough else show(record))
                    if questions is not None and questions.has_asked:
                        questions.answer(answer)
                    elif answer == "enough":
                        enough = True
                        command.stop()
                    elif answer != "go on":
                        raise InputError("progress: the first rank can't be reached, so its learning "
                                         "rate stays as it is; pass ATOLL_PROGRESS on to it")
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts > 1 and hasattr(command, "kill"):
                    command.kill()
                    raise
                _program.log.warning("stopping after this epoch%s",
                                     "; again to stop now" if hasattr(command, "kill") else "")
                if questions is not None:
                    questions.answer("interrupt")
                command.stop()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of a caller's own `progress`
        # The training must not go on alone.
        if questions is not None and questions.has_asked:
            questions.answer("interrupt")
        else:
            command.stop()
        while not command.wait(_program.POLL):
            pass
        command.result()
        _say_where(error, run)
        raise
    finally:
        follower.close()
        if questions is not None:
            questions.close()
    code, _, error = command.result()
    # MPICH's launcher may end with 0 all the same.
    stopped = code > STOPPED or (code == 0 and not run.summary)
    if line is not None:
        line.end(run.ending if code == 0 and not interrupts else None)
    if interrupts:
        if stopped and run.epochs > 0:
            raise Interrupted(run)
        raise KeyboardInterrupt
    if enough and stopped:
        # Nothing more is trained. This writes the result of what there is.
        return run.resume(epochs=run.epochs, progress=None, **functions.given())
    if code != 0:
        functions.raise_failure()
        raise failure(error, code)
    if run.ending:
        _program.log.info("%s", run.ending)
    return run


def _naming(error, arguments):
    """The same error with arguments in place of files that the caller does not know."""
    text = str(error)
    for path, argument in arguments.items():
        if path is not None:
            text = text.replace(os.fspath(path), argument)
    return InputError(text)


def _with_kept_arrays(run_dir, options):
    """Options whose arrays are files of the program. They stay, since a resumed run reads them."""
    weights = options.get("class_weights")
    if weights is None or isinstance(weights, str) or hasattr(weights, "__fspath__"):
        return options
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu()
    weights = np.asarray(weights)
    if weights.ndim != 1 or weights.dtype.kind not in "iuf":
        raise InputError(f"class_weights: it is {weights.dtype} {list(weights.shape)}; allowed are "
                         "a number per class, 'balanced' or the path of a .npy file")
    weights = weights.astype(np.float32)
    place = KeptPlace(run_dir, "class_weights", weights.tolist(), ".npy")

    def save(part):
        with open(part, "wb") as file:
            np.save(file, weights)
    place.fill(save)
    return {**options, "class_weights": place.path}


def _train_seeds(dataset, model, seeds, run_dir, options):
    if "seed" in options:
        raise InputError("seed: there is seeds, too; give only one of the two")
    try:
        seeds = [int(seed) for seed in seeds]
    except (TypeError, ValueError):
        raise InputError(f"seeds is {seeds!r}; allowed are several whole numbers, as in "
                         "seeds=range(3)") from None
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds is {seeds}; allowed are one or more different numbers")
    runs = []
    for seed in seeds:
        folder = None if run_dir is None else os.path.join(os.fspath(run_dir), f"seed-{seed}")
        runs.append(train(dataset, model, run_dir=folder, seed=seed, _before=f"seed {seed}  ",
                          **options))
    return Runs(runs, seeds)


def train(dataset, model="gcn", *, ranks=1, launcher="threads", run_dir=None, progress=True,
          seeds=None, partition=None, _before="", **options):
    """Trains a model and returns its Run.

    dataset: a Dataset, or the path of a dataset folder. The folder of a Dataset that is temporary
        moves to where the run is (to RUNS/.atoll), so that the run can be used and resumed later.
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
        train, valid, test, epoch_ms, ...). The training waits for it. If it returns False, the
        training ends after that epoch, and train() returns the run. If it returns {"lr": 0.001},
        that is the learning rate from the next epoch on. If it raises an exception, the run is
        interrupted after that epoch.
        False or None: shows nothing.
    seeds: seeds=range(3) trains once with each of these seeds and returns atoll.Runs, with mean and
        deviation. Under run_dir, each has a folder seed-N then.
    partition: of atoll.partition(): trains on its parts, by as many ranks.
    options: those of `atoll train`, with _ instead of -: hidden=256, layers=3, epochs=200, lr=0.01,
        norm="batch", bits="adaptive", ...; atoll.options() lists them all. class_weights may be an
        array. loss may be a function(logits, labels) -> (value, gradient), metric a
        function(logits, labels) -> number: see docs/python.md.

    Ctrl-C ends the run after its epoch and raises Interrupted, which has the run; its resume()
    continues. Raises InputError for what you can fix, and AtollError for failures.
    """
    if seeds is not None:
        return _train_seeds(dataset, model, seeds, run_dir,
                            {"ranks": ranks, "launcher": launcher, "progress": progress,
                             "partition": partition, **options})
    _require_progress(progress)
    place = path_of(dataset)
    of_file = isinstance(model, dict)
    text = to_toml(model) if of_file else None
    made = run_dir is None
    if made:
        run_dir = _new_folder(place, "file" if of_file else model)
    run_dir = os.path.abspath(os.fspath(run_dir))
    try:
        if isinstance(dataset, Dataset):
            dataset._move_beside(run_dir)
        if partition is not None:
            ranks, options = train_with(partition, dataset, ranks, launcher, options)
        kept = _with_kept_arrays(run_dir, options)
        functions, kept = Functions.of_options(kept)
        words = ["train", os.path.abspath(os.fspath(dataset)), f"--run-dir={run_dir}"]
        words += _program.option_words("train", kept)
        with tempfile.TemporaryDirectory(prefix="atoll-") as temporary:
            if of_file:
                file = os.path.join(temporary, "model.toml")  # the run folder gets a copy
                with open(file, "w", encoding="utf-8") as lines:
                    lines.write(text)
                words.append(f"--model-file={file}")
            else:
                words.append(f"--model={model}")
            try:
                epochs = options.get("epochs", _program.option_rows("train")["epochs"]["default"])
                return _follow(words, ranks, launcher, run_dir, epochs, progress, functions, _before,
                               _better(options.get("metric")))
            except InputError as error:
                raise _naming(error, {os.path.join(temporary, "model.toml"): "model",
                                      kept.get("class_weights"): "class_weights"}) from None
    except InputError:
        if made and not os.listdir(run_dir):
            os.rmdir(run_dir)
        raise


def _messages_sent(records):
    """A dictionary for each epoch: rows_sent, share_sent and mean_bits; empty where messages are
    exact. A record says it only where the epoch differs from the one before."""
    sent = []
    now = {}
    for record in records:
        assignment = record.get("assignment")
        if assignment:
            rows = sum(channel["rows"] for channel in assignment["channels"])
            count = sum(sum(channel["bits"].values()) for channel in assignment["channels"])
            now = {"rows_sent": count, "share_sent": count / rows if rows else 1.0,
                   "mean_bits": assignment["mean_bits"]}
        sent.append(now)
    return sent


def _probabilities(logits, task):
    if task in ("binary", "multi-label"):
        return np.exp(-np.logaddexp(0, -logits))
    if task != "single-label":
        raise InputError(f"probabilities: the task is {task}, whose outputs are no classes; "
                         "allowed are 'labels', 'logits' and 'embeddings'")
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def _parquet_writer(path):
    """A function (file of CSV, whether its nodes are words) that writes the table to `path`."""
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        def by_pyarrow(file, words):
            types = {"node": pyarrow.string()} if words else {}
            options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            pyarrow.parquet.write_table(pyarrow.csv.read_csv(file, convert_options=options), path)
        return by_pyarrow
    if importlib.util.find_spec("pandas") is not None and \
            importlib.util.find_spec("fastparquet") is not None:
        import pandas

        def by_pandas(file, words):
            types = {"node": str} if words else None
            pandas.read_csv(file, dtype=types, keep_default_na=False).to_parquet(path)
        return by_pandas
    raise InputError(f"path: {path}: writing .parquet needs the package pyarrow, or pandas with "
                     "fastparquet, which are not installed; name a file that ends in .csv")


class Run:
    """A run folder, of atoll.train() or of `atoll train`."""

    _dataset = None  # where the dataset is now; None: where it was

    def __init__(self, path, dataset=None):
        """dataset: where the dataset is now, if it is not where it was; a Dataset or a path."""
        self._path = os.path.abspath(os.fspath(path))
        self._ranks, self._launcher = None, "threads"
        self._config("dataset")  # or it is no run folder
        if dataset is not None:
            self._dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)

    @classmethod
    def load(cls, path, dataset=None):
        """The run of a folder, with the model of its best epoch: the same as Run(path, dataset)."""
        return cls(path, dataset)

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
        """A Table with one row per epoch: epoch, loss, valid_loss, train, valid, test (of the run's
        metric), epoch_ms, ...; where messages are not exact, also rows_sent and share_sent, of the
        messages of all ranks, and their mean_bits, which are 0 for one that is not sent."""
        records = self._records()
        sent = _messages_sent(records)
        return Table.from_records([{**{name: value for name, value in record.items()
                                       if not isinstance(value, (dict, list))}, **messages}
                                   for record, messages in zip(records, sent)])

    @property
    def history(self):
        """`metrics` as a DataFrame of pandas, with the epoch as index; the Table where pandas is not
        installed."""
        if importlib.util.find_spec("pandas") is None:
            return self.metrics
        return self.metrics.to_pandas().set_index("epoch")

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
    def status(self):
        """"finished"; "patience" or "target" if that has ended it early; "max-time" if --max-time has;
        "stopped" if the progress function has, by False; "divergence" if its loss became NaN; or
        "interrupted", while it has no result: resume() continues."""
        summary = self.summary
        if not summary:
            return "interrupted"
        if summary.get("stopped_by"):
            ended = {"progress": "stopped", "--max-time": "max-time"}
            return ended.get(summary["stopped_by"], summary["stopped_by"])
        if summary["epochs"] >= (self._config("epochs") or 0):
            return "finished"
        if summary.get("target_reached"):
            return "target"
        return "patience" if self._config("patience") else "finished"

    @property
    def ending(self):
        """Why the run has ended before its last epoch, as a sentence, or None."""
        if self.status == "target":
            return f"ended by target {self._config('target')} at epoch {self.summary['epochs']}"
        if self.status != "patience":
            return None
        return (f"ended by patience after epoch {self.summary['epochs']}: no better validation "
                f"score in {self._config('patience')} evaluations")

    @property
    def dataset(self):
        """The Dataset that the run was trained on."""
        if self._dataset is not None:
            return self._dataset
        path = self._config("dataset")
        try:
            return Dataset(path)
        except InputError:
            if os.path.isdir(path):
                raise
            raise InputError(f"{path}: the dataset of the run {self._path} is not there any more; "
                             "name its place: atoll.Run.load(path, dataset=...), or dataset=... in "
                             "resume() and predict()") from None

    def _nothing_to_do(self, options):
        """Why no epoch would follow, as a sentence, or None."""
        summary = self.summary
        if not summary or summary.get("stopped_by"):
            return None
        epochs = options.get("epochs", self._config("epochs"))
        patience = options.get("patience", self._config("patience"))
        if self.status == "patience" and patience == self._config("patience"):
            return (f"{self.ending}; more epochs change nothing. resume(patience=...) with a "
                    "larger number, or 0 for none, continues")
        target = options.get("target", self._config("target"))
        if self.status == "target" and str(target) == str(self._config("target")):
            return (f"{self.ending}; more epochs change nothing. resume(target=...) with a better "
                    "score, or \"none\", continues")
        if epochs is not None and epochs <= summary["epochs"]:
            return (f"the run has done its {summary['epochs']} epochs; resume(epochs=...) with a "
                    "larger number makes it longer")
        return None

    def resume(self, dataset=None, *, ranks=None, launcher=None, progress=True, **options):
        """Continues from the last checkpoint and returns a Run of the same folder. Ranks and
        launcher stay the same unless you name others. epochs=300 makes the run longer.

        dataset: where the dataset is now, if it is not where it was. Its content must be the same.

        If no epoch is left to do, a warning says why."""
        _require_progress(progress)
        if dataset is not None:
            path_of(dataset)
        why = self._nothing_to_do(options)
        if why is not None:
            warnings.warn(f"resume: {why}", stacklevel=2)
            return self
        moved = self.dataset if dataset is None else dataset
        best = _better(options.get("metric", self._config("metric")))
        functions, options = Functions.of_options(options)
        require_given(options.get("loss", self._config("loss")),
                      options.get("metric", self._config("metric")), functions)
        ranks = ranks or self._ranks or self.summary.get("ranks") or self._config("ranks") or 1
        words = ["train", os.path.abspath(os.fspath(moved)),
                 f"--config={os.path.join(self._path, 'config.toml')}", "--resume",
                 f"--run-dir={self._path}",
                 *_program.option_words("train", _with_kept_arrays(self._path, options))]
        return _follow(words, ranks, launcher or self._launcher, self._path,
                       options.get("epochs", self._config("epochs")), progress, functions, best=best)

    def predict(self, what="labels", dataset=None, *, nodes=None, path=None, ranks=1,
                launcher="threads", **options):
        """Applies the model of the best epoch. Returns an array with one row per node, in the order
        of the dataset, or of `nodes`.

        what: "labels" (int32 [N]; uint8 [N, C] for several labels per node; f32 in a regression),
            "logits" (f32 [N, outputs]), "probabilities" (the softmax of the logits; for several
            labels per node and in binary tasks, with one output, their sigmoid) or "embeddings"
            (f32 [N, hidden], the input of the last layer).
        dataset: None for the dataset that the model was trained on, or another one with the same
            features.
        nodes: None for all. An array or list of numbers of nodes, a single one, or a mask: the rows of
            these, in this order, are computed by what they need of the graph, on one rank. "new": the
            nodes that the dataset of the training did not have. Or a path, as the option --nodes.
        path: None, or a file that gets the predictions instead; then nothing is returned. A .csv or
            .parquet file is a table: the node or its id, the class, and with "labels" the
            probability of each. A .npy file holds the array; with `nodes`, rows.ids.npy beside
            rows.npy has the number of the node of each row. .parquet needs pyarrow, or pandas with
            one of its engines.

        The array is memory-mapped from the file that the engine has written, without a copy.
        torch.from_dlpack() and torch.from_numpy() share its memory."""
        dataset = self.dataset if dataset is None else dataset
        path_of(dataset)
        if isinstance(nodes, (str, os.PathLike)):
            if not os.fspath(nodes):
                raise InputError("nodes: '' lists no node; allowed is None for all")
            options = {**options, "nodes": os.fspath(nodes)}
        elif nodes is not None:
            # Too many for a command line, perhaps.
            with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
                file = os.path.join(folder, "nodes.npy")
                np.save(file, node_numbers(nodes, "nodes", Dataset(dataset).num_nodes))
                try:
                    return self.predict(what, dataset, nodes=file, path=path, ranks=ranks,
                                        launcher=launcher, **options)
                except InputError as error:
                    raise _naming(error, {f"--nodes {file}": "nodes", file: "nodes"}) from None
        if path is not None:
            place = os.path.abspath(os.fspath(path))
            return self._write_predictions(what, dataset, place, ranks, launcher, options)
        if what == "probabilities":
            logits = self.predict("logits", dataset, ranks=ranks, launcher=launcher, **options)
            return _probabilities(logits, Dataset(dataset).task)
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            file = os.path.join(folder, "rows.npy")
            self._run_predict(what, dataset, file, ranks, launcher, options)
            rows = np.load(file, mmap_mode="c")  # stays mapped when the folder has gone
        return rows.view(np.ndarray)

    def _run_predict(self, what, dataset, file, ranks, launcher, options):
        words = ["predict", self._path, os.path.abspath(os.fspath(dataset)), f"--what={what}",
                 f"--out={file}", *_program.option_words("predict", options)]
        words, launcher = _launch(words, ranks, launcher)
        _program.run(words, launcher)

    def _write_probabilities(self, dataset, path, ranks, launcher, options):
        """As the program writes its arrays: the numbers of chosen nodes lie beside their rows."""
        ids = f"{os.path.splitext(path)[0]}.ids.npy"
        nodes = options.get("nodes")
        if nodes is not None and os.path.abspath(nodes) == ids:
            raise InputError(f"path: {path}: the ids of its rows would replace nodes {nodes}; allowed "
                             "is another name")
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            file = os.path.join(folder, "rows.npy")
            self._run_predict("logits", dataset, file, ranks, launcher, options)
            rows = _probabilities(np.load(file), Dataset(dataset).task)
            with open(path, "wb") as out:
                np.save(out, rows)
            if nodes is not None:
                shutil.copyfile(os.path.join(folder, "rows.ids.npy"), ids)
            elif os.path.exists(ids):  # those of rows that were in the file before
                os.remove(ids)

    def _write_predictions(self, what, dataset, path, ranks, launcher, options):
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in (".npy", ".csv", ".parquet"):
            raise InputError(f"path: {path}: allowed are names that end in .npy, .csv or .parquet")
        if what == "probabilities":
            if suffix == ".npy":
                self._write_probabilities(dataset, path, ranks, launcher, options)
                return
            what = "labels"  # whose table has them
        if suffix != ".parquet":
            self._run_predict(what, dataset, path, ranks, launcher, options)
            return
        to_parquet = _parquet_writer(path)
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            file = os.path.join(folder, "rows.csv")
            self._run_predict(what, dataset, file, ranks, launcher, options)
            ids = Dataset(dataset).node_ids
            to_parquet(file, ids is not None and np.asarray(ids).dtype.kind not in "iu")

    def evaluate(self, dataset=None, *, split=None, ranks=1, launcher="threads", **options):
        """All metrics of the model of the best epoch, as an Evaluation.

            evaluation = run.evaluate()
            evaluation["test"]["f1-macro"]
            evaluation.classes("test")       # precision, recall, f1, support of every class
            evaluation.confusion("test")     # int64 [classes, classes]

        dataset: None for the dataset that the model was trained on, or another one with the same
            features and the same kind of labels.
        split: "train", "valid" or "test": of this one alone, as a dictionary by name of the metric."""
        if split not in (None, *SPLITS):
            raise InputError(f"split is {split!r}; allowed are {', '.join(map(repr, SPLITS))}")
        dataset = self.dataset if dataset is None else dataset
        path_of(dataset)
        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            file = os.path.join(folder, "evaluation.json")
            words = ["evaluate", self._path, os.path.abspath(os.fspath(dataset)), f"--out={file}",
                     *_program.option_words("evaluate", options)]
            words, launcher = _launch(words, ranks, launcher)
            _program.run(words, launcher)
            with open(file, encoding="utf-8") as text:
                content = json.load(text)
        evaluation = Evaluation(content, Dataset(dataset).classes)
        return evaluation if split is None else evaluation[split]

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
        from atoll import pyg_model

        with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
            return pyg_model.load(self.export(os.path.join(folder, "model")))

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
            return f"Run({self._path!r}: interrupted after epoch {self.epochs})"

        def shown(name):
            value = summary.get(name)
            return "-" if value is None else f"{value:.4f}"
        return (f"Run({self._path!r}: {summary['model']} on {summary['dataset']}, "
                f"{summary['epochs']} epochs"
                f"{f' ({self.status})' if self.status in ('patience', 'target', 'max-time') else ''}, "
                f"best {summary['best_epoch']}, {summary['metric']} "
                f"valid {shown('valid')} test {shown('test')})")
