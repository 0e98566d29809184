// Blocks of parts against the parts of a graph that has only the nodes and edges of the block.
#include "partition/part_blocks.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

// Nodes by a hash of their number; block 3 of 4 has none.
std::int32_t block_of(GlobalId id) {
  const RandomKey key{5, RandomStream::kPartition, 0, 1};
  return static_cast<std::int32_t>(random_bits(key, static_cast<std::uint64_t>(to_index(id)), 0) %
                                   3);
}
constexpr int kBlocks = 4;

// The subgraph of a block as a graph of its own, whose node i is ids[i] of the graph.
struct Induced {
  std::vector<GlobalId> ids;
  Csr edges;
  std::vector<std::uint16_t> edge_types;
  std::vector<float> edge_features;
  std::vector<std::uint16_t> node_types;
  GraphView view;

  Induced(const GraphView& graph, int block) {
    std::vector<std::int32_t> number(static_cast<std::size_t>(graph.nodes()), -1);
    for (std::int64_t v = 0; v < graph.nodes(); ++v) {
      if (block_of(GlobalId{v}) != block) continue;
      number[v] = static_cast<std::int32_t>(ids.size());
      ids.push_back(GlobalId{v});
      node_types.push_back(graph.node_types[v]);
    }
    for (const GlobalId id : ids) {
      const std::int64_t v = to_index(id);
      for (std::int64_t e = graph.in_edges.row_ptr[v]; e < graph.in_edges.row_ptr[v + 1]; ++e) {
        const std::int32_t u = number[graph.in_edges.col_idx[e]];
        if (u < 0) continue;
        edges.col_idx.push_back(u);
        if (!graph.in_edges.values.empty()) edges.values.push_back(graph.in_edges.values[e]);
        edge_types.push_back(graph.edge_types[e]);
        for (std::int64_t k = 0; k < graph.edge_feature_columns; ++k) {
          edge_features.push_back(graph.edge_features[e * graph.edge_feature_columns + k]);
        }
      }
      edges.row_ptr.push_back(std::ssize(edges.col_idx));
    }
    view = {edges.view(), graph.symmetric, edge_types, edge_features, graph.edge_feature_columns,
            node_types};
  }
};

std::vector<std::int64_t> original(std::span<const GlobalId> numbers, const Induced& induced) {
  std::vector<std::int64_t> ids;
  for (const GlobalId number : numbers) ids.push_back(to_index(induced.ids[to_index(number)]));
  return ids;
}

void expect_same_matrix(const LocalMatrixView& found, const LocalMatrixView& expected,
                        const Induced& induced) {
  EXPECT_EQ(to_vector(found.csr.row_ptr), to_vector(expected.csr.row_ptr));
  EXPECT_EQ(to_vector(found.csr.col_idx), to_vector(expected.csr.col_idx));
  EXPECT_EQ(to_vector(found.csr.values), to_vector(expected.csr.values));
  EXPECT_EQ(to_vector(found.split), to_vector(expected.split));
  EXPECT_EQ(to_vector(found.halo.recv_offset), to_vector(expected.halo.recv_offset));
  EXPECT_EQ(to_vector(found.halo.send_offset), to_vector(expected.halo.send_offset));
  EXPECT_EQ(to_indices(found.halo.send_rows), to_indices(expected.halo.send_rows));
  EXPECT_EQ(to_indices(found.halo_ids), original(expected.halo_ids, induced));
  EXPECT_EQ(to_vector(found.edge_types), to_vector(expected.edge_types));
  EXPECT_EQ(to_vector(found.edge_features), to_vector(expected.edge_features));
  EXPECT_EQ(found.edge_feature_columns, expected.edge_feature_columns);
}

void expect_same_graph(const LocalGraphView& found, const LocalGraphView& expected,
                       const Induced& induced) {
  EXPECT_EQ(found.part, expected.part);
  EXPECT_EQ(found.parts, expected.parts);
  EXPECT_EQ(found.symmetric, expected.symmetric);
  EXPECT_EQ(found.central, expected.central);
  EXPECT_EQ(to_indices(found.inner_ids), original(expected.inner_ids, induced));
  EXPECT_EQ(to_vector(found.in_degree), to_vector(expected.in_degree));
  EXPECT_EQ(to_vector(found.out_degree), to_vector(expected.out_degree));
  EXPECT_EQ(to_vector(found.has_self_loop), to_vector(expected.has_self_loop));
  EXPECT_EQ(to_vector(found.node_types), to_vector(expected.node_types));
  expect_same_matrix(found.forward, expected.forward, induced);
  expect_same_matrix(found.backward, expected.backward, induced);
}

