#!/usr/bin/env python3
"""Programs outside of the tree, built against the installed package: those of examples/ keep the whole
command line, and what is wrong with a model or a partitioner of their own is said."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import ATOLL, read_npy, run, write

BUILD = os.path.abspath(os.environ.get("ATOLL_BUILD", "build"))
CMAKE = os.environ.get("CMAKE", "cmake")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")
EXAMPLE_NAMES = ("own_model", "own_operation", "own_partitioner", "own_loss", "embed")
MODEL = ["--model", "mine", "--layers", "2", "--hidden", "8"]
LOCAL = ["--transport", "local", "--threads", "1"]
RANK = {"host": "a", "kind": "cpu", "memory_gib": 4, "spmm_gb_per_s": {"8": 4},
        "gemm_gflop_per_s": {"8": 30}, "elementwise_gb_per_s": 8, "quantize_gb_per_s": 1}
MACHINE = {"format": 1, "hosts": [{"name": "a"}], "ranks": [RANK, RANK],
           "links": {"within_island": {"latency_us": 5, "gbit_per_s": 100}}}

# Models with one mistake each; the name of one of them comes from the environment.
MISTAKES = r"""
#include <atoll/atoll.hpp>
#include <cstdlib>

atl::Value good(atl::Builder& builder, const atl::ConvolutionInput& input) {
  const atl::Value weight = builder.weight("weight", input.x, input.columns);
  return builder.propagate(atl::Normalisation::kMean, input.x, weight);
}
atl::Value narrow(atl::Builder& builder, const atl::ConvolutionInput& input) {
  atl::ConvolutionInput other = input;
  ++other.columns;
  return good(builder, other);
}
atl::Value twice(atl::Builder& builder, const atl::ConvolutionInput& input) {
  const atl::Value first = good(builder, input);
  const atl::Value second = good(builder, input);
  return builder.add(first, second);
}
atl::Value nothing(atl::Builder&, const atl::ConvolutionInput&) { return atl::kNoValue; }
atl::Value parameter(atl::Builder& builder, const atl::ConvolutionInput& input) {
  return builder.weight("weight", input.x, input.columns);
}
atl::Value endless(atl::Builder& builder, const atl::ConvolutionInput& input) {
  atl::ConvolutionInput hops = input;
  for (int i = 0; i < 300; ++i) hops.x = builder.aggregate(atl::Normalisation::kMean, hops.x);
  return good(builder, hops);
}
atl::Value unequal(atl::Builder& builder, const atl::ConvolutionInput& input) {
  return builder.add(input.x, good(builder, input));
}
atl::Value layers(atl::Builder& builder, const atl::ConvolutionInput& input) {
  builder.begin_layer();
  return good(builder, input);
}
atl::Value finished(atl::Builder& builder, const atl::ConvolutionInput& input) {
  builder.finish(input.x, input.x);
  return input.x;
}

std::vector<std::int32_t> outside(const atl::PartitionProblem& problem) {
  return std::vector<std::int32_t>(problem.graph.nodes(), problem.parts);
}
std::vector<std::int32_t> too_few(const atl::PartitionProblem&) { return {0}; }

