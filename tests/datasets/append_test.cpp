// Everything that is appended, removed and changed, compared with literal graphs and with one that
// is kept as a map.
#include "datasets/append.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "base/files.hpp"
#include "base/json.hpp"
#include "datasets/import.hpp"
#include "datasets/made_features.hpp"
#include "datasets/resplit.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Nodes 0 to 3 in a path, with features, classes and roles; and what appends to it needs.
class Growing : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path source = at("source");
    write_npy<std::int64_t>(make(source) / "edge_index.npy",
                            std::vector<std::int64_t>{0, 1, 2, 1, 2, 3}, {2, 3});
    write_npy<float>(source / "x.npy", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
    write_npy<std::int32_t>(source / "y.npy", std::vector<std::int32_t>{0, 1, 0, 1}, {4});
    write_npy<std::uint8_t>(source / "split.npy", std::vector<std::uint8_t>{0, 0, 1, 2}, {4});
    options_.data = at("base");
    options_.out = at("next");
    import_base({});
  }

  void import_base(ImportOptions options) {
    fs::remove_all(at("base"));
    options.source = at("source");
    options.out = at("base");
    import_dataset("npy", options);
  }

  fs::path at(const char* name) const { return dir_.path() / name; }
  static fs::path make(const fs::path& folder) {
    fs::create_directories(folder);
    return folder;
  }
  fs::path text(const char* name, const std::string& content) const {
    write_file(at(name), content);
    return at(name);
  }
  template <typename T>
  fs::path array(const char* name, const std::vector<T>& values,
                 const std::vector<std::int64_t>& shape) const {
    write_npy<T>(at(name), values, shape);
    return at(name);
  }

  Dataset append() {
    append_dataset(options_);
    Dataset dataset = Dataset::open(options_.out);
    dataset.validate();
    return dataset;
  }
  // The message of an append that fails and leaves nothing.
  std::string refused() {
    const Error error = thrown_error([&] { append_dataset(options_); });
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_FALSE(fs::exists(options_.out));
    return error.what();
  }

  TempDir dir_;
  AppendOptions options_;
};

TEST_F(Growing, FilesAreThoseOfAnImport) {
  options_.nodes = text("x.csv", "9,10\n11,12\n").string();
  options_.edges = text("edges.csv", "source,target\n4,0\n0,4\n5,5\n4,1\n");
  options_.labels = text("y.txt", "1\n0\n");
  options_.split = text("split.txt", "0\n2\n").string();
  const AppendReport report = append_dataset(options_);
  EXPECT_EQ(report.nodes_added, 2);
  EXPECT_EQ(report.entries_added, 4);
  EXPECT_EQ(report.self_loops, 1);
  const Dataset dataset = Dataset::open(at("next"));
  dataset.validate();
  EXPECT_EQ(dataset.info().name, "next");
  EXPECT_EQ(dataset.info().edges_source, 7);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 2, 5, 7, 8, 10, 10));
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 4, 0, 2, 4, 1, 3, 2, 0, 1));
  EXPECT_THAT(dataset.features(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 1, 0, 1, 1, 0));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2, 0, 2));
}

TEST_F(Growing, NodesWithoutLabelsAndRolesHaveNone) {
  options_.nodes = text("x.csv", "9,10\n11,12\n").string();
  const Dataset dataset = append();
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 1, 0, 1, -1, -1));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 0, 1, 2, 255, 255));
}

