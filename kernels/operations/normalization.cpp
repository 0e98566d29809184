#include "kernels/operations/normalization.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void BatchNormMoments::check(const Backend& backend) const {
  check_view(backend, x, "batch_norm_moments x");
  check_length(length(shift), x.cols, "batch_norm_moments shift");
  check_length(length(sums), 2 * x.cols, "batch_norm_moments sums");
}

SpanWork BatchNormMoments::work(bool) const { return streaming_work({x}); }

void BatchNormStatistics::check(const Backend&) const {
  const std::int64_t columns = length(mean);
  check_length(length(sums), 2 * columns, "batch_norm_statistics sums");
  check_length(length(running_mean), columns, "batch_norm_statistics running_mean");
  check_length(length(running_variance), columns, "batch_norm_statistics running_variance");
  check_length(length(inv_std), columns, "batch_norm_statistics inv_std");
  ATOLL_ASSERT(count >= 1 && epsilon > 0, "batch_norm_statistics: {} rows, epsilon {}", count,
               epsilon);
}

SpanWork BatchNormStatistics::work(bool) const { return SpanWork{}; }

void BatchNormGradientSums::check(const Backend& backend) const {
  check_view(backend, x, "batch_norm_gradient_sums x");
  check_shape(backend, dy, x.rows, x.cols, x.dtype, "batch_norm_gradient_sums dy");
  check_length(length(mean), x.cols, "batch_norm_gradient_sums mean");
  check_length(length(inv_std), x.cols, "batch_norm_gradient_sums inv_std");
  check_length(length(sums), 2 * x.cols, "batch_norm_gradient_sums sums");
  for (const MatrixView gradient : {dgamma, dbeta}) {
    check_shape(backend, gradient, 1, x.cols, parameter_dtype(x.dtype),
                "batch_norm_gradient_sums dgamma or dbeta");
  }
  check_disjoint(dgamma, dbeta, "batch_norm_gradient_sums dgamma and dbeta");
  check_activation(backend, activation, dy);
  check_sums_through(activation);
  check_disjoint(activation.dx, x, "batch_norm_gradient_sums dx and x");
}

SpanWork BatchNormGradientSums::work(bool) const { return gradient_work(dy, activation, {x}); }

void BatchNormBackward::check(const Backend& backend) const {
  check_view(backend, x, "batch_norm_backward x");
  check_shape(backend, dy, x.rows, x.cols, x.dtype, "batch_norm_backward dy");
  check_shape(backend, dx, x.rows, x.cols, x.dtype, "batch_norm_backward dx");
  check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "batch_norm_backward gamma");
  check_length(length(mean), x.cols, "batch_norm_backward mean");
  check_length(length(inv_std), x.cols, "batch_norm_backward inv_std");
  check_length(length(sums), 2 * x.cols, "batch_norm_backward sums");
  ATOLL_ASSERT(count >= x.rows, "batch_norm_backward: {} of {} rows", x.rows, count);
  check_disjoint(dx, x, "batch_norm_backward dx and x");
  check_disjoint(dx, gamma, "batch_norm_backward dx and gamma");
  check_same_or_disjoint(dx, dy, "batch_norm_backward dx and dy");
}

SpanWork BatchNormBackward::work(bool) const { return streaming_work({x, dy, dx}); }

void InverseStd::check(const Backend&) const {
  check_length(length(out), length(variance), "inverse_std out");
  ATOLL_ASSERT(epsilon > 0, "inverse_std epsilon {}", epsilon);
}

SpanWork InverseStd::work(bool) const { return SpanWork{}; }

void LayerNorm::check(const Backend& backend) const {
  check_view(backend, x, "layer_norm x");
  check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm gamma");
  check_shape(backend, beta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm beta");
  check_shape(backend, y, x.rows, x.cols, x.dtype, "layer_norm y");
  check_disjoint(y, x, "layer_norm y and x");
  check_disjoint(y, gamma, "layer_norm y and gamma");
  check_disjoint(y, beta, "layer_norm y and beta");
  ATOLL_ASSERT(epsilon > 0, "layer_norm epsilon {}", epsilon);
}

SpanWork LayerNorm::work(bool) const { return streaming_work({x, y}); }

void LayerNormBackward::check(const Backend& backend) const {
  check_view(backend, x, "layer_norm_backward x");
  check_shape(backend, dy, x.rows, x.cols, x.dtype, "layer_norm_backward dy");
  check_shape(backend, dx, x.rows, x.cols, x.dtype, "layer_norm_backward dx");
  check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward gamma");
  check_shape(backend, dgamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dgamma");
  check_shape(backend, dbeta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dbeta");
  check_disjoint(dx, x, "layer_norm_backward dx and x");
  check_disjoint(dx, gamma, "layer_norm_backward dx and gamma");
  check_same_or_disjoint(dx, dy, "layer_norm_backward dx and dy");
  check_disjoint(dgamma, dbeta, "layer_norm_backward dgamma and dbeta");
  ATOLL_ASSERT(epsilon > 0, "layer_norm_backward epsilon {}", epsilon);
}

SpanWork LayerNormBackward::work(bool) const { return streaming_work({x, dy, dx}); }

}  // namespace atl::kernels
