#include "datasets/shard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/files.hpp"
#include "datasets/file_list.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

template <typename T>
void expect_equal(std::span<const T> found, std::span<const T> expected, const char* what) {
  EXPECT_TRUE(std::ranges::equal(found, expected)) << what;
}

void expect_equal(const LocalMatrixView& found, const LocalMatrixView& expected) {
  expect_equal(found.csr.row_ptr, expected.csr.row_ptr, "row_ptr");
  expect_equal(found.csr.col_idx, expected.csr.col_idx, "col_idx");
  expect_equal(found.csr.values, expected.csr.values, "values");
  expect_equal(found.split, expected.split, "split");
  expect_equal(found.halo.recv_offset, expected.halo.recv_offset, "recv_offset");
  expect_equal(found.halo.send_offset, expected.halo.send_offset, "send_offset");
  expect_equal(found.halo.send_rows, expected.halo.send_rows, "send_rows");
  expect_equal(found.halo_ids, expected.halo_ids, "halo_ids");
}

// One dataset and the shards of its three parts, in a temporary folder.
class ShardTest : public testing::Test {
 protected:
  void write(bool directed, bool multi_label, bool structure_only = false,
             bool real_labels = false) {
    write_example_dataset(temp_.path() / "set", 60, directed, multi_label, structure_only,
                          real_labels);
    dataset_ = Dataset::open(temp_.path() / "set");
    part_of_ = scattered_parts(60, 3);
    const GraphView graph = dataset_->graph();
    LocalGraphBuilder builder(graph, part_of_, 3);
    for (int part = 0; part < 3; ++part) {
      graphs_.push_back(builder.build(part));
      fs::create_directories(folder(part));
      write_shard(folder(part), *dataset_, graphs_.back());
    }
  }
  fs::path folder(int part) const { return temp_.path() / ("part-" + std::to_string(part)); }
  Shard open(int part) const {
    return Shard::open(folder(part), describe_file(folder(part) / "shard.json"));
  }

  TempDir temp_;
  std::optional<Dataset> dataset_;
  std::vector<std::int32_t> part_of_;
  std::vector<LocalGraph> graphs_;
};

TEST_F(ShardTest, DirectedWeightedRoundTrip) {
  write(true, false);
  for (int part = 0; part < 3; ++part) {
    const Shard shard = open(part);
    const LocalGraphView& found = shard.graph();
    const LocalGraphView expected = graphs_[part].view();
    EXPECT_EQ(found.part, part);
    EXPECT_EQ(found.parts, 3);
    EXPECT_EQ(found.global_nodes, 60);
    EXPECT_EQ(found.central, expected.central);
    EXPECT_FALSE(found.symmetric);
    expect_equal(found.inner_ids, expected.inner_ids, "inner_ids");
    expect_equal(found.in_degree, expected.in_degree, "in_degree");
    expect_equal(found.out_degree, expected.out_degree, "out_degree");
    expect_equal(found.has_self_loop, expected.has_self_loop, "has_self_loop");
    expect_equal(found.forward, expected.forward);
    expect_equal(found.backward, expected.backward);
    EXPECT_EQ(shard.dataset().checksum, dataset_->info().checksum);
    EXPECT_EQ(shard.dataset().name, "example");
    EXPECT_EQ(shard.dataset().edges, dataset_->info().edges);
    EXPECT_EQ(shard.dataset().classes, 4);
    ASSERT_EQ(shard.features().size(), found.inner_ids.size() * 3);
    ASSERT_EQ(shard.labels().size(), found.inner_ids.size());
    EXPECT_TRUE(shard.multi_labels().empty());
    for (std::size_t i = 0; i < found.inner_ids.size(); ++i) {
      const std::int64_t id = to_index(found.inner_ids[i]);
      EXPECT_EQ(shard.features()[3 * i + 2], static_cast<float>(10 * id + 2));
      EXPECT_EQ(shard.labels()[i], id % 4);
      EXPECT_EQ(shard.split(0)[i], id % 3);
      EXPECT_EQ(shard.split(1)[i], (id + 1) % 3);
    }
    EXPECT_THAT(thrown_error([&] { shard.split(2); }).what(), HasSubstr("allowed are 0 to 1"));
  }
}

