#include "kernels/operations/sparse.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void Spmm::check(const Backend& backend) const {
  check_view(backend, x, "spmm x");
  check_rows(rows, op.rows, "spmm rows");
  check_shape(backend, x, op.cols, x.cols, x.dtype, "spmm x");
  check_shape(backend, y, op.rows, x.cols, x.dtype, "spmm y");
  if (empty()) return;
  check_operator(op);
  ATOLL_ASSERT(beta == 0 || beta == 1, "spmm beta {}", beta);
  check_disjoint(y.rows_in(rows), x, "spmm y and x");
  check_epilogue(backend, epilogue, y.rows_in(rows));
}

SpanWork Spmm::work(bool host_readable) const {
  return spmm_work(op, rows, x, beta, y, host_readable);
}

std::string Spmm::label(const char* kernel) const {
  return fmt::format("{} wide by {}", x.cols, kernel);
}

}  // namespace atl::kernels
