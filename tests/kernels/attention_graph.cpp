#include "tests/kernels/attention_graph.hpp"

namespace atl {

HostSourceEdges::HostSourceEdges(const std::vector<std::int64_t>& target_ptr,
                                 const std::vector<std::int32_t>& col_idx, std::int64_t cols)
    : row_ptr(static_cast<std::size_t>(cols) + 1, 0) {
  for (const std::int32_t j : col_idx) ++row_ptr[j + 1];
  for (std::int64_t j = 0; j < cols; ++j) row_ptr[j + 1] += row_ptr[j];
  targets.resize(col_idx.size());
  edges.resize(col_idx.size());
  std::vector<std::int64_t> next = row_ptr;
  for (std::size_t i = 0; i + 1 < target_ptr.size(); ++i) {
    for (std::int64_t e = target_ptr[i]; e < target_ptr[i + 1]; ++e) {
      const std::int64_t k = next[col_idx[e]]++;
      targets[k] = static_cast<std::int32_t>(i);
      edges[k] = e;
    }
  }
}

SourceEdges upload(Harness& h, const HostSourceEdges& edges) {
  return {h.input_span(edges.row_ptr), h.input_span(edges.targets), h.input_span(edges.edges)};
}

AttentionDropout attention_dropout(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto ids = [&](std::int64_t count) {
    std::vector<GlobalId> list;
    for (std::int64_t k = 0; k < count; ++k) list.push_back(GlobalId{1000 + 7 * k});
    return h.input_span(list);
  };
  return {{.key = {77, RandomStream::kAttentionDropout, 2, 9},
           .rate = dropout_threshold(0.5),
           .row_ids = ids(rows)},
          /*col_ids=*/ids(cols)};
}

}  // namespace atl
