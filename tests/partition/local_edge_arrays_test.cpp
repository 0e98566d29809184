// Types and features of edges, and types of nodes, in local graphs.
#include <gtest/gtest.h>

#include "partition/local_graph.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

// Node 1 reads 3 (remote), 0 and 2 (local), twice from 2; the others read nothing.
TEST(LocalEdgeArrays, FollowTheEntriesOfTheirRow) {
  const std::vector<std::int64_t> row_ptr{0, 0, 4, 4, 4};
  const std::vector<std::int32_t> col_idx{3, 2, 0, 2};
  const std::vector<std::uint16_t> types{7, 1, 4, 0};
  const std::vector<float> features{0.5F, 1.5F, 2.5F, 3.5F};
  const std::vector<std::uint16_t> node_types{9, 8, 7, 6};
  const std::vector<std::int32_t> part_of{0, 0, 0, 1};
  const GraphView graph{{row_ptr, col_idx, {}}, false, types, features, 1, node_types};
  LocalGraphBuilder builder(graph, part_of, 2);
  const LocalGraph first = builder.build(0);
  const LocalGraphView local = first.view();
  // Nodes 0 and 2 are central and come first.
  ASSERT_EQ(to_indices(local.inner_ids), (std::vector<std::int64_t>{0, 2, 1}));
  EXPECT_EQ(to_vector(local.forward.csr.col_idx), (std::vector<std::int32_t>{0, 1, 1, 3}));
  EXPECT_EQ(to_vector(local.forward.edge_types), (std::vector<std::uint16_t>{4, 1, 0, 7}));
  EXPECT_EQ(to_vector(local.forward.edge_features), (std::vector<float>{2.5F, 1.5F, 3.5F, 0.5F}));
  EXPECT_EQ(local.forward.edge_feature_columns, 1);
  EXPECT_EQ(to_vector(local.node_types), (std::vector<std::uint16_t>{9, 7, 8}));
  EXPECT_TRUE(local.backward.edge_types.empty());
  EXPECT_TRUE(local.backward.edge_features.empty());
  EXPECT_EQ(local.backward.edge_feature_columns, 0);

  const LocalGraph second = builder.build(1);
  EXPECT_TRUE(second.view().forward.edge_types.empty());
  EXPECT_EQ(second.view().node_types[0], 6);
}

TEST(LocalEdgeArrays, EqualThoseOfTheGlobalEdges) {
  for (const bool directed : {true, false}) {
    for (const int parts : {1, 3, 5}) {
      for (const bool weighted : {true, false}) {
        const Csr csr = random_graph(101, 4, directed, directed && weighted, 7);
        const EdgeArrays arrays = make_edge_arrays(csr);
        const GraphView graph = arrays.on(csr, !directed);
        const std::vector<std::int32_t> part_of = scattered_parts(101, parts);
        LocalGraphBuilder builder(graph, part_of, parts);
        std::size_t edges = 0;
        for (int part = 0; part < parts; ++part) {
          const LocalGraph built = builder.build(part);
          expect_edge_arrays(built.view(), graph);
          edges += built.view().forward.edge_types.size();
          // Those of a symmetric graph's backward matrix are the same memory.
          if (!directed) {
            EXPECT_EQ(built.view().backward.edge_types.data(),
                      built.view().forward.edge_types.data());
          }
        }
        EXPECT_EQ(edges, csr.col_idx.size());
      }
    }
  }
}

// They have no say in the structure.
TEST(LocalEdgeArrays, LeaveTheMatrixAsItIs) {
  const Csr csr = random_graph(101, 4, true, true, 3);
  const EdgeArrays arrays = make_edge_arrays(csr);
  const std::vector<std::int32_t> part_of = scattered_parts(101, 3);
  LocalGraphBuilder typed(arrays.on(csr, false), part_of, 3);
  LocalGraphBuilder plain({csr.view(), false}, part_of, 3);
  for (int part = 0; part < 3; ++part) {
    const LocalGraph a = typed.build(part);
    const LocalGraph b = plain.build(part);
    EXPECT_EQ(a.forward.csr.col_idx, b.forward.csr.col_idx);
    EXPECT_EQ(a.forward.csr.values, b.forward.csr.values);
    EXPECT_EQ(a.backward.csr.values, b.backward.csr.values);
    EXPECT_EQ(a.forward.split, b.forward.split);
    EXPECT_TRUE(b.forward.edge_types.empty());
    EXPECT_TRUE(b.node_types.empty());
  }
}

}  // namespace
}  // namespace atl
