#include "datasets/community_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "base/seal.hpp"
#include "datasets/partition_list.hpp"
#include "partition/dealing.hpp"
#include "tests/datasets/partition_example.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
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

class ListedCommunities : public CommunityFolder {
 protected:
  std::string stale(const fs::path& folder, const fs::path& parts_dir = {}) const {
    return entry_of(folder, parts_dir).stale;
  }
  PartitionEntry entry_of(const fs::path& folder, const fs::path& parts_dir = {}) const {
    PartitionOptions options;
    options.parts_dir = parts_dir;
    for (const PartitionEntry& entry : list_communities(dataset_, options, /*every_byte=*/true)) {
      if (entry.folder == folder) return entry;
    }
    ADD_FAILURE() << folder << " is not listed";
    return {};
  }
};

TEST_F(ListedCommunities, SayWhatIsOfNoUse) {
  const std::vector<std::int32_t> made = ensure_communities(dataset_, 12);
  const fs::path folder = file().parent_path();
  const PartitionEntry usable = entry_of(folder);
  EXPECT_EQ(usable.stale + usable.kept, "");
  EXPECT_EQ(usable.parts, 12);
  EXPECT_EQ(usable.method, "communities");
  EXPECT_GT(usable.bytes, 800);

  const fs::path renamed = folder.parent_path() / "12-01234567";
  fs::copy(folder, renamed);
  EXPECT_THAT(stale(renamed), HasSubstr("renamed"));
  const fs::path left = folder.parent_path() / "12-89abcdef.tmp-gone";
  fs::copy(folder, left);
  write_atomically(left.string() + ".lock", "");
  EXPECT_THAT(stale(left), HasSubstr("interrupted"));
  write_atomically(renamed / "notes.txt", "mine");
  EXPECT_FALSE(entry_of(renamed).removable());
  EXPECT_THAT(entry_of(renamed).kept, HasSubstr("notes.txt"));

  std::vector<std::int32_t> wrong(made);
  wrong[7] += 1;
  overwrite(wrong);
  EXPECT_THAT(stale(folder), HasSubstr("communities.npy"));
  fs::remove(file());
  EXPECT_TRUE(entry_of(folder).removable());
  remove_partition(entry_of(folder));
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(ListedCommunities, AreOfTheDatasetAsItIs) {
  const fs::path parts = temp_.path() / "elsewhere";
  for (const fs::path& place : {fs::path(), parts}) ensure_communities(dataset_, 12, place);
  const fs::path own = community_folder(dataset_, 12);
  const fs::path shared = community_folder(dataset_, 12, parts);
  EXPECT_EQ(stale(shared, parts), "");
  // The same dataset after a change, and another one.
  write_example_dataset(temp_.path() / "changed", 220, true, false);
  fs::copy(temp_.path() / "set" / "communities", temp_.path() / "changed" / "communities",
           fs::copy_options::recursive);
  dataset_ = Dataset::open(temp_.path() / "changed");
  EXPECT_THAT(stale(temp_.path() / "changed" / "communities" / own.filename()),
              HasSubstr("field 'nodes'"));
  EXPECT_THAT(stale(shared, parts), HasSubstr("field 'nodes'"));
  const fs::path list = shared / "communities.json";
  Json json = read_json(list);
  json["name"] = "other";
  json.erase("seal");
  add_seal(json);
  fs::remove(list);
  write_json(list, json);
  EXPECT_EQ(entry_of(shared, parts).kept, "of dataset other");
  EXPECT_FALSE(entry_of(shared, parts).removable());
}

TEST_F(CommunityFolder, GoesOnWhereNothingCanBeKept) {
  const fs::path folder = temp_.path() / "set" / "communities";
  write_atomically(folder, "a file where a folder should be");
  EXPECT_EQ(ensure_communities(dataset_, 12), cut_into_clusters(dataset_.graph(), 12, {}));
  EXPECT_TRUE(fs::is_regular_file(folder));
}

}  // namespace
}  // namespace atl
