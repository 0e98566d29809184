#include "partition/transpose.hpp"

#include <gtest/gtest.h>

#include "tests/partition/example_graphs.hpp"

namespace atl {
namespace {

TEST(Transpose, KeepsDuplicatesAndValues) {
  const DirectedExample example;
  const Csr out = transpose(example.graph().in_edges);
  EXPECT_EQ(out.row_ptr, (std::vector<std::int64_t>{0, 1, 3, 5, 6, 8, 9}));
  EXPECT_EQ(out.col_idx, (std::vector<std::int32_t>{1, 1, 3, 1, 1, 2, 1, 3, 4}));
  EXPECT_EQ(out.values, (std::vector<float>{1, 2, 6, 3, 4, 7, 5, 9, 8}));
}

TEST(Transpose, OfNothing) {
  const Csr out = transpose(Csr{}.view());
  EXPECT_EQ(out.row_ptr, (std::vector<std::int64_t>{0}));
}

TEST(UndirectedStructure, MergesDirectionsDuplicatesAndLoops) {
  const DirectedExample example;
  const Csr structure =
      undirected_structure(example.graph().in_edges, transpose(example.graph().in_edges).view());
  EXPECT_EQ(structure.row_ptr, (std::vector<std::int64_t>{0, 1, 5, 7, 10, 13, 14}));
  EXPECT_EQ(structure.col_idx,
            (std::vector<std::int32_t>{1, 0, 2, 3, 4, 1, 3, 1, 2, 4, 1, 3, 5, 4}));
  EXPECT_TRUE(structure.values.empty());
}

TEST(UndirectedStructure, SymmetricGraphWithUnsortedRowsAndLoops) {
  const std::vector<std::int64_t> row_ptr{0, 4, 6};
  const std::vector<std::int32_t> col_idx{1, 0, 1, 0, 0, 0};
  const Csr structure = undirected_structure({row_ptr, col_idx, {}}, {});
  EXPECT_EQ(structure.row_ptr, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(structure.col_idx, (std::vector<std::int32_t>{1, 0}));
}

}  // namespace
}  // namespace atl
