"""docs/from-pyg.md and docs/from-dgl.md: their examples in Python, where the library is installed,
and every line of Atoll in their tables."""

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

from work_folder import WorkFolder

import numpy as np

import atoll

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("ATOLL_SHARED_DATA", "../shared/data")).resolve()
FENCED = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
# Keywords in the last column that are those of the other library.
THEIRS = {"train_eps", "learn_eps", "mode"}
# Where pages say that files are, and what stands for them.
FILES = {"planetoid": "planetoid", "downloads/ogbn_arxiv": "ogbn_arxiv_llmrank40",
         "amazon_photo.npz": "gnn_benchmark/amazon_photo.npz",
         "tolokers.npz": "heterophilous/tolokers.npz"}


def has(*packages):
    return all(importlib.util.find_spec(package) is not None for package in packages)


def keywords(text):
    """The keywords of a call as a dictionary, or None."""
    try:
        call = ast.parse(f"dict({text})", mode="eval").body
        return {one.arg: ast.literal_eval(one.value) for one in call.keywords} \
            if call.keywords and not call.args else None
    except (SyntaxError, ValueError):
        return None


def with_keywords(line, options):
    """The line, a call, with these keywords in place of its own of the same names."""
    call = ast.parse(line, mode="eval").body
    call.keywords = [one for one in call.keywords if one.arg not in options]
    call.keywords += [ast.keyword(name, ast.Constant(value)) for name, value in options.items()]
    return ast.unparse(call)


def is_ours(remark):
    """Whether it is a line of Atoll; keywords aside."""
    try:
        ast.parse(remark)
    except SyntaxError:
        return remark.startswith("atoll ") and "data/" in remark
    return remark.startswith(("run.", "atoll.")) and "..." not in remark


def rows(page):
    """Spans of the other library, of Atoll and of the remark, for each row of tables with a column
    Atoll."""
    of_atoll = False
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) < 2:
            of_atoll = False
        elif cells[1] == "Atoll":
            of_atoll = True
        elif of_atoll and not cells[0].startswith("---"):
            yield [SPAN.findall(cell) for cell in cells[:3]]


def arrays():
    """The arrays that pages call edge_index, x, y, ..."""
    random = np.random.default_rng(1)
    nodes = 300
    y = random.integers(0, 4, nodes)
    ends = random.integers(0, nodes, (2, 6000))
    edge_index = ends[:, (y[ends[0]] == y[ends[1]]) | (random.random(6000) < 0.2)]
    part = random.random(nodes)
    return {"edge_index": edge_index, "y": y, "train_mask": part < 0.6,
            "x": (random.normal(size=(nodes, 16)) + y[:, None]).astype(np.float32),
            "val_mask": (part >= 0.6) & (part < 0.8), "test_mask": part >= 0.8}


class Object:
    def __init__(self, **values):
        self.__dict__.update(values)


class Graph:
    """As a DGLGraph."""

    def __init__(self, edge_index, ndata, edata):
        self._ends, self.ndata, self.edata = edge_index, ndata, edata

    def edges(self, order):
        return self._ends

    def num_nodes(self):
        return len(self.ndata["feat"])


