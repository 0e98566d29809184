// Dataset folders with links to predict, and the split that makes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "datasets/dataset_writer.hpp"
#include "datasets/import.hpp"
#include "datasets/split_links.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using fixtures::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A path 0 - 1 - 2 - 3 whose ends are to be joined.
void make_links_by_hand(const fs::path& folder) {
  write_file(folder / "dataset.json", R"({"directed": false})");
  write_file(folder / "row_ptr.npy", npy_bytes<std::int64_t>({0, 1, 3, 5, 6}));
  write_file(folder / "col_idx.npy", npy_bytes<std::int32_t>({1, 0, 2, 1, 3, 2}));
  write_file(folder / "links_train.npy", npy_bytes<std::int64_t>({0, 1, 2, 1, 2, 3}, {3, 2}));
  write_file(folder / "links_valid.npy", npy_bytes<std::int32_t>({0, 2}, {1, 2}));
  write_file(folder / "links_test.npy", npy_bytes<std::int64_t>({3, 0, 3, 1}, {2, 2}));
  write_file(folder / "links_valid_negatives.npy", npy_bytes<std::int64_t>({1, 3, 0}, {1, 3}));
  write_file(folder / "links_test_negatives.npy", npy_bytes<std::int64_t>({0, 3, 1, 3}, {2, 2}));
}

TEST(Links, OpensAHandMadeFolder) {
  const TempDir dir;
  make_links_by_hand(dir.path());
  const Dataset dataset = Dataset::open(dir.path());
  dataset.validate();
  EXPECT_EQ(dataset.info().task, Task::kLinkPrediction);
  EXPECT_THAT(dataset.info().links, ElementsAre(3, 1, 2));
  const Links& links = dataset.links();
  EXPECT_EQ(links.edges[0]->at(1, 0), 2);
  EXPECT_EQ(links.edges[1]->at(0, 1), 2);
  EXPECT_FALSE(links.negatives[0]->shared());
  EXPECT_EQ(links.negatives[0]->ids.at(0, 1), 3);
  EXPECT_TRUE(links.negatives[1]->shared());
  // They are part of the content.
  write_file(dir.path() / "links_test.npy", npy_bytes<std::int64_t>({3, 0, 2, 0}, {2, 2}));
  EXPECT_NE(Dataset::open(dir.path()).info().checksum, dataset.info().checksum);
}

// Each case spoils one file of the hand-made folder; empty bytes remove it.
TEST(Links, RefusesWrongFiles) {
  const auto expect = [](const char* file, const std::string& bytes,
                         std::initializer_list<const char*> parts) {
    const TempDir dir;
    make_links_by_hand(dir.path());
    bytes.empty() ? void(fs::remove(dir.path() / file)) : write_file(dir.path() / file, bytes);
    const Error error = thrown_error([&] { Dataset::open(dir.path()).validate(); });
    EXPECT_EQ(error.exit_code(), 2);
    for (const char* part : parts) EXPECT_THAT(error.what(), HasSubstr(part)) << file;
  };
  expect("links_train.npy", npy_bytes<std::int64_t>({0, 1, 0, 4}, {2, 2}),
         {"links_train.npy: row 1, column 1 is 4; allowed are node ids 0 to 3"});
  expect("links_test.npy", npy_bytes<std::int64_t>({0, -1}, {1, 2}), {"links_test.npy", "-1"});
  expect("links_train.npy", npy_bytes<std::int64_t>({0, 1, 2}, {1, 3}),
         {"links_train.npy: 3 columns; allowed are 2"});
  expect("links_train.npy", npy_bytes<float>({0, 1}, {1, 2}), {"links_train.npy", "<f4", "<i8"});
  expect("links_train.npy", npy_bytes<std::int64_t>({}, {0, 2}), {"links_train.npy", "at least 1"});
  expect("links_valid.npy", "", {"links_valid.npy: is missing"});
  expect("links_train.npy", "", {"links_valid.npy", "without links_train.npy"});
  expect("links_valid_negatives.npy", npy_bytes<std::int64_t>({1, 2, 3, 1, 2, 3}, {2, 3}),
         {"links_valid_negatives.npy: shape (2, 3)", "(1, k)", "(n, 2)"});
  expect("links_valid_negatives.npy", npy_bytes<std::int64_t>({1, 2, 9}, {1, 3}),
         {"links_valid_negatives.npy: row 0, column 2 is 9"});
  expect("labels.npy", npy_bytes<std::int32_t>({0, 1, 0, 1}), {"labels.npy", "links_train.npy"});
  expect("split.npy", npy_bytes<std::uint8_t>({0, 1, 0, 1}), {"split.npy", "links_train.npy"});
  expect("dataset.json", R"({"directed": false, "links": [3, 1, 3]})",
         {"'links' is [3, 1, 3]", "hold 3, 1, 2"});
  expect("dataset.json", R"({"directed": false, "task": "binary"})", {"'task' is 'binary'"});
}

