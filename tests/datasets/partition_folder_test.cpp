#include "datasets/partition_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.hpp"
#include "base/seal.hpp"
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
  EXPECT_THAT(folder.filename().string(), testing::MatchesRegex("4-auto-volume-[0-9a-f]{8}"));
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
  const Partition made = ensure_partition(dataset, 3, options);
  const fs::path folder = made.folder;
  EXPECT_EQ(folder, partition_folder(dataset, 3, options));
  std::int64_t nodes = 0;
  for (int part = 0; part < 3; ++part) {
    const Shard shard = open_shard(folder, part, made.checksum());
    EXPECT_EQ(shard.graph().part, part);
    nodes += shard.graph().inner();
  }
  EXPECT_EQ(nodes, 60);
  const auto written = fs::last_write_time(folder / "partition.json");
  EXPECT_EQ(ensure_partition(dataset, 3, options).folder, folder);
  EXPECT_EQ(fs::last_write_time(folder / "partition.json"), written);
  // Nothing but the one folder is left in parts/.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.parent_path()), {}), 1);

  const Json partition = read_partition_description(folder);
  EXPECT_EQ(partition["parts"], 3);
  EXPECT_EQ(partition["options"]["balance"], "cost");
  EXPECT_EQ(partition["dataset"]["checksum"], dataset.info().checksum);
  const PartitionQuality quality = parse_quality(made.quality, folder / "quality.json");
  EXPECT_EQ(quality.total().nodes, 60);
  EXPECT_EQ(quality.total().training_nodes, 20);
}

TEST_F(PartitionFolder, OnePartAndStructureOnly) {
  const Dataset dataset = make("bare", 60, true);
  const Partition made = ensure_partition(dataset, 1, {});
  const Shard shard = open_shard(made.folder, 0, made.checksum());
  EXPECT_EQ(shard.graph().inner(), 60);
  EXPECT_EQ(shard.graph().central, 60);
  EXPECT_EQ(shard.graph().forward.halo.halo_rows(), 0);
}

TEST_F(PartitionFolder, BalancesTheChosenSplit) {
  const Dataset dataset = make();
  PartitionOptions options;
  options.balance = PartitionBalance::kEdgesTrain;
  options.imbalance = 0.3;
  options.split_index = 1;
  const PartitionQuality quality =
      parse_quality(ensure_partition(dataset, 2, options).quality, "quality");
  EXPECT_EQ(quality.total().training_nodes, 20);
  EXPECT_LE(quality.balance(&PartQuality::training_nodes), 1.41);
  options.split_index = 2;
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 2, options); }).what(),
              HasSubstr("split"));
}

TEST_F(PartitionFolder, RefusesThePartitionOfAnotherDataset) {
  const Dataset dataset = make();
  const fs::path folder = ensure_partition(dataset, 2, {}).folder;
  Json json = read_json(folder / "partition.json");
  json["dataset"]["checksum"] = "0123456789abcdef";
  add_seal(json);
  write_json(folder / "partition.json", json);
  const Error error = thrown_error([&] { ensure_partition(dataset, 2, {}); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("0123456789abcdef"));
  EXPECT_THAT(error.what(), HasSubstr(dataset.info().checksum));
  EXPECT_THAT(error.what(), HasSubstr("the dataset changed since"));
}

TEST_F(PartitionFolder, RefusesADamagedFolder) {
  const Dataset dataset = make();
  const fs::path folder = ensure_partition(dataset, 2, {}).folder;
  fs::remove(folder / "part-1" / "shard.json");
  const Error error = thrown_error([&] { ensure_partition(dataset, 2, {}); });
  EXPECT_THAT(error.what(), HasSubstr("part-1/shard.json: can't open"));
  EXPECT_THAT(error.what(), HasSubstr("remove " + folder.string() + " and it is made again"));
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

// Every file that belongs to a partition.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

// One bit anywhere: refused as input of the user, or without any effect on what is read.
TEST_F(PartitionFolder, EveryFlippedBitIsNoticed) {
  const Dataset dataset = make("set", 24);
  const Partition made = ensure_partition(dataset, 2, {});
  const std::string quality = made.quality.dump();
  std::int64_t refused = 0;
  std::int64_t harmless = 0;
  for (const fs::path& file : files_of(made.folder)) {
    const std::string intact = read_text(file);
    // The root of all checksums in whole, what it vouches for here and there.
    const bool root = file.filename() == "partition.json";
    const std::size_t stride = root ? 1 : 1 + intact.size() / 20;
    for (std::size_t at = 0; at < intact.size(); at += stride) {
      std::string bytes = intact;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at / stride % 8)));
      fixtures::write_file(file, bytes);
      try {
        const Partition found = ensure_partition(dataset, 2, {});
        for (const int part : {0, 1}) open_shard(found.folder, part, found.checksum());
        EXPECT_EQ(found.quality.dump(), quality);
        EXPECT_EQ(found.description, made.description) << file << " byte " << at;
        ++harmless;
      } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), 2) << error.what();
        ++refused;
      }
    }
    fixtures::write_file(file, intact);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(harmless, refused / 5);  // blanks between the fields of partition.json
  EXPECT_EQ(ensure_partition(dataset, 2, {}).description, made.description);
}

