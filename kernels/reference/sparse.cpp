// Sparse operations of the oracle.
#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

void kernel(ReferenceBackend&, Queue&, const kernels::Spmm& call) {
  const auto& [op, rows, x, beta, y, epilogue] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      ATOLL_ASSERT(op.row_ptr[i] <= op.row_ptr[i + 1], "row {}", i);
      for (std::int64_t j = 0; j < x.cols; ++j) {
        double sum = 0;
        for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
          const std::int64_t c = op.col_idx[e];
          ATOLL_ASSERT(0 <= c && c < op.cols, "row {}: column {} of {}", i, c, op.cols);
          sum += factor(op.values, e, 1) * factor(op.col_scale, c, 1) * at<T>(x, c, j);
        }
        // Without self weight the row itself is not read: it may hold anything.
        const double self = factor(op.self_weight, i, 0);
        if (self != 0) sum += self * factor(op.col_scale, i, 1) * at<T>(x, i, j);
        sum *= factor(op.row_scale, i, 1);
        if (beta != 0) sum += at<T>(y, i, j);
        set<T>(y, i, j, epilogue_value<Parameter<T>>(epilogue, i - rows.begin, j, sum));
      }
    }
  });
}

}  // namespace atl