ImportReport import_npy_folder(const fs::path& source, const fs::path& out) {
  ImportOptions options;
  options.source = source;
  options.out = out;
  return import_dataset("npy", options);
}

TEST(Links, AreImportedAsTheyAre) {
  const TempDir dir;
  make_links_by_hand(dir.path() / "source");
  fs::remove(dir.path() / "source/dataset.json");
  const ImportReport report = import_npy_folder(dir.path() / "source", dir.path() / "out");
  EXPECT_EQ(report.info.task, Task::kLinkPrediction);
  EXPECT_THAT(report.info.links, ElementsAre(3, 1, 2));
  const Dataset dataset = Dataset::open(dir.path() / "out");
  dataset.validate();
  EXPECT_EQ(dataset.links().edges[0]->at(1, 0), 2);
  EXPECT_EQ(dataset.links().negatives[0]->ids.columns(), 3);
  EXPECT_TRUE(dataset.links().negatives[1]->shared());
  write_file(dir.path() / "source/labels.npy", npy_bytes<std::int32_t>({0, 1, 0, 1}));
  const Error error =
      thrown_error([&] { import_npy_folder(dir.path() / "source", dir.path() / "more"); });
  EXPECT_THAT(error.what(), HasSubstr("labels or links"));
}

// The same lists as text beside a list of edges, and what is wrong in such.
class LinkTexts : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(source() / "edges.csv", "0,1\n1,2\n2,3\n");
    write_file(source() / "links_train.csv", "u,v\n0,1\n2,1\n2,3\n");
    write_file(source() / "links_valid.txt", "# one\n0 2\n\n");
    write_file(source() / "links_test.tsv", "3\t0\n3\t1\n");
    write_file(source() / "links_valid_negatives.csv", "1, 3, 0\n");
    write_file(source() / "links_test_negatives.npy",
               npy_bytes<std::int64_t>({0, 3, 1, 3}, {2, 2}));
  }
  fs::path source() const { return dir_.path() / "source"; }
  ImportReport import_edges(const char* out) const {
    ImportOptions options;
    options.source = source();
    options.out = dir_.path() / out;
    return import_dataset("edges", options);
  }
  std::string refused(const char* file, const std::string& text) {
    write_file(source() / file, text);
    return thrown_error([&] { import_edges("no"); }).what();
  }

  TempDir dir_;
};

TEST_F(LinkTexts, AreImported) {
  EXPECT_THAT(import_edges("out").info.links, ElementsAre(3, 1, 2));
  const Dataset dataset = Dataset::open(dir_.path() / "out");
  dataset.validate();
  const Links& links = dataset.links();
  EXPECT_EQ(links.edges[0]->at(1, 0), 2);
  EXPECT_EQ(links.edges[0]->at(1, 1), 1);
  EXPECT_EQ(links.edges[2]->at(1, 0), 3);
  EXPECT_EQ(links.negatives[0]->ids.columns(), 3);
  EXPECT_EQ(links.negatives[0]->ids.at(0, 1), 3);
  EXPECT_TRUE(links.negatives[1]->shared());
  // A dataset has arrays only.
  EXPECT_THAT(thrown_error([&] { Links::open(source()); }).what(),
              HasSubstr("without links_train.npy"));
}

TEST_F(LinkTexts, AreRefusedByFileAndLine) {
  EXPECT_THAT(refused("links_train.csv", "0,1\n2\n"),
              HasSubstr("links_train.csv: line 2: 1 node ids"));
  EXPECT_THAT(refused("links_train.csv", "0,1\n2,3,1\n"),
              HasSubstr("line 2: more than 2 node ids"));
  EXPECT_THAT(refused("links_train.csv", "0,1\n2,x\n"), HasSubstr("line 2, column 3"));
  EXPECT_THAT(refused("links_train.csv", "0,1\n2,-3\n"), HasSubstr("-3"));
  EXPECT_THAT(refused("links_train.csv", "0,1,2\n"), HasSubstr("3 columns; allowed are 2"));
  EXPECT_THAT(refused("links_train.csv", "0,1\n2,9\n"), HasSubstr("row 1, column 1 is 9"));
  EXPECT_THAT(refused("links_train.csv", "u,v\n"), HasSubstr("at least 1"));
  write_file(source() / "links_train.csv", "0,1\n");
  EXPECT_THAT(refused("links_valid_negatives.csv", "1,3,0\n1,3,0\n"), HasSubstr("shape (2, 3)"));
  write_file(source() / "links_valid_negatives.csv", "1,3,0\n");
  EXPECT_THAT(refused("links_valid.csv", "0,2\n"), HasSubstr("keep one of them"));
  fs::remove(source() / "links_valid.csv");
  fs::remove(source() / "links_train.csv");
  EXPECT_THAT(thrown_error([&] { import_edges("no"); }).what(),
              HasSubstr("without links_train.npy"));
}

