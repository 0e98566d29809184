// Covered graphs against the edges of the whole graph, and covers against all covers.
#include "partition/message_cover.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "partition/vertex_cover.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

// --- minimum vertex covers -------------------------------------------------------------------

Csr random_bipartite(std::int32_t sources, std::int32_t targets, double density, unsigned seed) {
  std::mt19937 random(seed);
  Csr edges;
  for (std::int32_t s = 0; s < sources; ++s) {
    for (std::int32_t t = 0; t < targets; ++t) {
      if (std::uniform_real_distribution<double>()(random) < density) edges.col_idx.push_back(t);
    }
    edges.row_ptr.push_back(std::ssize(edges.col_idx));
  }
  return edges;
}

struct CoverSize {
  std::int64_t all = 0;
  std::int64_t targets = 0;
  auto operator<=>(const CoverSize&) const = default;
};

CoverSize size_of(const VertexCover& cover) {
  const std::int64_t targets = std::ranges::count(cover.targets, 1);
  return {std::ranges::count(cover.sources, 1) + targets, targets};
}

// The best of all subsets of sources, each with the targets that the others need.
CoverSize smallest_cover(const CsrView& edges) {
  CoverSize best{edges.rows() + 64, 0};
  for (std::uint32_t taken = 0; taken < 1U << edges.rows(); ++taken) {
    std::uint64_t targets = 0;
    for (std::int64_t s = 0; s < edges.rows(); ++s) {
      if ((taken >> s & 1U) != 0) continue;
      for (const std::int32_t t : edges.row(s)) targets |= std::uint64_t{1} << t;
    }
    best = std::min(best, {std::popcount(taken) + std::popcount(targets), std::popcount(targets)});
  }
  return best;
}

TEST(VertexCover, IsTheSmallestAndHasTheFewestTargets) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto sources = static_cast<std::int32_t>(seed % 11);
    const auto targets = static_cast<std::int32_t>(1 + seed % 13);
    const Csr edges = random_bipartite(sources, targets, 0.05 + 0.1 * (seed % 6), seed);
    const VertexCover cover = minimum_vertex_cover(edges.view(), targets);
    ASSERT_EQ(std::ssize(cover.sources), sources);
    ASSERT_EQ(std::ssize(cover.targets), targets);
    for (std::int32_t s = 0; s < sources; ++s) {
      for (const std::int32_t t : edges.view().row(s)) {
        ASSERT_TRUE(cover.sources[s] != 0 || cover.targets[t] != 0) << "seed " << seed;
      }
    }
    EXPECT_EQ(size_of(cover), smallest_cover(edges.view())) << "seed " << seed;
  }
}

TEST(VertexCover, StarsAreCoveredByTheirCentres) {
  // Source 0 has targets 0 to 4; target 5 has sources 1 to 4.
  const Csr edges{{0, 5, 6, 7, 8, 9}, {0, 1, 2, 3, 4, 5, 5, 5, 5}, {}};
  const VertexCover cover = minimum_vertex_cover(edges.view(), 6);
  EXPECT_EQ(cover.sources, (std::vector<std::uint8_t>{1, 0, 0, 0, 0}));
  EXPECT_EQ(cover.targets, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 1}));
}

// Each source takes its first target, which is the only one of the last source: only one path,
// through all nodes, leads to the target that is left.
TEST(VertexCover, FindsAPathThroughAllNodes) {
  constexpr std::int32_t kNodes = 200'000;
  Csr edges;
  for (std::int32_t s = 0; s + 1 < kNodes; ++s) {
    edges.col_idx.insert(edges.col_idx.end(), {s, s + 1});
    edges.row_ptr.push_back(std::ssize(edges.col_idx));
  }
  edges.col_idx.push_back(0);
  edges.row_ptr.push_back(std::ssize(edges.col_idx));
  EXPECT_EQ(size_of(minimum_vertex_cover(edges.view(), kNodes)), (CoverSize{kNodes, 0}));
}

// --- covered graphs --------------------------------------------------------------------------

