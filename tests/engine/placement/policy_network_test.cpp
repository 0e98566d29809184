#include "engine/placement/policy/policy_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/files.hpp"
#include "engine/placement/policy/edge_attention.hpp"
#include "engine/placement/policy/policy_prior.hpp"
#include "engine/placement/policy/random_instance.hpp"
#include "engine/tensor/safetensors.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

PolicyGraph example(std::uint64_t seed, int decision) {
  const auto instance = random_instance(InstanceRanges{}, seed);
  PlanSpace& space = *instance->space;
  space.evaluate(space.start());
  const std::vector<int> start = space.start();
  return PolicyGraphMaker(space).make({start.data(), static_cast<std::size_t>(decision)}, decision);
}

MatrixView view(std::vector<double>& values, std::int64_t cols) {
  return {values.data(), std::ssize(values) / cols, cols, cols, DType::kF64};
}

// Node 0 hears nothing, node 1 hears two edges; one head of one column.
TEST(EdgeAttention, IsASoftmaxOverTheEdgesOfANode) {
  const std::vector<std::int64_t> begin = {0, 0, 2};
  std::vector<double> messages = {3, -5}, targets = {9, 1}, attention = {0.5};
  std::vector<double> shares(2), updates(2, 7.0);
  attend(begin, view(messages, 1), view(targets, 1), view(attention, 1), view(shares, 1),
         view(updates, 1));
  // Scores: 0.5 * 4 and 0.5 * 0.2 * -4.
  const double first = 1 / (1 + std::exp(-0.4 - 2.0));
  EXPECT_THAT(shares, ElementsAre(DoubleNear(first, 1e-15), DoubleNear(1 - first, 1e-15)));
  EXPECT_THAT(updates, ElementsAre(0, DoubleNear(3 * first - 5 * (1 - first), 1e-14)));
}

TEST(EdgeAttention, SumsRowsWhereTheyCameFrom) {
  std::vector<double> x = {1, 2, 3, 4, 5, 6}, y = {0, 0, 10, 10};
  const std::vector<LocalId> rows = {LocalId{1}, LocalId{0}, LocalId{1}};
  scatter_add(view(x, 2), rows, view(y, 2));
  EXPECT_THAT(y, ElementsAre(3, 4, 16, 18));
}

// Every parameter against central differences, all in double.
TEST(PolicyNetwork, GradientsAreThoseOfTheLoss) {
  const PolicyGraph graph = example(3, 0);
  ASSERT_GE(graph.options, 3);
  PolicyNetwork network({.hidden = 8, .layers = 2}, 5, DType::kF64);
  std::vector<double> target(static_cast<std::size_t>(graph.options), 0.1 / (graph.options - 1));
  target[1] = 0.9;
  network.add_gradient(graph, target, 2);
  ParameterStore& parameters = network.parameters();
  auto* values = parameters.values().row<double>(0);
  const auto* flat = parameters.gradients().row<double>(0);
  const std::vector<double> gradient(flat, flat + parameters.size());
  double largest = 0;
  for (const double slope : gradient) largest = std::max(largest, std::abs(slope));
  ASSERT_GT(largest, 1e-3);
  int checked = 0;
  for (std::size_t p = 0; p < parameters.list().size(); ++p) {
    const Parameter& parameter = parameters.list()[p];
    const std::int64_t count = parameter.rows * parameter.columns;
    double own = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      own = std::max(own, std::abs(gradient[parameter.offset + k]));
    }
    EXPECT_GT(own, 0) << parameter.name;
    for (std::int64_t k = 0; k < count; k += std::max<std::int64_t>(1, count / 12)) {
      double& weight = values[parameter.offset + k];
      const double before = weight, step = 1e-6;
      weight = before + step;
      const double above = network.add_gradient(graph, target, 2).loss;
      weight = before - step;
      const double below = network.add_gradient(graph, target, 2).loss;
      weight = before;
      EXPECT_NEAR((above - below) / (2 * step), gradient[parameter.offset + k],
                  1e-6 * largest + 1e-8)
          << parameter.name << " " << k;
      ++checked;
    }
  }
  EXPECT_GT(checked, 200);
}