using LinkEnds = std::pair<std::int64_t, std::int64_t>;

std::set<LinkEnds> edges_of(const Dataset& dataset) {
  std::set<LinkEnds> edges;
  const CsrView csr = dataset.graph().in_edges;
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (const std::int32_t j : csr.row(i)) edges.emplace(j, i);
  }
  return edges;
}

void make_graph(const fs::path& out, bool directed) {
  DatasetWriter writer(out);
  Csr csr;
  constexpr std::int32_t kNodes = 40;
  for (std::int32_t i = 0; i < kNodes; ++i) {
    std::set<std::int32_t> sources;
    for (const std::int32_t step : {1, 3, 7}) {
      sources.insert((i + step) % kNodes);
      if (!directed) sources.insert((i + kNodes - step) % kNodes);
    }
    csr.col_idx.insert(csr.col_idx.end(), sources.begin(), sources.end());
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  writer.info().name = "ring";
  writer.info().directed = directed;
  writer.write_graph(csr);
  const auto rows = writer.write_features(1);
  rows->write(std::span<const float>(std::vector<float>(kNodes, 1.0F)));
  rows->close();
  writer.commit();
}

class LinkSplits : public ::testing::TestWithParam<bool> {};

TEST_P(LinkSplits, HoldOutEdgesInBothDirections) {
  const bool directed = GetParam();
  const TempDir dir;
  make_graph(dir.path() / "ring", directed);
  const std::set<LinkEnds> all = edges_of(Dataset::open(dir.path() / "ring"));
  const LinkSplit split{.valid = 0.1, .test = 0.2, .negatives = 5, .seed = 3};
  const Dataset made = split_links(dir.path() / "ring", split, dir.path() / "links");
  made.validate();
  EXPECT_EQ(made.info().directed, directed);
  EXPECT_EQ(made.info().features, 1);
  EXPECT_THAT(made.info().links, ElementsAre(84, 12, 24));
  std::set<LinkEnds> seen;
  std::set<LinkEnds> held_out;
  for (std::size_t s = 0; s < 3; ++s) {
    const NodeIdMatrix& edges = *made.links().edges[s];
    for (std::int64_t k = 0; k < edges.rows(); ++k) {
      const LinkEnds edge{edges.at(k, 0), edges.at(k, 1)};
      const LinkEnds back{edge.second, edge.first};
      EXPECT_TRUE(all.contains(edge));
      EXPECT_TRUE(seen.insert(edge).second);
      EXPECT_TRUE(directed || !seen.contains(back));
      if (s > 0) held_out.insert(edge);
      if (s > 0 && !directed) held_out.insert(back);
    }
  }
  const std::set<LinkEnds> kept = edges_of(made);
  EXPECT_EQ(kept.size() + held_out.size(), all.size());
  for (const LinkEnds& edge : held_out) EXPECT_FALSE(kept.contains(edge));
  for (std::size_t s = 0; s < 2; ++s) {
    const NodeIdMatrix& ids = made.links().negatives[s]->ids;
    EXPECT_EQ(ids.columns(), 5);
    for (std::int64_t k = 0; k < ids.rows(); ++k) {
      for (std::int64_t c = 0; c < 5; ++c) {
        const LinkEnds pair{made.links().edges[s + 1]->at(k, 0), ids.at(k, c)};
        EXPECT_NE(pair.first, pair.second);
        EXPECT_FALSE(all.contains(pair));
      }
    }
  }
  const auto again = split_links(dir.path() / "ring", split, dir.path() / "again");
  EXPECT_EQ(again.info().checksum, made.info().checksum);
}

INSTANTIATE_TEST_SUITE_P(Graphs, LinkSplits, ::testing::Bool());

TEST(LinkSplit, RefusesWhatLeavesNothing) {
  const TempDir dir;
  make_graph(dir.path() / "ring", false);
  const auto refused = [&](const LinkSplit& split, const char* part) {
    const Error error =
        thrown_error([&] { split_links(dir.path() / "ring", split, dir.path() / "links"); });
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_FALSE(fs::exists(dir.path() / "links"));
  };
  refused({.valid = 0.001}, "--valid 0.001: no edge");
  refused({.valid = 0.5, .test = 0.5}, "is left to train on");
  refused({.negatives = 2}, "--negatives 2");
  split_links(dir.path() / "ring", {}, dir.path() / "links");
  const Error twice =
      thrown_error([&] { split_links(dir.path() / "links", {}, dir.path() / "more"); });
  EXPECT_THAT(twice.what(), HasSubstr("has links already"));
}

}  // namespace
}  // namespace atl
