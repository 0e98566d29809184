// Every importer on a tiny set written by the rules of its format, with hand-checked results.
#include "datasets/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "datasets/statistics.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/datasets/import_fixture.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;

class Import : public ImportFixture {
 protected:
  static std::vector<std::int32_t> columns(const Dataset& dataset) {
    const auto span = dataset.graph().in_edges.col_idx;
    return {span.begin(), span.end()};
  }
};

// The triangle 0-1-2 and the isolated node 3.
void expect_triangle(const Dataset& dataset) {
  EXPECT_EQ(dataset.info().nodes, 4);
  EXPECT_EQ(dataset.info().edges, 6);
  EXPECT_FALSE(dataset.info().directed);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 2, 4, 6, 6));
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 2, 0, 2, 0, 1));
}

TEST_F(Import, OgbText) {
  const Dataset dataset = import("ogb", fixtures::make_ogb_text(in()));
  expect_triangle(dataset);
  EXPECT_EQ(dataset.info().name, "in");
  EXPECT_EQ(dataset.info().edges_source, 5);
  EXPECT_EQ(report_.duplicates, 1);
  EXPECT_THAT(dataset.features(), ElementsAre(1, -2.5F, 0, 1e-3F, 3, 3, 0.5F, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, -1, 2));
  EXPECT_EQ(dataset.info().classes, 3);
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2));
  EXPECT_EQ(dataset.info().provenance["split_scheme"], "time");
}

TEST_F(Import, OgbTextDirectedKeepsDirections) {
  options_.directed = true;
  const Dataset dataset = import("ogb", fixtures::make_ogb_text(in()));
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 3, 4, 4));
  EXPECT_THAT(columns(dataset), ElementsAre(2, 0, 2, 1));
  EXPECT_TRUE(dataset.info().directed);
  EXPECT_FALSE(dataset.graph().symmetric);
}

TEST_F(Import, OgbTextWithSeveralLabelsPerNode) {
  fixtures::make_ogb_text(in());
  fixtures::write_gz(in() / "raw/node-label.csv.gz", "0,1\n1.0,nan\nnan,nan\n1,1\n");
  const Dataset dataset = import("ogb", in());
  EXPECT_EQ(dataset.info().task, Task::kMultiLabel);
  EXPECT_THAT(dataset.multi_labels(), ElementsAre(0, 1, 1, 255, 255, 255, 1, 1));
}

TEST_F(Import, OgbBinary) {
  const Dataset dataset = import("ogb", fixtures::make_ogb_binary(in()));
  expect_triangle(dataset);
  EXPECT_THAT(dataset.features(), ElementsAre(1, -2.5F, 0, 0x1p-10F, 3, 3, 0.5F, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, -1, 2));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2));
}

TEST_F(Import, PlanetoidWithAnIsolatedTestNode) {
  const Dataset dataset = import("planetoid", fixtures::make_planetoid(in()));
  EXPECT_EQ(dataset.info().name, "tiny");
  EXPECT_EQ(dataset.info().nodes, 6);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 2, 4, 7, 7, 7, 8));
  EXPECT_THAT(columns(dataset), ElementsAre(1, 2, 0, 2, 0, 1, 5, 2));
  EXPECT_EQ(report_.self_loops, 1);
  EXPECT_EQ(report_.duplicates, 1);
  EXPECT_THAT(dataset.features(), ElementsAre(0, 1, 0, 0, 2, 3, 0, 6, 0, 0, 5, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, 2, 0, -1, 2));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 1, 1, 2, 255, 2));
}

TEST_F(Import, PlanetoidFolderWithOneSet) {
  fixtures::make_planetoid(in());
  EXPECT_EQ(import("planetoid", in()).info().nodes, 6);
}

TEST_F(Import, RowNormalizeScalesRowsToSumOne) {
  options_.row_normalize = true;
  const Dataset dataset = import("planetoid", fixtures::make_planetoid(in()));
  EXPECT_THAT(dataset.features(), ElementsAre(0, 1, 0, 0, 0.4F, 0.6F, 0, 1, 0, 0, 1, 0));
}

