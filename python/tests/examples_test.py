#!/usr/bin/env python3
"""Runs every example in Python of README.md, docs/*.md and the package's docstrings, on Cora. What
an example promises, as in `print(run.summary["test"])  # about 0.79 on Cora`, has to come true.
ATOLL_SHARED_DATA, or ../shared/data, has the folder planetoid with Cora's files; without it there
is nothing to run (exit code 77)."""

import ast
import contextlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import textwrap
import unittest

from work_folder import WorkFolder

import numpy as np

import atoll

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ATOLL_SHARED_DATA", "../shared/data")).resolve()
FENCED = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
INDENTED = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.M)
PROMISE = re.compile(r"# about (\d\.\d+) on Cora")
NEAR = 0.03  # tests of Cora have 1,000 nodes: two standard errors, and more for another seed


def has(*packages):
    return all(importlib.util.find_spec(package) is not None for package in packages)


def fenced(page):
    return FENCED.findall((ROOT / page).read_text(encoding="utf-8"))


def example_with(text):
    """The one block of docs/formats.md that has the text."""
    block, = (block for block in fenced("docs/formats.md") if text in block)
    return block


def indented(text):
    """Blocks that are indented by four columns and are Python."""
    blocks = [textwrap.dedent(block).strip() for block in INDENTED.findall(text + "\n")]
    return [block for block in blocks if is_python(block)]


def is_python(text):
    """Whether it is code that calls something; a lone name would be Python, too."""
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(text)))
    except SyntaxError:
        return False