TEST_F(Growing, RemovedNodesKeepTheirIds) {
  options_.remove_nodes = text("gone.txt", "1\n").string();
  options_.change_features = array<std::int32_t>("ids.npy", {3, 0}, {2}).string() + "," +
                             text("rows.csv", "0.5 1\n2 3\n").string();
  options_.edges = text("edges.txt", "0 3\n");
  const Dataset dataset = append();
  EXPECT_EQ(dataset.info().nodes, 4);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 1, 2, 4));
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(3, 3, 0, 2));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, -1, 0, 1));
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 255, 1, 2));
  EXPECT_THAT(dataset.features(), ElementsAre(2, 3, 3, 4, 5, 6, 0.5, 1));
  // The base is as it was.
  Dataset::open(at("base")).validate();
  EXPECT_THAT(Dataset::open(at("base")).features(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(Growing, ReplacedEdgesAreNoNewOnes) {
  options_.remove_edges = text("gone.txt", "0 1\n2 3\n");
  options_.edges = text("edges.txt", "1 0\n0 2\n");
  const AppendReport report = append_dataset(options_);
  EXPECT_EQ(report.entries_added, 2);
  EXPECT_EQ(report.entries_removed, 2);
  EXPECT_EQ(report.entries_replaced, 2);
  const Json link = describe_chain(Dataset::open(at("next")).grown()->chain()).back();
  EXPECT_EQ(link.at("edges_added"), 2);
  EXPECT_EQ(link.at("edges_removed"), 2);
  EXPECT_EQ(report.info.edges_source, 3);
  // Nothing but a replacement is a change, too.
  options_.data = at("next");
  options_.out = at("after");
  options_.remove_edges = text("gone.txt", "0 1\n");
  options_.edges = text("edges.txt", "0 1\n");
  append();
  const Json after = describe_chain(Dataset::open(at("after")).grown()->chain()).back();
  EXPECT_EQ(after.at("edges_added"), 0);
  EXPECT_EQ(after.at("edges_removed"), 0);
}

// Equal appends fold as the bits of a binary counter do.
TEST_F(Growing, ChainsStayShort) {
  const auto base_of = [&](int step) {
    return step == 0 ? at("base") : at("step") += std::to_string(step);
  };
  for (int step = 1; step <= 20; ++step) {
    options_.data = base_of(step - 1);
    options_.out = base_of(step);
    options_.nodes = text("x.csv", "9,10\n").string();
    options_.labels = text("y.txt", "1\n");
    options_.edges = text("edges.txt", fmt::format("{} {}\n", 3 + step, step % 4));
    const Dataset dataset = append();
    const Chain& chain = dataset.grown()->chain();
    ASSERT_EQ(std::ssize(chain.deltas), std::popcount(static_cast<unsigned>(step))) << step;
    EXPECT_EQ(chain.deltas.back().nodes_added(), step & -step) << step;
  }
  const Json link = describe_chain(Dataset::open(base_of(20)).grown()->chain()).back();
  EXPECT_EQ(link.at("folded"), Json({"step17", "step18", "step19"}));
  // Folders whose changes are elsewhere are not needed.
  for (const int step : {1, 2, 3, 17, 18, 19}) fs::remove_all(base_of(step));
  Dataset::open(base_of(20)).validate();
  // A delta that has all rows of the whole stays as it is, and so does one far larger than the
  // next.
  resplit(base_of(20), "0.5,0.25,0.25", 1, true);
  options_.data = base_of(20);
  options_.out = at("after");
  options_.edges = text("edges.txt", "23 0\n");
  EXPECT_EQ(append().grown()->chain().deltas.back().folder.filename(), "after");
  EXPECT_EQ(Dataset::open(at("after")).grown()->chain().deltas.size(), 3U);
}

// Without an array that has a value, and with nothing but ids.
TEST_F(Growing, ChainsStayShortWithoutValues) {
  fs::remove(at("source") / "x.npy");
  fs::remove(at("source") / "y.npy");
  fs::remove(at("source") / "split.npy");
  import_base({});
  for (int step = 1; step <= 6; ++step) {
    options_.data = step == 1 ? at("base") : at("step") += std::to_string(step - 1);
    options_.out = at("step") += std::to_string(step);
    options_.nodes = "1";
    EXPECT_LE(append().grown()->chain().deltas.size(), 2U) << step;
  }
}

TEST_F(Growing, DescriptionsByHand) {
  options_.edges = text("edges.txt", "0 2\n");
  append();
  const fs::path file = at("next") / "dataset.json";
  const Json json = read_json(file);
  const auto edit = [&](const auto& change) {
    Json edited = json;
    edited.erase("seal");
    change(edited);
    write_json(file, edited);
  };
  // A new split seals what the description says, even where it says little.
  edit([](Json& edited) { edited.erase("edges"); });
  resplit(at("next"), "0.5,0.25,0.25", 1, true);
  Dataset::open(at("next")).validate();
  fs::remove(at("next") / "split.npy");
  edit([](Json& edited) { edited["delta"]["edges_added"] = 3; });
  EXPECT_THAT(thrown_error([&] { Dataset::open(at("next")); }).what(),
              HasSubstr("'edges_added' is 3; allowed are 0 to 2"));
  edit([](Json& edited) { edited["delta"]["folded"] = 5; });
  EXPECT_THAT(
      thrown_error([&] { describe_chain(Dataset::open(at("next")).grown()->chain()); }).what(),
      HasSubstr("folded"));
  // Its files are checked where nothing is said of the whole.
  edit([](Json& edited) {
    edited.erase("files");
    edited.erase("checksum");
  });
  std::fstream(at("base") / "features.npy", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-1, std::ios::end)
      .put('\x7f');
  EXPECT_THAT(thrown_error([&] { Dataset::open(at("next")).validate_checksums(); }).what(),
              HasSubstr("features.npy: changed since"));
}

TEST_F(Growing, EntriesSetAndRemovedInWhatIsFolded) {
  // 0-1 is of the base, 0-2 is not; both are set in one delta and removed in the next.
  options_.remove_edges = text("gone.txt", "0 1\n");
  options_.edges = text("edges.txt", "0 2\n0 1\n");
  options_.nodes = text("x.csv", "9,10\n").string();
  append();
  options_.data = at("next");
  options_.out = at("after");
  options_.nodes.clear();
  options_.edges.clear();
  options_.remove_edges = text("gone.txt", "0 2\n0 1\n");
  options_.remove_nodes = "4";  // new in the first
  options_.change_features = "0,4," + text("rows.csv", "0 1\n2 3\n").string();
  const Dataset dataset = append();
  ASSERT_EQ(dataset.grown()->chain().deltas.size(), 1U);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 0, 1, 3, 4, 4));
  EXPECT_THAT(dataset.features(), ElementsAre(0, 1, 3, 4, 5, 6, 7, 8, 2, 3));
  EXPECT_THAT(dataset.labels(), ElementsAre(0, 1, 0, 1, -1));
  const Json link = describe_chain(dataset.grown()->chain()).back();
  EXPECT_EQ(link.at("edges_added"), 0);
  EXPECT_EQ(link.at("edges_removed"), 2);
  EXPECT_EQ(link.at("nodes_removed"), 0);
  EXPECT_EQ(link.at("features_changed"), 1);
}