TEST_F(Import, Graphsaint) {
  const Dataset dataset = import("graphsaint", fixtures::make_graphsaint(in()));
  expect_triangle(dataset);
  EXPECT_THAT(dataset.features(), ElementsAre(1, -2.5F, 0, 1e-3F, 3, 3, 0.5F, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, -1, 2));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2));
}

TEST_F(Import, GraphsaintMultiLabel) {
  const Dataset dataset = import("graphsaint", fixtures::make_graphsaint_multi_label(in()));
  EXPECT_EQ(dataset.info().task, Task::kMultiLabel);
  EXPECT_EQ(dataset.info().classes, 2);
  EXPECT_THAT(dataset.multi_labels(), ElementsAre(0, 1, 1, 1, 255, 255, 0, 0));
  EXPECT_THAT(dataset.labels(), IsEmpty());
}

TEST_F(Import, GnnBenchmarkWithAMadeSplit) {
  options_.split = parse_split("0.5,0.25,0.25");
  const Dataset dataset = import("gnn-benchmark", fixtures::make_gnn_benchmark(in()));
  expect_triangle(dataset);
  EXPECT_THAT(dataset.features(), ElementsAre(1, -2.5F, 0, 0.125F, 3, 3, 0.5F, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, 0, 2));
  EXPECT_THAT(dataset.split(0), ::testing::UnorderedElementsAre(0, 0, 1, 2));
}

TEST_F(Import, HeterophilousWithTwoSplits) {
  const Dataset dataset = import("heterophilous", fixtures::make_heterophilous(in()));
  expect_triangle(dataset);
  EXPECT_EQ(dataset.info().task, Task::kBinary);
  EXPECT_EQ(dataset.info().splits, 2);
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(dataset.split(1), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(thrown_error([&] { dataset.split(2); }).what(), HasSubstr("allowed are 0 to 1"));
}

TEST_F(Import, NpyWithWeights) {
  const Dataset dataset = import("npy", fixtures::make_npy(in()));
  expect_triangle(dataset);
  EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(1.5F, 4, 1.5F, 3, 4, 3));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 2, -1, 2));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2));
}

TEST_F(Import, NpyRowsHoldInEdges) {
  options_.directed = true;
  const Dataset dataset = import("npy", fixtures::make_npy_rows(in()));
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 3, 4, 4));
  EXPECT_THAT(columns(dataset), ElementsAre(2, 0, 2, 1));
  EXPECT_EQ(report_.duplicates, 1);
}

TEST_F(Import, EdgesWithWeightsCommentsAndEverySeparator) {
  options_.nodes = 4;
  const Dataset dataset = import("edges", fixtures::make_edges(in()));
  expect_triangle(dataset);
  EXPECT_EQ(dataset.info().name, "graph");
  EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(1.5F, 4, 1.5F, 3, 4, 3));
}

TEST_F(Import, EdgesInAFolderWithNodeArrays) {
  fixtures::write_gz(in() / "edges.csv.gz", "0,1\n2,0\n");
  fixtures::write_file(in() / "labels.npy", fixtures::npy_bytes<std::int32_t>({1, 0, 1}));
  const Dataset dataset = import("edges", in());
  EXPECT_THAT(columns(dataset), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(dataset.labels(), ElementsAre(1, 0, 1));
  EXPECT_FALSE(dataset.info().weighted);
}

TEST_F(Import, MetisWithNodeAndEdgeWeights) {
  const Dataset dataset = import("metis", fixtures::make_metis(in()));
  expect_triangle(dataset);
  EXPECT_EQ(dataset.info().edges_source, 3);
  EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(1.5F, 4, 1.5F, 2, 4, 2));
}

TEST_F(Import, MetisWithoutFormat) {
  fixtures::write_file(in() / "a.graph", "3 2\n2\n1 3\n2\n");
  EXPECT_THAT(columns(import("metis", in() / "a.graph")), ElementsAre(1, 0, 2, 1));
}

