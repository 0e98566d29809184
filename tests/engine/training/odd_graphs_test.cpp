// Graphs that are unusual but valid: each trains, and gives on several ranks the numbers of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/log.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/rank_job.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

struct OddGraph {
  Csr csr;
  bool directed = false;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> split;
  bool equal_rows = false;  // of features
};

std::filesystem::path write_odd_dataset(const TempDir& dir, const OddGraph& graph) {
  spdlog::set_level(spdlog::level::warn);
  const std::filesystem::path folder = dir.path() / "odd";
  DatasetWriter writer(folder);
  writer.info().name = "odd";
  writer.info().directed = graph.directed;
  writer.write_graph(graph.csr);
  const auto features = writer.write_features(3);
  for (std::size_t i = 0; i < graph.labels.size(); ++i) {
    const auto at = static_cast<float>(graph.equal_rows ? 1 : i);
    const float row[] = {std::sin(at), std::cos(at), 1};
    features->write(std::span<const float>(row));
  }
  features->close();
  writer.write_labels(graph.labels);
  writer.write_splits(graph.split, 1);
  writer.commit();
  return folder;
}

// The run of four epochs on rank 0.
struct FourEpochs {
  std::vector<double> losses;
  std::vector<float> first_gradients;                // of all parameters in the first epoch
  std::vector<float> first_values;                   // what the first epoch made of them
  std::vector<float> values;                         // what four epochs made of them
  std::map<std::string, std::int64_t> offsets = {};  // of parameters, by name
};

std::vector<float> numbers(ConstMatrixView row) {
  return {row.row<float>(0), row.row<float>(0) + row.cols};
}

FourEpochs four_epochs(const std::filesystem::path& dataset, int ranks, const std::string& model,
                       const std::string& method) {
  TrainOptions options;
  options.model.kind = model;
  options.model.hidden = 8;
  options.model.norm = Norm::kBatch;
  options.backend = "cpu";
  options.threads = 1;
  PartitionOptions partition;
  partition.method = method;
  partition.balance = PartitionBalance::kNodes;
  FourEpochs result;
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    ParameterStore& parameters = job.trainer().network().parameters();
    FourEpochs mine;
    for (int epoch = 1; epoch <= 4; ++epoch) {
      mine.losses.push_back(job.trainer().run_epoch(epoch).loss);
      if (epoch == 1) {
        mine.first_gradients = numbers(parameters.gradients());
        mine.first_values = numbers(parameters.values());
      }
    }
    job.trainer().evaluate(4);
    mine.values = numbers(parameters.values());
    for (const Parameter& each : parameters.list()) mine.offsets[each.name] = each.offset;
    if (transport.rank() == 0) result = mine;
  });
  return result;
}

std::vector<double> losses(const std::filesystem::path& dataset, int ranks,
                           const std::string& model, const std::string& method) {
  return four_epochs(dataset, ranks, model, method).losses;
}

void expect_same_on_ranks(const OddGraph& graph, const std::vector<int>& ranks,
                          const std::string& method = "contiguous",
                          const std::vector<std::string>& models = {"gcn", "sage"}) {
  const TempDir dir;
  const std::filesystem::path dataset = write_odd_dataset(dir, graph);
  for (const std::string& model : models) {
    const std::vector<double> one = losses(dataset, 1, model, method);
    ASSERT_EQ(one.size(), 4U);
    for (const double loss : one) ASSERT_TRUE(std::isfinite(loss));
    for (const int p : ranks) {
      const std::vector<double> several = losses(dataset, p, model, method);
      for (std::size_t epoch = 0; epoch < 4; ++epoch) {
        EXPECT_NEAR(several[epoch], one[epoch], 1e-5 * (1 + one[epoch])) << model << " on " << p;
      }
    }
  }
}

// Every third node trains, the next one validates, the rest tests; labels alternate.
OddGraph with_labels(Csr csr, bool directed) {
  OddGraph graph{std::move(csr), directed, {}, {}};
  for (std::int64_t i = 0; i < graph.csr.view().rows(); ++i) {
    graph.labels.push_back(static_cast<std::int32_t>(i % 3));
    graph.split.push_back(static_cast<std::uint8_t>(i % 3));
  }
  for (std::size_t i = 0; i < graph.labels.size(); i += 2) graph.split[i] = 0;
  return graph;
}

