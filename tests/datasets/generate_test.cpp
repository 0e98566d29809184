#include "datasets/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "datasets/degree_tail.hpp"
#include "datasets/statistics.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

class Generate : public ::testing::Test {
 protected:
  Dataset generate(const std::string& kind) {
    options_.out = dir_.path() / std::to_string(count_++);
    generate_dataset(kind, options_);
    Dataset dataset = Dataset::open(options_.out);
    dataset.validate();
    return dataset;
  }
  TempDir dir_;
  GenerateOptions options_;
  int count_ = 0;
};

// Share of nodes whose class has the centre (mean of training features) nearest to `features`.
double nearest_centre_accuracy(const Dataset& dataset, std::span<const float> features) {
  const std::int64_t columns = dataset.info().features;
  std::vector<double> centres(static_cast<std::size_t>(dataset.info().classes * columns));
  std::vector<double> counts(static_cast<std::size_t>(dataset.info().classes));
  const auto labels = dataset.labels();
  const auto split = dataset.split(0);
  for (std::int64_t i = 0; i < dataset.info().nodes; ++i) {
    if (split[i] != 0) continue;
    ++counts[labels[i]];
    for (std::int64_t j = 0; j < columns; ++j) {
      centres[labels[i] * columns + j] += static_cast<double>(features[i * columns + j]);
    }
  }
  std::int64_t right = 0;
  std::int64_t tested = 0;
  for (std::int64_t i = 0; i < dataset.info().nodes; ++i) {
    if (split[i] != 2) continue;
    std::int64_t best = 0;
    double best_distance = INFINITY;
    for (std::int64_t c = 0; c < dataset.info().classes; ++c) {
      double distance = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        const double centre = centres[c * columns + j] / counts[c];
        const double difference = static_cast<double>(features[i * columns + j]) - centre;
        distance += difference * difference;
      }
      if (distance < best_distance) {
        best_distance = distance;
        best = c;
      }
    }
    right += best == labels[i] ? 1 : 0;
    ++tested;
  }
  return static_cast<double>(right) / static_cast<double>(tested);
}

std::vector<float> neighbour_means(const Dataset& dataset) {
  const std::int64_t columns = dataset.info().features;
  const CsrView csr = dataset.graph().in_edges;
  const auto features = dataset.features();
  std::vector<float> means(features.begin(), features.end());
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (const std::int32_t neighbour : csr.row(i)) {
      for (std::int64_t j = 0; j < columns; ++j) {
        means[i * columns + j] += features[neighbour * columns + j];
      }
    }
    const auto size = static_cast<float>(csr.row(i).size() + 1);
    for (std::int64_t j = 0; j < columns; ++j) means[i * columns + j] /= size;
  }
  return means;
}

TEST_F(Generate, SbmHasTheSizesAskedForAndNeighboursHelp) {
  options_.nodes = 4000;
  const Dataset dataset = generate("sbm");
  EXPECT_EQ(dataset.info().nodes, 4000);
  EXPECT_EQ(dataset.info().edges, 40000);
  const DatasetStatistics statistics = describe_dataset(dataset);
  EXPECT_NEAR(statistics.homophily, 0.8, 0.02);
  EXPECT_EQ(statistics.splits[0], (std::array<std::int64_t, 3>{2400, 800, 800}));
  EXPECT_THAT(statistics.class_counts, ::testing::Each(500));
  EXPECT_GT(statistics.degrees.maximum, 5 * statistics.degrees.mean);
  const double alone = nearest_centre_accuracy(dataset, dataset.features());
  const double with_neighbours = nearest_centre_accuracy(dataset, neighbour_means(dataset));
  EXPECT_LT(alone, 0.55);
  EXPECT_GT(with_neighbours, alone + 0.2);
}

TEST_F(Generate, SameFilesForAnyNumberOfThreads) {
  options_.nodes = 3000;
  for (const char* kind : {"sbm", "rmat", "relational"}) {
    const ParallelThreads one_thread(1);
    const std::string one = generate(kind).info().checksum;
    const ParallelThreads three_threads(3);
    EXPECT_EQ(generate(kind).info().checksum, one) << kind;
    options_.seed = 1;
    EXPECT_NE(generate(kind).info().checksum, one) << kind;
    options_.seed = 0;
  }
}

