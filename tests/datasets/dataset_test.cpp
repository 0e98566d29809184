#include "datasets/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/files.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/statistics.hpp"
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

// A folder as NumPy users save it: a path 0 - 1 - 2, a self-loop at 2, and an isolated node 3.
void make_by_hand(const fs::path& folder) {
  write_file(folder / "dataset.json", R"({"directed": false})");
  write_file(folder / "row_ptr.npy", npy_bytes<std::int64_t>({0, 1, 3, 5, 5}));
  write_file(folder / "col_idx.npy", npy_bytes<std::int64_t>({1, 0, 2, 1, 2}));
  write_file(folder / "features.npy", npy_bytes<float>({1, 2, 3, 4}, {4, 1}));
  write_file(folder / "labels.npy", npy_bytes<std::int32_t>({0, 2, -1, 2}));
  write_file(folder / "split.npy", npy_bytes<std::uint8_t>({0, 1, 255, 2, 0, 0, 1, 2}, {2, 4}));
}

TEST(Dataset, OpensAHandMadeFolderWithInt64Columns) {
  const TempDir dir;
  const fs::path folder = dir.path() / "mine";
  make_by_hand(folder);
  const Dataset dataset = Dataset::open(folder);
  dataset.validate();
  EXPECT_EQ(dataset.info().name, "mine");
  EXPECT_EQ(dataset.info().edges, 5);
  EXPECT_EQ(dataset.info().edges_source, 5);
  EXPECT_EQ(dataset.info().classes, 3);
  EXPECT_EQ(dataset.info().splits, 2);
  EXPECT_EQ(dataset.info().checksum.size(), 16U);
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 0, 2, 1, 2));
  EXPECT_THAT(dataset.split(1), ElementsAre(0, 0, 1, 2));
}

// Two nodes, edges in any order and several times: symmetric is what the matrix is, that is the sum
// over parallel edges.
TEST(Dataset, SymmetryIsThatOfTheMatrix) {
  const auto validate = [](const std::vector<std::int64_t>& row_ptr,
                           const std::vector<std::int32_t>& col_idx,
                           const std::vector<float>& weights) {
    const TempDir dir;
    write_file(dir.path() / "dataset.json", R"({"directed": false})");
    write_file(dir.path() / "row_ptr.npy", npy_bytes<std::int64_t>(row_ptr));
    write_file(dir.path() / "col_idx.npy", npy_bytes<std::int32_t>(col_idx));
    if (!weights.empty()) write_file(dir.path() / "edge_weights.npy", npy_bytes<float>(weights));
    Dataset::open(dir.path()).validate();
  };
  validate({0, 3, 5}, {1, 0, 1, 0, 0}, {});         // twice each way, and a self-loop
  validate({0, 2, 4}, {1, 1, 0, 0}, {1, 2, 2, 1});  // 1 + 2 each way
  const auto refused = [&](const auto&... arguments) {
    return std::string(thrown_error([&] { validate(arguments...); }).what());
  };
  using Rows = std::vector<std::int64_t>;
  using Columns = std::vector<std::int32_t>;
  using Weights = std::vector<float>;
  EXPECT_THAT(refused(Rows{0, 2, 3}, Columns{1, 1, 0}, Weights{}), HasSubstr("weigh 2 together"));
  EXPECT_THAT(refused(Rows{0, 2, 3}, Columns{1, 0, 0}, Weights{1, 1, 5}),
              HasSubstr("must be true"));
}

TEST(Dataset, ChecksumFollowsTheContent) {
  const TempDir dir;
  make_by_hand(dir.path() / "a");
  make_by_hand(dir.path() / "b");
  const std::string first = Dataset::open(dir.path() / "a").info().checksum;
  EXPECT_EQ(Dataset::open(dir.path() / "b").info().checksum, first);
  write_file(dir.path() / "b/labels.npy", npy_bytes<std::int32_t>({0, 2, -1, 1}));
  EXPECT_NE(Dataset::open(dir.path() / "b").info().checksum, first);
}

TEST(Dataset, WrittenFoldersReopenWithTheSameInfo) {
  const TempDir dir;
  DatasetWriter writer(dir.path() / "set");
  writer.info().name = "set";
  writer.info().edges_source = 7;
  writer.info().directed = true;
  writer.write_graph({{0, 0, 2}, {0, 1}, {0.5F, 2}});
  writer.write_labels(std::vector<std::int32_t>{1, -1});
  writer.write_splits(std::vector<std::uint8_t>{0, 2}, 1);
  const DatasetInfo written = writer.commit();
  const Dataset dataset = Dataset::open(dir.path() / "set");
  dataset.validate();
  EXPECT_EQ(dataset.info().checksum, written.checksum);
  EXPECT_EQ(dataset.info().edges_source, 7);
  EXPECT_EQ(dataset.info().classes, 2);
  EXPECT_TRUE(dataset.info().weighted);
  EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(0.5F, 2));
}

