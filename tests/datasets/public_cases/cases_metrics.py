"""Metrics of trained models on 1 and 3 ranks against plain loops over nodes and pairs of nodes, and
against scikit-learn where it is installed; what decides the best epoch; losses of rare classes."""

import json
import math
import unittest

import numpy as np

import atoll
from support import Case

try:
    import sklearn.metrics
except ImportError:
    sklearn = None

NODES = 240
SPLITS = ("train", "valid", "test")


def arrays(y, seed=0):
    """A cycle of half of the nodes; the others have no edge and one of nine rows of features, so
    that many of them have the same scores."""
    random = np.random.default_rng(seed)
    half = NODES // 2
    first = np.arange(half)
    x = random.normal(size=(NODES, 6)).astype(np.float32)
    x[half:] = x[:9][random.integers(0, 9, NODES - half)]
    sets = random.integers(0, 4, NODES)  # the last one: in none
    return {"edge_index": np.stack([first, (first + 1) % half]), "x": x, "y": y,
            "train_mask": sets == 0, "val_mask": sets == 1, "test_mask": sets == 2}


def softmax(z):
    raised = np.exp(z - z.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def sigmoid_losses(z, y):
    return np.logaddexp(0, np.where(y == 1, -z, z))


def area(scores, positive):
    """All pairs; None without both classes."""
    up, down = scores[positive], scores[~positive]
    if not len(up) or not len(down):
        return None
    return float(np.mean((up[:, None] > down) + 0.5 * (up[:, None] == down)))


def precision_sum(scores, positive):
    """For each positive the precision among what scores at least as high; None without any."""
    if not positive.any():
        return None
    above = scores[None, :] >= scores[positive][:, None]
    return float(np.mean((above & positive).sum(1) / above.sum(1)))


def mean_of(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def f1(label, guess):
    both = label.sum() + guess.sum()
    return 2 * (label & guess).sum() / both if both else 0.0


def of_classes(y, guess, probabilities, loss):
    """Metrics of one label per node; probabilities: [nodes, classes]."""
    classes = range(probabilities.shape[1])
    occurring = [c for c in classes if (y == c).any() or (guess == c).any()]
    labelled = [c for c in classes if (y == c).any()]
    each = {c: f1(y == c, guess == c) for c in occurring}
    n, right = len(y), (y == guess).sum()
    t = np.array([(y == c).sum() for c in classes], float)
    p = np.array([(guess == c).sum() for c in classes], float)
    spread = (n * n - t @ t) * (n * n - p @ p)
    return {"accuracy": right / n, "f1-micro": right / n,
            "f1-macro": np.mean(list(each.values())),
            "f1-weighted": sum((y == c).sum() * each[c] for c in occurring) / n,
            "balanced-accuracy": np.mean([(guess[y == c] == c).mean() for c in labelled]),
            "mcc": (right * n - t @ p) / math.sqrt(spread) if spread else 0.0, "log-loss": loss}


def expected_single(y, z):
    probabilities = softmax(z)
    loss = -np.log(probabilities[np.arange(len(y)), y]).mean()
    result = of_classes(y, z.argmax(1), probabilities, loss)
    columns = range(z.shape[1])
    result["roc-auc"] = mean_of(area(probabilities[:, c], y == c) for c in columns)
    result["average-precision"] = mean_of(precision_sum(probabilities[:, c], y == c)
                                          for c in columns)
    return result


def expected_binary(y, z):
    z = z[:, 0]
    result = of_classes(y, (z > 0).astype(int), np.zeros((len(y), 2)), sigmoid_losses(z, y).mean())
    return {**result, "roc-auc": area(z, y == 1), "average-precision": precision_sum(z, y == 1)}


def expected_several(y, z):
    """y: 255 = unknown."""
    known, label, guess = y != 255, y == 1, z > 0
    columns = range(y.shape[1])
    of = [(label[known[:, c], c], guess[known[:, c], c], z[known[:, c], c]) for c in columns]
    each = [f1(l, g) for l, g, _ in of]
    support = [l.sum() for l, _, _ in of]
    some = known.any(1)
    return {"accuracy": ((label == guess) | ~known).all(1)[some].mean(),
            "f1-micro": f1(label[known], guess[known]), "f1-macro": np.mean(each),
            "f1-weighted": np.average(each, weights=support),
            "roc-auc": mean_of(area(s, l) for l, _, s in of),
            "average-precision": mean_of(precision_sum(s, l) for l, _, s in of),
            "log-loss": sigmoid_losses(z, y)[known].mean()}


def expected_numbers(y, z):
    known = ~np.isnan(y)
    r2 = []
    for c in range(y.shape[1]):
        wanted, found = y[known[:, c], c].astype(float), z[known[:, c], c]
        spread = ((wanted - wanted.mean()) ** 2).sum()
        r2.append(1 - ((found - wanted) ** 2).sum() / spread if spread else None)
    errors = (z - y)[known]
    return {"r2": mean_of(r2), "mae": np.abs(errors).mean(), "rmse": np.sqrt((errors ** 2).mean())}


def by_sklearn(task, y, z):
    """Where its definitions apply: all labels known, and of macro averages over classes each that
    has positives and negatives, in turn."""
    m = sklearn.metrics
    if task == "regression":
        return {"r2": m.r2_score(y, z), "mae": m.mean_absolute_error(y, z),
                "rmse": math.sqrt(m.mean_squared_error(y, z))}
    if task == "multi-label":
        guess = (z > 0).astype(int)
        result = {"log-loss": m.log_loss(y.ravel(), 1 / (1 + np.exp(-z.ravel())))}
        ranked = [(y[:, c], z[:, c]) for c in range(y.shape[1])]
    elif task == "binary":
        guess = (z[:, 0] > 0).astype(int)
        result = {"log-loss": m.log_loss(y, 1 / (1 + np.exp(-z[:, 0])), labels=[0, 1])}
        ranked = [(y, z[:, 0])]
    else:
        guess, probabilities = z.argmax(1), softmax(z)
        result = {"log-loss": m.log_loss(y, probabilities, labels=range(z.shape[1]))}
        ranked = [((y == c).astype(int), probabilities[:, c]) for c in range(z.shape[1])]
    for kind in ("macro", "micro", "weighted"):
        result[f"f1-{kind}"] = m.f1_score(y, guess, average=kind, zero_division=0)
    result["accuracy"] = m.accuracy_score(y, guess)
    if task != "multi-label":
        present = [c for c in np.unique(y)]
        result["balanced-accuracy"] = m.recall_score(y, guess, labels=present, average="macro")
        result["mcc"] = m.matthews_corrcoef(y, guess)
    result["roc-auc"] = mean_of(m.roc_auc_score(l, s) if 0 < l.sum() < len(l) else None
                                for l, s in ranked)
    result["average-precision"] = mean_of(m.average_precision_score(l, s) if l.sum() else None
                                          for l, s in ranked)
    return result


def labels(task, seed):
    random = np.random.default_rng(seed)
    if task == "single-label":
        y = random.choice(7, NODES, p=[.4, .2, .2, .1, .05, .05, 0])
        y[5] = 6  # a class of one node
        y[::23] = -1
        return y
    if task == "binary":
        y = (random.random(NODES) < .2).astype(np.int64)
        y[::23] = -1
        return y
    if task == "multi-label":
        y = (random.random((NODES, 5)) < [.1, .3, .5, .9, .2]).astype(np.uint8)
        y[random.random(y.shape) < .1] = 255
        return y
    y = (random.normal(size=(NODES, 2)) * [1, 30]).astype(np.float32)
    y[random.random(y.shape) < .1] = np.nan
    return y


EXPECTED = {"single-label": expected_single, "binary": expected_binary,
            "multi-label": expected_several, "regression": expected_numbers}
QUICK = ["--model", "mlp", "--layers", "2", "--hidden", "8", "--dropout", "0", "--threads", "1"]
RANKS = (["--transport", "local", "--ranks", "1"], ["--transport", "local", "--ranks", "3"])


class Metrics(Case):
    def data(self, task, y, folder="data", **replaced):
        made = {**arrays(y), **replaced}
        if task == "multi-label":  # 255 is "unknown" in a dataset, NaN in arrays
            made["y"] = np.where(y == 255, np.nan, y)
        np.savez(f"{folder}.npz", **made)
        self.succeed("import", "npy", f"{folder}.npz", "--task", task, "--out", folder)
        return made

    def train(self, *words, run="run", data="data"):
        self.succeed("train", data, *QUICK, "--run-dir", run, *words)
        with open(f"{run}/metrics.jsonl", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        with open(f"{run}/summary.json", encoding="utf-8") as text:
            return records, json.load(text)

    def logits(self, *words):
        self.succeed("predict", "run", "data", "--what", "logits", "--out", "z.npy", *words)
        return np.load("z.npy").astype(float)

    def evaluation(self, *words):
        self.succeed("evaluate", "run", "data", "--out", "found.json", *words)
        with open("found.json", encoding="utf-8") as text:
            return json.load(text)


class AgainstOracles(Metrics):
    def check(self, task, seed, known=False):
        """known: every label is."""
        y = labels(task, seed)
        if known and y.ndim == 2:
            y = np.where(y == 255, 0, y) if task == "multi-label" else np.nan_to_num(y)
        made = self.data(task, y)
        self.train("--epochs", "3", "--lr", "0.1")
        for words in RANKS:
            z, found = self.logits(*words), self.evaluation(*words)
            for split, mask in zip(SPLITS, ("train_mask", "val_mask", "test_mask")):
                rows = made[mask] & (y >= 0 if y.ndim == 1 else True)
                expected = EXPECTED[task](y[rows], z[rows])
                self.compare(found, expected, split, f"{words} {split}")
                if sklearn is not None and (known or y.ndim == 1):
                    self.compare(found, by_sklearn(task, y[rows], z[rows]), split, "scikit-learn")
                if y.ndim == 1:
                    self.check_classes(found["classes"][split], y[rows], z[rows])

    def compare(self, found, expected, split, note):
        names = {name for name, values in found.items()
                 if isinstance(values, dict) and name not in ("classes", "undefined")}
        self.assertEqual(names, set(expected), note)
        for name, value in expected.items():
            there = found[name][split]
            if value is None:
                self.assertIsNone(there, name)
            else:
                self.assertAlmostEqual(there, value, delta=1e-12 * max(1, abs(value)),
                                       msg=f"{name}, {note}")

    def check_classes(self, found, y, z):
        guess = z.argmax(1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(int)
        count = max(z.shape[1], 2)
        confusion = np.zeros((count, count), int)
        np.add.at(confusion, (y, guess), 1)
        self.assertEqual(found["confusion"], confusion.tolist())
        right = np.diag(confusion)
        self.assertEqual(found["support"], confusion.sum(1).tolist())
        np.testing.assert_allclose(found["recall"], right / np.maximum(confusion.sum(1), 1), 1e-12)
        np.testing.assert_allclose(found["precision"], right / np.maximum(confusion.sum(0), 1),
                                   1e-12)
        if sklearn is not None:
            wanted = sklearn.metrics.precision_recall_fscore_support(
                y, guess, labels=range(count), zero_division=0)
            for name, values in zip(("precision", "recall", "f1", "support"), wanted):
                np.testing.assert_allclose(found[name], values, 1e-12)

    def test_single_label(self):
        self.check("single-label", 1)

    def test_binary(self):
        self.check("binary", 2)

    def test_multi_label(self):
        self.check("multi-label", 3)

    def test_multi_label_all_known(self):
        self.check("multi-label", 4, known=True)

    def test_regression(self):
        self.check("regression", 5)

    def test_regression_all_known(self):
        self.check("regression", 6, known=True)

    @unittest.skipUnless(sklearn, "scikit-learn is not installed: only the plain loops compare")
    def test_scikit_learn_was_there(self):
        self.assertTrue(sklearn.__version__)


class Choice(Metrics):
    """The metric that decides the best epoch."""

    def test_direction(self):
        self.data("single-label", labels("single-label", 1))
        for metric, best in (("f1-macro", max), ("log-loss", min), ("roc-auc", max)):
            records, summary = self.train("--epochs", "12", "--lr", "0.1", "--metric", metric,
                                          run=f"by-{metric}")
            wanted = best(record["valid"] for record in records)
            first = next(record for record in records if record["valid"] == wanted)
            self.assertEqual(summary["best_epoch"], first["epoch"])
            self.assertEqual(summary["chosen_by"].split()[0], "valid")
            self.assertEqual(summary[metric]["valid"], wanted)
            self.assertEqual((summary["valid"], summary["test"]), (wanted, first["test"]))
            self.assertEqual(summary["valid_loss"], first["valid_loss"])
            self.assertEqual(set(summary["classes"]), set(SPLITS))

    def test_lowest_error_and_patience(self):
        self.data("regression", labels("regression", 5))
        records, summary = self.train("--epochs", "60", "--lr", "0.3", "--metric", "mae",
                                      "--patience", "4")
        lowest = min(range(len(records)), key=lambda k: records[k]["valid"])
        self.assertEqual(summary["best_epoch"], records[lowest]["epoch"])
        if len(records) < 60:
            self.assertEqual(len(records), lowest + 1 + 4)
        self.assertEqual(summary["metric"], "MAE")
        self.assertEqual(summary["valid"], summary["mae"]["valid"])

    def test_resumed(self):
        self.data("single-label", labels("single-label", 1))
        options = ["--lr", "0.1", "--metric", "log-loss", "--checkpoint-every", "1"]
        whole, wanted = self.train("--epochs", "9", *options, run="whole")
        self.train("--epochs", "4", *options)
        records, found = self.train("--epochs", "9", *options, "--resume")
        self.assertEqual([r["valid"] for r in records], [r["valid"] for r in whole])
        for key in ("best_epoch", "valid", "f1-macro", "valid_loss", "classes"):
            self.assertEqual(found[key], wanted[key], key)
        result = self.atoll("train", "data", *QUICK, "--run-dir", "run", "--resume",
                            "--epochs", "12", "--lr", "0.1", "--checkpoint-every", "1",
                            "--metric", "mcc")
        self.assertEqual(result.returncode, 2, self.output)
        self.assertIn("metric", result.stderr)

    def test_one_class_in_validation(self):
        y = labels("binary", 2)
        made = arrays(y)
        masks = {"val_mask": made["val_mask"] & (y == 1), "train_mask": made["train_mask"]}
        self.data("binary", y, **masks)
        records, summary = self.train("--epochs", "8", "--lr", "0.1")
        for text in ("ROC-AUC is undefined for the validation set", "of class 1",
                     "lowest valid loss"):
            self.assertIn(text, self.warned)
        self.assertIn("ROC-AUC of valid is undefined: all its labelled nodes are of class 1",
                      self.output)
        self.assertEqual(summary["chosen_by"], "valid loss")
        self.assertIn("class 1", summary["undefined"]["valid"])
        self.assertIsNone(summary["valid"])
        lowest = min(records, key=lambda record: record["valid_loss"])
        self.assertEqual(summary["best_epoch"], lowest["epoch"])

    def test_no_validation_nodes(self):
        y = labels("single-label", 1)
        self.data("single-label", y, val_mask=np.zeros(NODES, bool))
        _, summary = self.train("--epochs", "2")
        self.assertIn("it has no labelled node; the best epoch is the one with the highest train "
                      "accuracy", self.warned)
        self.assertEqual(summary["chosen_by"], "train accuracy")

    def test_python(self):
        y = labels("single-label", 1)
        dataset = atoll.Dataset.from_arrays(**arrays(y))
        run = atoll.train(dataset, "mlp", layers=2, hidden=8, epochs=5, lr=0.1, threads=1,
                          metric="log-loss", run_dir="run", progress=None)
        self.assertEqual(run.summary["metric"], "log-loss")
        lowest = np.argmin(run.metrics["valid"])
        self.assertEqual(run.summary["best_epoch"], int(run.metrics["epoch"][lowest]))
        self.assertEqual(len(run.metrics["valid_loss"]), 5)
        evaluation = run.evaluate(ranks=3)
        self.assertAlmostEqual(evaluation["test"]["f1-macro"], run.summary["f1-macro"]["test"], 6)
        self.assertEqual(evaluation.metric, "log-loss")
        classes = evaluation.classes("test")
        self.assertEqual(classes.columns, ["class", "precision", "recall", "f1", "support"])
        confusion = evaluation.confusion("test")
        self.assertEqual(confusion.shape, (7, 7))
        self.assertEqual(confusion.sum(1).tolist(), list(classes["support"]))
        self.assertEqual(set(evaluation.table["metric"]), set(evaluation["valid"]))


class RareClasses(Metrics):
    """Losses of the first epoch against their formulas, on 1 and 3 ranks."""

    def check(self, task, y, weights, gamma, *words):
        """weights(training labels) -> a weight for each of them (of several, [nodes, columns])."""
        made = self.data(task, y, folder="data")
        for ranks in RANKS:
            # A rate so small that no weight changes.
            records, _ = self.train("--epochs", "1", "--lr", "1e-30", *words, *ranks,
                                    *(["--overwrite"] if ranks is RANKS[1] else []))
            z = self.logits(*ranks)
            for mask, found in (("train_mask", "loss"), ("val_mask", "valid_loss")):
                rows = made[mask] & ((y != -1) if y.ndim == 1 else True)
                trained = made["train_mask"] & ((y != -1) if y.ndim == 1 else True)
                losses, known = self.losses(task, y[rows], z[rows], gamma)
                w = weights(y[trained], y[rows])
                expected = (w * losses)[known].sum() / w[known].sum()
                self.assertAlmostEqual(records[0][found], expected, delta=2e-6 * expected)

    def losses(self, task, y, z, gamma):
        if task == "single-label":
            minus_log = -np.log(softmax(z)[np.arange(len(y)), y])
        else:
            minus_log = sigmoid_losses(z[:, 0] if y.ndim == 1 else z, y)
        known = np.ones(len(y), bool) if y.ndim == 1 else y != 255
        return (1 - np.exp(-minus_log)) ** gamma * minus_log, known

    def balanced(self, trained, y):
        counts = np.bincount(trained, minlength=7)
        with np.errstate(divide="ignore"):
            per_class = np.where(counts > 0, len(trained) / ((trained.max() + 1) * counts), 0)
        return per_class[y]

    def test_binary_balanced(self):
        self.check("binary", labels("binary", 2), self.balanced, 0, "--class-weights", "balanced")

    def test_positive_weight(self):
        np.save("w.npy", np.array([7.5]))
        self.check("binary", labels("binary", 2), lambda _, y: np.where(y == 1, 7.5, 1), 0,
                   "--class-weights", "w.npy")

    def test_several_balanced(self):
        def weights(trained, y):
            result = np.zeros(y.shape)
            for c in range(y.shape[1]):
                column = trained[:, c][trained[:, c] != 255]
                for value in (0, 1):
                    result[:, c][y[:, c] == value] = len(column) / (2 * (column == value).sum())
            return result
        self.check("multi-label", labels("multi-label", 3), weights, 0,
                   "--class-weights", "balanced")

    def test_several_weights(self):
        np.save("w.npy", np.arange(1, 6, dtype=np.float32))
        self.check("multi-label", labels("multi-label", 3),
                   lambda _, y: np.where(y == 1, np.arange(1, 6), 1.0), 1.5,
                   "--class-weights", "w.npy", "--loss", "focal", "--focal-gamma", "1.5")

    def test_focal(self):
        ones = lambda _, y: np.ones(y.shape)
        self.check("binary", labels("binary", 2), ones, 2, "--loss", "focal")

    def test_focal_of_classes(self):
        y = labels("single-label", 1)
        self.check("single-label", y, lambda _, rows: np.ones(rows.shape), 3, "--loss", "focal",
                   "--focal-gamma", "3")

    def test_refused(self):
        self.data("binary", labels("binary", 2))
        np.save("w.npy", np.ones(3))
        self.refuse("train", "data", *QUICK, "--run-dir", "run", "--class-weights", "w.npy",
                    says=["w.npy", "3", "2"])
        self.refuse("train", "data", *QUICK, "--run-dir", "run", "--metric", "r2",
                    says=["--metric r2: the task is binary", "roc-auc", "average-precision", "mcc"])


if __name__ == "__main__":
    unittest.main()