class FromOthersTest(WorkFolder):
    def setUp(self):
        super().setUp()
        given = arrays()
        random = np.random.default_rng(2)
        edges = given["edge_index"].shape[1]
        kinds = {"edge_attr": random.random((edges, 2)), "edge_type": random.integers(0, 3, edges),
                 "node_type": random.integers(0, 2, len(given["y"]))}
        self.names = {**given, "atoll": atoll, "data": Object(**given, **kinds)}
        for place, source in FILES.items():
            if (DATA / source).exists():
                os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
                os.symlink(DATA / source, place)
        self.make_files()

    def make_files(self):
        """Files that pages import and that are made easily."""
        y = [0, 1, 2] * 10
        os.makedirs("graph")
        with open("graph/edges.csv", "w", encoding="utf-8") as file:
            file.write("source,target\n0,1\n1,2\n2,0\n")
        np.save("graph/x.npy", np.eye(30, dtype=np.float32))
        np.save("graph/y.npy", y)
        os.makedirs("downloads/flickr")
        os.chdir("downloads/flickr")
        np.savez("adj_full.npz", data=np.ones(30), indices=np.roll(np.arange(30), 1),
                 indptr=np.arange(31), shape=(30, 30), format=b"csr")
        np.save("feats.npy", np.eye(30))
        for name, content in (("class_map", {str(node): label for node, label in enumerate(y)}),
                              ("role", {"tr": list(range(20)), "va": list(range(20, 25)),
                                        "te": list(range(25, 30))})):
            with open(f"{name}.json", "w", encoding="utf-8") as file:
                json.dump(content, file)
        os.chdir("../..")

    def make_datasets(self):
        """Those of the page's own examples, without the library."""
        names = self.names
        ends = names["edge_index"]
        masks = {name: names[name] for name in ("train_mask", "val_mask", "test_mask")}
        kinds = {name: getattr(names["data"], name) for name in
                 ("edge_attr", "edge_type", "node_type")}
        names["dataset"] = atoll.Dataset.from_arrays(ends, names["x"], names["y"], **masks, **kinds,
                                                     path="data/mine")
        names["bare"] = atoll.Dataset.from_arrays(ends, y=names["y"], split="0.6,0.2,0.2")
        names["prices"] = atoll.Dataset.from_arrays(ends, names["x"], names["x"][:, 0],
                                                    split="0.6,0.2,0.2")
        names["graph"] = Graph(ends, {"feat": names["x"], "label": names["y"]},
                               {"w": np.ones(ends.shape[1]), "e": kinds["edge_attr"],
                                "kind": kinds["edge_type"]})
        names["hetero"] = names["data"]
        names["homogeneous"] = Graph(ends, {"feat": names["x"], "_TYPE": kinds["node_type"]},
                                     {"_TYPE": kinds["edge_type"]})
        names["dgl"] = Object(ETYPE="_TYPE", NTYPE="_TYPE")
        if has("networkx"):
            import networkx
            names["club"] = networkx.karate_club_graph()
        if has("scipy"):
            import scipy.sparse
            names["adjacency"] = scipy.sparse.coo_array(
                (np.ones(ends.shape[1]), ends), shape=(len(names["y"]),) * 2)
        names["run"] = atoll.train(names["dataset"], "gcn", layers=2, hidden=16, epochs=5,
                                   progress=None)

    def run_shell(self, line):
        words = shlex.split(line)
        if words[0] == "mpirun":
            if subprocess.run(["which", "mpirun"], capture_output=True, check=False).returncode:
                self.skipTest("there is no mpirun")
            words.insert(1, "--oversubscribe")
        words[words.index("atoll")] = atoll.program_path()
        made = subprocess.run(words, capture_output=True, text=True, check=False,
                              env=atoll._program.environment())
        self.assertEqual(made.returncode, 0, made.stderr)

    def skip_unless_possible(self, line):
        for place in (*FILES, "dataset/ogbl_collab"):
            if place in line and not os.path.exists(place):
                self.skipTest(f"{place} is not there")
        for word, packages in (("club", ["networkx"]), ("adjacency", ["scipy"]),
                               ("to_tensorboard", ["tensorboardX"]),
                               ("to_pyg", ["torch", "torch_geometric", "safetensors"])):
            if re.search(rf"\b{word}\b", line) and not has(*packages):
                self.skipTest(f"not installed: {' '.join(packages)}")

    def run_line(self, line, options):
        """A line of Atoll; `options`: for a training, if it consists of keywords."""
        self.skip_unless_possible(line)
        if options:
            usual = {"model": "gcn", "layers": 2, "hidden": 16, "epochs": 2, "progress": None}
            atoll.train(self.names["dataset"], **{**usual, **options})
        elif line.startswith(("atoll ", "mpirun ")):
            self.run_shell(line)
        else:
            with contextlib.redirect_stderr(None):
                exec(compile(line, line, "exec"), self.names)

    def run_tables(self, page):
        """Runs all lines of Atoll in the page's tables; returns how many there are."""
        count = 0
        for _, lines, remarks in rows(page):
            options = {}
            for line in lines:
                with self.subTest(line):
                    count += 1
                    options.update(keywords(line) or {})
                    self.run_line(line, options)
            for remark in remarks:
                more = keywords(remark) or {}
                if not THEIRS.isdisjoint(more) or not (more or is_ours(remark)):
                    continue
                with self.subTest(remark, row=lines[0]):
                    count += 1
                    if more and not options and lines[0].startswith("atoll.") and "model" not in more:
                        self.run_line(with_keywords(lines[0], more), {})
                    else:
                        self.run_line(remark, {**options, **more} if more else {})
        return count

    def test_lines_for_those_who_come_from_pyg(self):
        self.make_datasets()
        self.assertGreater(self.run_tables("from-pyg.md"), 70)

    def test_lines_for_those_who_come_from_dgl(self):
        self.make_datasets()
        self.assertGreater(self.run_tables("from-dgl.md"), 50)

    def run_examples(self, page, *packages):
        if not has(*packages):
            self.skipTest(f"not installed: {' '.join(packages)}")
        printed = []
        names = {"print": lambda *values: printed.append(values)}
        for number, code in enumerate(FENCED.findall(
                (ROOT / "docs" / page).read_text(encoding="utf-8"))):
            with open(os.devnull, "w", encoding="utf-8") as quiet, contextlib.redirect_stderr(quiet):
                exec(compile(code, f"{page}, example {number + 1}", "exec"), names)
        # The program of the other library, and the same in Atoll.
        (theirs,), (ours,) = printed
        self.assertAlmostEqual(float(theirs), ours, delta=0.08)
        return names

    def test_examples_for_those_who_come_from_pyg(self):
        names = self.run_examples("from-pyg.md", "torch", "torch_geometric", "safetensors",
                                  "networkx")
        self.names.update(names)
        self.assertGreater(self.run_tables("from-pyg.md"), 70)

    def test_examples_for_those_who_come_from_dgl(self):
        names = self.run_examples("from-dgl.md", "torch", "dgl", "networkx")
        self.names.update(names)
        self.assertGreater(self.run_tables("from-dgl.md"), 50)

    def check_names(self, page, modules, known):
        """Classes and functions of the other library are there under these names."""
        missing = []
        for spans, _, _ in rows(page):
            for span in spans:
                name = re.match(r"[\w.]+", span)[0]
                if name in known or span.startswith(("torchrun", "model(", "tools/")):
                    continue
                if not any(self.found(module, name) for module in modules):
                    missing.append(name)
        self.assertEqual(missing, [])

    def found(self, module, name):
        if name.startswith(module + ".") and has(name):
            return True
        value = importlib.import_module(module)
        for part in name.removeprefix(module + ".").split("."):
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True

    @unittest.skipUnless(has("torch", "torch_geometric"), "PyG is not installed")
    def test_names_in_pyg(self):
        of_pyg = [f"torch_geometric.{name}" for name in
                  ("data", "nn", "nn.aggr", "nn.models.basic_gnn", "loader", "transforms",
                   "datasets", "utils", "distributed", "profile")]
        of_torch = ["torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.nn.utils",
                    "torch.optim.lr_scheduler", "torch.optim.swa_utils", "torch.nn.parallel"]
        self.check_names("from-pyg.md", [*of_pyg, "torch_geometric", *of_torch],
                         {"PygNodePropPredDataset", "PygLinkPropPredDataset", "SummaryWriter", "tqdm",
                          "load_state_dict", "argmax", "sklearn.metrics.classification_report",
                          "sklearn.metrics.confusion_matrix"})

    @unittest.skipUnless(has("torch", "dgl"), "DGL is not installed")
    def test_names_in_dgl(self):
        of_dgl = ["dgl", "dgl.nn", "dgl.dataloading", "dgl.transforms", "dgl.distributed",
                  "dgl.distributed.optim", "dgl.data"]
        self.check_names("from-dgl.md", [*of_dgl, "torch", "torch.nn", "torch.nn.parallel"],
                         {"edata", "SummaryWriter", "load_state_dict", "sklearn.metrics"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