TEST_F(Growing, EdgesInTheSourceAreThoseOfAnImportOfTheRest) {
  options_.remove_nodes = "1";
  EXPECT_EQ(append().info().edges_source, 1);
  fs::remove_all(at("next"));
  ImportOptions directed;
  directed.directed = true;
  import_base(directed);
  EXPECT_EQ(append().info().edges_source, 1);
  fs::remove_all(at("next"));
  // Each direction stands in the source.
  write_npy<std::int64_t>(at("source") / "edge_index.npy",
                          std::vector<std::int64_t>{0, 1, 2, 1, 2, 3, 1, 2, 3, 0, 1, 2}, {2, 6});
  import_base({});
  EXPECT_EQ(append().info().edges_source, 2);
  fs::remove_all(at("next"));
  // An edge back of a relation of its own does not.
  write_npy<std::int64_t>(at("source") / "edge_index.npy",
                          std::vector<std::int64_t>{0, 1, 2, 1, 2, 3}, {2, 3});
  write_npy<std::int64_t>(at("source") / "edge_type.npy", std::vector<std::int64_t>{0, 1, 1}, {3});
  directed.reverse_relations = true;
  import_base(directed);
  EXPECT_EQ(append().info().edges_source, 1);
}

TEST_F(Growing, NodesAreListedAsPredictTakesThem) {
  options_.remove_nodes = "1";
  options_.change_features = "2-3,0," + text("rows.csv", "5 6\n7 8\n9 10\n").string();
  const Dataset dataset = append();
  EXPECT_THAT(dataset.labels(), ElementsAre(0, -1, 0, 1));
  EXPECT_THAT(dataset.features(), ElementsAre(9, 10, 3, 4, 5, 6, 7, 8));
}

TEST_F(Growing, BothFoldersMove) {
  options_.edges = text("edges.txt", "0 3\n");
  append();
  make(at("elsewhere"));
  fs::rename(at("base"), at("elsewhere") / "base");
  fs::rename(at("next"), at("elsewhere") / "next");
  Dataset::open(at("elsewhere") / "next").validate();
  fs::rename(at("elsewhere") / "next", at("next"));
  const std::string message = thrown_error([&] { Dataset::open(at("next")); }).what();
  EXPECT_THAT(message, HasSubstr("its base"));
  EXPECT_THAT(message, HasSubstr("is not there"));
}