Csr path_graph(std::int32_t nodes, std::int32_t broken_at) {
  Csr csr;
  for (std::int32_t i = 0; i < nodes; ++i) {
    if (i > 0 && i != broken_at) csr.col_idx.push_back(i - 1);
    if (i + 1 < nodes && i + 1 != broken_at) csr.col_idx.push_back(i + 1);
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

TEST(OddGraphs, DuplicateEdgesSelfLoopsAndIsolatedNodes) {
  expect_same_on_ranks(with_labels(random_graph(60, 4, true, false, 9), true), {2, 3, 4});
  expect_same_on_ranks(with_labels(random_graph(60, 4, false, false, 9), false), {2, 3}, "metis");
}

TEST(OddGraphs, PartsWithoutHalo) {
  expect_same_on_ranks(with_labels(path_graph(12, 6), false), {2});
}

TEST(OddGraphs, NoEdgesAtAll) {
  Csr csr;
  csr.row_ptr.assign(9, 0);
  expect_same_on_ranks(with_labels(csr, false), {2, 4});
}

TEST(OddGraphs, ARankWithoutTrainingNodes) {
  OddGraph graph = with_labels(path_graph(12, -1), false);
  for (std::size_t i = 0; i < 12; ++i) graph.split[i] = i < 4 ? 0 : 1;
  expect_same_on_ranks(graph, {2, 3});
}

TEST(OddGraphs, UnlabelledNodesAndLabelGaps) {
  OddGraph graph = with_labels(path_graph(15, -1), false);
  for (std::size_t i = 0; i < 15; ++i) graph.labels[i] = i % 4 == 1 ? -1 : (i % 2 == 0 ? 0 : 7);
  expect_same_on_ranks(graph, {2, 3});
}

TEST(OddGraphs, OneNodePerRank) {
  expect_same_on_ranks(with_labels(path_graph(4, -1), false), {2, 3, 4});
}

// Node 0 has an edge to and from each other.
Csr star_graph(std::int32_t nodes) {
  Csr csr;
  for (std::int32_t i = 1; i < nodes; ++i) csr.col_idx.push_back(i);
  csr.row_ptr = {0, nodes - 1};
  for (std::int32_t i = 1; i < nodes; ++i) {
    csr.col_idx.push_back(0);
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

Csr clique(std::int32_t nodes) {
  Csr csr;
  csr.row_ptr = {0};
  for (std::int32_t i = 0; i < nodes; ++i) {
    for (std::int32_t j = 0; j < nodes; ++j) {
      if (j != i) csr.col_idx.push_back(j);
    }
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

// Columns that are constant but for rounding come to a batch norm, whose 1 / sqrt(1e-5) would make
// it 316 times as large in each layer. See inverse_deviation.
TEST(OddGraphs, EqualRowsOfFeatures) {
  const std::vector<std::string> models = {"gcn", "sage", "gat", "gatv2"};
  for (Csr csr : {star_graph(40), star_graph(5), clique(20), clique(3), path_graph(9, -1),
                  random_graph(60, 3, true, false, 9)}) {
    OddGraph graph = with_labels(std::move(csr), true);
    graph.equal_rows = true;
    expect_same_on_ranks(graph, {3}, "contiguous", models);
  }
}

// A term that a softmax has in common for all edges of a node changes nothing, so the gradient of
// the part of a score that belongs to the target is zero wherever no score crosses the kink of
// leaky ReLU. Rounding is left, which Adam's first step, rate * g / (|g| + 1e-8), makes large: its
// slope is at most rate / 1e-8. docs/training.md derives the bounds that are tested here.
TEST(OddGraphs, AttentionDiffersByNoMoreThanAdamMakesOfRounding) {
  const double rate = TrainOptions().optimizer.learning_rate;
  // Gradients are of the order of 1, behind two norms that multiply by 1 / sqrt(1e-5) at most.
  const double rounding = 0x1p-24 / 1e-5;
  for (const std::string model : {"gat", "gatv2"}) {
    for (Csr csr : {star_graph(5), star_graph(40), clique(3), path_graph(9, -1)}) {
      const TempDir dir;
      const auto dataset = write_odd_dataset(dir, with_labels(std::move(csr), false));
      const FourEpochs one = four_epochs(dataset, 1, model, "contiguous");
      const FourEpochs three = four_epochs(dataset, 3, model, "contiguous");
      EXPECT_NEAR(three.losses[0], one.losses[0], 1e-5 * (1 + one.losses[0])) << model;
      ASSERT_EQ(one.offsets, three.offsets);
      for (std::size_t k = 0; k < one.values.size(); ++k) {
        const double gradients = std::abs(static_cast<double>(three.first_gradients[k]) -
                                          static_cast<double>(one.first_gradients[k]));
        EXPECT_LE(gradients, rounding) << model << " " << k;
        const double first = std::abs(three.first_values[k] - one.first_values[k]);
        EXPECT_LE(first, 1e-6 + rate * std::min(2.0, gradients / 1e-8)) << model << " " << k;
        EXPECT_LE(std::abs(three.values[k] - one.values[k]), 1e-6 + 4 * 2 * rate) << model;
      }
    }
  }
}

TEST(OddGraphs, OneNode) {
  Csr csr;
  csr.row_ptr.assign(2, 0);
  expect_same_on_ranks(with_labels(csr, false), {});
  const TempDir dir;
  const std::filesystem::path dataset = write_odd_dataset(dir, with_labels(csr, false));
  const Error error = thrown_error([&] { losses(dataset, 2, "gcn", "contiguous"); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
}

}  // namespace
}  // namespace atl