double feature_of(GlobalId node) { return std::sin(static_cast<double>(to_index(node)) + 1); }

// first: what column 0 stands for.
double sum_of(const CsrView& csr, std::int64_t row, const std::vector<double>& x,
              std::int64_t first = 0) {
  double sum = 0;
  for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
    sum += static_cast<double>(csr.value(e)) * x[first + csr.col_idx[e]];
  }
  return sum;
}

// The parts of a graph with covered messages, and the exchange of one column between them.
class CoveredParts {
 public:
  CoveredParts(const GraphView& graph, std::span<const std::int32_t> part_of, int parts,
               const Recomputation& recomputation = {}) {
    LocalGraphBuilder builder(graph, part_of, parts);
    locals_.reserve(static_cast<std::size_t>(parts));
    for (int part = 0; part < parts; ++part) {
      locals_.push_back(builder.build(part));
      covered_.emplace_back(locals_.back().view(), recomputation);
    }
  }

  int parts() const { return static_cast<int>(locals_.size()); }
  LocalMatrixView rows(int part, Direction direction) const {
    return matrix(locals_[static_cast<std::size_t>(part)].view(), direction);
  }
  LocalMatrixView cover(int part, Direction direction) const {
    return matrix(covered_[static_cast<std::size_t>(part)].view(), direction);
  }
  bool saves(int part) const { return covered_[static_cast<std::size_t>(part)].saves(); }
  const LocalGraph& local(int part) const { return locals_[static_cast<std::size_t>(part)]; }

  // By part: the sums of its rows.
  std::vector<std::vector<double>> aggregated(Direction direction) const {
    std::vector<std::vector<double>> x;
    for (int part = 0; part < parts(); ++part) {
      const LocalMatrixView mine = cover(part, direction);
      const std::vector<GlobalId>& ids = local(part).inner_ids;
      std::vector<double>& values = x.emplace_back();
      for (const GlobalId id : ids) values.push_back(feature_of(id));
      values.resize(ids.size() + static_cast<std::size_t>(mine.outer_rows()), std::nan(""));
      const std::size_t first_sum = ids.size() + static_cast<std::size_t>(mine.halo.halo_rows());
      for (std::int64_t k = 0; k < mine.sums.rows(); ++k) {
        values[first_sum + static_cast<std::size_t>(k)] =
            sum_of(mine.sums, k, values, local(part).central);
      }
    }
    for (int to = 0; to < parts(); ++to) {
      for (int from = 0; from < parts(); ++from) {
        const HaloListsView receive = cover(to, direction).halo;
        const HaloListsView send = cover(from, direction).halo;
        const std::int64_t count = receive.received_from(static_cast<std::size_t>(from));
        EXPECT_EQ(send.send_offset[to + 1] - send.send_offset[to], count);
        for (std::int64_t k = 0; k < count; ++k) {
          const LocalId row = send.send_rows[send.send_offset[to] + k];
          x[to][local(to).inner_ids.size() + receive.recv_offset[from] + k] =
              x[from][to_index(row)];
        }
      }
    }
    std::vector<std::vector<double>> sums;
    for (int part = 0; part < parts(); ++part) {
      sums.emplace_back();
      for (std::int64_t row = 0; row < std::ssize(local(part).inner_ids); ++row) {
        sums.back().push_back(sum_of(cover(part, direction).csr, row, x[part]));
      }
    }
    return sums;
  }

 private:
  static LocalMatrixView matrix(const LocalGraphView& graph, Direction direction) {
    return direction == Direction::kForward ? graph.forward : graph.backward;
  }
  std::vector<LocalGraph> locals_;
  std::vector<CoveredGraph> covered_;
};