TEST_F(Growing, ABaseThatHasChangedIsNamed) {
  options_.edges = text("edges.txt", "0 3\n");
  append();
  const std::string before = Dataset::open(at("base")).info().checksum;
  resplit(at("base"), ".5,.25,.25", 7, true);
  const std::string message = thrown_error([&] { Dataset::open(at("next")); }).what();
  EXPECT_THAT(message, HasSubstr(before));
  EXPECT_THAT(message, HasSubstr(Dataset::open(at("base")).info().checksum));
  EXPECT_THAT(message, HasSubstr("has changed"));
}

TEST_F(Growing, ADeltaWithoutAChecksumIsNoBase) {
  options_.edges = text("edges.txt", "0 3\n");
  append();
  const fs::path file = at("next") / "dataset.json";
  Json json = read_json(file);
  for (const char* field : {"checksum", "files", "seal"}) json.erase(field);
  write_json(file, json);
  options_.data = at("next");
  options_.out = at("third");
  options_.edges = text("edges.txt", "0 2\n");
  const std::string message = refused();
  EXPECT_THAT(message, HasSubstr(file.string() + ": field 'checksum' is missing"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("has changed")));
  // As the message says.
  compact_dataset(at("next"), at("whole"));
  options_.data = at("whole");
  EXPECT_EQ(append().info().edges, 10);
}

TEST_F(Growing, DamageIsFoundByTheFile) {
  options_.nodes = text("x.csv", "9,10\n").string();
  append();
  for (const fs::path& file : {at("base") / "features.npy", at("next") / "added_features.npy"}) {
    std::string bytes = read_text(file);
    const std::string whole = bytes;
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(file, std::ios::binary) << bytes;
    const Dataset dataset = Dataset::open(at("next"));
    const std::string message = thrown_error([&] { dataset.validate_checksums(); }).what();
    EXPECT_THAT(message, HasSubstr(file.string()));
    std::ofstream(file, std::ios::binary) << whole;
  }
  Dataset::open(at("next")).validate_checksums();
}

TEST_F(Growing, AChainThatIsItsOwnBaseIsRefused) {
  options_.edges = text("edges.txt", "0 3\n");
  const std::string checksum = append().info().checksum;
  Json json = read_json(at("next") / "dataset.json");
  json.erase("seal");
  json["delta"]["base"] = "../next";
  json["delta"]["base_checksum"] = checksum;
  write_json(at("next") / "dataset.json", json);
  EXPECT_THAT(thrown_error([&] { Dataset::open(at("next")); }).what(), HasSubstr("comes back to"));
}

// atoll split of a delta, which then is a base itself.
TEST_F(Growing, ASplitOfTheChain) {
  options_.nodes = text("x.csv", "9,10\n11,12\n").string();
  options_.labels = text("y.txt", "1\n0\n");
  append();
  EXPECT_THAT(thrown_error([&] { resplit(at("next"), ".5,.25,.25", 7, false); }).what(),
              HasSubstr("--replace"));
  const Dataset split = resplit(at("next"), "1,0,0", 7, true);
  split.validate();
  EXPECT_THAT(split.split(0), ElementsAre(0, 0, 0, 0, 0, 0));
  options_.data = at("next");
  options_.out = at("third");
  options_.nodes = text("x.csv", "13,14\n").string();
  options_.labels = text("y.txt", "1\n");
  options_.split = text("split.txt", "2\n").string();
  EXPECT_THAT(append().split(0), ElementsAre(0, 0, 0, 0, 0, 0, 2));
  const DatasetInfo compact = compact_dataset(at("third"), at("compact"));
  EXPECT_EQ(compact.checksum, Dataset::open(at("third")).info().checksum);
  EXPECT_EQ(Dataset::open(at("compact")).info().checksum, compact.checksum);
}

TEST_F(Growing, NumbersInAColumnGrow) {
  const fs::path file = at("base") / "dataset.json";
  write_npy<float>(at("base") / "labels.npy", std::vector<float>{.5, 1, 1.5, 2}, {4, 1});
  Json json = read_json(file);
  for (const char* field : {"checksum", "files", "seal"}) json.erase(field);
  json["task"] = "regression";
  json["classes"] = 1;
  write_json(file, json);
  // First of a whole folder, then of a delta. One of the new nodes gets no label each time.
  for (const char* next : {"next", "third"}) {
    options_.out = at(next);
    options_.nodes = text("x.csv", "9,10\n11,12\n").string();
    options_.labels = text("y.txt", "-3.5\nnan\n");
    append();
    options_.data = options_.out;
  }
  const Dataset dataset = Dataset::open(at("third"));
  std::vector<float> labels(dataset.real_labels().begin(), dataset.real_labels().end());
  for (const std::size_t none : {5, 7}) {
    EXPECT_TRUE(std::isnan(labels.at(none)));
    labels.at(none) = 0;
  }
  EXPECT_THAT(labels, ElementsAre(.5, 1, 1.5, 2, -3.5, 0, -3.5, 0));
  compact_dataset(at("third"), at("compact"));
  EXPECT_EQ(Dataset::open(at("compact")).info().checksum, dataset.info().checksum);
}

