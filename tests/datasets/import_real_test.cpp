// Importers on the real sets, against their published sizes. Skipped where the data is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/import.hpp"
#include "datasets/statistics.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using Counts = std::array<std::int64_t, 3>;

class RealImport : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = shared_data();
    if (!found) GTEST_SKIP() << "the real graphs are not there (ATOLL_SHARED_DATA)";
    data_ = *found;
  }
  Dataset import(const std::string& format, const fs::path& source) {
    options_.source = source;
    options_.out = dir_.path() / "out";
    import_dataset(format, options_);
    Dataset dataset = Dataset::open(options_.out);
    dataset.validate();
    statistics_ = describe_dataset(dataset);
    return dataset;
  }

  fs::path data_;
  TempDir dir_;
  ImportOptions options_;
  DatasetStatistics statistics_;
};

TEST_F(RealImport, Cora) {
  const Dataset dataset = import("planetoid", data_ / "planetoid/ind.cora");
  EXPECT_EQ(dataset.info().name, "cora");
  EXPECT_EQ(dataset.info().nodes, 2708);
  EXPECT_EQ(dataset.info().edges, 2 * 5278);
  EXPECT_EQ(dataset.info().features, 1433);
  EXPECT_EQ(dataset.info().classes, 7);
  EXPECT_EQ(statistics_.splits.at(0), (Counts{140, 500, 1000}));
  EXPECT_EQ(statistics_.unlabelled, 0);
  // 49,216 words over all papers, as in the published set (features are 0 or 1).
  double words = 0;
  for (const float value : dataset.features()) words += static_cast<double>(value);
  EXPECT_EQ(words, 49216);
  EXPECT_NEAR(statistics_.homophily, 0.81, 0.005);
}

TEST_F(RealImport, OgbnArxiv) {
  const Dataset dataset = import("ogb", data_ / "ogbn_arxiv_llmrank40");
  EXPECT_EQ(dataset.info().nodes, 169343);
  EXPECT_EQ(dataset.info().edges_source, 1166243);
  EXPECT_EQ(dataset.info().edges, 2315598);
  EXPECT_EQ(dataset.info().classes, 40);
  EXPECT_EQ(dataset.info().features, 40);
  EXPECT_EQ(statistics_.splits.at(0), (Counts{90941, 29799, 48603}));
  EXPECT_EQ(statistics_.self_loops, 0);
}

// Both layouts of the same directed graph give the same rows, labels and split.
TEST_F(RealImport, GraphsaintEqualsOgb) {
  options_.directed = true;
  const fs::path folder = dir_.path() / "saint";
  fs::create_directories(folder);
  for (const char* file : {"adj_full.npz", "role.json", "class_map.json"}) {
    fs::copy_file(data_ / "graphsaint_arxiv" / file, folder / file);
  }
  fixtures::write_file(folder / "feats.npy",
                       fixtures::npy_bytes(std::vector<double>(169343, 0.5), {169343, 1}));
  const Dataset saint = import("graphsaint", folder);
  EXPECT_EQ(saint.info().edges, 1166243);
  EXPECT_EQ(statistics_.splits.at(0), (Counts{90941, 29799, 48603}));
  options_.out = dir_.path() / "ogb";
  options_.source = data_ / "ogbn_arxiv_llmrank40";
  import_dataset("ogb", options_);
  const Dataset ogb = Dataset::open(options_.out);
  EXPECT_TRUE(std::ranges::equal(saint.graph().in_edges.row_ptr, ogb.graph().in_edges.row_ptr));
  EXPECT_TRUE(std::ranges::equal(saint.graph().in_edges.col_idx, ogb.graph().in_edges.col_idx));
  EXPECT_TRUE(std::ranges::equal(saint.labels(), ogb.labels()));
  EXPECT_TRUE(std::ranges::equal(saint.split(0), ogb.split(0)));
}

TEST_F(RealImport, CoauthorCsWithASplitPerClass) {
  options_.split = parse_split("per-class:20,500,1000");
  const Dataset dataset = import("gnn-benchmark", data_ / "gnn_benchmark/coauthor_cs.npz");
  EXPECT_EQ(dataset.info().nodes, 18333);
  EXPECT_EQ(dataset.info().edges, 2 * 81894);
  EXPECT_EQ(dataset.info().features, 6805);
  EXPECT_EQ(dataset.info().classes, 15);
  EXPECT_EQ(statistics_.splits.at(0), (Counts{300, 500, 1000}));
}

TEST_F(RealImport, AmazonPhoto) {
  const Dataset dataset = import("gnn-benchmark", data_ / "gnn_benchmark/amazon_photo.npz");
  EXPECT_EQ(dataset.info().nodes, 7650);
  EXPECT_EQ(dataset.info().edges, 2 * 119081);
  EXPECT_EQ(dataset.info().features, 745);
  EXPECT_EQ(dataset.info().classes, 8);
  EXPECT_EQ(dataset.info().splits, 0);
}

TEST_F(RealImport, Tolokers) {
  const Dataset dataset = import("heterophilous", data_ / "heterophilous/tolokers.npz");
  EXPECT_EQ(dataset.info().nodes, 11758);
  EXPECT_EQ(dataset.info().edges_source, 519000);
  EXPECT_EQ(dataset.info().edges, 2 * 519000);
  EXPECT_EQ(dataset.info().task, Task::kBinary);
  EXPECT_EQ(dataset.info().splits, 10);
}

TEST_F(RealImport, MetisGraphs) {
  EXPECT_EQ(import("metis", data_ / "metis/wing.graph").info().edges, 2 * 121544);
  EXPECT_EQ(statistics_.degrees.maximum, 4);
  options_.out = dir_.path() / "astro";
  options_.source = data_ / "metis/astro-ph.graph";
  const DatasetInfo astro = import_dataset("metis", options_).info;
  EXPECT_EQ(astro.nodes, 16706);
  EXPECT_EQ(astro.edges, 2 * 121251);
}

}  // namespace
}  // namespace atl
