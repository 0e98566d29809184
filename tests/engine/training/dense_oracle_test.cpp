// Whole models, from the dataset folder to logits, loss and gradients, against the dense oracle:
// every backend, one rank and three, both orders of multiplication.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include "tests/engine/training/oracle_cases.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

// One tensor of a state as a matrix, vectors as one row.
oracle::Matrix matrix_of(const NamedTensor& tensor) {
  const auto cols = static_cast<int>(tensor.shape.back());
  oracle::Matrix matrix(tensor.shape.size() == 2 ? static_cast<int>(tensor.shape[0]) : 1, cols);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    if (tensor.dtype == "F64") {
      std::memcpy(&matrix.values[i], tensor.bytes.data() + 8 * i, 8);
    } else {
      float value = 0;
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
      matrix.values[i] = static_cast<double>(value);
    }
  }
  return matrix;
}

using Gradients = std::map<std::string, oracle::Matrix>;

// Results of training and evaluation, in the order of global ids.
struct StepOutcome {
  oracle::Matrix training_logits;
  double loss = 0;
  Gradients gradients;
  std::map<std::string, oracle::Matrix> after;  // tensors behind the first step
  oracle::Matrix evaluation_logits;
};

oracle::Model model_of(const OracleCase& c) {
  const bool is_mlp_first = c.model == "appnp" || c.model == "mlp";
  const oracle::Layer hidden{.convolution = is_mlp_first ? "none" : c.model,
                             .norm = to_string(c.norm)};
  const oracle::Layer last{.convolution = hidden.convolution, .activation = "none"};
  const auto count = static_cast<std::size_t>(c.layers);
  oracle::Model model;
  if (c.model == "sgc") {
    model.layers.assign(count, last);
    model.layers.push_back({.convolution = "none", .activation = "none"});
  } else if (c.model == "gcnii") {
    model.input_activation = "relu";
    model.layers.assign(count, hidden);
    model.has_head = true;
  } else {
    model.layers.assign(count, hidden);
    model.layers.back() = last;
  }
  if (c.attends()) {
    for (oracle::Layer& layer : model.layers) layer.heads = kHeads;
    model.layers.back().heads = kOutputHeads;
    model.layers.back().averages_heads = true;
  }
  if (c.model == "appnp") {
    model.layers.insert(model.layers.end(), kHops, {.convolution = "appnp", .activation = "none"});
  }
  c.variant->describe(model);
  return model;
}

// Rows of this rank's logits go where their global ids say.
void keep_rows(RankJob& job, Backend& backend, Queue& queue, ConstMatrixView logits,
               oracle::Matrix& all) {
  const std::vector<float> values = download_f32(backend, queue, logits);
  const std::span<const GlobalId> ids = job.data().graph().inner_ids;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (int j = 0; j < all.cols; ++j) {
      all(static_cast<int>(to_index(ids[i])), j) = static_cast<double>(
          values[i * static_cast<std::size_t>(all.cols) + static_cast<std::size_t>(j)]);
    }
  }
}

StepOutcome run_engine(const OracleCase& c, const Way& way, const std::filesystem::path& dataset) {
  StepOutcome outcome;
  outcome.training_logits = outcome.evaluation_logits = oracle::Matrix(kNodes, c.outputs());
  std::mutex mutex;
  const TrainOptions options = options_of(c, way);
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(way.ranks, 60, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    Trainer& trainer = job.trainer();
    const Rank& rank = trainer.rank();
    SafetensorsFile start = trainer.state(false);
    for (auto& [name, tensor] : start.tensors) fill_start(c, name, tensor);
    trainer.load_state(start, false, "start");
    {
      trainer.network().run_forward(trainer.exchange(), trainer.round(1, /*training=*/true));
      const ConstMatrixView logits = trainer.network().logits();
      const std::lock_guard lock(mutex);
      keep_rows(job, rank.backend, rank.queue, logits, outcome.training_logits);
    }
    trainer.load_state(start, false, "start");  // running statistics as before
    const double loss = trainer.run_epoch(1).loss;
    trainer.evaluate(1);
    const std::lock_guard lock(mutex);
    keep_rows(job, rank.backend, rank.queue, trainer.network().logits(), outcome.evaluation_logits);
    if (transport.rank() != 0) return;
    outcome.loss = loss;
    for (const auto& [name, tensor] : trainer.state(false).tensors) {
      outcome.after[name] = matrix_of(tensor);
    }
    ParameterStore& parameters = trainer.network().parameters();
    const std::vector<float> gradients =
        download_f32(rank.backend, rank.queue, parameters.gradients());
    for (const Parameter& p : parameters.list()) {
      oracle::Matrix& matrix = outcome.gradients[p.name] =
          oracle::Matrix(static_cast<int>(p.rows), static_cast<int>(p.columns));
      std::copy_n(gradients.begin() + p.offset, p.rows * p.columns, matrix.values.begin());
    }
  });
  return outcome;
}

