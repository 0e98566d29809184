// Graphs and specifications of attention for tests.
#pragma once

#include <vector>

#include "kernels/attention.hpp"
#include "tests/kernels/harness.hpp"

namespace atl {

// Edges by their source, of a CSR by target.
struct HostSourceEdges {
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> targets;
  std::vector<std::int64_t> edges;

  HostSourceEdges(const std::vector<std::int64_t>& target_ptr,
                  const std::vector<std::int32_t>& col_idx, std::int64_t cols);
};
SourceEdges upload(Harness& h, const HostSourceEdges& edges);

// Dropout of half of the coefficients, with ids that are no row numbers.
AttentionDropout attention_dropout(Harness& h, std::int64_t rows, std::int64_t cols);

inline constexpr AttentionScore kAttentionScores[] = {AttentionScore::kAdditive,
                                                      AttentionScore::kGatv2, AttentionScore::kDot};

}  // namespace atl
