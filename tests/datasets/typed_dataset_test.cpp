// Dataset folders, shards and partitions with types and features of edges and types of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "datasets/dataset_change.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
#include "datasets/made_features.hpp"
#include "datasets/partition_folder.hpp"
#include "datasets/partition_list.hpp"
#include "datasets/resplit.hpp"
#include "datasets/statistics.hpp"
#include "datasets/whole_graph.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using fixtures::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A triangle of types 0 (between 0 and 1) and 2, with a second edge of type 1 between 0 and 1.
void make_typed_by_hand(const fs::path& folder) {
  write_file(folder / "dataset.json", R"({"directed": false})");
  write_file(folder / "row_ptr.npy", npy_bytes<std::int64_t>({0, 3, 6, 8}));
  write_file(folder / "col_idx.npy", npy_bytes<std::int32_t>({1, 1, 2, 0, 2, 0, 0, 1}));
  write_file(folder / "edge_types.npy", npy_bytes<std::int64_t>({0, 1, 2, 1, 2, 0, 2, 2}));
  write_file(folder / "edge_features.npy",
             npy_bytes<float>({10, 11, 20, 11, 21, 10, 20, 21}, {8, 1}));
  write_file(folder / "node_types.npy", npy_bytes<std::uint8_t>({1, 0, 1}));
}

std::string complaint(const fs::path& folder) {
  const Error error = thrown_error([&] { Dataset::open(folder).validate(); });
  EXPECT_EQ(error.exit_code(), 2);
  return error.what();
}

TEST(TypedDataset, OpensAHandMadeFolderOfAnyIntegers) {
  const TempDir dir;
  make_typed_by_hand(dir.path());
  const auto expect_opened = [&] {
    const Dataset dataset = Dataset::open(dir.path());
    dataset.validate();
    EXPECT_EQ(dataset.info().relations, 3);
    EXPECT_EQ(dataset.info().edge_features, 1);
    EXPECT_EQ(dataset.info().node_types, 2);
    EXPECT_THAT(dataset.graph().edge_types, ElementsAre(0, 1, 2, 1, 2, 0, 2, 2));
    EXPECT_THAT(dataset.graph().edge_features, ElementsAre(10, 11, 20, 11, 21, 10, 20, 21));
    EXPECT_EQ(dataset.graph().edge_feature_columns, 1);
    EXPECT_THAT(dataset.graph().node_types, ElementsAre(1, 0, 1));
    const DatasetStatistics statistics = describe_dataset(dataset);
    EXPECT_THAT(statistics.relation_counts, ElementsAre(2, 2, 4));
    EXPECT_THAT(statistics.node_type_counts, ElementsAre(1, 2));
    const std::string text = statistics_text(dataset, statistics, "ok");
    EXPECT_THAT(text, HasSubstr("relations    3; 2, 2, 4 edges\n"));
    EXPECT_THAT(text, HasSubstr("node types   2; 1, 2 nodes\n"));
    EXPECT_THAT(text, HasSubstr("features     0; 1 of edges\n"));
    EXPECT_EQ(statistics_json(dataset, statistics, "ok")["relations"], 3);
  };
  expect_opened();
  write_file(dir.path() / "edge_types.npy", npy_bytes<std::int32_t>({0, 1, 2, 1, 2, 0, 2, 2}));
  expect_opened();
  write_file(dir.path() / "edge_types.npy", npy_bytes<std::uint16_t>({0, 1, 2, 1, 2, 0, 2, 2}));
  expect_opened();
  // More types than occur, where they are stated.
  write_file(dir.path() / "dataset.json",
             R"({"directed": false, "relations": 5, "node_types": 4})");
  EXPECT_EQ(Dataset::open(dir.path()).info().relations, 5);
  EXPECT_EQ(Dataset::open(dir.path()).info().node_types, 4);
}