// All parts of a block, with nodes in the order in which the parts of the graph have them.
std::vector<LocalGraph> parts_of(const Induced& induced, std::span<const std::int32_t> part_of,
                                 std::vector<LocalGraph>& whole) {
  std::vector<std::int32_t> number(part_of.size(), -1);
  std::vector<std::int32_t> parts;
  for (std::size_t i = 0; i < induced.ids.size(); ++i) {
    number[to_index(induced.ids[i])] = static_cast<std::int32_t>(i);
    parts.push_back(part_of[to_index(induced.ids[i])]);
  }
  std::vector<std::int32_t> sequence;
  for (const LocalGraph& part : whole) {
    for (const GlobalId id : part.inner_ids) {
      if (number[to_index(id)] >= 0) sequence.push_back(number[to_index(id)]);
    }
  }
  LocalGraphBuilder builder(induced.view, parts, static_cast<int>(whole.size()), sequence);
  std::vector<LocalGraph> result;
  for (std::size_t part = 0; part < whole.size(); ++part) {
    result.push_back(builder.build(static_cast<int>(part)));
  }
  return result;
}

TEST(PartBlocks, AreThePartsOfTheirSubgraph) {
  constexpr int kNodes = 211;
  for (const bool directed : {true, false}) {
    for (const bool weighted : {true, false}) {
      const Csr csr = random_graph(kNodes, 5, directed, directed && weighted, 7);
      const EdgeArrays arrays = make_edge_arrays(csr);
      const GraphView graph = arrays.on(csr, !directed);
      for (const int parts : {1, 2, 4}) {
        const std::vector<std::int32_t> part_of = scattered_parts(kNodes, parts);
        LocalGraphBuilder builder(graph, part_of, parts);
        std::vector<LocalGraph> whole;
        for (int part = 0; part < parts; ++part) whole.push_back(builder.build(part));
        std::int64_t moved = 0;
        for (int block = 0; block < kBlocks; ++block) {
          const Induced induced(graph, block);
          const std::vector<LocalGraph> expected = parts_of(induced, part_of, whole);
          for (int part = 0; part < parts; ++part) {
            SCOPED_TRACE(fmt::format("directed {} weighted {} part {} of {} block {}", directed,
                                     weighted, part, parts, block));
            const LocalGraphView own = whole[part].view();
            PartBlocks blocks(own);
            blocks.deal(kBlocks, number_nodes(own, block_of));
            PartBlock found;
            // Memory that another block has used.
            blocks.extract((block + 1) % kBlocks, found);
            blocks.extract(block, found);
            expect_same_graph(found.graph.view(), expected[part].view(), induced);
            for (std::size_t i = 0; i < found.rows.size(); ++i) {
              EXPECT_EQ(own.inner_ids[to_index(found.rows[i])], found.graph.inner_ids[i]);
              if (to_index(found.rows[i]) >= own.central && std::ssize(found.rows) > 0 &&
                  static_cast<std::int64_t>(i) < found.graph.central) {
                ++moved;
              }
            }
          }
        }
        EXPECT_EQ(moved > 0, parts > 1) << "marginal rows that are central in their block";
      }
    }
  }
}

TEST(PartBlocks, HaveEveryNodeOnce) {
  const Csr csr = random_graph(211, 5, true, false, 7);
  const GraphView graph{csr.view(), false};
  const std::vector<std::int32_t> part_of = scattered_parts(211, 3);
  LocalGraphBuilder builder(graph, part_of, 3);
  std::vector<std::int64_t> found;
  for (int part = 0; part < 3; ++part) {
    const LocalGraph whole = builder.build(part);
    const LocalGraphView own = whole.view();
    PartBlocks blocks(own);
    PartBlock block;
    // Dealt twice: what counts is the last time.
    for (const int shift : {1, 0}) {
      blocks.deal(kBlocks,
                  number_nodes(own, [&](GlobalId id) { return (block_of(id) + shift) % kBlocks; }));
    }
    for (int b = 0; b < kBlocks; ++b) {
      blocks.extract(b, block);
      for (const GlobalId id : block.graph.inner_ids) {
        EXPECT_EQ(block_of(id), b);
        found.push_back(to_index(id));
      }
    }
  }
  std::ranges::sort(found);
  std::vector<std::int64_t> all(211);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  EXPECT_EQ(found, all);
}

}  // namespace
}  // namespace atl
