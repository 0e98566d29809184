// Pooling of the oracle: kernels/pool.hpp, a column of a row at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// Calls use(j) for the source of every edge of row i.
template <typename Use>
void for_sources_of(const SparseOperator& op, std::int64_t i, const Use& use) {
  for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
    const std::int64_t j = op.col_idx[e];
    ATOLL_ASSERT(0 <= j && j < op.cols, "row {}: column {} of {}", i, j, op.cols);
    use(j);
  }
}

template <typename T>
double pooled(const SparseOperator& op, ConstMatrixView x, const PoolSpec& spec, std::int64_t i,
              std::int64_t c) {
  if (op.row_ptr[i] == op.row_ptr[i + 1]) return 0;
  const auto t = static_cast<double>(spec.temperature);
  double most = -std::numeric_limits<double>::infinity();
  double most_score = most;
  bool any_nan = false;
  for_sources_of(op, i, [&](std::int64_t j) {
    const double value = at<T>(x, j, c);
    any_nan = any_nan || std::isnan(value);
    most = std::max(most, value);
    most_score = std::max(most_score, t * value);
  });
  if (any_nan) return std::numeric_limits<double>::quiet_NaN();
  if (spec.kind == PoolKind::kMaximum) return most;
  double sum = 0;
  double weights = 0;
  for_sources_of(op, i, [&](std::int64_t j) {
    const double value = at<T>(x, j, c);
    const double weight = std::exp(t * value - most_score);
    weights += weight;
    sum += weight * value;
  });
  return sum / weights;
}

}  // namespace

void ReferenceBackend::do_pool(Queue&, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                               const PoolSpec& spec, MatrixView y) {
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t c = 0; c < x.cols; ++c) set<T>(y, i, c, pooled<T>(op, x, spec, i, c));
    }
  });
}

void ReferenceBackend::do_pool_backward_targets(Queue&, const SparseOperator& op, RowRange rows,
                                                ConstMatrixView x, ConstMatrixView y,
                                                ConstMatrixView dy, const PoolSpec& spec,
                                                MatrixView g) {
  const auto t = static_cast<double>(spec.temperature);
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t c = 0; c < x.cols; ++c) {
        double shares = 0;
        for_sources_of(op, i, [&](std::int64_t j) {
          const double d = at<T>(x, j, c) - at<T>(y, i, c);
          shares += spec.kind == PoolKind::kSoftmax ? std::exp(t * d) : d == 0 ? 1 : 0;
        });
        const bool none = op.row_ptr[i] == op.row_ptr[i + 1];
        set<Parameter<T>>(g, i, c, none ? 0 : at<T>(dy, i, c) / shares);
      }
    }
  });
}

void ReferenceBackend::do_pool_backward_sources(Queue&, const SparseOperator& op,
                                                const SourceEdges& edges, RowRange sources,
                                                ConstMatrixView x, ConstMatrixView y,
                                                ConstMatrixView g, const PoolSpec& spec,
                                                MatrixView dx) {
  const auto t = static_cast<double>(spec.temperature);
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t j = sources.begin; j < sources.end; ++j) {
      for (std::int64_t c = 0; c < x.cols; ++c) {
        double sum = 0;
        for (std::int64_t k = edges.row_ptr[j]; k < edges.row_ptr[j + 1]; ++k) {
          const std::int64_t i = edges.targets[k];
          ATOLL_ASSERT(0 <= i && i < op.rows, "source {}: row {} of {}", j, i, op.rows);
          const double d = at<T>(x, j, c) - at<T>(y, i, c);
          const double share = at<Parameter<T>>(g, i, c);
          if (spec.kind == PoolKind::kSoftmax) {
            sum += share * std::exp(t * d) * (1 + t * d);
          } else if (!(d < 0)) {  // of NaN, too
            sum += share;
          }
        }
        set<T>(dx, j - sources.begin, c, sum);
      }
    }
  });
}

}  // namespace atl