// The sums of all rows, from the whole graph.
std::vector<double> whole_sums(const CsrView& in_edges, Direction direction) {
  std::vector<double> sums(static_cast<std::size_t>(in_edges.rows()), 0);
  for (std::int64_t row = 0; row < in_edges.rows(); ++row) {
    for (std::int64_t e = in_edges.row_ptr[row]; e < in_edges.row_ptr[row + 1]; ++e) {
      const std::int64_t column = in_edges.col_idx[e];
      const bool forward = direction == Direction::kForward;
      sums[forward ? row : column] +=
          static_cast<double>(in_edges.value(e)) * feature_of(GlobalId{forward ? column : row});
    }
  }
  return sums;
}

void expect_same_sums(const GraphView& graph, const CoveredParts& parts) {
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const std::vector<double> expected = whole_sums(graph.in_edges, direction);
    const auto sums = parts.aggregated(direction);
    for (int part = 0; part < parts.parts(); ++part) {
      for (std::size_t row = 0; row < sums[part].size(); ++row) {
        EXPECT_NEAR(sums[part][row], expected[to_index(parts.local(part).inner_ids[row])], 1e-5);
      }
    }
  }
}

TEST(MessageCover, RowsAddUpTheSame) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const bool directed = seed % 2 == 1;
    const int parts = 1 + static_cast<int>(seed % 5);
    const Csr csr =
        random_graph(150, 2 + static_cast<int>(seed % 4), directed, seed % 3 == 0, seed);
    const GraphView graph{csr.view(), !directed};
    const std::vector<std::int32_t> part_of = scattered_parts(graph.nodes(), parts);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_same_sums(graph, CoveredParts(graph, part_of, parts));
  }
}

TEST(MessageCover, NeverSendsMoreAndSavesTheSameBothWays) {
  const Csr csr = random_graph(400, 3, true, false, 5);
  const GraphView graph{csr.view(), false};
  const std::vector<std::int32_t> part_of = scattered_parts(graph.nodes(), 4);
  const CoveredParts parts(graph, part_of, 4);
  const LocalGraphBuilder builder(graph, part_of, 4);
  std::int64_t rows = 0;
  std::int64_t covered = 0;
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const CoverCounts counts = count_cover(builder, direction);
    for (int to = 0; to < 4; ++to) {
      std::int64_t sums = 0;  // that part `to` sends
      for (std::size_t reader = 0; reader < 4; ++reader) sums += counts.sums[reader * 4 + to];
      EXPECT_EQ(parts.cover(to, direction).sums.rows(), sums);
      for (std::size_t from = 0; from < 4; ++from) {
        const std::int64_t before = parts.rows(to, direction).halo.received_from(from);
        const std::int64_t after = parts.cover(to, direction).halo.received_from(from);
        EXPECT_LE(after, before);
        EXPECT_EQ(counts.messages[static_cast<std::size_t>(to) * 4 + from], after);
        // The edges of a pair are the same in the other direction, with the roles of their ends.
        const Direction other =
            direction == Direction::kForward ? Direction::kBackward : Direction::kForward;
        EXPECT_EQ(after, parts.cover(static_cast<int>(from), other)
                             .halo.received_from(static_cast<std::size_t>(to)));
        rows += before;
        covered += after;
      }
    }
  }
  EXPECT_LT(covered, rows * 9 / 10);
}

TEST(MessageCover, SumsAreForWhoReceivesThem) {
  const Csr csr = random_graph(200, 4, false, false, 3);
  const GraphView graph{csr.view(), true};
  const std::vector<std::int32_t> part_of = scattered_parts(graph.nodes(), 3);
  const CoveredParts parts(graph, part_of, 3);
  std::int64_t sums = 0;
  for (int from = 0; from < 3; ++from) {
    const LocalMatrixView sender = parts.cover(from, Direction::kForward);
    const std::int64_t first_sum =
        std::ssize(parts.local(from).inner_ids) + sender.halo.halo_rows();
    for (int to = 0; to < 3; ++to) {
      const LocalMatrixView receiver = parts.cover(to, Direction::kForward);
      for (std::int64_t k = sender.halo.send_offset[to]; k < sender.halo.send_offset[to + 1]; ++k) {
        const std::int64_t row = to_index(sender.halo.send_rows[k]);
        const bool is_sum = row >= first_sum;
        const GlobalId id =
            is_sum ? sender.sum_ids[row - first_sum] : parts.local(from).inner_ids[row];
        EXPECT_EQ(
            id,
            receiver.halo_ids[receiver.halo.recv_offset[from] + k - sender.halo.send_offset[to]]);
        EXPECT_EQ(part_of[to_index(id)], is_sum ? to : from);
        sums += is_sum ? 1 : 0;
      }
    }
  }
  EXPECT_GT(sums, 0);
}

