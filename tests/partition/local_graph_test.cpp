#include "partition/local_graph.hpp"

#include <gtest/gtest.h>

#include "tests/partition/example_graphs.hpp"

namespace atl {
namespace {

using Longs = std::vector<std::int64_t>;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

struct ExpectedMatrix {
  Longs row_ptr;
  Ints col_idx;
  Floats values;
  Longs split;
  Longs halo_ids;
  Longs recv_offset;
  Longs send_offset;
  Longs send_rows;
};

void expect_matrix(const LocalMatrixView& matrix, const ExpectedMatrix& expected) {
  EXPECT_EQ(to_vector(matrix.csr.row_ptr), expected.row_ptr);
  EXPECT_EQ(to_vector(matrix.csr.col_idx), expected.col_idx);
  EXPECT_EQ(to_vector(matrix.csr.values), expected.values);
  EXPECT_EQ(to_vector(matrix.split), expected.split);
  EXPECT_EQ(to_indices(matrix.halo_ids), expected.halo_ids);
  EXPECT_EQ(to_vector(matrix.halo.recv_offset), expected.recv_offset);
  EXPECT_EQ(to_vector(matrix.halo.send_offset), expected.send_offset);
  EXPECT_EQ(to_indices(matrix.halo.send_rows), expected.send_rows);
}

TEST(LocalGraph, UndirectedPathInTwoParts) {
  const PathExample example;
  LocalGraphBuilder builder(example.graph(), example.part_of, 2);

  const LocalGraph first = builder.build(0);
  const LocalGraphView left = first.view();
  EXPECT_EQ(left.parts, 2);
  EXPECT_EQ(left.global_nodes, 6);
  EXPECT_EQ(left.central, 2);
  EXPECT_EQ(left.marginal(), 1);
  EXPECT_EQ(to_indices(left.inner_ids), (Longs{0, 1, 2}));
  EXPECT_EQ(to_vector(left.in_degree), (Floats{1, 2, 2}));
  EXPECT_EQ(to_vector(left.out_degree), (Floats{1, 2, 2}));
  EXPECT_EQ(to_vector(left.has_self_loop), (Bytes{0, 0, 0}));
  expect_matrix(left.forward,
                {{0, 1, 3, 5}, {1, 0, 2, 1, 3}, {}, {1, 3, 4}, {3}, {0, 0, 1}, {0, 0, 1}, {2}});
  EXPECT_TRUE(left.symmetric);
  EXPECT_EQ(left.backward.csr.col_idx.data(), left.forward.csr.col_idx.data());
  EXPECT_EQ(left.backward.halo.send_rows.data(), left.forward.halo.send_rows.data());

  // Breadth-first from a node of lowest degree inside the part: 3, 4, 5; the first is the marginal
  // one.
  const LocalGraph second = builder.build(1);
  const LocalGraphView right = second.view();
  EXPECT_EQ(right.part, 1);
  EXPECT_EQ(right.central, 2);
  EXPECT_EQ(to_indices(right.inner_ids), (Longs{4, 5, 3}));
  expect_matrix(right.forward,
                {{0, 2, 3, 5}, {1, 2, 0, 0, 3}, {}, {2, 3, 4}, {2}, {0, 1, 1}, {0, 1, 1}, {2}});
}

TEST(LocalGraph, DirectedFirstPart) {
  const DirectedExample example;
  LocalGraphBuilder builder(example.graph(), example.part_of, 3);
  const LocalGraph built = builder.build(0);
  const LocalGraphView view = built.view();
  EXPECT_FALSE(view.symmetric);
  EXPECT_EQ(view.central, 1);
  EXPECT_EQ(to_indices(view.inner_ids), (Longs{0, 1}));
  EXPECT_EQ(to_vector(view.in_degree), (Floats{0, 15}));
  EXPECT_EQ(to_vector(view.out_degree), (Floats{1, 8}));
  EXPECT_EQ(to_vector(view.has_self_loop), (Bytes{0, 1}));
  expect_matrix(view.forward, {{0, 0, 5},
                               {0, 1, 2, 2, 3},
                               {1, 2, 3, 4, 5},
                               {0, 2},
                               {2, 4},
                               {0, 0, 1, 2},
                               {0, 0, 1, 1},
                               {1}});
  expect_matrix(view.backward,
                {{0, 1, 3}, {1, 1, 2}, {1, 2, 6}, {1, 2}, {3}, {0, 0, 1, 1}, {0, 0, 1, 2}, {1, 1}});
}

TEST(LocalGraph, DirectedPartWithoutCentralNodes) {
  const DirectedExample example;
  LocalGraphBuilder builder(example.graph(), example.part_of, 3);
  const LocalGraph built = builder.build(1);
  const LocalGraphView view = built.view();
  EXPECT_EQ(view.central, 0);
  EXPECT_EQ(to_indices(view.inner_ids), (Longs{2, 3}));
  EXPECT_EQ(to_vector(view.in_degree), (Floats{7, 15}));
  EXPECT_EQ(to_vector(view.out_degree), (Floats{7, 7}));
  expect_matrix(view.forward,
                {{0, 1, 3}, {1, 2, 3}, {7, 6, 9}, {1, 1}, {1, 4}, {0, 1, 1, 2}, {0, 1, 1, 1}, {0}});
  // Out-edges: 2 -> 1 twice, 3 -> 2. Gradients of row 3 go to its in-neighbours 1 and 4.
  expect_matrix(view.backward,
                {{0, 2, 3}, {2, 2, 0}, {3, 4, 7}, {0, 3}, {1}, {0, 1, 1, 1}, {0, 1, 1, 2}, {1, 1}});
}

TEST(LocalGraph, DirectedPartWithoutForwardHalo) {
  const DirectedExample example;
  LocalGraphBuilder builder(example.graph(), example.part_of, 3);
  const LocalGraph built = builder.build(2);
  const LocalGraphView view = built.view();
  EXPECT_EQ(view.central, 1);
  EXPECT_EQ(to_indices(view.inner_ids), (Longs{5, 4}));
  expect_matrix(view.forward,
                {{0, 0, 1}, {0}, {8}, {0, 1}, {}, {0, 0, 0, 0}, {0, 1, 2, 2}, {1, 1}});
  expect_matrix(view.backward,
                {{0, 1, 3}, {1, 2, 3}, {8, 5, 9}, {1, 1}, {1, 3}, {0, 1, 2, 2}, {0, 0, 0, 0}, {}});
}

TEST(LocalGraph, OneNodeWithSelfLoops) {
  const std::vector<std::int64_t> row_ptr{0, 2};
  const std::vector<std::int32_t> col_idx{0, 0};
  const std::vector<std::int32_t> part_of{0};
  LocalGraphBuilder builder({{row_ptr, col_idx, {}}, true}, part_of, 1);
  const LocalGraph built = builder.build(0);
  const LocalGraphView view = built.view();
  EXPECT_EQ(view.central, 1);
  EXPECT_EQ(to_vector(view.in_degree), (Floats{2}));
  EXPECT_EQ(to_vector(view.has_self_loop), (Bytes{1}));
  expect_matrix(view.forward, {{0, 2}, {0, 0}, {}, {2}, {}, {0, 0}, {0, 0}, {}});
}

TEST(LocalGraph, EveryNodeItsOwnPart) {
  const PathExample example;
  const std::vector<std::int32_t> part_of{0, 1, 2, 3, 4, 5};
  LocalGraphBuilder builder(example.graph(), part_of, 6);
  const LocalGraph built = builder.build(1);
  const LocalGraphView view = built.view();
  EXPECT_EQ(view.central, 0);
  expect_matrix(
      view.forward,
      {{0, 2}, {1, 2}, {}, {0}, {0, 2}, {0, 1, 1, 2, 2, 2, 2}, {0, 1, 1, 2, 2, 2, 2}, {0, 0}});
}

}  // namespace
}  // namespace atl
