#include "kernels/operations/pairs.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void PairDots::check(const Backend& backend) const {
  check_view(backend, x, "pair_dots x");
  check_shape(backend, out, length(first), 1, parameter_dtype(x.dtype), "pair_dots out");
  check_length(length(second), length(first), "pair_dots second");
  if (empty()) return;
  check_disjoint(out, x, "pair_dots out and x");
}

SpanWork PairDots::work(bool) const {
  SpanWork work = streaming_work({out, out, out});  // with the lists
  const double elements = static_cast<double>(out.rows) * static_cast<double>(x.cols);
  work.flops += 2 * elements;
  work.bytes += 2 * elements * static_cast<double>(bytes_of(x.dtype));
  return work;
}

void PairProducts::check(const Backend& backend) const {
  check_view(backend, x, "pair_products x");
  check_shape(backend, z, z.rows, x.cols, x.dtype, "pair_products z");
  check_shape(backend, y, length(first), x.cols, x.dtype, "pair_products y");
  check_length(length(second), length(first), "pair_products second");
  if (empty()) return;
  check_disjoint(y, x, "pair_products y and x");
  check_disjoint(y, z, "pair_products y and z");
}

SpanWork PairProducts::work(bool) const { return streaming_work({y, y, y}); }

}  // namespace atl::kernels