def docstrings(path):
    """Those of a module, its classes and functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield inspect.cleandoc(ast.get_docstring(node) or "")


class Recorder:
    """Stands for print."""

    def __init__(self):
        self.calls = []

    def __call__(self, *values, **_):
        self.calls.append(values)


class ExamplesTest(WorkFolder):
    def setUp(self):
        super().setUp()
        self.cora = atoll.Dataset.import_("planetoid", DATA / "planetoid" / "ind.cora",
                                          row_normalize=True, path="data/cora")
        self.names = {name: np.array(getattr(self.cora, name)) for name in
                      ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask")}
        os.symlink("cora", "data/arxiv")  # what pages call their data

    def run_example(self, code, place):
        """Runs the code with self.names, and checks what it promises."""
        promises = [PROMISE.search(line) for line in code.splitlines()
                    if line.lstrip().startswith("print(")]
        recorder = self.names["print"] = Recorder()
        with open(os.devnull, "w", encoding="utf-8") as quiet, contextlib.redirect_stderr(quiet):
            exec(compile(code, place, "exec"), self.names)
        for promise, printed in zip(promises, recorder.calls):
            if promise:
                self.assertAlmostEqual(printed[0], float(promise[1]), delta=NEAR, msg=place)
        return len([promise for promise in promises if promise])

    def run_page(self, page, needs=None):
        """Runs its examples one after another; needs: packages of examples, by their number."""
        for number, code in enumerate(fenced(page)):
            place = f"{page}, example {number + 1}"
            packages = (needs or {}).get(number, ())
            with self.subTest(place):
                if not has(*packages):
                    self.skipTest(f"{place}: not installed: {' '.join(packages)}")
                self.run_example(code, place)

    def test_all_pages_are_run(self):
        pages = [page for page in ["README.md", *sorted(f"docs/{path.name}" for path
                                                        in (ROOT / "docs").glob("*.md"))]
                 if fenced(page)]
        self.assertEqual(pages, ["README.md", "docs/formats.md", "docs/from-dgl.md", "docs/from-pyg.md",
                                 "docs/growing.md", "docs/python.md", "docs/torch.md"])
        # docs/from-*.md: from_others_test.py

    def test_readme(self):
        self.run_page("README.md")
        self.assertGreater(self.names["run"].summary["test"], 0.79 - NEAR)
        self.assertEqual(self.names["rows"].shape, (2708, 64))

    def test_growing_page(self):
        os.symlink("cora", "data/mine")
        self.run_page("docs/growing.md")
        self.assertEqual(self.names["whole"].num_nodes, 2 * len(self.names["x"]))
        self.assertEqual(sorted(os.listdir("data")),
                         ["arxiv", "cora", "mine", "mine-cleaned", "mine-whole", "mine@2"])

    def test_python_page(self):
        self.run_page("docs/python.md", {1: ("networkx", "scipy"), 8: ("atoll._engine",),
                                         9: ("atoll._engine", "torch")})
        self.assertEqual(len(fenced("docs/python.md")), 13)
        if has("networkx", "scipy"):
            # The matrix is the same graph.
            np.testing.assert_array_equal(self.names["dataset"].edge_index, self.cora.edge_index)
        self.assertEqual(atoll.Run.load("runs/sage").epochs, 80)

    @unittest.skipUnless(has("torch", "torch_geometric"), "PyG is not installed")
    def test_torch_page(self):
        """On one rank; torch_test.py runs several."""
        self.run_page("docs/torch.md")
        self.assertEqual(self.names["rows"].shape, (2708, 7))
        self.assertEqual(self.names["with_halo"].shape, self.cora.x.shape)
        import torch
        from torch_geometric.nn import SAGEConv
        self.names.update(cross_entropy=torch.nn.functional.cross_entropy, SAGEConv=SAGEConv,
                          DistributedConv=atoll.torch.DistributedConv, x=self.names["data"].x)
        blocks = [(path.name, block) for path in (ROOT / "python" / "atoll" / "torch").glob("*.py")
                  for text in docstrings(path) for block in indented(text)]
        self.assertEqual(sorted(name for name, _ in blocks),
                         ["__init__.py", "_exchange.py", "_layers.py"])
        for name, block in blocks:
            self.run_example(block, f"docstring of torch/{name}")

    def test_docstrings(self):
        blocks = [(path.name, block) for path in sorted((ROOT / "python" / "atoll").glob("*.py"))
                  for text in docstrings(path) for block in indented(text)]
        self.assertEqual([name for name, _ in blocks], ["__init__.py", "run.py"])
        kept = sum(self.run_example(block, f"docstring of {name}") for name, block in blocks)
        self.assertEqual(kept, 1)

    def test_a_dataset_folder_by_hand(self):
        """docs/formats.md: the dataset that NumPy makes."""
        self.names.update({name: np.load(f"data/cora/{name}.npy")
                           for name in ("row_ptr", "col_idx", "split")},
                          y=self.cora.y, x=self.cora.x)
        self.run_example(example_with("mine/row_ptr.npy"), "docs/formats.md, a dataset")
        run = atoll.train("mine", "gcn", hidden=64, epochs=40, progress=None)
        self.assertGreater(run.summary["test"], 0.75)

    @unittest.skipUnless(has("scipy"), "scipy is not installed")
    def test_pickled_matrices_become_plain(self):
        """docs/formats.md: the archive that becomes plain arrays."""
        import scipy.sparse
        edges = self.cora.edge_index
        matrix = scipy.sparse.csr_matrix((np.ones(edges.shape[1]), edges), shape=(2708, 2708))
        pickled = np.empty((), object)
        pickled[()] = matrix
        features = scipy.sparse.csr_matrix(self.cora.x)
        np.savez("photo.npz", adj=pickled, attr_data=features.data, attr_indices=features.indices,
                 attr_indptr=features.indptr, attr_shape=features.shape, labels=self.cora.y)
        self.names["numpy"] = np
        self.run_example(example_with("photo.npz"), "docs/formats.md, an archive")
        made = atoll.Dataset.import_("gnn-benchmark", "plain.npz", split="per-class:20,500,1000")
        np.testing.assert_array_equal(made.edge_index, edges)

    @unittest.skipUnless(has("torch", "torch_geometric", "safetensors"), "PyG is not installed")
    def test_exported_models_load(self):
        """docs/formats.md: the module of an exported model."""
        atoll.train("data/arxiv", "gcn", hidden=16, epochs=3, progress=None).export("FOLDER")
        self.run_example(example_with("import model"), "docs/formats.md, an exported model")
        self.assertEqual(tuple(self.names["logits"].shape), (2708, 7))

    def test_cuts_made_elsewhere(self):
        """docs/partition.md: its indented examples."""
        text = (ROOT / "docs" / "partition.md").read_text(encoding="utf-8")
        blocks = [block for part in text.split("\n\n") for block in indented(part)]
        self.names["my_partitioner"] = lambda row_ptr, col_idx, parts: np.arange(2708) % parts
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            with self.subTest(block.splitlines()[0]):
                if "kaminpar" in block and not has("kaminpar"):
                    self.skipTest("kaminpar is not installed")
                self.run_example(block, "docs/partition.md")
        np.testing.assert_array_equal(self.names["parts"], np.arange(2708) % 4)
        run = atoll.train(self.cora, "gcn", ranks=4, method="file", parts_file="parts.npy",
                          hidden=16, epochs=3, progress=None)
        self.assertEqual(run.summary["ranks"], 4)


if __name__ == "__main__":
    if not (DATA / "planetoid").is_dir():
        print(f"SKIPPED: examples in Python ({DATA / 'planetoid'} is not there)")
        sys.exit(77)
    unittest.main(verbosity=2)