// As a kill between the new array and dataset.json leaves a folder, and one just before.
TEST_F(Growing, InterruptedFeaturesAreMadeAgain) {
  options_.nodes = text("x.csv", "9,10\n11,12\n").string();
  append();
  const Json before = read_json(at("next") / "dataset.json");
  for (const bool has_array : {true, false}) {
    const FeatureSource source = parse_feature_source("degree");
    const std::string checksum = give_features(at("next"), source, 1, true).info().checksum;
    EXPECT_EQ(std::distance(fs::directory_iterator(at("next")), {}), 4);
    const fs::path array = at("next") / "features.npy";
    if (!has_array) fs::remove(array);
    write_json(at("next") / ".dataset.json.next",
               {{"array", "features.npy"}, {"dataset", read_json(at("next") / "dataset.json")}});
    write_json(at("next") / "dataset.json", before);
    if (has_array) {
      const std::string message = thrown_error([&] { Dataset::open(at("next")); }).what();
      EXPECT_THAT(message, HasSubstr("run it again with --replace"));
    }
    const Dataset made = give_features(at("next"), source, 1, true);
    made.validate();
    EXPECT_EQ(made.info().checksum, checksum);
    EXPECT_FALSE(fs::exists(at("next") / ".dataset.json.next"));
    fs::remove(array);
    write_json(at("next") / "dataset.json", before);
  }
}

TEST_F(Growing, RolesAreDrawnFromTheNewNodes) {
  std::string rows, labels;
  for (int i = 0; i < 20; ++i) {
    rows += fmt::format("{},1\n", i);
    labels += i % 5 == 0 ? "NA\n" : fmt::format("{}\n", i % 2);
  }
  options_.nodes = text("x.csv", rows).string();
  options_.labels = text("y.txt", labels);
  options_.split = ".5,.25,.25";
  options_.seed = 3;
  const Dataset dataset = append();
  const auto split = dataset.split(0);
  EXPECT_THAT(split.first(4), ElementsAre(0, 0, 1, 2));
  std::map<int, int> counts;
  for (const std::uint8_t role : split.subspan(4)) ++counts[role];
  EXPECT_EQ(counts, (std::map<int, int>{{0, 8}, {1, 4}, {2, 4}, {255, 4}}));
}

TEST_F(Growing, NodeIdsFollow) {
  fs::remove_all(at("source"));
  write_file(make(at("source")) / "edges.txt", "30 10\n10 20\n");
  ImportOptions options;
  options.source = at("source");
  options.out = at("named");
  options.renumber = true;
  import_dataset("edges", options);
  options_.data = at("named");
  options_.nodes = "2";
  options_.edges = text("edges.txt", "3 4\n");
  EXPECT_THAT(refused(), HasSubstr("--node-ids"));
  options_.node_ids = text("ids.txt", "5\n10\n");
  EXPECT_THAT(refused(), HasSubstr("10 would be the id of two nodes"));
  options_.node_ids = text("ids.txt", "5\n");
  EXPECT_THAT(refused(), HasSubstr("1 ids found, 2 expected"));
  options_.node_ids = text("ids.txt", "5\n7\n");
  EXPECT_THAT(append().node_ids(), ElementsAre("10", "20", "30", "5", "7"));
}

