#include "datasets/partition_growth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "datasets/file_list.hpp"
#include "partition/quality.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kGroups = 4;
constexpr std::int32_t kGroup = 100;  // nodes of each

// kGroups groups, each node with an edge to the next five of its own, and behind them nodes
// with an edge to the first nodes of a group: `late` of them to group 0.
Csr grouped_graph(std::int32_t late) {
  const std::int32_t nodes = kGroups * kGroup + late;
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(nodes));
  const auto add = [&](std::int32_t one, std::int32_t other) {
    rows[one].push_back(other);
    rows[other].push_back(one);
  };
  for (std::int32_t v = 0; v < kGroups * kGroup; ++v) {
    for (std::int32_t step = 1; step <= 5; ++step) {
      const std::int32_t first = v / kGroup * kGroup;
      add(v, first + (v - first + step) % kGroup);
    }
  }
  for (std::int32_t i = 0; i < late; ++i) add(kGroups * kGroup + i, i);
  Csr csr;
  for (auto& row : rows) {
    std::ranges::sort(row);
    csr.col_idx.insert(csr.col_idx.end(), row.begin(), row.end());
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

class PartitionGrowth : public testing::Test {
 protected:
  Dataset make(const char* name, std::int32_t late, std::uint8_t first_split = 0) {
    const Csr csr = grouped_graph(late);
    const auto nodes = static_cast<std::size_t>(csr.view().rows());
    DatasetWriter writer(temp_.path() / name);
    writer.info().name = "grouped";
    writer.info().provenance = Json::object();
    writer.write_graph(csr);
    const auto features = writer.write_features(2);
    for (std::size_t v = 0; v < nodes; ++v) {
      const std::array<float, 2> row{static_cast<float>(v), 1};
      features->write(std::span<const float>(row));
    }
    features->close();
    writer.write_labels(std::vector<std::int32_t>(nodes, 1));
    std::vector<std::uint8_t> split(nodes, 0);
    for (std::size_t v = 1; v < nodes; v += 2) split[v] = 1;
    split[0] = first_split;
    writer.write_splits(split, 1);
    writer.commit();
    return Dataset::open(temp_.path() / name);
  }
  std::string refused(const Dataset& dataset, std::optional<int> parts, const fs::path& from,
                      const PartitionOptions& options = {}) {
    const Error error =
        thrown_error([&] { grow_partition(dataset, parts, options, from, kUsualDrift); });
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_FALSE(fs::exists(dataset.folder() / "parts")) << error.what();
    return error.what();
  }
  TempDir temp_;
};

std::vector<GrowthStep> steps_of(const Partition& partition) {
  return growth_steps(partition.description, partition.folder / "partition.json");
}

TEST_F(PartitionGrowth, RecordsTheChain) {
  const Dataset old = make("old", 0);
  const Partition first = ensure_partition(old, kGroups, {});
  const Dataset grown = make("grown", 2);
  const Partition second = grow_partition(grown, {}, {}, first.folder, kUsualDrift);
  EXPECT_EQ(second.folder, partition_folder(grown, kGroups, {}));
  EXPECT_EQ(ensure_partition(grown, kGroups, {}).description, second.description);
  const Dataset larger = make("larger", 4);
  // By the dataset, and of as many parts as that has.
  const Partition third = grow_partition(larger, kGroups, {}, grown.folder(), 1.2);

  EXPECT_TRUE(steps_of(first).empty());
  const std::vector<GrowthStep> steps = steps_of(third);
  ASSERT_EQ(steps.size(), 2);
  EXPECT_EQ(steps[0].partition, first.folder.filename());
  EXPECT_EQ(steps[0].checksum, first.checksum());
  EXPECT_EQ(steps[0].nodes, 400);
  EXPECT_EQ(steps[0].edges, 4000);
  EXPECT_EQ(steps[0].drift, kUsualDrift);
  EXPECT_EQ(steps[1].partition, second.folder.filename());
  EXPECT_EQ(steps[1].nodes, 402);
  EXPECT_EQ(steps[1].drift, 1.2);
  EXPECT_EQ(steps[1].cut, "extended");
  EXPECT_THAT(to_text(steps[1]),
              HasSubstr("extended " + second.folder.filename().string() + ": 0 halo rows"));
  const PartitionQuality quality = parse_quality(third.quality, "quality");
  EXPECT_EQ(quality.total().halo_forward, steps[1].halo_rows);
  EXPECT_EQ(quality.total().nodes, 404);
  // Each is found again, and not made anew.
  EXPECT_EQ(grow_partition(larger, kGroups, {}, old.folder(), 1.2).description, third.description);
}

// The group that grew has other arrays; those of others are the ones of before.
TEST_F(PartitionGrowth, LinksWhatIsAsBefore) {
  const Dataset old = make("old", 0);
  const Partition first = ensure_partition(old, kGroups, {});
  const Dataset grown = make("grown", 2);
  const Partition second = grow_partition(grown, kGroups, {}, first.folder, kUsualDrift);
  int whole = 0;
  std::int64_t linked = 0;
  std::int64_t all = 0;
  for (int part = 0; part < kGroups; ++part) {
    const fs::path folder = shard_folder(second.folder, part);
    const Json files = read_json(folder / "shard.json").at("files");
    std::int64_t of_part = 0;
    for (const auto& [name, entry] : files.items()) {
      EXPECT_EQ(entry, describe_file(folder / name));
      of_part += fs::hard_link_count(folder / name) == 2 ? 1 : 0;
    }
    whole += of_part == std::ssize(files) ? 1 : 0;
    linked += of_part;
    all += std::ssize(files);
    open_shard(second.folder, part, second.checksum());
  }
  EXPECT_EQ(whole, kGroups - 1);
  EXPECT_EQ(second.description.at("arrays"), Json({{"all", all}, {"linked", linked}}));
  // Linked arrays outlive the older partition.
  fs::remove_all(first.folder);
  for (int part = 0; part < kGroups; ++part) {
    open_shard(second.folder, part, second.checksum());
  }
}

TEST_F(PartitionGrowth, WritesWhatChangedInDatasetsOfTheSameGraph) {
  const Dataset old = make("old", 0);
  const Partition first = ensure_partition(old, kGroups, {});
  const Dataset changed = make("changed", 0, /*first_split=*/2);
  const Partition second = grow_partition(changed, kGroups, {}, first.folder, kUsualDrift);
  int written = 0;
  for (int part = 0; part < kGroups; ++part) {
    for (const auto& entry : fs::directory_iterator(shard_folder(second.folder, part))) {
      if (entry.path().filename() == "shard.json" || entry.hard_link_count() == 2) continue;
      EXPECT_EQ(entry.path().filename(), "split.npy");
      ++written;
    }
  }
  EXPECT_EQ(written, 1);
  EXPECT_EQ(steps_of(second).back().moved, 0);
}

TEST_F(PartitionGrowth, RefusesWhatCannotBe) {
  const Dataset old = make("old", 4);
  const fs::path from = ensure_partition(old, kGroups, {}).folder;
  EXPECT_THAT(refused(make("smaller", 2), kGroups, from),
              HasSubstr("partition.json: cut from a graph with 404 nodes, but"));
  const Dataset dataset = make("new", 6);
  EXPECT_THAT(refused(dataset, 2, from),
              HasSubstr("--parts: 2 found, but " + from.string() + " has 4 parts"));
  EXPECT_THAT(refused(dataset, {}, old.folder()), HasSubstr("--parts is required"));
  EXPECT_THAT(refused(dataset, 3, old.folder()), HasSubstr("no such partition"));
  EXPECT_THAT(refused(dataset, {}, temp_.path()), HasSubstr("not a partition"));
  EXPECT_THAT(refused(dataset, {}, temp_.path() / "nowhere"), HasSubstr("not a partition"));
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  EXPECT_THAT(refused(dataset, {}, from, options),
              HasSubstr("--balance: \"nodes\" found, but " + from.string() +
                        " was cut with \"cost\": give the same"));
  options = {};
  options.weights = {1, 1, 1, 2};
  EXPECT_THAT(refused(dataset, {}, from, options), HasSubstr("--weights: "));
  options = {};
  options.method = "metis";
  EXPECT_THAT(refused(dataset, {}, from, options), HasSubstr("--method: \"metis\" found, but"));
  options.method = "random";
  EXPECT_THAT(refused(dataset, {}, from, options), HasSubstr("--method: random found with"));
  write_example_dataset(temp_.path() / "directed", 500, true, false);
  EXPECT_THAT(refused(Dataset::open(temp_.path() / "directed"), {}, from),
              HasSubstr("cut from an undirected graph, but"));
  // Seeds of the cut may differ.
  options = {};
  options.seed = 5;
  EXPECT_EQ(steps_of(grow_partition(dataset, {}, options, from, kUsualDrift)).size(), 1);
}

TEST_F(PartitionGrowth, RefusesADamagedFolder) {
  const fs::path from = ensure_partition(make("old", 0), kGroups, {}).folder;
  const Dataset dataset = make("new", 2);
  for (const char* file : {"partition.json", "part-1/shard.json", "part-2/inner_ids.npy",
                           "part-3/forward_col_idx.npy"}) {
    const std::string intact = read_text(from / file);
    std::string bytes = intact;
    bytes[bytes.size() - 3] ^= 1;
    fixtures::write_file(from / file, bytes);
    EXPECT_THAT(refused(dataset, {}, from), HasSubstr(fs::path(file).filename().string()));
    fixtures::write_file(from / file, intact);
  }
  fs::remove_all(from / "part-0");
  EXPECT_THAT(refused(dataset, {}, from), HasSubstr("part-0/shard.json"));
}

TEST_F(PartitionGrowth, CutsFromFilesGrowByAuto) {
  const Dataset old = make("old", 0);
  std::vector<std::int32_t> part_of;
  for (std::int32_t v = 0; v < kGroups * kGroup; ++v) part_of.push_back(v / kGroup);
  write_npy(temp_.path() / "parts.npy", part_of);
  PartitionOptions options;
  options.method = "file";
  options.refine = default_refinement("file");
  options.parts_file = temp_.path() / "parts.npy";
  options.parts_checksum = parts_file_checksum(options.parts_file);
  const fs::path from = ensure_partition(old, kGroups, options).folder;
  const Partition grown = grow_partition(make("new", 2), {}, {}, from, kUsualDrift);
  EXPECT_EQ(steps_of(grown).back().cut, "extended");
  EXPECT_EQ(open_shard(grown.folder, 0, grown.checksum()).graph().inner(), 102);
}

TEST_F(PartitionGrowth, DirectedGraphs) {
  write_example_dataset(temp_.path() / "old", 60, true, false);
  write_example_dataset(temp_.path() / "new", 75, true, true);
  const Dataset old = Dataset::open(temp_.path() / "old");
  const Dataset dataset = Dataset::open(temp_.path() / "new");
  const Partition first = ensure_partition(old, 3, {});
  const Partition second = grow_partition(dataset, 3, {}, first.folder, kUsualDrift);
  const PartitionQuality quality = parse_quality(second.quality, "quality");
  EXPECT_EQ(quality.total().halo_forward + quality.total().halo_backward,
            steps_of(second).back().halo_rows);
  std::int64_t nodes = 0;
  for (int part = 0; part < 3; ++part) {
    nodes += open_shard(second.folder, part, second.checksum()).graph().inner();
  }
  EXPECT_EQ(nodes, 75);
}

}  // namespace
}  // namespace atl