TEST_F(Import, OneNode) {
  fixtures::write_file(in() / "labels.npy", fixtures::npy_bytes<std::int32_t>({0}));
  fixtures::write_file(in() / "edge_index.npy", fixtures::npy_bytes<std::int32_t>({0, 0}, {2, 1}));
  options_.split = parse_split("1,0,0");
  const Dataset dataset = import("npy", in());
  EXPECT_EQ(dataset.info().nodes, 1);
  EXPECT_EQ(dataset.info().edges, 0);
  EXPECT_EQ(report_.self_loops, 1);
  EXPECT_THAT(dataset.split(0), ElementsAre(0));
}

// Floating-point labels of plain arrays are numbers to predict.
TEST_F(Import, NpyWithRealLabels) {
  fixtures::make_npy(in());
  fixtures::write_file(in() / "labels.npy",
                       fixtures::npy_bytes<float>({0, 2.5F, std::nanf(""), -1}));
  const Dataset dataset = import("npy", in());
  EXPECT_EQ(dataset.info().task, Task::kRegression);
  EXPECT_EQ(dataset.info().classes, 1);
  EXPECT_THAT(dataset.labels(), IsEmpty());
  EXPECT_THAT(dataset.real_labels(), ElementsAre(0, 2.5F, IsNan(), -1));
  EXPECT_THAT(dataset.labelled(), ElementsAre(1, 1, 0, 1));
  const DatasetStatistics statistics = describe_dataset(dataset);
  ASSERT_EQ(statistics.numbers.size(), 1U);
  EXPECT_EQ(statistics.numbers[0].labelled, 3);
  EXPECT_DOUBLE_EQ(statistics.numbers[0].mean, 0.5);
  EXPECT_DOUBLE_EQ(statistics.numbers[0].deviation, std::sqrt((0.25 + 4 + 2.25) / 3));
  EXPECT_EQ(statistics.unlabelled, 1);
}

TEST_F(Import, NpyWithSeveralRealLabelsPerNode) {
  fixtures::make_npy(in());
  fixtures::write_file(in() / "labels.npy",
                       fixtures::npy_bytes<double>({0, 1, 2, 3, 4, 5, 6, 0.1}, {4, 2}));
  const Dataset dataset = import("npy", in());
  EXPECT_EQ(dataset.info().classes, 2);
  EXPECT_THAT(dataset.real_labels(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 0.1F));
}

TEST_F(Import, TaskSaysWhatLabelsAre) {
  fixtures::make_npy(in());
  options_.task = Task::kRegression;
  EXPECT_THAT(import("npy", in()).real_labels(), ElementsAre(0, 2, -1, 2));
  fixtures::write_file(in() / "labels.npy", fixtures::npy_bytes<float>({0, 2, std::nanf(""), 2}));
  options_.task = Task::kSingleLabel;
  EXPECT_THAT(import("npy", in()).labels(), ElementsAre(0, 2, -1, 2));
}

TEST_F(Import, SelfLoopsStayOnRequest) {
  options_.keep_self_loops = true;
  const Dataset dataset = import("planetoid", fixtures::make_planetoid(in()));
  EXPECT_EQ(dataset.info().edges, 9);
  EXPECT_THAT(dataset.graph().in_edges.row(3), ElementsAre(3));
}

TEST_F(Import, OptionsReplaceNameSplitAndTask) {
  options_.name = "other";
  options_.split = parse_split("0.5,0.5,0");
  const Dataset dataset = import("heterophilous", fixtures::make_heterophilous(in()));
  EXPECT_EQ(dataset.info().name, "other");
  EXPECT_EQ(dataset.info().splits, 1);
  options_.task = Task::kSingleLabel;
  EXPECT_EQ(import("heterophilous", in() / "tiny.npz").info().task, Task::kSingleLabel);
}

TEST_F(Import, NamesThatAreNotUtf8AreWritten) {
  options_.name = "caf\xE9";
  EXPECT_THAT(import("edges", fixtures::make_edges(in())).info().name, HasSubstr("caf"));
}

TEST_F(Import, UnknownFormatListsAll) {
  const Error error = thrown_error([&] { import("csv", in()); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_STREQ(error.what(),
               "unknown format 'csv'; allowed are ogb, planetoid, graphsaint, gnn-benchmark, "
               "heterophilous, npy, edges, matrix-market, metis");
}

}  // namespace
}  // namespace atl
