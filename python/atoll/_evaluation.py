"""The findings of Run.evaluate()."""

import math

import numpy as np

from atoll._errors import InputError
from atoll._table import Table

SPLITS = ("train", "valid", "test")


class Evaluation:
    """The metrics of a model: evaluation["test"]["f1-macro"]. NaN stands for what is undefined.

    metric: the name of the metric that the run is judged by, as in "accuracy".
    undefined: why that metric is undefined, by split; {} if it is defined everywhere.
    """

    def __init__(self, content, class_names=None):
        self.metric = content["metric"]
        self.undefined = content.get("undefined", {})
        self._classes = content.get("classes", {})
        self._names = class_names
        self._values = {split: {} for split in SPLITS}
        for name, values in content.items():
            if isinstance(values, dict) and set(values) == set(SPLITS) and name != "classes" \
                    and name != "undefined":
                for split in SPLITS:
                    value = values[split]
                    self._values[split][name] = math.nan if value is None else value

    def __getitem__(self, split):
        """The metrics of "train", "valid" or "test", by name."""
        if split not in self._values:
            raise KeyError(f"{split!r}; the splits are {', '.join(map(repr, SPLITS))}")
        return self._values[split]

    @property
    def table(self):
        """A Table with one row per metric: metric, train, valid, test."""
        return Table.from_records([
            {"metric": name, **{split: self[split][name] for split in SPLITS}}
            for name in self["test"]])

    def _of_classes(self, split):
        if split not in SPLITS:
            raise InputError(f"split is {split!r}; allowed are {', '.join(map(repr, SPLITS))}")
        if split not in self._classes:
            raise InputError("classes: the task has none")
        return self._classes[split]

    def classes(self, split="test"):
        """A Table with one row per class: class, precision, recall, f1, support. Precision is 0
        where no node was taken for the class, and recall where none is of it."""
        found = self._of_classes(split)
        count = len(found["support"])
        names = self._names if self._names is not None and len(self._names) == count \
            else range(count)
        return Table.from_records([
            {"class": name, **{key: found[key][c]
                               for key in ("precision", "recall", "f1", "support")}}
            for c, name in enumerate(names)])

    def confusion(self, split="test"):
        """Nodes by their class (rows) and by what they were taken for (columns)."""
        found = self._of_classes(split)
        if "confusion" not in found:
            raise InputError("confusion: it is known for one label per node and up to 100 classes")
        return np.array(found["confusion"], np.int64)

    def __repr__(self):
        values = "  ".join(f"{name} {value:.4f}" for name, value in self["test"].items())
        return f"Evaluation(test: {values})"

    def _repr_html_(self):
        return self.table._repr_html_()
