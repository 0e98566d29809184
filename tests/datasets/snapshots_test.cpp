#include "datasets/snapshots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Snapshots, AreWhatWasThereInEachYear) {
  for (const bool directed : {false, true}) {
    const TempDir dir;
    std::mt19937_64 random(9);
    constexpr std::int64_t kNodes = 60;
    std::vector<std::int64_t> years, index;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < kNodes; ++i) {
      years.push_back(2010 + static_cast<std::int64_t>(random() % 6));
      labels.push_back(static_cast<std::int32_t>(random() % 3));
    }
    for (int e = 0; e < 400; ++e) {
      index.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kNodes)));
    }
    fs::create_directories(dir.path() / "source");
    write_npy<std::int64_t>(dir.path() / "source/edge_index.npy", index, {2, 200});
    write_npy<std::int32_t>(dir.path() / "source/labels.npy", labels, {kNodes});
    std::vector<float> features(kNodes);
    for (std::int64_t i = 0; i < kNodes; ++i) features[i] = static_cast<float>(i);
    write_npy<float>(dir.path() / "source/features.npy", features, {kNodes, 1});
    write_npy<std::int64_t>(dir.path() / "years.npy", years, {kNodes});
    ImportOptions options;
    options.source = dir.path() / "source";
    options.out = dir.path() / "set";
    options.directed = directed;
    options.split = parse_split("0.6,0.1,0.3");
    const SnapshotOptions snapshots{dir.path() / "years.npy", 2012};
    const auto made = import_snapshots("npy", options, snapshots);
    ASSERT_EQ(made.size(), 4U);
    std::map<std::string, std::uint8_t> role_of;
    for (const Snapshot& snapshot : made) {
      EXPECT_EQ(snapshot.folder, dir.path() / fmt::format("set@{}", snapshot.year));
      const Dataset dataset = Dataset::open(snapshot.folder);
      dataset.validate();
      EXPECT_EQ(dataset.info().classes, 3);
      const std::vector<std::string> ids = dataset.node_ids();
      EXPECT_EQ(std::ssize(ids), std::ranges::count_if(years, [&](std::int64_t year) {
                  return year <= snapshot.year;
                }));
      std::set<std::pair<std::int64_t, std::int64_t>> expected, found;  // in ids of the source
      for (std::int64_t e = 0; e < 200; ++e) {
        const std::int64_t source = index[e];
        const std::int64_t target = index[200 + e];
        if (source == target || std::max(years[source], years[target]) > snapshot.year) continue;
        expected.insert({target, source});
        if (!directed) expected.insert({source, target});
      }
      const CsrView csr = dataset.graph().in_edges;
      for (std::int64_t i = 0; i < csr.rows(); ++i) {
        const std::int64_t id = std::stoll(ids[i]);
        EXPECT_EQ(dataset.labels()[i], labels[id]);
        EXPECT_EQ(dataset.features()[i], static_cast<float>(id));
        const auto [known, is_new] = role_of.emplace(ids[i], dataset.split(0)[i]);
        EXPECT_EQ(known->second, dataset.split(0)[i]);
        if (i > 0) {
          EXPECT_LE(std::max<std::int64_t>(2012, years[std::stoll(ids[i - 1])]),
                    std::max<std::int64_t>(2012, years[id]));
        }
        for (const std::int32_t j : csr.row(i)) found.insert({id, std::stoll(ids[j])});
      }
      EXPECT_EQ(found, expected) << snapshot.year;
    }
    // Once more: all are there, and equal.
    for (const Snapshot& snapshot : import_snapshots("npy", options, snapshots)) {
      EXPECT_TRUE(snapshot.was_there);
    }
    options.seed = 5;
    EXPECT_THAT(thrown_error([&] { import_snapshots("npy", options, snapshots); }).what(),
                HasSubstr("with another content"));
    options.out = dir.path() / "other";
    EXPECT_THAT(thrown_error([&] {
                  import_snapshots("npy", options, {dir.path() / "none.npy", {}});
                }).what(),
                HasSubstr("no such file"));
    write_npy<std::int64_t>(dir.path() / "years.npy", std::vector<std::int64_t>{1, 2}, {2});
    EXPECT_THAT(thrown_error([&] { import_snapshots("npy", options, snapshots); }).what(),
                HasSubstr("2 numbers found, 60 expected"));
    EXPECT_THAT(names_in(dir.path()),
                ElementsAre("set@2012", "set@2013", "set@2014", "set@2015", "source", "years.npy"));
  }
}

}  // namespace
}  // namespace atl
