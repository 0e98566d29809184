"""atoll.partition: Atoll's own cuts, and those of other packages, by modules of the same interface
(python/tests/fakes) and by the packages themselves where they are installed."""

import importlib.util
import json
import os
import pathlib
import sys
import unittest
from unittest import mock

from work_folder import WorkFolder

import numpy as np

import atoll
from atoll import _other_cuts, _structure

FAKES = str(pathlib.Path(__file__).resolve().parent / "fakes")
NODES, CLASSES = 240, 3
QUICK = {"layers": 2, "hidden": 8, "epochs": 2, "progress": None}
OTHERS = {"kaminpar": "kaminpar", "mt-kahypar": "mtkahypar", "scotch": "scotchpy"}


def graph(directed=False, name="graph"):
    """Communities of 40 nodes with a few edges between them."""
    random = np.random.default_rng(3)
    source = random.integers(0, NODES, 8 * NODES)
    inside = source // 40 * 40 + random.integers(0, 40, source.size)
    target = np.where(random.random(source.size) < 0.9, inside,
                      random.integers(0, NODES, source.size))
    y = np.arange(NODES) % CLASSES
    x = random.normal(size=(NODES, 4)).astype(np.float32)
    return atoll.Dataset.from_arrays(np.stack([source, target]), x, y, split="0.6,0.2,0.2", path=name,
                                     directed=directed)


def rows_read(dataset, part_of):
    """Halo rows that each part receives forward and backward, counted pair by pair."""
    source, target = dataset.edge_index
    received = np.zeros((2, part_of.max() + 1), np.int64)
    for direction, (row, reader) in enumerate(((source, target), (target, source))):
        crossing = part_of[row] != part_of[reader]
        pairs = np.unique(np.stack([part_of[reader][crossing], row[crossing]]), axis=1)
        np.add.at(received[direction], pairs[0], 1)
    return received


