#!/usr/bin/env python3
"""atoll.torch: ranks as processes against PyTorch Geometric in one. Needs torch and torch_geometric;
what makes packets of few bits also the compiled part of the package."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import atoll
try:
    import atoll.torch
except ImportError as error:
    print(error)
"""


class ImportTest(unittest.TestCase):
    def python(self, code):
        return subprocess.run([sys.executable, "-c", code], check=True, text=True,
                              capture_output=True).stdout

    def test_the_package_needs_no_torch(self):
        self.assertEqual(self.python("import atoll, sys; print('torch' in sys.modules)"), "False\n")

    def test_the_bridge_says_that_it_does(self):
        self.assertIn("atoll.torch needs PyTorch", self.python(WITHOUT_TORCH))


MISSING = [package for package in ("numpy", "torch", "torch_geometric")
           if importlib.util.find_spec(package) is None]
if MISSING:
    if "numpy" not in MISSING:  # these need no more
        done = unittest.main(argv=[sys.argv[0], "ImportTest"], exit=False)
        if not done.result.wasSuccessful():
            sys.exit(1)
    print(f"SKIPPED: atoll.torch (not installed: {' '.join(MISSING)})")
    sys.exit(77)

import torch  # noqa: E402

import torch_ranks  # noqa: E402
from atoll import _program  # noqa: E402

COMPILED = _program._engine is not None
needs_engine = unittest.skipUnless(COMPILED, "the package has no compiled part here")


class RanksTest(unittest.TestCase):
    """All tests share a folder with two datasets."""

    @classmethod
    def setUpClass(cls):
        cls._before = os.getcwd()
        if not os.path.exists("plain/dataset.json"):
            folder = tempfile.mkdtemp(prefix="atoll-torch-")
            cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
            cls.addClassCleanup(os.chdir, cls._before)
            os.chdir(folder)
            torch_ranks.make_datasets()
            torch_ranks.found_by.cache_clear()


class EqualityTest(RanksTest):
    def check(self, ranks):
        found = torch_ranks.found_by("equality", ranks)
        for name in ("directed", "plain"):
            for kind in torch_ranks.MODELS:
                for norm in (False, True):
                    with self.subTest(f"{name} {kind}, norm {norm}, {ranks} ranks"):
                        alone = torch_ranks.train_alone(name, kind, norm)
                        mine = [rank[f"{name} {kind} {norm}"] for rank in found]
                        for rank in mine:
                            self.assertEqual(rank["losses"], mine[0]["losses"])
                            self.assertEqual(rank["bits"], mine[0]["bits"])
                        for one, other in zip(mine[0]["losses"], alone["losses"]):
                            self.assertLess(abs(one - other), 1e-5)
                        off = torch.tensor(mine[0]["logits"]) - torch.tensor(alone["logits"])
                        self.assertLess(off.abs().max(), 1e-4)
                        self.assertAlmostEqual(mine[0]["accuracy"], alone["accuracy"], delta=0.005)
        for kind in ("gcn", "sage"):
            self.assertAlmostEqual(found[0][f"sparse {kind}"]["losses"][1],
                                   torch_ranks.train_alone("plain", kind, False)["losses"][1],
                                   delta=1e-5)

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks(self):
        self.check(2)

    def test_four_ranks(self):
        self.check(4)
        found = torch_ranks.found_by("equality", 4)
        self.assertIn(0, [rank["directed training nodes"] for rank in found])

    def test_a_second_run_has_the_same_bits(self):
        for rank in torch_ranks.found_by("equality", 4):
            self.assertEqual(rank["again"], rank["directed gcn True"]["bits"])

    def test_files_of_a_model_are_those_of_one_process(self):
        names = list(torch_ranks.Net("sage", True).state_dict())
        self.assertEqual(torch_ranks.found_by("equality", 2)[0]["plain sage True"]["names"], names)

    def test_every_layer(self):
        for rank in torch_ranks.found_by("layers", 3):
            for layer, (rows, of_x, of_parameters) in rank.items():
                with self.subTest(layer):
                    self.assertLess(rows, 2e-5)
                    self.assertLess(of_x, 1e-4)
                    self.assertLess(of_parameters, 1e-4)

    def test_every_known_layer_is_tested(self):
        from atoll.torch._layers import DEGREES, PAIR, WHOLE
        tested = {name.split()[0] for name in (*torch_ranks.LAYERS, *torch_ranks.EDGE_LAYERS)}
        self.assertEqual(tested, set(PAIR + WHOLE + DEGREES))


