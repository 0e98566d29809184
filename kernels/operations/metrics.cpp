#include "kernels/operations/metrics.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void CountCorrect::check(const Backend& backend) const {
  check_view(backend, logits, "count_correct logits");
  check_length(length(labels), logits.rows, "count_correct labels");
  check_length(length(split), logits.rows, "count_correct split");
  check_length(length(counts), 6, "count_correct counts");
}

SpanWork CountCorrect::work(bool) const { return streaming_work({logits}); }

void CountMultiLabel::check(const Backend& backend) const {
  check_view(backend, logits, "count_multi_label logits");
  check_length(length(targets), logits.rows * logits.cols, "count_multi_label targets");
  check_length(length(split), logits.rows, "count_multi_label split");
  check_length(length(counts), 9, "count_multi_label counts");
}

SpanWork CountMultiLabel::work(bool) const { return streaming_work({logits}); }

}  // namespace atl::kernels