class OwnCutsTest(WorkFolder):
    def test_figures_are_those_of_the_cut(self):
        for directed in (False, True):
            with self.subTest(directed=directed):
                dataset = graph(directed, f"graph-{directed}")
                made = atoll.partition(dataset, 3, threads=1)
                forward, backward = rows_read(dataset, made.part_of)
                np.testing.assert_array_equal(made.halo_rows, forward)
                np.testing.assert_array_equal(made.table["halo_backward"], backward)
                source, target = dataset.edge_index
                self.assertEqual(made.edges_cut,
                                 (made.part_of[source] != made.part_of[target]).sum())
                self.assertEqual(made.parts, 3)
                self.assertEqual(made.table["nodes"].sum(), NODES)
                self.assertGreater(made.peak_bytes, 1e6)
                self.assertGreater(made.seconds, 0)
                self.assertIn("3 parts by auto", repr(made))
                self.assertEqual(made.made_by, {"method": "auto", "seed": 1, "refine": True})

    def test_options_find_the_same_cut_again(self):
        dataset = graph()
        made = atoll.partition(dataset, 3, "random", seed=7, weights=[2, 1, 1])
        again = atoll.partition("graph", 3, "random", seed=7, weights=[2, 1, 1])
        self.assertEqual(made.path, again.path)
        self.assertIsNone(again.peak_bytes)
        self.assertNotEqual(atoll.partition(dataset, 3, "random", seed=8, weights=[2, 1, 1]).path,
                            made.path)
        self.assertGreater(made.table["nodes"][0], 100)

    def test_weights_are_those_that_the_engine_balances(self):
        for directed in (False, True):
            dataset = graph(directed, f"graph-{directed}")
            made = atoll.partition(dataset, 3, "random")
            for balance in _structure.BALANCES:
                with self.subTest(directed=directed, balance=balance):
                    weights = _structure.node_weights(dataset._read("row_ptr"),
                                                      dataset._read("col_idx"), directed, balance)
                    loads = np.bincount(made.part_of, weights)
                    if balance == "edges" and directed:
                        continue  # the engine reports in-degrees there
                    self.assertAlmostEqual(3 * loads.max() / loads.sum(), made.balance[balance], 12)

    def test_training_takes_the_parts(self):
        dataset = atoll.Dataset.from_arrays(graph().edge_index, np.eye(NODES, dtype=np.float32),
                                            np.arange(NODES) % CLASSES, split="0.6,0.2,0.2")
        made = atoll.partition(dataset, 2, "metis", balance="nodes", seed=4)
        before = made.path
        run = atoll.train(dataset, "gcn", partition=made, **QUICK)
        self.assertEqual(run.summary["ranks"], 2)
        self.assertFalse(os.path.exists(before))  # a temporary dataset moves beside its run
        self.assertTrue(os.path.exists(made.path))
        self.assertEqual(len(os.listdir(os.path.dirname(made.path))), 1)
        runs = atoll.train(dataset, "gcn", partition=made, seeds=[1, 2], **QUICK)
        self.assertEqual([one.summary["ranks"] for one in runs], [2, 2])
        for options, message in (({"ranks": 3}, "ranks: 3 found with a partition into 2 parts"),
                                 ({"balance": "cost"}, "balance: the partition says it, too")):
            with self.assertRaisesRegex(atoll.InputError, message):
                atoll.train(dataset, "gcn", partition=made, **options, **QUICK)
        with self.assertRaisesRegex(atoll.InputError, "partition: it is one of"):
            atoll.train("graph", "gcn", partition=made, **QUICK)

    def test_a_cut_moves_to_an_equal_dataset(self):
        """A script that runs twice: its dataset is there already, but not the second cut."""
        edge_index = graph().edge_index
        for method in ("random", "contiguous"):
            dataset = atoll.Dataset.from_arrays(edge_index, np.eye(NODES, dtype=np.float32),
                                                np.arange(NODES) % CLASSES, split="0.6,0.2,0.2")
            made = atoll.partition(dataset, 2, method)
            part_of = made.part_of
            atoll.train(dataset, "gcn", partition=made, **QUICK)
            np.testing.assert_array_equal(made.part_of, part_of)
        self.assertEqual(len(os.listdir(os.path.dirname(made.path))), 2)

    def test_grows(self):
        new = graph(name="grown")
        source, target = new.edge_index
        inside = (source < NODES - 40) & (target < NODES - 40)
        old = atoll.Dataset.from_arrays(np.stack([source, target])[:, inside],
                                        new.x[:NODES - 40], new.y[:NODES - 40], directed=False,
                                        split="0.6,0.2,0.2", path="old")
        before = atoll.partition(old, 2)
        self.assertEqual(before.growth, [])
        grown = atoll.partition(new, 2, from_=before, drift=50)
        step, = grown.growth
        self.assertEqual((step["cut"], step["nodes"], step["drift"]), ("extended", NODES - 40, 50))
        self.assertEqual(step["partition"], os.path.basename(before.path))
        self.assertEqual((grown.part_of[:NODES - 40] != before.part_of).sum(), step["moved"])
        self.assertEqual(atoll.train(new, "gcn", partition=grown, **QUICK)
                         .summary["ranks"], 2)
        for arguments, word in (({"drift": 2}, "drift: 2 found without from_"),
                                ({"from_": before, "balance": "nodes"}, "balance"),
                                ({"from_": before, "drift": 0.5}, "drift")):
            with self.assertRaisesRegex(atoll.InputError, word):
                atoll.partition(new, 2, seed=9, **arguments)
        with self.assertRaisesRegex(atoll.InputError, "from_: .* allowed with Atoll's own methods"):
            atoll.partition(new, 2, "kaminpar", from_=old)

    def test_bad_input(self):
        dataset = graph()
        for arguments, message in (
                ((3, "kamipar"), r"method: kamipar not in \{auto,.*,kaminpar,mt-kahypar,scotch\}"),
                ((0,), "parts"), ((NODES + 1,), f"the graph has {NODES} nodes")):
            with self.assertRaisesRegex(atoll.InputError, message):
                atoll.partition(dataset, *arguments)
        for options, message in (({"preset": "strong"}, "preset: 'strong' found with method 'auto'"),
                                 ({"threads": 0}, "threads: 0 found"),
                                 ({"ballance": "cost"}, "ballance")):
            with self.assertRaisesRegex(atoll.InputError, message):
                atoll.partition(dataset, 2, **options)