TEST_F(ShardTest, SymmetricMultiLabelRoundTrip) {
  write(false, true);
  const Shard shard = open(1);
  EXPECT_TRUE(shard.graph().symmetric);
  expect_equal(shard.graph().forward, graphs_[1].view().forward);
  EXPECT_EQ(shard.graph().backward.csr.col_idx.data(), shard.graph().forward.csr.col_idx.data());
  EXPECT_FALSE(fs::exists(folder(1) / "backward_col_idx.npy"));
  EXPECT_TRUE(shard.labels().empty());
  for (std::size_t i = 0; i < shard.graph().inner_ids.size(); ++i) {
    const std::int64_t id = to_index(shard.graph().inner_ids[i]);
    for (int c = 0; c < 4; ++c) EXPECT_EQ(shard.multi_labels()[4 * i + c], id >> c & 1);
  }
}

TEST_F(ShardTest, RealLabelsRoundTrip) {
  write(false, false, false, true);
  const Shard shard = open(1);
  EXPECT_EQ(shard.dataset().task, Task::kRegression);
  EXPECT_TRUE(shard.labels().empty());
  for (std::size_t i = 0; i < shard.graph().inner_ids.size(); ++i) {
    const auto id = static_cast<float>(to_index(shard.graph().inner_ids[i]));
    EXPECT_EQ(shard.real_labels()[2 * i], 0.5F * id);
    EXPECT_EQ(shard.real_labels()[2 * i + 1], 0.5F * (id + 100));
  }
  const Shard copied = Shard::copy(*dataset_, graphs_[1]);
  expect_equal(copied.real_labels(), shard.real_labels(), "real_labels");
}

TEST_F(ShardTest, StructureOnly) {
  write(false, false, true);
  const Shard shard = open(2);
  EXPECT_TRUE(shard.features().empty());
  EXPECT_TRUE(shard.labels().empty());
  EXPECT_THAT(thrown_error([&] { shard.split(0); }).what(), HasSubstr("has no split"));
  expect_equal(shard.graph().forward, graphs_[2].view().forward);
}

template <typename T>
void change_npy(const fs::path& path, const std::function<void(std::vector<T>&)>& change) {
  std::vector<T> values;
  {
    const NpyFile file(path);
    const auto span = file.values<T>();
    values.assign(span.begin(), span.end());
  }
  change(values);
  write_npy(path, values);
}

