#include "partition/transpose.hpp"

#include <algorithm>
#include <numeric>

#include "base/parallel.hpp"

namespace atl {

Csr transpose(const CsrView& csr, std::int64_t columns) {
  const std::int64_t rows = csr.rows();
  Csr result;
  result.row_ptr.assign((columns < 0 ? rows : columns) + 1, 0);
  for (const std::int32_t column : csr.col_idx) ++result.row_ptr[column + 1];
  std::partial_sum(result.row_ptr.begin(), result.row_ptr.end(), result.row_ptr.begin());
  result.col_idx.resize(csr.col_idx.size());
  result.values.resize(csr.values.size());
  std::vector<std::int64_t> next(result.row_ptr.begin(), result.row_ptr.end() - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
      const std::int64_t to = next[csr.col_idx[e]]++;
      result.col_idx[to] = static_cast<std::int32_t>(row);
      if (!csr.values.empty()) result.values[to] = csr.values[e];
    }
  }
  return result;
}

Csr undirected_structure(const CsrView& in, const CsrView& out) {
  const std::int64_t nodes = in.rows();
  const bool symmetric = out.row_ptr.empty();

  // Rows are first laid out with room for every entry, then moved together.
  std::vector<std::int64_t> room(nodes + 1, 0);
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::size_t entries = in.row(v).size() + (symmetric ? 0 : out.row(v).size());
    room[v + 1] = room[v] + static_cast<std::int64_t>(entries);
  }
  Csr result;
  result.col_idx.resize(room[nodes]);
  std::vector<std::int64_t> count(nodes);
  parallel_for(nodes, 1024, [&](std::int64_t v) {
    const auto begin = result.col_idx.begin() + room[v];
    auto end = std::ranges::copy(in.row(v), begin).out;
    if (!symmetric) end = std::ranges::copy(out.row(v), end).out;
    std::sort(begin, end);
    end = std::unique(begin, end);
    end = std::remove(begin, end, static_cast<std::int32_t>(v));
    count[v] = end - begin;
  });
  result.row_ptr.resize(nodes + 1);
  for (std::int64_t v = 0; v < nodes; ++v) {
    const auto from = result.col_idx.begin() + room[v];
    std::copy(from, from + count[v], result.col_idx.begin() + result.row_ptr[v]);
    result.row_ptr[v + 1] = result.row_ptr[v] + count[v];
  }
  result.col_idx.resize(result.row_ptr[nodes]);
  return result;
}

}  // namespace atl
