// Graphs that are unusual but valid: each trains, and gives on several ranks the numbers of one.
#include <gtest/gtest.h>

#include <cmath>

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
    const float row[] = {std::sin(static_cast<float>(i)), std::cos(static_cast<float>(i)), 1};
    features->write(std::span<const float>(row));
  }
  features->close();
  writer.write_labels(graph.labels);
  writer.write_splits(graph.split, 1);
  writer.commit();
  return folder;
}

std::vector<double> losses(const std::filesystem::path& dataset, int ranks,
                           const std::string& model, const std::string& method) {
  TrainOptions options;
  options.model.kind = model;
  options.model.hidden = 8;
  options.model.norm = Norm::kBatch;
  options.backend = "cpu";
  options.threads = 1;
  PartitionOptions partition;
  partition.method = method;
  partition.balance = PartitionBalance::kNodes;
  std::vector<double> result;
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    std::vector<double> mine;
    for (int epoch = 1; epoch <= 4; ++epoch) mine.push_back(job.trainer().run_epoch(epoch).loss);
    job.trainer().evaluate(4);
    if (transport.rank() == 0) result = mine;
  });
  return result;
}

void expect_same_on_ranks(const OddGraph& graph, const std::vector<int>& ranks,
                          const std::string& method = "contiguous") {
  const TempDir dir;
  const std::filesystem::path dataset = write_odd_dataset(dir, graph);
  for (const std::string model : {"gcn", "sage"}) {
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
