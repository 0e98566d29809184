#include "datasets/partition_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "datasets/shard.hpp"
#include "partition/quality.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PartitionFolder : public testing::Test {
 protected:
  Dataset make(const char* name = "set", std::int32_t nodes = 60, bool structure_only = false) {
    write_example_dataset(temp_.path() / name, nodes, true, false, structure_only);
    return Dataset::open(temp_.path() / name);
  }
  TempDir temp_;
};

TEST_F(PartitionFolder, NameFollowsOptionsAndDataset) {
  const Dataset dataset = make();
  PartitionOptions options;
  const fs::path folder = partition_folder(dataset, 4, options);
  EXPECT_EQ(folder.parent_path(), temp_.path() / "set" / "parts");
  EXPECT_THAT(folder.filename().string(), testing::MatchesRegex("4-metis-volume-[0-9a-f]{8}"));
  EXPECT_FALSE(fs::exists(folder));

  std::set<std::string> names{folder.filename().string()};
  const auto is_new = [&](const PartitionOptions& other, int parts) {
    return names.insert(partition_folder(dataset, parts, other).filename().string()).second;
  };
  EXPECT_FALSE(is_new(options, 4));
  EXPECT_TRUE(is_new(options, 3));
  options.seed = 2;
  EXPECT_TRUE(is_new(options, 4));
  options.balance = PartitionBalance::kNodes;
  EXPECT_TRUE(is_new(options, 4));
  options.imbalance = 0.1;
  EXPECT_TRUE(is_new(options, 4));
  options.weights = {1, 1, 1, 2};
  EXPECT_TRUE(is_new(options, 4));
  options.cuts = 9;
  EXPECT_TRUE(is_new(options, 4));

  const Dataset other = make("other", 61);
  EXPECT_NE(partition_folder(other, 4, {}).filename(), folder.filename());
}

TEST_F(PartitionFolder, IsMadeOnceAndFoundAgain) {
  const Dataset dataset = make();
  const PartitionOptions options;
  const fs::path folder = ensure_partition(dataset, 3, options);
  EXPECT_EQ(folder, partition_folder(dataset, 3, options));
  std::int64_t nodes = 0;
  for (int part = 0; part < 3; ++part) {
    const Shard shard = Shard::open(shard_folder(folder, part));
    EXPECT_EQ(shard.graph().part, part);
    nodes += shard.graph().inner();
  }
  EXPECT_EQ(nodes, 60);
  const auto written = fs::last_write_time(folder / "partition.json");
  EXPECT_EQ(ensure_partition(dataset, 3, options), folder);
  EXPECT_EQ(fs::last_write_time(folder / "partition.json"), written);
  // Nothing but the one folder is left in parts/.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.parent_path()), {}), 1);

  const Json partition = read_partition(folder, dataset);
  EXPECT_EQ(partition["parts"], 3);
  EXPECT_EQ(partition["options"]["balance"], "cost");
  EXPECT_EQ(partition["dataset"]["checksum"], dataset.info().checksum);
  const PartitionQuality quality =
      parse_quality(read_json(folder / "quality.json"), folder / "quality.json");
  EXPECT_EQ(quality.total().nodes, 60);
  EXPECT_EQ(quality.total().training_nodes, 20);
}

TEST_F(PartitionFolder, OnePartAndStructureOnly) {
  const Dataset dataset = make("bare", 60, true);
  const fs::path folder = ensure_partition(dataset, 1, {});
  const Shard shard = Shard::open(shard_folder(folder, 0));
  EXPECT_EQ(shard.graph().inner(), 60);
  EXPECT_EQ(shard.graph().central, 60);
  EXPECT_EQ(shard.graph().forward.plan.halo_rows(), 0);
}

TEST_F(PartitionFolder, BalancesTheChosenSplit) {
  const Dataset dataset = make();
  PartitionOptions options;
  options.balance = PartitionBalance::kEdgesTrain;
  options.imbalance = 0.3;
  options.split_index = 1;
  const fs::path folder = ensure_partition(dataset, 2, options);
  const PartitionQuality quality = parse_quality(read_json(folder / "quality.json"), "quality");
  EXPECT_EQ(quality.total().training_nodes, 20);
  EXPECT_LE(quality.balance(&PartQuality::training_nodes), 1.41);
  options.split_index = 2;
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 2, options); }).what(),
              HasSubstr("split"));
}

TEST_F(PartitionFolder, RefusesThePartitionOfAnotherDataset) {
  const Dataset dataset = make();
  const fs::path folder = ensure_partition(dataset, 2, {});
  Json json = read_json(folder / "partition.json");
  json["dataset"]["checksum"] = "0123456789abcdef";
  write_json(folder / "partition.json", json);
  const Error error = thrown_error([&] { ensure_partition(dataset, 2, {}); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("0123456789abcdef"));
  EXPECT_THAT(error.what(), HasSubstr(dataset.info().checksum));
  EXPECT_THAT(error.what(), HasSubstr("the dataset changed since"));
}

TEST_F(PartitionFolder, RefusesADamagedFolder) {
  const Dataset dataset = make();
  const fs::path folder = ensure_partition(dataset, 2, {});
  fs::remove(folder / "part-1" / "shard.json");
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 2, {}); }).what(),
              HasSubstr("part-1: shard.json is missing"));
}

TEST_F(PartitionFolder, LeavesNothingBehindOnErrors) {
  const Dataset dataset = make();
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 61, {}); }).what(),
              HasSubstr("--parts: 61 found, but the graph has 60 nodes"));
  PartitionOptions options;
  options.method = "magic";
  EXPECT_EQ(thrown_error([&] { ensure_partition(dataset, 2, options); }).exit_code(), 2);
  EXPECT_FALSE(fs::exists(temp_.path() / "set" / "parts"));
  // A file where the folder should be.
  std::FILE* file = std::fopen((temp_.path() / "set" / "parts").c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 2, {}); }).what(),
              HasSubstr("can't create"));
}

}  // namespace
}  // namespace atl