TEST(TypedDataset, ChecksumsCoverTheArrays) {
  const TempDir dir;
  make_typed_by_hand(dir.path());
  const std::string before = Dataset::open(dir.path()).info().checksum;
  write_file(dir.path() / "edge_types.npy", npy_bytes<std::int64_t>({0, 1, 2, 1, 2, 0, 2, 1}));
  EXPECT_NE(Dataset::open(dir.path()).info().checksum, before);
}

// Each case spoils one file of the hand-made folder.
TEST(TypedDataset, RefusesWrongArrays) {
  const auto expect = [](const char* file, const std::string& bytes, const char* message) {
    const TempDir dir;
    make_typed_by_hand(dir.path());
    write_file(dir.path() / file, bytes);
    EXPECT_THAT(complaint(dir.path()), HasSubstr(message)) << file;
  };
  using Ints = std::vector<std::int32_t>;
  expect("edge_types.npy", npy_bytes<std::int32_t>({0, 1, 2}), "shape (3) found, (8) expected");
  expect("edge_types.npy", npy_bytes<std::int32_t>(Ints(8), {8, 1}), "shape (8, 1) found");
  expect("edge_types.npy", npy_bytes<std::int32_t>({0, 1, 2, -1, 2, 0, 2, 2}),
         "edge_types.npy: entry 3 is -1; allowed are types 0 to 65535");
  expect("edge_types.npy", npy_bytes<std::int32_t>({0, 1, 2, 1, 65536, 0, 2, 2}),
         "entry 4 is 65536; allowed are types 0 to 65535");
  expect("edge_types.npy", npy_bytes<float>({0, 1, 2, 1, 2, 0, 2, 2}),
         "element type '<f4' found, integers of 8 to 64 bits expected");
  // Row 1 holds both edges from node 0 in the other order, so that these are those of type 0 and 1.
  expect("edge_types.npy", npy_bytes<std::int32_t>({0, 1, 2, 1, 2, 2, 2, 2}),
         "between nodes 1 and 0, the type is 0 one way and 1 the other; 'directed' must be true");
  expect("edge_features.npy", npy_bytes<float>({10, 11, 20, 11, 21, 10, 20, 22}, {8, 1}),
         "between nodes 2 and 1, the feature 0 is 21 one way and 22 the other");
  expect("edge_features.npy", npy_bytes<float>(std::vector<float>(8)), "shape (8) found");
  expect("edge_features.npy", npy_bytes<double>(std::vector<double>(8), {8, 1}),
         "element type '<f8' found, '<f4' expected");
  expect("edge_features.npy",
         npy_bytes<float>({10, 11, 20, 11, 21, __builtin_nanf(""), 20, 21}, {8, 1}),
         "edge_features.npy: row 5, column 0 is nan; allowed are finite numbers");
  expect("edge_weights.npy", npy_bytes<float>({1, 2, 3, 2, 3, 1, 3, 4}),
         "the weight is 3 one way and 4 the other");
  expect("col_idx.npy", npy_bytes<std::int32_t>({1, 1, 2, 0, 2, 2, 0, 1}),
         "row 0 holds 1 2 time(s), row 1 holds 0 1 time(s); 'directed' must be true");
  expect("node_types.npy", npy_bytes<std::int32_t>({0, 1}), "shape (2) found, (3) expected");
  expect("node_types.npy", npy_bytes("|i1", {3}, std::string("\0\xfe\1", 3)),
         "node_types.npy: entry 1 is -2; allowed are types 0 to 65535");
  expect("dataset.json", R"({"directed": false, "relations": 2})",
         "edge_types.npy: entry 2 is 2; allowed are types 0 to 1");
  expect("dataset.json", R"({"directed": false, "relations": 0})",
         "field 'relations' is 0; allowed are 1 to 65536");
  expect("dataset.json", R"({"directed": false, "node_types": 1})",
         "node_types.npy: entry 0 is 1; allowed are types 0 to 0");
  expect("dataset.json", R"({"directed": false, "edge_features": 3})",
         "field 'edge_features' is 3, but the arrays hold 1");
}