TEST_F(Generate, DirectedGraphsAreNotSymmetric) {
  options_.nodes = 500;
  options_.directed = true;
  const Dataset dataset = generate("sbm");
  EXPECT_TRUE(dataset.info().directed);
  EXPECT_EQ(dataset.info().edges, 5000);
}

TEST_F(Generate, RmatIsSkewedAndTakesAnyNumberOfNodes) {
  options_.nodes = 3001;
  options_.degree = 8;
  const Dataset dataset = generate("rmat");
  EXPECT_EQ(dataset.info().nodes, 3001);
  EXPECT_EQ(dataset.info().edges, 2 * 12004);
  EXPECT_GT(describe_dataset(dataset).degrees.maximum, 100);
}

TEST_F(Generate, LikeArxivScales) {
  options_.scale = 0.02;
  const Dataset dataset = generate("like:ogbn-arxiv");
  EXPECT_EQ(dataset.info().nodes, 3387);
  EXPECT_EQ(dataset.info().edges, 2 * 23156);
  EXPECT_EQ(dataset.info().features, 128);
  EXPECT_EQ(dataset.info().classes, 40);
  EXPECT_EQ(describe_dataset(dataset).splits[0], (std::array<std::int64_t, 3>{1819, 596, 972}));
}

// ogbn-arxiv itself: 13161 neighbours at most, 160 nodes of more than 512, 51 of more than 1024.
TEST(DegreeTail, IsThatOfThePublishedGraph) {
  const std::vector<std::int64_t> hubs = hub_degrees("ogbn-arxiv", 1);
  EXPECT_EQ(hubs.size(), 160U);
  EXPECT_EQ(hubs.front(), 13161);
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(hubs, [](auto d) { return d > 1024; })), 51,
              2);
  EXPECT_TRUE(std::ranges::is_sorted(hubs, std::greater()));
  // A fifth as many nodes: a fifth of the hubs, not the largest.
  EXPECT_EQ(hub_degrees("ogbn-arxiv", 0.2).size(), 32U);
  EXPECT_EQ(hub_degrees("ogbn-arxiv", 0.2).front(), hubs[4]);
  EXPECT_TRUE(hub_degrees("reddit", 1).empty());
}

TEST_F(Generate, LikeArxivHasItsHubsIfAsked) {
  options_.scale = 0.2;
  EXPECT_LT(describe_dataset(generate("like:ogbn-arxiv")).degrees.maximum, 2500);
  options_.degree_tail = true;
  for (const bool directed : {false, true}) {
    options_.directed = directed;
    const Dataset dataset = generate("like:ogbn-arxiv");
    EXPECT_NEAR(describe_dataset(dataset).homophily, 0.65, 0.04);
    std::vector<std::int64_t> degrees;
    const CsrView csr = dataset.graph().in_edges;
    for (std::int64_t i = 0; i < csr.rows(); ++i) degrees.push_back(std::ssize(csr.row(i)));
    std::ranges::sort(degrees, std::greater());
    const std::vector<std::int64_t> hubs = hub_degrees("ogbn-arxiv", 0.2);
    for (std::size_t k = 0; k < hubs.size(); ++k) {
      // The hub has edges of its own beside those drawn for it.
      EXPECT_NEAR(static_cast<double>(degrees[k]), static_cast<double>(hubs[k]),
                  0.1 * static_cast<double>(hubs[k]))
          << k << (directed ? " directed" : "");
    }
  }
}

TEST_F(Generate, LikeTheDenseSets) {
  options_.scale = 0.005;
  EXPECT_EQ(generate("like:ogbn-products").info().edges, 2 * 309296);
  EXPECT_EQ(generate("like:reddit").info().edges, 2 * 286540);
}

// The first of the classes with most votes, in the order of the edges; -1 without edges.
std::int32_t voted(const std::vector<std::int32_t>& votes) {
  std::map<std::int32_t, int> counts;
  for (const std::int32_t vote : votes) ++counts[vote];
  std::int32_t best = -1;
  for (const std::int32_t vote : votes) {
    if (best < 0 || counts[vote] > counts[best]) best = vote;
  }
  return best;
}