TEST(Dataset, StatisticsAreCountedByHand) {
  const TempDir dir;
  make_by_hand(dir.path() / "mine");
  const Dataset dataset = Dataset::open(dir.path() / "mine");
  const DatasetStatistics statistics = describe_dataset(dataset);
  EXPECT_EQ(statistics.degrees.minimum, 0);
  EXPECT_EQ(statistics.degrees.median, 1);
  EXPECT_EQ(statistics.degrees.mean, 1.25);
  EXPECT_EQ(statistics.degrees.maximum, 2);
  EXPECT_EQ(statistics.isolated, 1);
  EXPECT_EQ(statistics.self_loops, 1);
  EXPECT_EQ(statistics.unlabelled, 1);
  EXPECT_THAT(statistics.class_counts, ElementsAre(1, 0, 2));
  EXPECT_EQ(statistics.homophily, 0);  // only 0 - 1 joins labelled nodes
  EXPECT_EQ(statistics.splits[0], (std::array<std::int64_t, 3>{1, 1, 1}));
  EXPECT_THAT(statistics_text(dataset, statistics, "ok"),
              HasSubstr("isolated     1 of 4 nodes (25.0 %)"));
  EXPECT_EQ(statistics_json(dataset, statistics, "ok")["splits"][1]["train"], 2);
}

// Each case spoils the hand-made folder; open or validate must say what is wrong.
struct SpoiltFolder {
  const char* name;
  const char* file;
  std::string bytes;
  const char* message;
};

void PrintTo(const SpoiltFolder& spoilt, std::ostream* out) { *out << spoilt.name; }

class BadDataset : public ::testing::TestWithParam<SpoiltFolder> {};

TEST_P(BadDataset, IsRefused) {
  const TempDir dir;
  make_by_hand(dir.path());
  write_file(dir.path() / GetParam().file, GetParam().bytes);
  const Error error = thrown_error([&] { Dataset::open(dir.path()).validate(); });
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadDataset,
    ::testing::Values(
        SpoiltFolder{"NoDirection", "dataset.json", "{}", "field 'directed' is missing"},
        SpoiltFolder{"BadJson", "dataset.json", "{", "not valid JSON"},
        SpoiltFolder{"DeepJson", "dataset.json", std::string(100000, '['), "nested more than"},
        SpoiltFolder{"HugeNumber", "dataset.json", R"({"directed": false, "nodes": 1e999})",
                     "not valid JSON"},
        SpoiltFolder{"NotAnObject", "dataset.json", "[]", "a JSON object is expected"},
        SpoiltFolder{"OtherFormat", "dataset.json", R"({"format": "x", "directed": false})",
                     "allowed are 'atoll-dataset'"},
        SpoiltFolder{"WrongNodes", "dataset.json", R"({"directed": false, "nodes": 5})",
                     "field 'nodes' is 5, but the arrays hold 4"},
        SpoiltFolder{"FractionalNodes", "dataset.json", R"({"directed": false, "nodes": 4.5})",
                     "field 'nodes' has the wrong type"},
        SpoiltFolder{"FewerClasses", "dataset.json", R"({"directed": false, "classes": 2})",
                     "label 2 of node 1; allowed are 0 to 1"},
        SpoiltFolder{"UnknownTask", "dataset.json", R"({"directed": false, "task": "ranking"})",
                     "allowed are single-label, multi-label, binary"},
        SpoiltFolder{"BinaryWithThree", "dataset.json", R"({"directed": false, "task": "binary"})",
                     "task 'binary' with 3 classes"},
        SpoiltFolder{"StatedWeights", "dataset.json", R"({"directed": false, "weighted": true})",
                     "edge_weights.npy is not there"},
        SpoiltFolder{"FilesNotListed", "dataset.json", R"({"directed": false, "files": {}})",
                     "row_ptr.npy: not listed in dataset.json"},
        // And not that its classes contradict those of the labels, of which there are none.
        SpoiltFolder{"ListedFileGone", "dataset.json",
                     R"({"directed": false, "weighted": true, "files": {"row_ptr.npy": {},
                         "col_idx.npy": {}, "edge_weights.npy": {}, "features.npy": {},
                         "labels.npy": {}, "split.npy": {}}})",
                     "edge_weights.npy: listed in dataset.json, but not there"},
        SpoiltFolder{"FileOutside", "dataset.json",
                     R"({"directed": false, "files": {"../labels.npy": {"bytes": 1, "xxh3": ""}}})",
                     "'files' names \"../labels.npy\"; allowed are row_ptr.npy, col_idx.npy"},
        SpoiltFolder{"OpenRowPtr", "row_ptr.npy", npy_bytes<std::int64_t>({0, 1, 3, 5, 4}),
                     "it must run from 0 to 5"},
        SpoiltFolder{"FallingRowPtr", "row_ptr.npy", npy_bytes<std::int64_t>({0, 3, 1, 5, 5}),
                     "entry 2 is 1, less than the 3 before it"},
        SpoiltFolder{"NoNodes", "row_ptr.npy", npy_bytes<std::int64_t>({0}), "0 nodes"},
        SpoiltFolder{"NarrowRowPtr", "row_ptr.npy", npy_bytes<std::int32_t>({0, 1, 3, 5, 5}),
                     "element type '<i4' found, '<i8' expected"},
        SpoiltFolder{"WideId", "col_idx.npy", npy_bytes<std::int64_t>({1, 0, 1LL << 32, 1, 2}),
                     "entry 2 is 4294967296; allowed are node ids 0 to 3"},
        SpoiltFolder{"NegativeId", "col_idx.npy", npy_bytes<std::int32_t>({1, 0, -1, 1, 2}),
                     "entry 2 is -1"},
        SpoiltFolder{"Asymmetric", "col_idx.npy", npy_bytes<std::int32_t>({1, 0, 3, 1, 2}),
                     "'directed' must be true"},
        SpoiltFolder{"UnevenWeights", "edge_weights.npy", npy_bytes<float>({1, 2, 3, 3, 1}),
                     "must be true"},
        SpoiltFolder{"NanFeature", "features.npy",
                     npy_bytes<float>({1, 2, __builtin_nanf(""), 4}, {4, 1}),
                     "row 2, column 0 is nan"},
        SpoiltFolder{"FlatFeatures", "features.npy", npy_bytes<float>({1, 2, 3, 4}),
                     "shape (4) found, (4, any) expected"},
        SpoiltFolder{"DoubleFeatures", "features.npy", npy_bytes<double>({1, 2, 3, 4}, {4, 1}),
                     "element type '<f8' found, '<f4' expected"},
        SpoiltFolder{"FortranFeatures", "features.npy",
                     npy_bytes("<f4", {4, 2}, std::string(32, '\0'), true), "Fortran order"},
        SpoiltFolder{"LabelBelowNone", "labels.npy", npy_bytes<std::int32_t>({0, 2, -2, 2}),
                     "entry 2 is -2; allowed are -1 to 2"},
        SpoiltFolder{"UnknownPart", "split.npy", npy_bytes<std::uint8_t>({0, 7, 1, 2}),
                     "split 0, node 1 is 7"},
        SpoiltFolder{"NoTraining", "split.npy", npy_bytes<std::uint8_t>({1, 1, 1, 2}),
                     "no training node"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Dataset, NoticesAChangedFile) {
  const TempDir dir;
  DatasetWriter writer(dir.path() / "set");
  writer.info().name = "set";
  writer.write_graph({{0, 1, 2}, {1, 0}, {}});
  writer.write_labels(std::vector<std::int32_t>{0, 1});
  writer.commit();
  write_file(dir.path() / "set/labels.npy", npy_bytes<std::int32_t>({1, 1}));
  const Dataset dataset = Dataset::open(dir.path() / "set");
  EXPECT_THAT(thrown_error([&] { dataset.validate(); }).what(),
              HasSubstr("labels.npy: changed since dataset.json was written: checksum"));
  fs::remove(dir.path() / "set/labels.npy");
  EXPECT_THAT(thrown_error([&] { Dataset::open(dir.path() / "set"); }).what(),
              HasSubstr("labels.npy: listed in dataset.json, but not there"));
}