// The oracle's results of training from the same start. after and evaluation_logits hang on the
// step, which is the engine's: see evaluate().
StepOutcome run_oracle(const OracleCase& c, const Csr& csr, const StepOutcome& shapes) {
  oracle::Model model = model_of(c);
  for (const auto& [name, tensor] : shapes.after) {
    oracle::Matrix& start = model.tensors[name] = tensor;
    for (std::size_t i = 0; i < start.values.size(); ++i) start.values[i] = start_value(c, name, i);
  }
  const oracle::Graph graph = edges_of(csr);
  const oracle::Matrix features = feature_matrix();
  const oracle::Targets targets = targets_of(c);
  StepOutcome outcome;
  oracle::Model moved = model;
  outcome.training_logits = oracle::logits(moved, graph, features, oracle::Mode::kTraining);
  outcome.loss = oracle::loss(outcome.training_logits, targets);
  outcome.after = moved.tensors;
  for (const auto& [name, unused] : shapes.gradients) {
    outcome.gradients[name] = oracle::gradient(model.tensors.at(name), [&] {
      oracle::Model copy = model;
      return oracle::loss(oracle::logits(copy, graph, features, oracle::Mode::kTraining), targets);
    });
  }
  return outcome;
}

double largest_of(const oracle::Matrix& matrix) {
  double largest = 0;
  for (const double value : matrix.values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Largest difference, as a share of the largest number expected, or of `least` if that is more.
double deviation(const oracle::Matrix& found, const oracle::Matrix& expected, double least = 0) {
  EXPECT_EQ(found.values.size(), expected.values.size());
  double difference = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    difference = std::max(difference, std::abs(found.values[i] - expected.values[i]));
    if (std::isnan(found.values[i])) return found.values[i];
  }
  const double largest = std::max(largest_of(expected), least);
  EXPECT_GT(largest, 0);
  return difference / largest;
}

// Length of the difference of two gradients over that of the expected one, over all parameters.
double gradient_distance(const Gradients& found, const Gradients& expected) {
  double difference = 0;
  double length = 0;
  for (const auto& [name, gradient] : expected) {
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const double d = found.at(name).values[i] - gradient.values[i];
      difference += d * d;
      length += gradient.values[i] * gradient.values[i];
    }
  }
  return std::sqrt(difference / length);
}

// bf16 keeps 8 bits of activations and of the weights in products, and norms of a few columns
// magnify what that costs: of its gradients the direction is tested. What a formula says is tested
// by f32.
struct Bounds {
  double logits;
  double gradient;   // of each parameter
  double gradients;  // of all together
};
Bounds bounds_of(const OracleCase& c, DType dtype) {
  // f32 against double, u = 2^-24 = 6e-8: up to three layers of at most some 100 roundings each, in
  // random directions 17 u = 1e-6, and norms of few columns magnify it a few times. Gradients of
  // scores are small differences of what all edges of a node get.
  if (dtype == DType::kF32) return {1e-5, c.attends() ? 5e-5 : 1e-5, 1e-5};
  const bool is_shallow = c.variant == &kVariants[0] && (c.model == "gcn" || c.model == "sage");
  return is_shallow ? Bounds{0.08, 0.3, 0.2} : Bounds{0.1, 1, 0.2};
}