TEST_F(PartitionFolder, RefusesSwappedParts) {
  const Dataset dataset = make();
  const Partition made = ensure_partition(dataset, 2, {});
  fs::rename(made.folder / "part-0", made.folder / "other");
  fs::rename(made.folder / "part-1", made.folder / "part-0");
  fs::rename(made.folder / "other", made.folder / "part-1");
  const std::string checksum = made.checksum();
  EXPECT_EQ(thrown_error([&] {
              ensure_partition(dataset, 2, {});
              open_shard(made.folder, 0, checksum);
            }).exit_code(),
            2);
}

TEST_F(PartitionFolder, RefusesPartsOfAnotherPartition) {
  const Dataset dataset = make();
  PartitionOptions options;
  const Partition made = ensure_partition(dataset, 2, options);
  options.seed = 2;
  const Partition other = ensure_partition(dataset, 2, options);
  fs::remove_all(made.folder / "part-0");
  fs::copy(other.folder / "part-0", made.folder / "part-0");
  EXPECT_THAT(thrown_error([&] {
                ensure_partition(dataset, 2, {});
                open_shard(made.folder, 0, made.checksum());
              }).what(),
              HasSubstr("part-0/shard.json: changed since partition.json was written"));
  // All of it under this name.
  fs::remove_all(made.folder);
  fs::copy(other.folder, made.folder, fs::copy_options::recursive);
  EXPECT_THAT(thrown_error([&] { ensure_partition(dataset, 2, {}); }).what(),
              HasSubstr("another partition than the folder's name says"));
  // On another host than rank 0's.
  EXPECT_THAT(thrown_error([&] { open_shard(other.folder, 0, made.checksum()); }).what(),
              HasSubstr("than rank 0 has there"));
}

// Task and classes stand in dataset.json only, not in the files whose checksums are the dataset's.
TEST_F(PartitionFolder, FollowsTheTask) {
  const Dataset dataset = make();
  const fs::path folder = partition_folder(dataset, 2, {});
  Json json = read_json(dataset.folder() / "dataset.json");
  json["classes"] = 5;
  json.erase("seal");
  write_json(dataset.folder() / "dataset.json", json);
  const Dataset changed = Dataset::open(dataset.folder());
  EXPECT_EQ(changed.info().checksum, dataset.info().checksum);
  EXPECT_NE(partition_folder(changed, 2, {}), folder);
}

TEST_F(PartitionFolder, KeepsPartitionsElsewhere) {
  const Dataset dataset = make();
  PartitionOptions options;
  options.parts_dir = temp_.path() / "elsewhere";
  const Partition made = ensure_partition(dataset, 2, options);
  EXPECT_EQ(made.folder.parent_path(), options.parts_dir);
  EXPECT_EQ(made.folder.filename(), partition_folder(dataset, 2, {}).filename());
  EXPECT_FALSE(fs::exists(dataset.folder() / "parts"));
}

}  // namespace
}  // namespace atl
