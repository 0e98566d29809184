#include "datasets/community_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "base/seal.hpp"
#include "partition/dealing.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::MatchesRegex;

class CommunityFolder : public testing::Test {
 protected:
  CommunityFolder() {
    write_example_dataset(temp_.path() / "set", 200, true, false);
    dataset_ = Dataset::open(temp_.path() / "set");
  }
  fs::path file() const { return community_folder(dataset_, 12) / "communities.npy"; }
  // Puts others into the file, which must not be believed.
  void overwrite(const std::vector<std::int32_t>& communities) const {
    fs::remove(file());
    write_npy(file(), communities);
  }
  TempDir temp_;
  Dataset dataset_;
};

TEST_F(CommunityFolder, KeepsWhatItMade) {
  EXPECT_EQ(file().parent_path().parent_path(), temp_.path() / "set" / "communities");
  EXPECT_THAT(file().parent_path().filename().string(), MatchesRegex("12-[0-9a-f]{8}"));
  const std::vector<std::int32_t> made = ensure_communities(dataset_, 12);
  EXPECT_EQ(made, cut_into_clusters(dataset_.graph(), 12, {}));
  EXPECT_EQ(std::set(made.begin(), made.end()).size(), 12U);
  const auto written = fs::last_write_time(file());
  EXPECT_EQ(ensure_communities(dataset_, 12), made);
  EXPECT_EQ(fs::last_write_time(file()), written) << "read, not made again";
  EXPECT_NE(community_folder(dataset_, 13), community_folder(dataset_, 12));
  write_example_dataset(temp_.path() / "other", 200, false, false);
  EXPECT_NE(community_folder(Dataset::open(temp_.path() / "other"), 12).filename(),
            community_folder(dataset_, 12).filename());
}

TEST_F(CommunityFolder, MayBeBesideThePartitions) {
  const fs::path parts = temp_.path() / "elsewhere";
  const std::vector<std::int32_t> made = ensure_communities(dataset_, 12, parts);
  EXPECT_EQ(made, cut_into_clusters(dataset_.graph(), 12, {}));
  EXPECT_FALSE(fs::exists(temp_.path() / "set" / "communities"));
  const fs::path kept = community_folder(dataset_, 12, parts);
  EXPECT_EQ(kept.parent_path(), parts / "communities");
  EXPECT_TRUE(fs::exists(kept / "communities.npy"));
}

TEST_F(CommunityFolder, MakesDamagedOnesAgain) {
  const std::vector<std::int32_t> made = ensure_communities(dataset_, 12);
  const fs::path list = file().parent_path() / "communities.json";
  const std::string text = read_text(list);
  std::vector<std::int32_t> wrong(made);
  wrong[7] += 1;
  overwrite(wrong);
  EXPECT_EQ(ensure_communities(dataset_, 12), made) << "another checksum";
  fs::remove(file());
  EXPECT_EQ(ensure_communities(dataset_, 12), made) << "no file";
  fs::remove(list);
  EXPECT_EQ(ensure_communities(dataset_, 12), made) << "no list";
  // A seal of its own, but of another dataset.
  Json other = Json::parse(text);
  other["dataset"] = "0123456789abcdef";
  other.erase("seal");
  add_seal(other);
  fs::remove(list);
  write_json(list, other);
  overwrite(wrong);
  EXPECT_EQ(ensure_communities(dataset_, 12), made) << "of another dataset";
  EXPECT_EQ(read_text(list), text);
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(CommunityFolder, GoesOnWhereNothingCanBeKept) {
  const fs::path folder = temp_.path() / "set" / "communities";
  write_atomically(folder, "a file where a folder should be");
  EXPECT_EQ(ensure_communities(dataset_, 12), cut_into_clusters(dataset_.graph(), 12, {}));
  EXPECT_TRUE(fs::is_regular_file(folder));
}

}  // namespace
}  // namespace atl