int main(int argc, char** argv) {
  const bool has_function = std::getenv("MODEL_FUNCTION") == nullptr;
  const char* cutter = std::getenv("PARTITIONER_NAME");
  const char* option = std::getenv("MODEL_READS");
  return atl::main(argc, argv, {.convolutions = {{"narrow", narrow}, {"twice", twice},
      {"nothing", nothing}, {"parameter", parameter}, {"endless", endless},
      {"unequal", unequal}, {"layers", layers}, {"finished", finished},
      {.name = std::getenv("MODEL_NAME"), .make = has_function ? good : nullptr,
       .reads = std::vector<std::string>{option == nullptr ? "alpha" : option}}},
      .partitioners = {{"outside", outside}, {"short", too_few},
                       {cutter == nullptr ? "usual" : cutter, has_function ? outside : nullptr}}});
}
"""


def command(*words):
    result = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    assert result.returncode == 0, f"{words}: {result.stdout[-4000:]}{result.stderr[-4000:]}"


class OwnModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(home.cleanup)
        cls.folder = home.name
        command(CMAKE, "--install", BUILD, "--prefix", cls.path("installed"))
        # The prefix may be moved.
        os.rename(cls.path("installed"), cls.path("prefix"))
        for name in EXAMPLE_NAMES:
            shutil.copytree(os.path.join(EXAMPLES, name), cls.path("source", name))
        with open(cls.path("source/own_model/CMakeLists.txt"), "a", encoding="utf-8") as file:
            file.write("add_executable(mistakes mistakes.cpp)\n"
                       "target_link_libraries(mistakes PRIVATE Atoll::engine)\n")
        write(cls.path("source/own_model/mistakes.cpp"), MISTAKES)
        for name in EXAMPLE_NAMES:
            command(CMAKE, "-S", cls.path("source", name), "-B", cls.path("built", name),
                    "-DCMAKE_PREFIX_PATH=" + cls.path("prefix"))
            command(CMAKE, "--build", cls.path("built", name), "--parallel", "2")
        cls.program = cls.path("built/own_model/own_model")
        cls.succeed("generate", "sbm", "--nodes", "200", "--classes", "4", "--features", "8",
                    "--out", "data")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    @classmethod
    def succeed(cls, *words, ranks=0):
        result = run([*words], cls.folder, ranks, program=cls.program)
        assert result.returncode == 0, f"{words}: {result.stderr}"
        return result.stdout

    def train(self, run_dir, *words, ranks=0):
        return self.succeed("train", "data", *MODEL, *words, "--run-dir", run_dir, ranks=ranks)

    def losses(self, run_dir):
        with open(self.path(run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file]

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def test_resumed_training_gives_the_same_model(self):
        self.train("whole", "--epochs", "6")
        self.train("in-two", "--epochs", "3", "--checkpoint-every", "1")
        self.train("in-two", "--epochs", "6", "--resume")
        self.assertEqual(self.losses("in-two"), self.losses("whole"))
        self.assertEqual(self.read("in-two/model.safetensors"),
                         self.read("whole/model.safetensors"))

    def test_ranks_lose_alike_and_predict_alike(self):
        self.train("one", "--epochs", "6", *LOCAL)
        self.train("threads", "--epochs", "6", *LOCAL, "--ranks", "2")
        self.train("processes", "--epochs", "6", ranks=2)
        for run_dir in ("threads", "processes"):
            for mine, expected in zip(self.losses(run_dir), self.losses("one"), strict=True):
                self.assertAlmostEqual(mine, expected, delta=1e-5 * expected)
        for what, shape in (("labels", "(200,)"), ("logits", "(200, 4)"), ("embeddings", "(200, 8)")):
            self.succeed("predict", "one", "data", "--what", what, "--out", "rows.npy")
            self.assertIn(f"'shape': {shape}", read_npy(self.path("rows.npy"))[0])

    def test_it_has_the_whole_command_line(self):
        self.assertRegex(self.succeed("train", "--help-all"), r"--model TEXT:\{gcn,sage,.*,mine\}")
        self.assertIn("layers.1.second_weight", self.succeed("program", "data", *MODEL))
        self.succeed("bench", "data", *MODEL, *LOCAL, "--ranks", "2", "--warmup", "1", "--epochs",
                     "2")
        write(self.path("machine.json"), json.dumps(MACHINE))
        self.succeed("plan", "data", "--topology", "machine.json", *MODEL, "--out", "plan.json")
        self.train("planned", "--epochs", "2", *LOCAL, "--ranks", "2", "--plan", "plan.json",
                   "--plan-trial", "0")
        self.assertEqual(len(self.losses("planned")), 2)
        # The second aggregate of its first layer would need rows of neighbours of halo nodes.
        result = run(["train", "data", *MODEL, *LOCAL, "--ranks", "2", "--recompute", "all",
                      "--run-dir", "none"], self.folder, program=self.program)
        self.assertEqual(result.returncode, 2)
        self.assertIn("only a first layer that keeps its aggregate", result.stderr)
        # It is a convolution of model files, too; the function's parameters are what it says.
        write(self.path("model.toml"), 'head = {jump = "sum", layer = "linear"}\n[[layer]]\n'
                                       'convolution = "mine"\ncolumns = 8\nrepeat = 2\n')
        self.succeed("train", "data", "--model-file", "model.toml", "--epochs", "2", "--run-dir",
                     "from-file")
        self.succeed("predict", "from-file", "data", "--out", "labels-of-file.npy")
        # PyTorch Geometric has no such convolution, but weights can start another run.
        result = run(["export", "planned", "--out", "exported"], self.folder, program=self.program)
        self.assertEqual(result.returncode, 2)
        self.assertIn("layer 0 (mine): PyTorch Geometric has no class for it", result.stderr)
        self.train("further", "--epochs", "1", "--init", "planned/model.safetensors")
        result = run(["train", "data", "--modle", "mine"], self.folder, program=self.program)
        self.assertIn("own_model: error: unknown option '--modle'", result.stderr)

    def test_other_programs_say_that_they_lack_the_model(self):
        self.train("foreign", "--epochs", "2")
        prefix = self.path("prefix/bin/atoll")
        for program in (ATOLL, prefix):
            result = run(["predict", "foreign", "data", "--out", "labels.npy"], self.folder,
                         program=program)
            self.assertEqual(result.returncode, 2)
            self.assertIn("model.safetensors: it is a model 'mine', which this program does not "
                          "have; it has gcn, sage, ", result.stderr)
            result = run(["train", "--config", "foreign/config.toml", "--resume"], self.folder,
                         program=program)
            self.assertEqual(result.returncode, 2)
            self.assertRegex(result.stderr, r"config\.toml.*mine.*gcn.*sage")
            result = run(["export", "foreign", "--out", "exported"], self.folder, program=program)
            self.assertIn("it is a model 'mine', which this program does not", result.stderr)
            self.assertFalse(os.path.exists(self.path("labels.npy")))

    def bounded(self, run_dir, *words, ranks=0):
        words = ["train", "data", "--model", "bounded", "--layers", "2", "--hidden", "8", "--dropout",
                 "0", "--epochs", "5", "--run-dir", run_dir, *words]
        program = self.path("built/own_operation/own_operation")
        return run(words, self.folder, ranks, program=program)

    def test_an_own_operation_learns_on_any_number_of_ranks(self):
        losses = []
        for ranks in (1, 3):
            result = self.bounded(f"softsign{ranks}", "--transport", "local", "--ranks", str(ranks))
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(self.losses(f"softsign{ranks}"))
        self.assertLess(losses[0][-1], losses[0][0])
        for one, three in zip(*losses):
            self.assertAlmostEqual(one, three, places=5)

    def test_an_own_operation_is_listed_profiled_and_planned(self):
        program = self.path("built/own_operation/own_operation")
        result = run(["program", "data", "--model", "bounded"], self.folder, program=program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("= softsign %", result.stdout)
        self.assertIn("= softsign backward %", result.stdout)
        result = run(["bench", "data", "--model", "bounded", "--epochs", "2", "--profile", "1",
                      *LOCAL], self.folder, program=program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("softsign: softsign", result.stdout)
        self.assertIn("linear: gemm", result.stdout)
        write(self.path("topology.json"), json.dumps(MACHINE))
        result = run(["plan", "data", "--topology", "topology.json", "--model", "bounded", "--budget",
                      "20", "--out", "bounded.json"], self.folder, program=program)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_own_operation_without_a_kernel_says_so(self):
        for words in (["--dtype", "bf16"],):
            result = self.bounded("refused", "--transport", "local", *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("softsign has a kernel for CPUs and f32; found", result.stderr)

    def test_an_own_loss_and_metric_are_options_like_others(self):
        program = self.path("built/own_loss/own_loss")
        words = [*LOCAL, "--model", "gcn", "--layers", "2", "--hidden", "8", "--epochs", "20",
                 "--loss", "robust", "--metric", "in-first-two"]
        losses = []
        for ranks in ("1", "3"):
            result = run(["train", "data", *words, "--ranks", ranks, "--run-dir", f"loss{ranks}"],
                         self.folder, program=program)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(self.path(f"loss{ranks}", "summary.json"), encoding="utf-8") as file:
                summary = json.load(file)
            self.assertEqual(summary["metric"], "in-first-two")
            self.assertGreater(summary["in-first-two"]["test"], summary["accuracy"]["test"])
            losses.append(summary["loss"])
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-4 * losses[0])
        result = run(["train", "data", "--loss", "robust"], self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("'robust' is no loss; allowed are auto, cross-entropy", result.stderr)

    def test_an_own_partitioner_is_a_method_like_others(self):
        program = self.path("built/own_partitioner/own_partitioner")

        def cut(*words):
            return run(["partition", "data", "--parts", "3", *words], self.folder, program=program)
        result = cut("--method", "ldg", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        mine, random = [json.loads(text)["quality"]["total"]["halo_forward"] for text in
                        (result.stdout, cut("--method", "random", "--json").stdout)]
        self.assertLess(mine, random)
        for words in (["--islands", "2,1"], ["--refine", "on"], ["--part-order", "2,0,1"]):
            result = cut("--method", "ldg", *words)
            self.assertEqual(result.returncode, 0, result.stderr)
        losses = []
        for method in ("ldg", "random"):
            result = run(["train", "data", "--method", method, "--epochs", "4", "--transport",
                          "local", "--ranks", "3", "--run-dir", "cut-by-" + method], self.folder,
                         program=program)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(self.losses("cut-by-" + method)[-1])
        self.assertAlmostEqual(*losses, delta=1e-4)
        result = run(["partition", "data", "--parts", "3", "--method", "ldg"], self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "--method: .*ldg.*metis")

    def test_wrong_partitioners_are_refused(self):
        def refuse(method, **environment):
            os.environ.update({"MODEL_NAME": "usual", **environment})
            try:
                result = run(["partition", "data", "--parts", "3", "--method", method], self.folder,
                             program=self.path("built/own_model/mistakes"))
            finally:
                for variable in ("MODEL_NAME", *environment):
                    del os.environ[variable]
            self.assertEqual(result.returncode, 2, result.stderr)
            return result.stderr
        self.assertRegex(refuse("outside"), "node 0 .*part 3")
        self.assertRegex(refuse("short"), "1 .*200")
        self.assertIn("a partitioner of this program is named 'metis', and so is another",
                      refuse("metis", PARTITIONER_NAME="metis"))
        self.assertIn("a partitioner of this program is named 'a b'",
                      refuse("metis", PARTITIONER_NAME="a b"))

    def test_a_program_that_trains_in_its_process(self):
        program = self.path("built/embed/embed")
        result = run(["data", "embedded"], self.folder, program=program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("embeddings of 200 nodes", result.stdout)
        self.assertIn("'shape': (200, 256)", read_npy(self.path("embedded/embeddings.npy"))[0])
        result = run(["nothing", "other"], self.folder, program=program)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^embed: train: nothing.*\n$")

    def refuse_mistake(self, model, name="usual", command="train", options=(), **environment):
        """The output of a program with one wrong model."""
        os.environ.update({"MODEL_NAME": name, **environment})
        options = [*options, *(["--run-dir", "none", "--epochs", "1"] if command == "train" else [])]
        try:
            result = run([command, "data", "--model", model, *options], self.folder,
                         program=self.path("built/own_model/mistakes"))
        finally:
            for variable in ("MODEL_NAME", *environment):
                del os.environ[variable]
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
        return result.stderr

    def test_names_that_cannot_be_chosen_are_refused(self):
        for name in ("", "two words", "-mine", "a/b", "ümlaut", "x" * 65, "a,b", "a\n"):
            self.assertIn("a model of this program is named '", self.refuse_mistake("gcn", name))
        for name in ("gcn", "narrow"):
            self.assertRegex(self.refuse_mistake("gcn", name),
                             f"named '{name}', and so is another; taken are: gcn, sage, .*narrow")
        self.assertIn("model 'usual' of this program has no function",
                      self.refuse_mistake("gcn", MODEL_FUNCTION="none"))

    def test_options_that_a_model_does_not_name_are_refused(self):
        self.assertIn("--heads: usual has no use for it",
                      self.refuse_mistake("usual", options=["--heads", "4"]))
        self.assertIn("--alpha: sage has no use for it",
                      self.refuse_mistake("sage", options=["--alpha", "0.5"]))
        # Options of every layer; what it names; all where none are named.
        for model, *options in (("usual", "--norm", "batch"), ("usual", "--alpha", "0.5"),
                                ("narrow", "--heads", "4")):
            said = self.refuse_mistake(model, options=[*options, "--features", "trained:8"])
            self.assertIn("the dataset has 8 features", said)
        self.assertRegex(self.refuse_mistake("gcn", MODEL_READS="alhpa"),
                         r"model 'usual' of this program reads the option 'alhpa', which no layer "
                         r"has \(did you mean 'alpha'\?\); allowed are dropout, .*bases")

    def test_functions_that_do_not_fit_are_refused(self):
        for model, text in (("narrow", "its convolution gives a value of 257 columns; needed is a "
                                       "value of 256 columns"),
                            ("twice", "layers.0.weight is declared twice"),
                            ("nothing", "gives no value with a row per node"),
                            ("parameter", "gives no value with a row per node"),
                            ("endless", "aggregates more than 256 times"),
                            ("unequal", "layer 0 (unequal): combine: a has 8 columns, b has 256; "
                                        "needed are as many of each"),
                            ("layers", "its convolution begins or ends more than its layer"),
                            ("finished", "its convolution begins or ends more than its layer")):
            for command in ("train", "program"):
                self.assertIn(text, self.refuse_mistake(model, command=command))


if __name__ == "__main__":
    unittest.main(verbosity=2)