class PartsTest(RanksTest):
    def test_batch_norm(self):
        found = torch_ranks.found_by("batch_norm", 3)
        self.assertEqual(len({rank["state"] for rank in found}), 1)
        for rank in found:
            for momentum in ("0.1", "None"):
                self.assertLess(max(rank[momentum]), 5e-5)

    def test_gradients_and_losses(self):
        for rank in torch_ranks.found_by("gradients", 3):
            self.assertEqual(rank["first"], [6.0, 6.0, 6.0])
            self.assertEqual(rank["second"], [1.0, 2.0, 3.0])
            self.assertTrue(rank["third"])
            self.assertAlmostEqual(rank["weighted"], rank["expected"], delta=1e-5)
            self.assertAlmostEqual(rank["mean"], rank["mean_expected"], delta=1e-5)
            self.assertIn("no rank has a row", rank["nothing"])

    @needs_engine
    def test_dropout_belongs_to_nodes(self):
        alone, = torch_ranks.found_by("dropout", 1)
        three = torch_ranks.found_by("dropout", 3)
        self.assertEqual(three[0]["rows"], alone["rows"])
        self.assertTrue(all(rank["evaluated"] for rank in three))
        first, second = torch.tensor(alone["rows"])
        self.assertAlmostEqual(float((first == 0).float().mean()), 0.3, delta=0.03)
        self.assertAlmostEqual(float(first.mean()), 1, delta=0.03)
        self.assertTrue((first != second).any())

    def test_what_is_refused(self):
        for rank in torch_ranks.found_by("refusals", 2):
            self.assertIn("2 processes have been started", rank["ranks"])
            self.assertIn("objective", rank["option"])
            self.assertIn("nowhere", rank["dataset"])
            self.assertIn("bits=3; allowed are", rank["bits"])
            self.assertIn("OwnConv: it is not known", rank["unknown"])
            self.assertIn("APPNP: it is not known", rank["hops"])
            self.assertIn("DirGNNConv", rank["turned"])
            self.assertIn("mode='node'", rank["norm"])
            self.assertIn("edge_index: it is not that of the shard", rank["edges"])
            self.assertIn("rows; allowed are", rank["rows"])
            self.assertIn("different parameters", rank["parameters"])
            self.assertTrue(rank["own"])
            self.assertIn("gathers over all rows", rank["sums"])
            self.assertIn("SyncBatchNorm", rank["batch"])
            # A module under two names is replaced under both.
            self.assertEqual(rank["shared"], 2 * ["DistributedBatchNorm", "DistributedConv"])
            self.assertTrue(rank["same"])


@needs_engine
class FewBitsTest(RanksTest):
    def test_four_bits_are_unbiased(self):
        for rank in torch_ranks.found_by("few_bits", 3):
            error = rank["noise"] / rank["epochs"] ** 0.5
            self.assertGreater(rank["noise"], 0.01)
            self.assertLess(rank["off"], 6 * error)
            self.assertGreater(rank["noise_of_gradient"], 0.01)
            # Gradients are sums of at most two messages, each with noise up to its step.
            self.assertLess(rank["off_of_gradient"], 6 * rank["noise_of_gradient"] / rank["epochs"] ** 0.5)
            self.assertTrue(rank["own_rows"] and rank["evaluated"] and rank["changes"])

    def test_messages_have_the_bytes_of_the_engine(self):
        for rank in torch_ranks.found_by("few_bits", 3):
            self.assertEqual(rank["bytes"], rank["expected_bytes"])

    def test_adaptive_widths(self):
        found = torch_ranks.found_by("adaptive", 2)
        for rank in found:
            self.assertEqual(rank["news"], found[0]["news"])
            self.assertEqual(rank["epoch"], 19)
            self.assertLess(rank["news"]["mean_bits"], 32)
            self.assertIsNotNone(rank["news"]["gap"])
            self.assertLess(rank["losses"][-1], rank["losses"][0] - 0.1)


class FailureTest(RanksTest):
    def ends(self, way):
        found, ends = torch_ranks.start("fail_alone", 3, way)
        self.assertLess(time.time() - os.path.getmtime("failed"), 20)
        self.assertEqual(found, [])
        failed = int(way.split()[0])
        for rank, (code, text) in enumerate(ends):
            self.assertNotEqual(code, 0)
            if rank != failed:
                self.assertIn(f"rank {rank} ends, because rank {failed} has failed", text)
        return ends

    def test_an_error_ends_all(self):
        for failed in (0, 2):
            for text in self.ends(f"{failed} raise"):
                self.assertIn("ValueError: a mistake of this rank", text[1])

    def test_a_killed_rank_ends_all(self):
        for failed in (0, 1):
            self.ends(f"{failed} kill")


class LaunchersTest(RanksTest):
    def check(self, launcher):
        found, ends = torch_ranks.start("gradients", 2, launcher=launcher)
        self.assertEqual(ends[0][0], 0, ends[0][1])
        self.assertEqual([rank["first"] for rank in found], [[3.0, 3.0, 3.0]] * 2)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_mpirun(self):
        self.check(["mpirun", "-n", "2", "--bind-to", "none", sys.executable])

    def test_torchrun(self):
        self.check([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                    "--master-port", str(torch_ranks.free_port())])


if __name__ == "__main__":
    unittest.main(verbosity=2)
