// Sparse operations of the oracle.
#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

void kernel(ReferenceBackend&, Queue&, const kernels::Spmm& call) {
  const auto& [op, rows, x, beta, y, epilogue] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_rows<T>(y, rows, [&](std::int64_t i, std::int64_t j) {
      double sum = 0;
      for_edges_of(op, i, [&](std::int64_t c, std::int64_t e) {
        sum += factor(op.values, e, 1) * factor(op.col_scale, c, 1) * at<T>(x, c, j);
      });
      // Without self weight the row itself is not read: it may hold anything.
      const double self = factor(op.self_weight, i, 0);
      if (self != 0) sum += self * factor(op.col_scale, i, 1) * at<T>(x, i, j);
      sum *= factor(op.row_scale, i, 1);
      if (beta != 0) sum += at<T>(y, i, j);
      return epilogue_value<Parameter<T>>(epilogue, i - rows.begin, j, sum);
    });
  });
}

}  // namespace atl
