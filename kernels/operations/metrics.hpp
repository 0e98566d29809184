// Counts of right predictions.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// counts[2 * s] = rows with split[row] == s, label >= 0 and argmax == label (the first maximum
// wins), counts[2 * s + 1] = rows with split[row] == s and label >= 0; s in {0, 1, 2}. counts: 6.
// A row whose first logit is NaN is never correct; later NaNs are passed over.
struct CountCorrect {
  static constexpr const char* kName = "count_correct";
  ConstMatrixView logits;
  std::span<const std::int32_t> labels;
  std::span<const std::uint8_t> split;
  std::span<std::int64_t> counts;

  bool empty() const { return logits.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, logits, "count_correct logits");
    check_length(length(labels), logits.rows, "count_correct labels");
    check_length(length(split), logits.rows, "count_correct split");
    check_length(length(counts), 6, "count_correct counts");
  }
  SpanWork work(bool) const { return streaming_work({logits}); }
  std::array<MatrixView, 1> zeroed() const { return {eight_byte_view(counts)}; }
};

// Per split s: counts[3 * s + {0, 1, 2}] = true positives, false positives, false negatives over
// all classes, predicting 1 where logit > 0; target 255 is skipped. counts: 9.
struct CountMultiLabel {
  static constexpr const char* kName = "count_multi_label";
  ConstMatrixView logits;
  std::span<const std::uint8_t> targets;
  std::span<const std::uint8_t> split;
  std::span<std::int64_t> counts;

  bool empty() const { return logits.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, logits, "count_multi_label logits");
    check_length(length(targets), logits.rows * logits.cols, "count_multi_label targets");
    check_length(length(split), logits.rows, "count_multi_label split");
    check_length(length(counts), 9, "count_multi_label counts");
  }
  SpanWork work(bool) const { return streaming_work({logits}); }
  std::array<MatrixView, 1> zeroed() const { return {eight_byte_view(counts)}; }
};

}  // namespace atl::kernels