// Shard::open's words about part 0, whose files are changed and then listed again: checksums alone
// must not be what keeps wrong values out.
class DamagedShard : public ShardTest {
 protected:
  void SetUp() override { write(true, false); }
  std::string message() const {
    const Error error = thrown_error([&] { open(0); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  fs::path file(const std::string& name) const { return folder(0) / name; }
  void relist() const {
    Json json = read_json(file("shard.json"));
    for (auto& [name, entry] : json["files"].items()) {
      if (fs::exists(file(name))) entry = describe_file(file(name));
    }
    write_json(file("shard.json"), json);
  }
  template <typename T>
  void change(const char* name, const std::function<void(std::vector<T>&)>& change) const {
    change_npy<T>(file(name), change);
    relist();
  }
};

TEST_F(DamagedShard, MissingFile) {
  fs::remove(file("forward_split.npy"));
  EXPECT_THAT(message(), HasSubstr("forward_split.npy: can't open"));
}

TEST_F(DamagedShard, MissingFolder) {
  const Json listed = describe_file(file("shard.json"));
  fs::remove_all(folder(0));
  EXPECT_THAT(thrown_error([&] { Shard::open(folder(0), listed); }).what(),
              HasSubstr("shard.json: can't open"));
}

TEST_F(DamagedShard, TruncatedFile) {
  fs::resize_file(file("backward_col_idx.npy"), fs::file_size(file("backward_col_idx.npy")) - 3);
  EXPECT_THAT(message(), HasSubstr("backward_col_idx.npy: changed since shard.json was written"));
  relist();
  EXPECT_THAT(message(), HasSubstr("backward_col_idx.npy"));
}

TEST_F(DamagedShard, BrokenJson) {
  write_atomically(file("shard.json"), "{\"format\": 1,");
  EXPECT_THAT(message(), HasSubstr("not valid JSON at byte"));
}

TEST_F(DamagedShard, OtherFormat) {
  Json json = read_json(file("shard.json"));
  json["format"] = 99;
  write_json(file("shard.json"), json);
  EXPECT_THAT(message(), HasSubstr("format 99"));
}

TEST_F(DamagedShard, FallingRowPtr) {
  change<std::int64_t>("forward_row_ptr.npy", [](auto& v) { v[1] = v.back() + 1; });
  EXPECT_THAT(message(), HasSubstr("forward_row_ptr.npy: entry 2"));
}

TEST_F(DamagedShard, RowPtrStartsAboveZero) {
  change<std::int64_t>("forward_row_ptr.npy", [](auto& v) { v[0] = 1; });
  EXPECT_THAT(message(), HasSubstr("forward_row_ptr.npy: entry 0 is 1; allowed is 0"));
}

TEST_F(DamagedShard, HugeRowPtr) {
  change<std::int64_t>("forward_row_ptr.npy", [](auto& v) { v.back() = std::int64_t{1} << 60; });
  EXPECT_THAT(message(), HasSubstr("forward_col_idx.npy: shape"));
}

TEST_F(DamagedShard, ColumnOutOfRange) {
  change<std::int32_t>("forward_col_idx.npy", [](auto& v) { v[0] = 1000; });
  EXPECT_THAT(message(), HasSubstr("forward_col_idx.npy: entry 0"));
  change<std::int32_t>("forward_col_idx.npy", [](auto& v) { v[0] = -1; });
  EXPECT_THAT(message(), HasSubstr("is -1; allowed are"));
}

TEST_F(DamagedShard, SplitOutsideItsRow) {
  change<std::int64_t>("backward_split.npy", [](auto& v) { v[0] = -5; });
  EXPECT_THAT(message(), HasSubstr("backward_split.npy: entry 0 is -5"));
}

TEST_F(DamagedShard, SendRowOutOfRange) {
  const auto inner = static_cast<std::int32_t>(graphs_[0].inner_ids.size());
  change<std::int32_t>("forward_send_rows.npy", [&](auto& v) { v[0] = inner; });
  EXPECT_THAT(message(), HasSubstr("forward_send_rows.npy: entry 0 is"));
}

TEST_F(DamagedShard, HaloIdOutOfRange) {
  change<std::int64_t>("forward_halo_ids.npy", [](auto& v) { v[0] = 60; });
  EXPECT_THAT(message(), HasSubstr("forward_halo_ids.npy: entry 0 is 60; allowed are 0 to 59"));
}

TEST_F(DamagedShard, RowsForItself) {
  change<std::int64_t>("forward_recv_offset.npy", [](auto& v) { v[1] = v[2]; });
  EXPECT_THAT(message(), HasSubstr("part 0 exchanges rows with itself"));
}

TEST_F(DamagedShard, InnerCountDisagrees) {
  Json json = read_json(file("shard.json"));
  json["inner"] = json["inner"].get<int>() + 1;
  write_json(file("shard.json"), json);
  EXPECT_THAT(message(), HasSubstr("inner_ids.npy: shape"));
}

TEST_F(DamagedShard, WrongFeatureType) {
  write_npy(file("features.npy"), std::vector<double>(3));
  relist();
  EXPECT_THAT(message(), HasSubstr("features.npy: element type '<f8' found, '<f4' expected"));
}

TEST_F(DamagedShard, ChangedFeature) {
  change_npy<float>(file("features.npy"), [](auto& v) { v[0] += 1; });
  EXPECT_THAT(message(), HasSubstr("features.npy: changed since shard.json was written: checksum"));
}

TEST_F(DamagedShard, ChangedDescription) {
  const Json listed = describe_file(file("shard.json"));
  Json json = read_json(file("shard.json"));
  json["dataset"]["classes"] = 5;
  write_json(file("shard.json"), json);
  EXPECT_THAT(thrown_error([&] { Shard::open(folder(0), listed); }).what(),
              HasSubstr("shard.json: changed since partition.json was written"));
}

TEST_F(DamagedShard, LabelsAndSplitsOutOfRange) {
  change<std::int32_t>("labels.npy", [](auto& v) { v[1] = 4; });
  EXPECT_THAT(message(), HasSubstr("labels.npy: entry 1 is 4; allowed are -1 to 3"));
  change<std::int32_t>("labels.npy", [](auto& v) { v[1] = -2; });
  EXPECT_THAT(message(), HasSubstr("labels.npy: entry 1 is -2; allowed are -1 to 3"));
  change<std::int32_t>("labels.npy", [](auto& v) { v[1] = -1; });
  const auto inner = static_cast<std::int64_t>(graphs_[0].inner_ids.size());
  std::vector<std::uint8_t> split(2 * static_cast<std::size_t>(inner), 255);
  split[3] = 3;
  write_npy<std::uint8_t>(file("split.npy"), split, {2, inner});
  relist();
  EXPECT_THAT(message(), HasSubstr("split.npy: entry 3 is 3; allowed are 0 to 2 and 255"));
}

TEST_F(DamagedShard, NodeHeldTwice) {
  change<std::int64_t>("inner_ids.npy", [](auto& v) { v[1] = v[0]; });
  EXPECT_THAT(message(), HasSubstr("inner_ids.npy: entry 1 is"));
}

TEST_F(DamagedShard, HaloNodeIsInner) {
  const std::int64_t inner = to_index(graphs_[0].inner_ids[0]);
  change<std::int64_t>("backward_halo_ids.npy", [&](auto& v) { v[0] = inner; });
  EXPECT_THAT(message(), HasSubstr("a node that this part holds already"));
}

// Training reads the same whether a part lies on disk or was never written.
TEST_F(ShardTest, CopyEqualsTheFiles) {
  for (const bool multi_label : {false, true}) {
    const TempDir dir;
    write_example_dataset(dir.path() / "set", 60, true, multi_label);
    const Dataset dataset = Dataset::open(dir.path() / "set");
    const GraphView graph = dataset.graph();
    const std::vector<std::int32_t> part_of(60, 0);
    fs::create_directories(folder(0));
    write_shard(folder(0), dataset, LocalGraphBuilder(graph, part_of, 1).build(0));
    const Shard written = open(0);
    fs::remove_all(folder(0));
    const Shard copied = Shard::copy(dataset, LocalGraphBuilder(graph, part_of, 1).build(0));
    expect_equal(copied.graph().forward, written.graph().forward);
    expect_equal(copied.graph().backward, written.graph().backward);
    expect_equal(copied.graph().inner_ids, written.graph().inner_ids, "inner_ids");
    expect_equal(copied.graph().out_degree, written.graph().out_degree, "out_degree");
    expect_equal(copied.features(), written.features(), "features");
    expect_equal(copied.labels(), written.labels(), "labels");
    expect_equal(copied.multi_labels(), written.multi_labels(), "multi_labels");
    for (const int k : {0, 1}) expect_equal(copied.split(k), written.split(k), "split");
    EXPECT_EQ(copied.dataset().classes, 4);
  }
}

}  // namespace
}  // namespace atl
