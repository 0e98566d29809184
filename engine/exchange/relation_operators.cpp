#include "engine/exchange/relation_operators.hpp"

#include <limits>

#include "partition/transpose.hpp"

namespace atl {

namespace {

Csr rows_of(const Csr& csr, RowRange rows) {
  const auto row = csr.row_ptr.begin();
  const std::int64_t first = csr.row_ptr[static_cast<std::size_t>(rows.begin)];
  const std::int64_t last = csr.row_ptr[static_cast<std::size_t>(rows.end)];
  Csr part{.row_ptr = {row + rows.begin, row + rows.end + 1},
           .col_idx = {csr.col_idx.begin() + first, csr.col_idx.begin() + last},
           .values = {csr.values.begin() + first, csr.values.begin() + last}};
  for (std::int64_t& offset : part.row_ptr) offset -= first;
  return part;
}

}  // namespace

RelationOperators::RelationOperators(Backend& backend, Queue& queue, const LocalGraphView& graph,
                                     std::int64_t relations)
    : relations_(relations) {
  const CsrView& edges = graph.forward.csr;
  const std::span<const std::uint16_t> types = graph.forward.edge_types;
  const std::int64_t inner = graph.inner();
  const std::int64_t columns = inner + graph.forward.halo.halo_rows();
  ATOLL_ASSERT(std::ssize(types) == edges.nnz(), "{} types of {} edges", types.size(), edges.nnz());
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (inner > kMost / relations) {
    fail_input(
        "{} nodes of rank {} times {} relations; allowed are {} pairs of a node and a relation on "
        "each rank: use more ranks",
        inner, graph.part, relations, kMost);
  }

  // Edges of a row by type, those of one type in the order that they have.
  Csr stacked;
  stacked.row_ptr.assign(static_cast<std::size_t>(inner * relations) + 1, 0);
  stacked.col_idx.resize(edges.col_idx.size());
  stacked.values.resize(edges.col_idx.size());
  coefficients_.resize(edges.col_idx.size());
  std::vector<double> sums(static_cast<std::size_t>(relations));
  std::vector<std::int64_t> next(static_cast<std::size_t>(relations) + 1);
  for (std::int64_t i = 0; i < inner; ++i) {
    const std::int64_t begin = edges.row_ptr[i];
    const std::int64_t end = edges.row_ptr[i + 1];
    std::ranges::fill(sums, 0.0);
    std::ranges::fill(next, 0);
    for (std::int64_t e = begin; e < end; ++e) {
      sums[types[e]] += static_cast<double>(edges.value(e));
      ++next[types[e] + std::size_t{1}];
    }
    next[0] = begin;
    for (std::size_t r = 0; r < sums.size(); ++r) {
      if (sums[r] < 0) {
        fail_input(
            "edge weights: those of the in-edges of type {} of node {} sum to {}; their mean needs "
            "a sum of at least 0",
            r, to_index(graph.inner_ids[i]), sums[r]);
      }
      next[r + 1] += next[r];
      stacked.row_ptr[static_cast<std::size_t>(i * relations) + r + 1] = next[r + 1];
    }
    for (std::int64_t e = begin; e < end; ++e) {
      const double sum = sums[types[e]];
      const double share = sum > 0 ? static_cast<double>(edges.value(e)) / sum : 0;
      const auto to = static_cast<std::size_t>(next[types[e]]++);
      coefficients_[static_cast<std::size_t>(e)] = static_cast<float>(share);
      stacked.col_idx[to] = edges.col_idx[e];
      stacked.values[to] = static_cast<float>(share);
    }
  }

  const std::int64_t central = graph.central;
  const RowRange forward_ranges[] = {{0, central * relations},
                                     {central * relations, inner * relations}};
  const Csr transposed = transpose(stacked.view(), columns);
  const RowRange backward_ranges[] = {{0, central}, {central, inner}};
  const Lifetime lifetime = lifetime_of(graph);
  backward_ = make(backend, queue, rows_of(transposed, {0, inner}), inner * relations,
                   backward_ranges, lifetime);
  const RowRange halo_ranges[] = {{0, columns - inner}};
  halo_backward_ = make(backend, queue, rows_of(transposed, {inner, columns}), inner * relations,
                        halo_ranges, lifetime);
  forward_ = make(backend, queue, std::move(stacked), columns, forward_ranges, lifetime);
}

RelationOperators::Matrix RelationOperators::make(Backend& backend, Queue& queue, Csr csr,
                                                  std::int64_t columns,
                                                  std::span<const RowRange> ranges,
                                                  Lifetime lifetime) {
  Matrix made;
  const std::vector<std::int64_t> host_row_ptr = csr.row_ptr;
  made.csr = {backend, queue, std::move(csr), columns};
  made.matrix = made.csr.view();
  made.prepared = backend.prepare_spmm(queue, made.matrix, host_row_ptr, ranges, lifetime);
  made.matrix.prepared = made.prepared.get();
  return made;
}

}  // namespace atl