TEST_F(Generate, RelationalLabelsFollowTheRelationsAndNothingElse) {
  options_.nodes = 3001;
  options_.classes = 4;
  options_.relations = 8;
  options_.degree = 6;
  const Dataset dataset = generate("relational");
  EXPECT_TRUE(dataset.info().directed);
  EXPECT_EQ(dataset.info().relations, 8);
  EXPECT_EQ(dataset.info().node_types, 4);
  EXPECT_GT(dataset.info().edges, 3001 * 6 - 100);
  const GraphView graph = dataset.graph();
  const CsrView& csr = graph.in_edges;
  std::array<int, 4> blind{};  // how often the neighbours' group plus a constant is the label
  std::map<std::uint16_t, int> relations;
  double agreement = 0;
  for (std::int64_t v = 0; v < csr.rows(); ++v) {
    EXPECT_EQ(graph.node_types[v], v % 4);
    std::vector<std::int32_t> votes;
    std::vector<std::int32_t> groups;
    for (std::int64_t e = csr.row_ptr[v]; e < csr.row_ptr[v + 1]; ++e) {
      ++relations[graph.edge_types[e]];
      groups.push_back(csr.col_idx[e] % 4);
      votes.push_back((groups.back() + graph.edge_types[e]) % 4);
    }
    const std::int32_t label = dataset.labels()[v];
    ASSERT_EQ(label, voted(votes)) << v;
    for (int shift = 0; shift < 4; ++shift) blind[shift] += (voted(groups) + shift) % 4 == label;
    agreement += static_cast<double>(std::ranges::count(votes, label)) /
                 static_cast<double>(std::max<std::size_t>(1, votes.size()));
  }
  for (const int right : blind) EXPECT_NEAR(right / 3001.0, 0.25, 0.04);
  EXPECT_NEAR(agreement / 3001, 0.85, 0.03);  // 0.8 that agree and a quarter of the rest
  ASSERT_EQ(relations.size(), 8U);
  for (const auto& [relation, edges] : relations) EXPECT_NEAR(edges, 3001 * 6 / 8, 250) << relation;
}

TEST_F(Generate, RelationalFeaturesShowTheGroup) {
  options_.nodes = 400;
  options_.classes = 2;
  options_.relations = 2;
  options_.signal = 20;
  const Dataset dataset = generate("relational");
  const std::int64_t columns = dataset.info().features;
  const auto distance = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const double difference = static_cast<double>(dataset.features()[a * columns + j]) -
                                static_cast<double>(dataset.features()[b * columns + j]);
      sum += difference * difference;
    }
    return sum;
  };
  for (std::int64_t v = 2; v < 400; ++v) {
    EXPECT_LT(distance(v, v % 2), distance(v, 1 - v % 2)) << v;
  }
}

TEST_F(Generate, OneNode) {
  options_.nodes = 1;
  options_.classes = 1;
  options_.degree = 0;
  const Dataset dataset = generate("sbm");
  EXPECT_EQ(dataset.info().edges, 0);
  EXPECT_EQ(dataset.split(0)[0], 0);
}

TEST_F(Generate, RefusesBadOptions) {
  const auto refuse = [&](const std::string& kind, const char* message) {
    const Error error = thrown_error([&] { generate(kind); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(options_.out));
    options_ = {};
  };
  refuse("grid",
         "allowed are sbm, rmat, relational, like:ogbn-arxiv, like:ogbn-products, like:reddit");
  options_.nodes = 0;
  refuse("sbm", "--nodes 0");
  options_.nodes = 4;
  refuse("sbm", "--classes 8");
  options_.nodes = 20;
  options_.degree = 19.9;
  refuse("sbm", "distinct edges are too many");
  options_.scale = 1e-6;
  refuse("like:reddit", "--scale 1e-06");
  options_.degree_tail = true;
  refuse("like:reddit",
         "--degree-tail: the largest degrees of 'like:reddit' are not known; allowed is "
         "like:ogbn-arxiv");
  options_.degree_tail = true;
  refuse("sbm", "--degree-tail");
  options_.relations = 12;
  refuse("relational", "--relations 12: allowed are multiples of --classes 8");
  options_.relations = 0;
  refuse("relational", "--relations 0: allowed are 1 to 65536");
  options_.degree = 0.5;
  refuse("relational", "--degree 0.5: allowed are 1 and more");
  options_.rmat_a = 0.9;
  refuse("rmat", "their sum at most 1");
}

}  // namespace
}  // namespace atl