TEST(TypedDataset, RefusesStatedTypesWithoutTheirArray) {
  const TempDir dir;
  make_typed_by_hand(dir.path());
  fs::remove(dir.path() / "edge_types.npy");
  write_file(dir.path() / "dataset.json", R"({"directed": false, "relations": 3})");
  EXPECT_THAT(complaint(dir.path()), HasSubstr("field 'relations' is 3"));
}

// The example of other tests, and with it its types and features.
Dataset write_typed_example(const fs::path& folder, bool directed) {
  write_example_dataset(folder, 60, directed, false);
  const Dataset plain = Dataset::open(folder);
  const GraphView graph = plain.graph();
  const auto copied = [](auto span) { return std::vector(span.begin(), span.end()); };
  const Csr csr{copied(graph.in_edges.row_ptr), copied(graph.in_edges.col_idx),
                copied(graph.in_edges.values)};
  const EdgeArrays arrays = make_edge_arrays(csr);
  write_npy(folder / "edge_types.npy", arrays.types);
  write_npy<float>(folder / "edge_features.npy", arrays.features, {csr.view().nnz(), 2});
  write_npy(folder / "node_types.npy", arrays.node_types);
  Json json = read_json(folder / "dataset.json");
  for (const char* field : {"files", "checksum", "seal"}) json.erase(field);
  write_json(folder / "dataset.json", json);
  return Dataset::open(folder);
}

class TypedShards : public testing::TestWithParam<bool> {};

TEST_P(TypedShards, HaveWhatTheDatasetHas) {
  const TempDir dir;
  const Dataset dataset = write_typed_example(dir.path() / "set", GetParam());
  dataset.validate();
  const Partition partition = ensure_partition(dataset, 3, {});
  std::int64_t edges = 0;
  for (int part = 0; part < 3; ++part) {
    const Shard shard = open_shard(partition.folder, part, partition.checksum());
    expect_edge_arrays(shard.graph(), dataset.graph());
    EXPECT_EQ(shard.dataset().relations, 5);
    EXPECT_EQ(shard.dataset().edge_features, 2);
    EXPECT_EQ(shard.dataset().node_types, 3);
    EXPECT_EQ(shard.graph().backward.edge_types.empty(), GetParam());
    // It takes out of memory all that training reads later, features of edges, too.
    const auto bytes = [](const LocalMatrixView& matrix) {
      return matrix.csr.bytes() + static_cast<std::int64_t>(matrix.edge_features.size_bytes());
    };
    EXPECT_EQ(shard.rest(), std::ssize(shard.mapped_features()) + bytes(shard.graph().forward) +
                                (shard.graph().symmetric ? 0 : bytes(shard.graph().backward)));
    expect_edge_arrays(shard.graph(), dataset.graph());
    edges += shard.graph().forward.csr.nnz();
  }
  EXPECT_EQ(edges, dataset.info().edges);
  expect_edge_arrays(whole_graph(dataset, {}).shard.graph(), dataset.graph());
  // The partition is listed as usable, and nothing in it is taken for another's file.
  const auto entries = list_partitions(dataset, {}, /*every_byte=*/true);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].stale, "");
  EXPECT_EQ(entries[0].kept, "");
}

INSTANTIATE_TEST_SUITE_P(Both, TypedShards, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Directed" : "Symmetric");
});

TEST(TypedDataset, KeepsItsTypesWithAnotherSplit) {
  const TempDir dir;
  write_typed_example(dir.path() / "set", true);
  const Dataset split = resplit(dir.path() / "set", "0.5,0.25,0.25", 1, /*replace=*/true);
  split.validate();
  EXPECT_EQ(split.info().relations, 5);
  EXPECT_EQ(split.info().splits, 1);
}