TEST(MessageCover, PairsWithComputedRowsKeepRows) {
  const Csr csr = random_graph(300, 3, false, false, 7);
  const GraphView graph{csr.view(), true};
  const std::vector<std::int32_t> part_of = scattered_parts(graph.nodes(), 3);
  Recomputation recomputation(3);
  recomputation.set(0, 1);
  const CoveredParts parts(graph, part_of, 3, recomputation);
  expect_same_sums(graph, parts);
  const auto received = [&](int to, std::size_t from, bool cover) {
    return (cover ? parts.cover(to, Direction::kForward) : parts.rows(to, Direction::kForward))
        .halo.received_from(from);
  };
  for (const auto& [to, from] : {std::pair<int, std::size_t>(0, 1), {1, 0}}) {
    EXPECT_EQ(received(to, from, true), received(to, from, false));
  }
  EXPECT_LT(received(2, 0, true), received(2, 0, false));
}

// Pairs of nodes with an edge across the cut, and a star: rows from the star's leaves to its
// centre, which a sum could replace.
GraphView graph_with_star(Csr& csr, std::vector<std::int32_t>& part_of, std::int32_t pairs,
                          std::int32_t leaves) {
  csr = {};
  for (std::int32_t k = 0; k < pairs; ++k) {
    csr.col_idx.push_back(pairs + k);
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
  }
  csr.row_ptr.resize(static_cast<std::size_t>(2 * pairs) + 1, csr.row_ptr.back());
  for (std::int32_t leaf = 0; leaf < leaves; ++leaf) csr.col_idx.push_back(2 * pairs + 1 + leaf);
  csr.row_ptr.push_back(std::ssize(csr.col_idx));
  csr.row_ptr.resize(csr.row_ptr.size() + static_cast<std::size_t>(leaves), csr.row_ptr.back());
  part_of.assign(static_cast<std::size_t>(2 * pairs + 1 + leaves), 1);
  std::fill_n(part_of.begin(), pairs, 0);
  part_of[static_cast<std::size_t>(2 * pairs)] = 0;
  return {csr.view(), false};
}

TEST(MessageCover, RowsStayWhereSumsSaveLessThanATwentieth) {
  Csr csr;
  std::vector<std::int32_t> part_of;
  // 100 rows. A sum for the star's centre saves 5, or 4.
  for (const auto& [leaves, saves] : {std::pair(6, true), {5, false}}) {
    const GraphView graph = graph_with_star(csr, part_of, 100 - leaves, leaves);
    const CoveredParts parts(graph, part_of, 2);
    EXPECT_EQ(parts.rows(0, Direction::kForward).halo.halo_rows(), 100);
    EXPECT_EQ(parts.cover(0, Direction::kForward).halo.halo_rows(), saves ? 95 : 100);
    EXPECT_EQ(parts.saves(0), saves);
    EXPECT_EQ(parts.saves(1), saves);
    const LocalGraphBuilder builder(graph, part_of, 2);
    EXPECT_EQ(count_cover(builder, Direction::kForward).messages[1], saves ? 95 : 100);
    // Backward the centre's row goes to all of its leaves.
    EXPECT_EQ(parts.cover(1, Direction::kBackward).halo.halo_rows(), 100 - leaves + 1);
    expect_same_sums(graph, parts);
  }
}

TEST(MessageCover, DuplicateEdgesAndSelfLoops) {
  const DirectedExample example;
  expect_same_sums(example.graph(), CoveredParts(example.graph(), example.part_of, 3));
}

}  // namespace
}  // namespace atl