TEST_F(Growing, IdsBehindALinkThatLeadsNowhereAreNamed) {
  options_.edges = text("edges.txt", "0 3\n");
  append();
  fs::create_symlink("away.txt", at("base") / "node_ids.txt");
  const Error error = thrown_error([&] { Dataset::open(at("next")); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr((at("base") / "node_ids.txt").string() +
                                      ": can't open: it is a link to away.txt, where nothing is"));
}

TEST_F(Growing, WhatIsRefused) {
  EXPECT_THAT(refused(), HasSubstr("nothing to append"));
  options_.edges = text("edges.txt", "0 4\n");
  EXPECT_THAT(refused(), HasSubstr("4"));
  options_.edges = array<std::int64_t>("edges.npy", {0, 4}, {2, 1});
  EXPECT_THAT(refused(), HasSubstr("node id 4 at element 1; allowed are 0 to 3"));
  options_.edges = text("edges.txt", "0 3 0.5\n");
  EXPECT_THAT(refused(), HasSubstr("its edges have weights, but those of"));
  options_.edges.clear();
  options_.nodes = text("x.csv", "1,2,3\n").string();
  EXPECT_THAT(refused(), HasSubstr("1 x 3 features found, 1 x 2 expected"));
  options_.nodes = "3";
  EXPECT_THAT(refused(), HasSubstr("has 2 features for each node"));
  options_.nodes = text("x.csv", "1,nan\n").string();
  EXPECT_THAT(refused(), HasSubstr("allowed are finite numbers"));
  options_.nodes = text("x.csv", "1,2\n").string();
  options_.labels = array<float>("y.npy", {0.5}, {1});
  EXPECT_THAT(refused(), HasSubstr("label 0.5 at element 0; allowed are whole numbers 0 to 1"));
  options_.labels = array<std::int32_t>("y.npy", {2}, {1});
  EXPECT_THAT(refused(), HasSubstr("label 2 at element 0; allowed are whole numbers 0 to 1"));
  options_.labels = array<std::int32_t>("y.npy", {0, 1}, {1, 2});
  EXPECT_THAT(refused(), HasSubstr("labels 1 x 2 found, 1 x 1 expected: the task of"));
  options_.labels = text("y.txt", "cat\n");
  EXPECT_THAT(refused(), HasSubstr("'cat' is a word"));
  options_.labels.clear();
  options_.split = text("split.txt", "5\n").string();
  EXPECT_THAT(refused(), HasSubstr("allowed are 0"));
  options_.split = "1,0,0";
  EXPECT_THAT(refused(), HasSubstr("the new nodes have no labels"));
  options_.split.clear();
  options_.node_types = text("types.txt", "0\n");
  EXPECT_THAT(refused(), HasSubstr("has no types of nodes"));
  options_.node_types.clear();
  options_.nodes.clear();
  options_.remove_nodes = text("gone.txt", "0\n1\n").string();
  EXPECT_THAT(refused(), HasSubstr("no training node"));
  options_.remove_nodes = text("gone.txt", "7\n").string();
  EXPECT_THAT(refused(), HasSubstr("7"));
  options_.remove_nodes = text("gone.txt", "0\n").string();
  options_.edges = text("edges.txt", "0 3\n");
  EXPECT_THAT(refused(), HasSubstr("node 0 is removed by"));
  options_.remove_nodes.clear();
  options_.edges.clear();
  options_.remove_edges = text("gone.txt", "0 3\n");
  EXPECT_THAT(refused(), HasSubstr("has no edge 0 -> 3"));
  options_.remove_edges.clear();
  options_.change_features = "ids.npy";
  EXPECT_THAT(refused(), HasSubstr("allowed are nodes and a file of their rows, IDS,ROWS"));
  options_.change_features =
      text("ids.txt", "1\n1\n").string() + "," + text("x.csv", "1,2\n").string();
  EXPECT_THAT(refused(), HasSubstr("node 1 is there twice"));
  EXPECT_THAT(thrown_error([&] { compact_dataset(at("base"), at("next")); }).what(),
              HasSubstr("it is whole already"));
}

TEST_F(Growing, APathThatJsonCantHaveIsNamed) {
  options_.data = at("b\xFFse");
  fs::rename(at("base"), options_.data);
  options_.edges = text("edges.txt", "0 3\n");
  EXPECT_THAT(refused(), HasSubstr("b\xFFse: this path is not UTF-8"));
  // Both in such a folder don't name it.
  const fs::path both = make(at("b\xFFth"));
  fs::rename(options_.data, both / "base");
  options_.data = both / "base";
  options_.out = both / "next";
  EXPECT_EQ(append().info().edges, 8);
}

TEST_F(Growing, RowsOutOfOrderAreRefused) {
  const fs::path mine = at("mine");
  write_file(mine / "dataset.json", R"({"directed": false})");
  write_file(mine / "row_ptr.npy", fixtures::npy_bytes<std::int64_t>({0, 2, 3, 4}));
  write_file(mine / "col_idx.npy", fixtures::npy_bytes<std::int32_t>({2, 1, 0, 0}));
  options_.data = mine;
  options_.nodes = "1";
  EXPECT_THAT(refused(), HasSubstr("row 0 of col_idx.npy doesn't ascend"));
}

TEST_F(Growing, EdgesWithoutOnesBackAreRefused) {
  const fs::path mine = at("mine");
  write_file(mine / "dataset.json", R"({"directed": false})");
  options_.data = mine;
  options_.nodes = "1";
  const auto refused_with = [&](const std::vector<std::int64_t>& row_ptr,
                                const std::vector<std::int32_t>& col_idx) {
    write_file(mine / "row_ptr.npy", fixtures::npy_bytes<std::int64_t>(row_ptr));
    write_file(mine / "col_idx.npy", fixtures::npy_bytes<std::int32_t>(col_idx));
    return refused();
  };
  EXPECT_THAT(refused_with({0, 1, 3, 3, 4}, {1, 0, 3, 2}),
              HasSubstr("row 1 of col_idx.npy holds 3, but row 3 doesn't hold 1"));
  EXPECT_THAT(refused_with({0, 0, 2, 3, 3}, {0, 2, 1}),
              HasSubstr("row 1 of col_idx.npy holds 0, but row 0 doesn't hold 1"));
  EXPECT_THAT(refused_with({0, 0, 1, 3, 4}, {2, 0, 3, 2}),
              HasSubstr("holds 0, but row 0 doesn't hold 2"));
  EXPECT_THAT(refused_with({0, 1, 2, 2, 2}, {1, 7}),
              HasSubstr("row 1 of col_idx.npy holds 7; allowed are node ids 0 to 3"));
  // Types have to be the same, too.
  write_file(mine / "edge_types.npy", fixtures::npy_bytes<std::uint16_t>({0, 1}));
  EXPECT_THAT(refused_with({0, 1, 2, 2, 2}, {1, 0}),
              HasSubstr("row 1 doesn't hold 0 with the same type"));
  write_file(mine / "edge_types.npy", fixtures::npy_bytes<std::uint16_t>({1, 1}));
  append_dataset(options_);
}

// Edges as a map from (target, source, type) to weight, as a graph means them.
using EdgeMap = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, float>;

EdgeMap edge_map(const Dataset& dataset) {
  EdgeMap edges;
  const GraphView graph = dataset.graph();
  for (std::int64_t i = 0; i < graph.nodes(); ++i) {
    for (std::int64_t e = graph.in_edges.row_ptr[i]; e < graph.in_edges.row_ptr[i + 1]; ++e) {
      const std::int64_t type = graph.edge_types.empty() ? 0 : graph.edge_types[e];
      edges[{i, graph.in_edges.col_idx[e], type}] = graph.in_edges.value(e);
    }
  }
  EXPECT_EQ(std::ssize(edges), graph.in_edges.nnz());
  return edges;
}

// Additions, removals and changes in any order, compared after every step.
class Changing : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Changing, IsWhatAMapOfEdgesGives) {
  const auto [directed, typed] = GetParam();
  const TempDir dir;
  std::mt19937_64 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::int64_t nodes = 30;
  EdgeMap edges;
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  const auto line = [&, typed = typed](std::int64_t source, std::int64_t target, std::int64_t type,
                                       float weight) {
    return typed ? fmt::format("{},{},{},{}\n", source, target, type, weight)
                 : fmt::format("{},{},{}\n", source, target, weight);
  };
  const std::string header = typed ? "source,target,type,weight\n" : "source,target,weight\n";
  // New edges as text; the map gets them, too.
  const auto draw_edges = [&, directed = directed, typed = typed](std::int64_t count) {
    std::string text = header;
    for (; count > 0; --count) {
      const std::int64_t source = below(nodes);
      const std::int64_t target = below(nodes);
      const std::int64_t type = typed ? below(3) : 0;
      const auto weight = static_cast<float>(1 + below(5));
      text += line(source, target, type, weight);
      if (source == target) continue;
      edges[{target, source, type}] += weight;
      if (directed) continue;
      text += line(target, source, type, weight);
      edges[{source, target, type}] += weight;
    }
    return text;
  };
  const auto draw_rows = [&](std::int64_t count, std::vector<float>& rows) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
      rows.push_back(static_cast<float>(below(99)));
      rows.push_back(static_cast<float>(below(99)));
      text += fmt::format("{},{}\n", rows[rows.size() - 2], rows.back());
    }
    return text;
  };
  const auto draw_labels = [&](std::int64_t count) {
    std::string text;
    for (; count > 0; --count) {
      labels.push_back(static_cast<std::int32_t>(below(2)));
      text += fmt::format("{}\n", labels.back());
    }
    return text;
  };
  write_file(dir.path() / "source/edges.csv", draw_edges(60));
  write_file(dir.path() / "source/features.csv", draw_rows(nodes, features));
  write_file(dir.path() / "source/labels.csv", draw_labels(nodes));
  ImportOptions import;
  import.source = dir.path() / "source";
  import.out = dir.path() / "0";
  import.directed = directed;
  import.id_column = kNoColumn;
  import.classes = 2;
  import_dataset("edges", import);
  std::vector<EdgeMap> states;  // by step
  std::set<std::size_t> lengths;
  for (int step = 1; step <= 12; ++step) {
    states.push_back(edges);
    AppendOptions options;
    options.data = dir.path() / std::to_string(step - 1);
    options.out = dir.path() / std::to_string(step);
    const auto file = [&](const char* name, const std::string& text) {
      write_file(dir.path() / name, text);
      return dir.path() / name;
    };
    std::set<std::int64_t> gone;
    std::string pairs;
    for (std::int64_t k = below(6); k > 0 && !edges.empty(); --k) {
      const auto chosen = std::next(edges.begin(), below(std::ssize(edges)));
      const auto [target, source, type] = chosen->first;
      pairs += fmt::format("{} {}\n", source, target);
      for (std::int64_t t = 0; t < 3; ++t) {  // those of all relations
        edges.erase({target, source, t});
        if (!directed) edges.erase({source, target, t});
      }
    }
    if (!pairs.empty()) options.remove_edges = file("pairs.txt", pairs);
    std::string ids;
    for (std::int64_t k = below(3); k > 0; --k) {
      const std::int64_t node = below(nodes);
      if (!gone.insert(node).second) continue;
      ids += fmt::format("{}\n", node);
      labels[node] = -1;
      std::erase_if(edges, [&](const auto& edge) {
        return std::get<0>(edge.first) == node || std::get<1>(edge.first) == node;
      });
    }
    if (!ids.empty()) options.remove_nodes = file("gone.txt", ids);
    std::string changed;
    std::vector<float> rows;
    for (const std::int64_t node : {below(15), 15 + below(15)}) {
      changed += fmt::format("{}\n", node);
      draw_rows(1, rows);
      features[2 * node] = rows[rows.size() - 2];
      features[2 * node + 1] = rows.back();
    }
    std::string text;
    for (std::size_t k = 0; k < rows.size(); k += 2) {
      text += fmt::format("{},{}\n", rows[k], rows[k + 1]);
    }
    options.change_features =
        file("changed.txt", changed).string() + "," + file("rows.csv", text).string();
    const std::int64_t added = below(4);
    nodes += added;
    if (added > 0) {
      options.nodes = file("x.csv", draw_rows(added, features)).string();
      options.labels = file("y.csv", draw_labels(added));
    }
    if (gone.empty()) options.edges = file("edges.csv", draw_edges(1 + below(20)));
    append_dataset(options);
    const Dataset dataset = Dataset::open(options.out);
    dataset.validate();
    const auto missing = [](const EdgeMap& from, const EdgeMap& in) {
      return std::ranges::count_if(in,
                                   [&](const auto& edge) { return !from.contains(edge.first); });
    };
    // A delta may have taken in some before it, and stands on the one that they stood on.
    const Json links = describe_chain(dataset.grown()->chain());
    const Json& link = links.back();
    const auto base = fs::path(links[links.size() - 2].at("folder").get<std::string>()).filename();
    const EdgeMap& before = states.at(std::stoul(base.string()));
    lengths.insert(links.size() - 1);
    ASSERT_EQ(link.at("edges_added"), missing(before, edges)) << step;
    ASSERT_EQ(link.at("edges_removed"), missing(edges, before)) << step;
    ASSERT_EQ(dataset.info().nodes, nodes);
    ASSERT_EQ(edge_map(dataset), edges) << step;
    ASSERT_TRUE(std::ranges::equal(dataset.features(), features)) << step;
    ASSERT_TRUE(std::ranges::equal(dataset.labels(), labels)) << step;
  }
  EXPECT_GT(lengths.size(), 1U);
  EXPECT_LE(*lengths.rbegin(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Changing,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace atl