TEST(DatasetChange, OneAtATime) {
  const TempDir dir;
  const fs::path folder = dir.path() / "set";
  write_typed_example(folder, true);
  const std::string before = read_text(folder / "dataset.json");
  {
    const DatasetChange change(folder);
    for (const std::function<void()>& other : std::vector<std::function<void()>>{
             [&] { resplit(folder, "0.5,0.25,0.25", 1, /*replace=*/true); },
             [&] { give_features(folder, parse_feature_source("degree"), 1, /*replace=*/true); }}) {
      const Error error = thrown_error(other);
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      EXPECT_THAT(error.what(), testing::HasSubstr("another process is changing the dataset"));
    }
  }
  EXPECT_EQ(read_text(folder / "dataset.json"), before);
  give_features(folder, parse_feature_source("degree"), 1, /*replace=*/true);
  resplit(folder, "0.5,0.25,0.25", 1, /*replace=*/true).validate();
}

// A number of types that is stated belongs to what a partition was made from.
TEST(TypedDataset, AnotherNumberOfTypesIsAnotherPartition) {
  const TempDir dir;
  const Dataset five = write_typed_example(dir.path() / "set", true);
  const fs::path before = partition_folder(five, 2, {});
  Json json = read_json(dir.path() / "set/dataset.json");
  json["relations"] = 6;
  write_json(dir.path() / "set/dataset.json", json);
  EXPECT_NE(partition_folder(Dataset::open(dir.path() / "set"), 2, {}), before);
}

TEST(TypedShard, RefusesWrongArrays) {
  const TempDir dir;
  const Dataset dataset = write_typed_example(dir.path() / "set", true);
  const fs::path folder = ensure_partition(dataset, 2, {}).folder / "part-0";
  const auto edges = NpyFile(folder / "forward_col_idx.npy").rows();
  const auto complaint_with = [&](const std::vector<std::uint16_t>& types) {
    const char* name = "forward_edge_types.npy";
    write_npy(folder / name, types);
    Json json = read_json(folder / "shard.json");
    json["files"][name] = describe_file(folder / name);
    write_json(folder / "shard.json", json);
    return std::string(
        thrown_error([&] { Shard::open(folder, describe_file(folder / "shard.json")); }).what());
  };
  std::vector<std::uint16_t> types(static_cast<std::size_t>(edges));
  types[2] = 5;
  EXPECT_THAT(complaint_with(types),
              HasSubstr("forward_edge_types.npy: entry 2 is 5; allowed are 0 to 4"));
  types.pop_back();
  EXPECT_THAT(complaint_with(types), HasSubstr("forward_edge_types.npy: shape"));
}

// A dataset without types has the shards that it always had: programs of either age read them.
TEST(TypedShard, LeavesNoTraceWhereThereAreNoTypes) {
  const TempDir dir;
  write_example_dataset(dir.path() / "set", 60, false, false);
  const Dataset dataset = Dataset::open(dir.path() / "set");
  const fs::path folder = ensure_partition(dataset, 2, {}).folder / "part-0";
  const Json json = read_json(folder / "shard.json");
  std::vector<std::string> fields;
  for (const auto& [name, value] : json["dataset"].items()) fields.push_back(name);
  EXPECT_THAT(fields,
              ElementsAre("name", "nodes", "edges", "edges_source", "features", "classes", "splits",
                          "directed", "weighted", "task", "provenance", "checksum"));
  std::vector<std::string> files;
  for (const auto& [name, value] : json["files"].items()) files.push_back(name);
  EXPECT_THAT(files, ElementsAre("features.npy", "forward_col_idx.npy", "forward_halo_ids.npy",
                                 "forward_recv_offset.npy", "forward_row_ptr.npy",
                                 "forward_send_offset.npy", "forward_send_rows.npy",
                                 "forward_split.npy", "has_self_loop.npy", "in_degree.npy",
                                 "inner_ids.npy", "labels.npy", "split.npy"));
}

}  // namespace
}  // namespace atl
