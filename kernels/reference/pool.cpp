// Pooling of the oracle: kernels/pool.hpp, a column of a row at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// t of softmax, or p.
template <typename T>
double sharpness(const PoolSpec& spec) {
  const double given = spec.trained == nullptr
                           ? static_cast<double>(spec.sharpness)
                           : static_cast<double>(*static_cast<const Parameter<T>*>(spec.trained));
  return sharpness_of(spec.kind, given);
}

double base_of(double x) {
  return x < static_cast<double>(kLeastBase)  ? static_cast<double>(kLeastBase)
         : x > static_cast<double>(kMostBase) ? static_cast<double>(kMostBase)
                                              : x;
}

bool is_between_bounds(double x) {
  return !(x <= static_cast<double>(kLeastBase)) && !(x >= static_cast<double>(kMostBase));
}

// The argument of exp(), t x or p log b.
double score_of(const PoolSpec& spec, double sharpness, double x) {
  return sharpness * (spec.kind == PoolKind::kPowerMean ? std::log(base_of(x)) : x);
}

template <typename T>
double pooled(const SparseOperator& op, ConstMatrixView x, const PoolSpec& spec, std::int64_t i,
              std::int64_t c) {
  if (op.row_ptr[i] == op.row_ptr[i + 1]) return 0;
  const double by = sharpness<T>(spec);
  double most = -std::numeric_limits<double>::infinity();
  double most_score = most;
  bool any_nan = false;
  for_edges_of(op, i, [&](std::int64_t j, std::int64_t) {
    const double value = at<T>(x, j, c);
    any_nan = any_nan || std::isnan(value);
    most = std::max(most, value);
    most_score = std::max(most_score, score_of(spec, by, value));
  });
  if (any_nan) return std::numeric_limits<double>::quiet_NaN();
  if (spec.kind == PoolKind::kMaximum) return most;
  double sum = 0;
  double weights = 0;
  for_edges_of(op, i, [&](std::int64_t j, std::int64_t) {
    const double value = at<T>(x, j, c);
    const double weight = std::exp(score_of(spec, by, value) - most_score);
    weights += weight;
    sum += weight * value;
  });
  if (spec.kind == PoolKind::kSoftmax) return sum / weights;
  const auto edges = static_cast<double>(op.row_ptr[i + 1] - op.row_ptr[i]);
  return std::exp((most_score + std::log(weights / edges)) / by);
}

}  // namespace

void kernel(ReferenceBackend&, Queue&, const kernels::Pool& call) {
  const auto& [op, rows, x, spec, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_rows<T>(y, rows,
                [&](std::int64_t i, std::int64_t c) { return pooled<T>(op, x, spec, i, c); });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::PoolBackwardTargets& call) {
  const auto& [op, rows, x, y, dy, spec, g] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    const double by = sharpness<T>(spec);
    set_rows<Parameter<T>>(g, rows, [&](std::int64_t i, std::int64_t c) {
      double shares = 0;
      for_edges_of(op, i, [&](std::int64_t j, std::int64_t) {
        const double d = score_of(spec, by, at<T>(x, j, c)) - score_of(spec, by, at<T>(y, i, c));
        shares += spec.kind != PoolKind::kMaximum ? std::exp(d) : d == 0 ? 1 : 0;
      });
      const bool none = op.row_ptr[i] == op.row_ptr[i + 1];
      return none ? 0 : at<T>(dy, i, c) / shares;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::PoolBackwardSources& call) {
  const auto& [op, edges, sources, x, y, g, spec, dx] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    const double by = sharpness<T>(spec);
    set_all<T>(dx, [&](std::int64_t row, std::int64_t c) {
      const std::int64_t j = sources.begin + row;
      const double own = at<T>(x, j, c);
      double sum = 0;
      for_edges_from(op, edges, j, [&](std::int64_t i, std::int64_t) {
        const double pooled = at<T>(y, i, c);
        const double d = score_of(spec, by, own) - score_of(spec, by, pooled);
        const double share = at<Parameter<T>>(g, i, c);
        if (spec.kind == PoolKind::kSoftmax) {
          sum += share * std::exp(d) * (1 + d);
        } else if (spec.kind == PoolKind::kPowerMean) {
          if (is_between_bounds(own)) sum += share * std::exp(d - d / by);
        } else if (!(d < 0)) {  // of NaN, too
          sum += share;
        }
      });
      return sum;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::PoolSlope& call) {
  const auto& [op, rows, x, y, spec, slope] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    const double by = sharpness<T>(spec);
    const bool powers = spec.kind == PoolKind::kPowerMean;
    set_rows<T>(slope, rows, [&](std::int64_t i, std::int64_t c) {
      const double pooled = at<T>(y, i, c);
      const double from = powers ? std::log(base_of(pooled)) : pooled;
      double weights = 0;
      double first = 0;  // moments of x, or of log b, about that of y
      double second = 0;
      for_edges_of(op, i, [&](std::int64_t j, std::int64_t) {
        const double value = at<T>(x, j, c);
        const double d = (powers ? std::log(base_of(value)) : value) - from;
        const double weight = std::exp(by * d);
        weights += weight;
        first += weight * d;
        second += weight * d * d;
      });
      const auto edges = static_cast<double>(op.row_ptr[i + 1] - op.row_ptr[i]);
      const double mean = first / weights;
      // y is rounded: log y is what it stands for, and this.
      const double made = powers ? pooled / by * (mean - std::log(weights / edges) / by)
                                 : second / weights - mean * mean;
      return edges == 0 ? 0 : made;
    });
  });
}

}  // namespace atl