class FakesTest(WorkFolder):
    """Requests to other packages, and what becomes of their answers."""

    def setUp(self):
        super().setUp()
        self.variables = {"FAKE_SEEN": os.path.abspath("seen.json"), "FAKE_ANSWER": "ranges"}
        for patch in (mock.patch.object(sys, "path", [FAKES, *map(os.path.abspath, sys.path)]),
                      mock.patch.dict(os.environ, self.variables)):
            patch.start()
            self.addCleanup(patch.stop)
        importlib.invalidate_caches()

    def seen(self):
        """The arguments of the last fake, which are forgotten then."""
        with open("seen.json", encoding="utf-8") as file:
            content = json.load(file)
        os.remove("seen.json")
        return content

    def neighbours(self, dataset):
        """The neighbours of each node, by sets."""
        found = [set() for _ in range(dataset.num_nodes)]
        for source, target in dataset.edge_index.T.tolist():
            if source != target:
                found[source].add(target)
                found[target].add(source)
        return [sorted(one) for one in found]

    def test_graphs_weights_and_options_arrive(self):
        for directed in (False, True):
            dataset = graph(directed, f"graph-{directed}")
            degree = np.bincount(dataset.edge_index.ravel(), minlength=NODES)
            cost = (48 + (degree + 1) // 2).tolist()
            for method, preset in (("kaminpar", "strong"), ("mt-kahypar", "quality"),
                                   ("scotch", "speed")):
                with self.subTest(method, directed=directed):
                    made = atoll.partition(dataset, 4, method, seed=9, threads=2, preset=preset,
                                           imbalance=0.25, objective="cut")
                    seen = self.seen()
                    self.assertEqual(seen["neighbours"], self.neighbours(dataset))
                    self.assertEqual(seen["weights"], cost)
                    self.assertEqual((seen["parts"], seen["imbalance"]), (4, 0.25))
                    self.assertEqual((seen["seed"], seen["threads"]), (9, 2))
                    self.assertEqual(seen["preset"], preset if method != "scotch" else 2)
                    np.testing.assert_array_equal(made.part_of, np.arange(NODES) * 4 // NODES)
                    self.assertEqual(made.options["method"], "file")

    def test_nets_count_halo_rows(self):
        """The connectivity of the hypergraph, less one, is what the engine counts."""
        for directed in (False, True):
            with self.subTest(directed=directed):
                dataset = graph(directed, f"graph-{directed}")
                made = atoll.partition(dataset, 4, "mt-kahypar", imbalance=0.25)
                seen = self.seen()
                self.assertEqual(seen["objective"], "KM1")
                part_of = made.part_of
                cost = sum(len(set(part_of[net].tolist())) - 1 for net in seen["nets"])
                total = made.quality["total"]
                self.assertEqual(cost, total["halo_forward"] +
                                 (total["halo_backward"] if directed else 0))

    def test_the_record_and_the_second_call(self):
        dataset = graph()
        made = atoll.partition(dataset, 3, "kaminpar", seed=2, threads=1, imbalance=0.25)
        self.seen()
        record = made.made_by
        self.assertEqual({name: record[name] for name in ("method", "preset", "seed", "threads",
                                                          "objective", "package")},
                         {"method": "kaminpar", "preset": "default", "seed": 2, "threads": 1,
                          "objective": "cut", "package": "kaminpar"})
        with open(os.path.join(made.path, "partition.json"), encoding="utf-8") as file:
            checksum = json.load(file)["options"]["parts_checksum"]
        self.assertEqual(record["parts_checksum"], checksum)
        self.assertGreater(made.peak_bytes, 1e6)
        again = atoll.partition(dataset, 3, "kaminpar", seed=2, threads=1, imbalance=0.25)
        self.assertFalse(os.path.exists("seen.json"))  # the package was not asked
        self.assertEqual((again.path, again.made_by), (made.path, record))
        other = atoll.partition(dataset, 3, "kaminpar", seed=3, threads=1, imbalance=0.25)
        self.assertTrue(os.path.exists("seen.json"))
        self.assertNotEqual(other.options["parts_file"], made.options["parts_file"])

    def test_training_takes_the_parts(self):
        dataset = graph()
        made = atoll.partition(dataset, 3, "scotch", imbalance=0.25)
        run = atoll.train(dataset, "gcn", partition=made, run_dir="runs/first", **QUICK)
        self.assertEqual(run.summary["ranks"], 3)
        self.assertEqual(run.resume(epochs=3, progress=None).epochs, 3)
        self.assertEqual(len([name for name in os.listdir("graph/parts")
                              if os.path.isdir(f"graph/parts/{name}")]), 1)

    def test_shares(self):
        dataset = graph()
        degree = np.bincount(dataset.edge_index[0], minlength=NODES)
        most = [int(1.25 * share * (48 * NODES + degree.sum())) for share in (0.5, 0.25, 0.25)]
        for method in OTHERS:
            with self.subTest(method):
                os.environ["FAKE_ANSWER"] = "shares"
                made = atoll.partition(dataset, 3, method, weights=[2, 1, 1], imbalance=0.25)
                seen = self.seen()
                self.assertEqual(seen["most"], most if method != "scotch"
                                 else [500_000, 250_000, 250_000])
                np.testing.assert_array_equal(np.bincount(made.part_of), [120, 60, 60])

    def test_refinement_of_another_cut(self):
        dataset = graph()
        os.environ["FAKE_ANSWER"] = "stripes"
        rows = {refine: atoll.partition(dataset, 4, "kaminpar", imbalance=0.25,
                                        refine=refine).halo_rows.sum()
                for refine in ("off", "on", "strong")}
        self.assertLess(rows["on"], rows["off"] / 2)
        self.assertLessEqual(rows["strong"], rows["on"])

    def test_answers_are_checked(self):
        dataset = graph()
        for seed, (answer, error, message) in enumerate((
                ("empty", atoll.InputError, "left part 3 of 4 empty; add refine on"),
                ("heavy", atoll.InputError, "part 0 of 4 weighs .*add refine on"),
                ("short", atoll.InputError, r"shape"),
                ("outside", atoll.InputError, "node 0 is in part 4; allowed are 0 to 3"),
                ("exception", atoll.AtollError, "exit code 1:(.|\n)*no cut today"),
                ("crash", atoll.AtollError, "exit code 134"))):
            for method in OTHERS:
                with self.subTest(answer, method=method):
                    os.environ["FAKE_ANSWER"] = answer
                    with self.assertRaisesRegex(error, message):
                        atoll.partition(dataset, 4, method, seed=seed)

    def test_bad_input(self):
        dataset = graph()
        for options, message in (
                ({"preset": "best"}, "preset: 'best' found; allowed are default, strong"),
                ({"balance": "edges,train"}, "balance: 'edges,train' found with method 'kaminpar'; "
                                             "allowed are cost, nodes, edges"),
                ({"islands": [2, 2]}, r"islands: \[2, 2\] found with method 'kaminpar'"),
                ({"weights": [1, 2]}, r"weights: \[1.0, 2.0\] found for 4 parts"),
                ({"weights": 3}, "weights: 3 found"),
                ({"imbalance": 0}, "imbalance: 0 found; allowed are 0.001 to 10"),
                ({"objective": "rows"}, "objective: 'rows' found; allowed are volume, cut"),
                ({"seed": -1}, "seed: -1 found"),
                ({"ballance": "cost"}, "unknown option 'ballance'")):
            with self.assertRaisesRegex(atoll.InputError, message):
                atoll.partition(dataset, 4, "kaminpar", **options)
        for parts in (1, NODES + 1):
            with self.assertRaisesRegex(atoll.InputError, f"parts: {parts} found.*2 to {NODES}"):
                atoll.partition(dataset, parts, "scotch")
        self.assertFalse(os.path.exists("seen.json"))
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            for method in OTHERS:
                package = _other_cuts.METHODS[method].package
                with self.assertRaisesRegex(atoll.InputError, f"pip install {package}$"):
                    atoll.partition(dataset, 4, method)


class PackagesTest(WorkFolder):
    """The packages themselves."""

    def test_cuts(self):
        dataset = graph()
        for method, module in OTHERS.items():
            for options in ({}, {"weights": [2, 1, 1]}, {"balance": "nodes"}, {"objective": "cut"}):
                with self.subTest(method, **options):
                    if importlib.util.find_spec(module) is None:
                        self.skipTest(f"{module} is not installed")
                    if method == "mt-kahypar":  # its other presets may differ, on one thread, too
                        options = {**options, "preset": "deterministic"}
                    made = [atoll.partition(dataset, 3, method, seed=5, threads=1, parts_dir=place,
                                            imbalance=0.1, **options) for place in "ab"]
                    random = atoll.partition(dataset, 3, "random", weights=options.get("weights"))
                    self.assertLess(made[0].halo_rows.sum(), 0.6 * random.halo_rows.sum())
                    np.testing.assert_array_equal(made[0].part_of, made[1].part_of)
                    if "weights" in options:
                        self.assertGreater(made[0].table["nodes"][0], NODES * 0.4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