TEST(PolicyNetwork, FloatIsAsDouble) {
  PolicyNetwork narrow({}, 5), wide({}, 5, DType::kF64);
  for (int decision : {0, 1}) {
    const PolicyGraph graph = example(3, decision);
    const std::vector<double> probabilities = narrow.probabilities(graph);
    EXPECT_THAT(probabilities, Pointwise(DoubleNear(1e-4), wide.probabilities(graph)));
    EXPECT_NEAR(std::reduce(probabilities.begin(), probabilities.end()), 1, 1e-12);
  }
}

// Candidates are the last nodes and have no edges out, so two of them change places by their rows.
TEST(PolicyNetwork, DoesNotDependOnTheOrderOfOptions) {
  const PolicyGraph graph = example(3, 0);
  PolicyGraph swapped = graph;
  constexpr std::size_t columns = kPolicyNodeColumns, wide = kPolicyEdgeColumns;
  const std::int64_t a = graph.nodes - 1, b = graph.nodes - 2;
  std::swap_ranges(swapped.node_features.begin() + a * columns, swapped.node_features.end(),
                   swapped.node_features.begin() + b * columns);
  const std::int64_t begin_a = graph.edge_begin[a], begin_b = graph.edge_begin[b];
  ASSERT_EQ(begin_a - begin_b, graph.edges() - begin_a);
  std::swap_ranges(swapped.edge_features.begin() + begin_a * wide, swapped.edge_features.end(),
                   swapped.edge_features.begin() + begin_b * wide);
  PolicyNetwork network({}, 5, DType::kF64);
  const std::vector<double> before = network.probabilities(graph);
  std::vector<double> after = network.probabilities(swapped);
  EXPECT_NE(before[graph.options - 1], before[graph.options - 2]);
  std::swap(after[graph.options - 1], after[graph.options - 2]);
  EXPECT_THAT(after, Pointwise(DoubleNear(1e-12), before));
}

TEST(PolicyWeights, ReadBackToTheLastBit) {
  const TempDir folder;
  PolicyNetwork network({.hidden = 16, .layers = 3}, 9);
  const std::string bytes = policy_weights(network);
  write_atomically(folder.path() / "a.safetensors", bytes);
  PolicyNetwork read = read_policy(folder.path() / "a.safetensors");
  EXPECT_EQ(read.shape().hidden, 16);
  EXPECT_EQ(read.shape().layers, 3);
  EXPECT_EQ(policy_weights(read), bytes);
}

TEST(PolicyWeights, BadFilesAreNamed) {
  const TempDir folder;
  const std::filesystem::path path = folder.path() / "a.safetensors";
  PolicyNetwork network({.hidden = 8, .layers = 1}, 9);
  write_atomically(path, policy_weights(network));
  const SafetensorsFile good = read_safetensors(path);
  const auto message = [&](const SafetensorsFile& file) {
    write_atomically(path, to_safetensors(file));
    return std::string(thrown_error([&] { read_policy(path); }).what());
  };
  SafetensorsFile bad = good;
  bad.metadata["format"] = "atoll model 1";
  EXPECT_THAT(message(bad), AllOf(HasSubstr("a.safetensors"), HasSubstr("atoll policy 1")));
  bad = good;
  bad.metadata["hidden"] = "9";
  EXPECT_THAT(message(bad), HasSubstr("multiples of 4"));
  bad.metadata["hidden"] = "many";
  EXPECT_THAT(message(bad), HasSubstr("'hidden' is 'many'"));
  bad = good;
  bad.metadata["hidden"] = "16";
  EXPECT_THAT(message(bad), HasSubstr("is needed"));
  bad = good;
  bad.metadata["layers"] = "2";
  EXPECT_THAT(message(bad), HasSubstr("13 tensors; a policy of 2 layers has 21"));
  bad = good;
  bad.tensors["other"] = bad.tensors["decoder.bias"];
  bad.tensors.erase("decoder.bias");
  EXPECT_THAT(message(bad), HasSubstr("no tensor 'decoder.bias'"));
}

TEST(PolicyWeights, TheProgramHasSome) {
  PolicyNetwork network = shipped_policy();
  EXPECT_EQ(network.shape().layers, 4);
  EXPECT_LT(policy_weights(network).size(), 300'000U);
  const PolicyGraph graph = example(3, 0);
  EXPECT_EQ(std::ssize(network.probabilities(graph)), graph.options);
}

}  // namespace
}  // namespace atl