void expect_as_oracle(const OracleCase& c, const std::vector<Way>& ways) {
  const TempDir dir;
  const Csr csr = graph_of(c);
  const std::filesystem::path dataset = write_dataset(dir, c, csr);
  StepOutcome expected;
  for (const Way& way : ways) {
    SCOPED_TRACE(fmt::format("{} {}, {} ranks, order {}", way.backend, to_string(way.dtype),
                             way.ranks, static_cast<int>(way.order)));
    const Bounds bounds = bounds_of(c, way.dtype);
    const StepOutcome found = run_engine(c, way, dataset);
    if (expected.after.empty()) expected = run_oracle(c, csr, found);
    EXPECT_LT(deviation(found.training_logits, expected.training_logits), bounds.logits);
    EXPECT_NEAR(found.loss, expected.loss, bounds.logits * expected.loss);
    double largest = 0;
    for (const auto& [name, gradient] : expected.gradients) {
      largest = std::max(largest, largest_of(gradient));
    }
    // A norm takes away what a bias before it adds: such gradients are rounding alone, and found
    // where a layer begins with a norm.
    const bool begins_with_norm = std::string(c.variant->name).starts_with("before");
    // The same holds for what only shifts all scores of a target alike, which a softmax takes away:
    // it learns by the few of its edges that leaky ReLU tells apart.
    const double small = begins_with_norm || c.attends() ? 0.01 * largest : 0;
    for (const auto& [name, gradient] : expected.gradients) {
      EXPECT_LT(deviation(found.gradients.at(name), gradient, small), bounds.gradient) << name;
    }
    EXPECT_LT(gradient_distance(found.gradients, expected.gradients), bounds.gradients);
    // The engine's weights of behind the step, but the oracle's own running statistics.
    oracle::Model after = model_of(c);
    after.tensors = found.after;
    for (const auto& [name, tensor] : expected.after) {
      if (name.find("running") == std::string::npos) continue;
      EXPECT_LT(deviation(found.after.at(name), tensor), bounds.logits) << name;
      after.tensors[name] = tensor;
    }
    const oracle::Matrix logits =
        oracle::logits(after, edges_of(csr), feature_matrix(), oracle::Mode::kEvaluation);
    EXPECT_LT(deviation(found.evaluation_logits, logits), bounds.logits);
  }
}

std::vector<Way> ways_of(const std::vector<std::pair<std::string, DType>>& backends) {
  std::vector<Way> ways;
  for (const auto& [backend, dtype] : backends) {
    for (const int ranks : {1, 3}) {
      for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        ways.push_back({backend, dtype, ranks, order});
      }
    }
  }
  return ways;
}

class DenseOracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(DenseOracle, HasTheSameLogitsLossAndGradients) {
  expect_as_oracle(
      GetParam(),
      ways_of({{"reference", DType::kF32}, {"cpu", DType::kF32}, {"cpu", DType::kBf16}}));
}

INSTANTIATE_TEST_SUITE_P(Models, DenseOracle, ::testing::ValuesIn(oracle_cases()),
                         name_of_oracle_case);

class DenseOracleOfDevice : public ::testing::TestWithParam<OracleCase> {
 protected:
  void SetUp() override { require_backend("cuda"); }
};

TEST_P(DenseOracleOfDevice, HasTheSameLogitsLossAndGradients) {
  // Emulation is slow: both types meet both orders and both numbers of ranks, not all of their
  // pairs.
  expect_as_oracle(GetParam(), {{"cuda", DType::kF32, 1, OrderChoice::kMultiplyFirst},
                                {"cuda", DType::kF32, 3, OrderChoice::kAggregateFirst},
                                {"cuda", DType::kBf16, 1, OrderChoice::kAggregateFirst},
                                {"cuda", DType::kBf16, 3, OrderChoice::kMultiplyFirst}});
}

INSTANTIATE_TEST_SUITE_P(Models, DenseOracleOfDevice, ::testing::ValuesIn(oracle_cases()),
                         name_of_oracle_case);

}  // namespace
}  // namespace atl