// One bit of dataset.json: refused, or without effect. Nothing else states classes and task.
TEST(Dataset, NoticesEveryFlippedBitOfItsDescription) {
  const TempDir dir;
  const fs::path file = dir.path() / "set/dataset.json";
  DatasetWriter writer(dir.path() / "set");
  writer.info().name = "set";
  writer.write_graph({{0, 1, 2}, {1, 0}, {}});
  writer.write_labels(std::vector<std::int32_t>{0, 1});
  const DatasetInfo written = writer.commit();
  const std::string intact = read_text(file);
  int refused = 0;
  for (std::size_t at = 0; at < intact.size(); ++at) {
    std::string bytes = intact;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    write_file(file, bytes);
    try {
      const DatasetInfo info = Dataset::open(dir.path() / "set").info();
      EXPECT_EQ(
          std::tie(info.classes, info.task, info.checksum, info.directed, info.name),
          std::tie(written.classes, written.task, written.checksum, written.directed, written.name))
          << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(intact.size()) / 2);
}

TEST(Dataset, DescriptionsOfOlderProgramsHaveNoSeal) {
  const TempDir dir;
  DatasetWriter writer(dir.path() / "set");
  writer.info().name = "set";
  writer.write_graph({{0, 1, 2}, {1, 0}, {}});
  writer.commit();
  Json json = read_json(dir.path() / "set/dataset.json");
  json["name"] = "renamed";
  write_json(dir.path() / "set/dataset.json", json);
  const Error error = thrown_error([&] { Dataset::open(dir.path() / "set"); });
  EXPECT_THAT(error.what(), HasSubstr("remove the field 'seal' if the change is meant"));
  json.erase("seal");
  write_json(dir.path() / "set/dataset.json", json);
  EXPECT_EQ(Dataset::open(dir.path() / "set").info().name, "renamed");
}

TEST(Dataset, MissingFolderAndFile) {
  const TempDir dir;
  EXPECT_THAT(thrown_error([&] { Dataset::open(dir.path() / "none"); }).what(),
              HasSubstr("no such folder"));
  EXPECT_THAT(thrown_error([&] { Dataset::open(dir.path()); }).what(),
              HasSubstr("it has no dataset.json"));
}

}  // namespace
}  // namespace atl
