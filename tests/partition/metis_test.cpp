// Tests of the METIS partitioner on real graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "partition/partitioner.hpp"
#include "partition/quality.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

// A structure-only .graph file: "nodes edges", then the neighbours of each node, counted from 1.
Csr read_metis_graph(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  Csr csr;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::int32_t neighbour = 0;
    while (words >> neighbour) csr.col_idx.push_back(neighbour - 1);
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

struct GraphFile {
  const char* file;
  std::int64_t nodes;
  std::int64_t entries;
};

class MetisOnRealGraphs : public testing::TestWithParam<GraphFile> {};

TEST_P(MetisOnRealGraphs, IsBalancedAndFarBelowRandom) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << "no shared data";
  const Csr csr = read_metis_graph(*data / "metis" / GetParam().file);
  ASSERT_EQ(csr.view().rows(), GetParam().nodes);
  ASSERT_EQ(csr.view().nnz(), GetParam().entries);
  const GraphView graph{csr.view(), true};
  const auto halo_rows = [&](const PartitionOptions& options) {
    const auto part_of = partition_graph(graph, 4, options, {});
    const LocalGraphBuilder builder(graph, part_of, 4);
    const PartitionQuality quality = measure_quality(builder, {}, normalised_shares({}, 4));
    EXPECT_LT(quality.balance(&PartQuality::cost), 1.06);
    return quality.total().halo_forward;
  };
  PartitionOptions options;
  const std::int64_t volume = halo_rows(options);
  options.objective = PartitionObjective::kCut;
  const std::int64_t cut = halo_rows(options);
  options.method = "random";
  const std::int64_t random = halo_rows(options);
  EXPECT_LT(2 * volume, random);
  EXPECT_LT(2 * cut, random);
}

INSTANTIATE_TEST_SUITE_P(Files, MetisOnRealGraphs,
                         testing::Values(GraphFile{"wing.graph", 62032, 243088},
                                         GraphFile{"astro-ph.graph", 16706, 242502}),
                         [](const auto& test) { return test.index == 0 ? "wing" : "astroph"; });

TEST(Metis, FollowsTargetShares) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << "no shared data";
  const Csr csr = read_metis_graph(*data / "metis" / "astro-ph.graph");
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  options.weights = {2, 1, 1};
  const auto part_of = partition_graph(graph, 3, options, {});
  const PartitionProblem problem = make_partition_problem(graph, 3, options, {});
  const auto loads = part_loads(problem, part_of);
  EXPECT_NEAR(static_cast<double>(loads[0]), 16706 / 2.0, 0.07 * 16706 / 2.0);
  EXPECT_LE(static_cast<double>(loads[1]), 1.032 * 16706 / 4.0);
  EXPECT_LE(static_cast<double>(loads[2]), 1.032 * 16706 / 4.0);
}

TEST(Metis, RefusesGraphsBeyond32Bits) {
  EXPECT_NO_THROW(check_metis_limits(1000, 2147483647, "metis"));
  const Error error = thrown_error([] { check_metis_limits(1000, 2147483648, "metis"); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), testing::HasSubstr("2147483648 adjacency entries"));
  EXPECT_THAT(error.what(), testing::EndsWith("--method communities, random or contiguous"));
  EXPECT_THROW(check_metis_limits(2147483647, 10, "metis"), Error);
  // A method that left METIS so much is no advice.
  for (const char* method : {"auto", "communities"}) {
    EXPECT_THAT(thrown_error([&] { check_metis_limits(1000, 2147483648, method); }).what(),
                testing::EndsWith("--method random or contiguous"));
  }
}

// Two cliques joined by one edge: the cut is unique.
TEST(Metis, FindsTheObviousCut) {
  Csr csr;
  for (std::int32_t v = 0; v < 40; ++v) {
    for (std::int32_t u = 0; u < 40; ++u) {
      const bool bridge = (v == 0 && u == 20) || (v == 20 && u == 0);
      if (u != v && (u / 20 == v / 20 || bridge)) csr.col_idx.push_back(u);
    }
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  for (const auto objective : {PartitionObjective::kVolume, PartitionObjective::kCut}) {
    PartitionOptions options;
    options.objective = objective;
    const auto part_of = partition_graph({csr.view(), true}, 2, options, {});
    for (std::int32_t v = 0; v < 40; ++v) EXPECT_EQ(part_of[v], part_of[v / 20 * 20]) << v;
    EXPECT_NE(part_of[0], part_of[20]);
  }
}

}  // namespace
}  // namespace atl
