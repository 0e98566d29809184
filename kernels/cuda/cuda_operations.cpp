// Operations of the cuda backend: each is handed to its kernels.
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/prepared_spmm.hpp"

namespace atl::cuda {

void CudaBackend::do_attend(Queue& queue, const SparseOperator& op, RowRange rows,
                            ConstMatrixView z, ConstMatrixView t, const AttentionSpec& attention,
                            MatrixView y, const Epilogue& epilogue) {
  cuda::attend(use(queue).launch(), work_of(op.prepared, rows), op, z, t, attention, y, epilogue);
}

void CudaBackend::do_attend_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                                             ConstMatrixView z, ConstMatrixView t,
                                             ConstMatrixView dy, const AttentionSpec& attention,
                                             MatrixView dt, MatrixView coefficients,
                                             MatrixView dvector, MatrixView dedge_weight) {
  cuda::attend_backward_targets(use(queue).launch(), work_of(op.prepared, rows), op, z, t, dy,
                                attention, dt, coefficients, dvector, dedge_weight);
}

void CudaBackend::do_attend_backward_sources(Queue& queue, const SparseOperator& op,
                                             const SourceEdges& edges, RowRange sources,
                                             ConstMatrixView z, ConstMatrixView t,
                                             ConstMatrixView dy, ConstMatrixView coefficients,
                                             const AttentionSpec& attention, MatrixView dz,
                                             MatrixView dvector) {
  cuda::attend_backward_sources(use(queue).launch(), work_of(edges.prepared, sources), op, edges, z,
                                t, dy, coefficients, attention, dz, dvector);
}

void CudaBackend::do_aggregate_edges(Queue& queue, const SparseOperator& op, RowRange rows,
                                     ConstMatrixView x, const EdgeTerms& terms, MatrixView y) {
  cuda::aggregate_edges(use(queue).launch(), work_of(op.prepared, rows), op, x, terms, y);
}

void CudaBackend::do_aggregate_edges_backward_sources(Queue& queue, const SparseOperator& op,
                                                      const SourceEdges& edges, RowRange sources,
                                                      ConstMatrixView x, const EdgeTerms& terms,
                                                      ConstMatrixView dy, MatrixView dx) {
  cuda::aggregate_edges_backward_sources(use(queue).launch(), work_of(edges.prepared, sources), op,
                                         edges, x, terms, dy, dx);
}

void CudaBackend::do_aggregate_edges_backward_terms(Queue& queue, const SparseOperator& op,
                                                    RowRange rows, ConstMatrixView x,
                                                    const EdgeTerms& terms, ConstMatrixView dy,
                                                    MatrixView dweight, MatrixView dbias) {
  cuda::aggregate_edges_backward_terms(use(queue).launch(), work_of(op.prepared, rows), op, x,
                                       terms, dy, dweight, dbias);
}

void CudaBackend::do_head_dots(Queue& queue, ConstMatrixView x, ConstMatrixView vector,
                               MatrixView out) {
  cuda::head_dots(use(queue).launch(), x, vector, out);
}

void CudaBackend::do_head_dots_backward(Queue& queue, ConstMatrixView d, ConstMatrixView x,
                                        ConstMatrixView vector, MatrixView dx, MatrixView dvector) {
  cuda::head_dots_backward(use(queue).launch(), d, x, vector, dx, dvector);
}

void CudaBackend::do_head_mean(Queue& queue, ConstMatrixView x, MatrixView y) {
  cuda::head_mean(use(queue).launch(), x, y);
}

void CudaBackend::do_head_mean_backward(Queue& queue, ConstMatrixView dy, MatrixView dx) {
  cuda::head_mean_backward(use(queue).launch(), dy, dx);
}

void CudaBackend::do_pair_dots(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                               std::span<const LocalId> second, MatrixView out) {
  cuda::pair_dots(use(queue).launch(), x, first, second, out);
}

void CudaBackend::do_pair_products(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                                   ConstMatrixView z, std::span<const LocalId> second,
                                   MatrixView y) {
  cuda::pair_products(use(queue).launch(), x, first, z, second, y);
}

void CudaBackend::do_pool(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                          const PoolSpec& spec, MatrixView y) {
  cuda::pool(use(queue).launch(), work_of(op.prepared, rows), op, x, spec, y);
}

void CudaBackend::do_pool_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                                           ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                                           const PoolSpec& spec, MatrixView g) {
  cuda::pool_backward_targets(use(queue).launch(), work_of(op.prepared, rows), op, x, y, dy, spec,
                              g);
}

void CudaBackend::do_pool_backward_sources(Queue& queue, const SparseOperator&,
                                           const SourceEdges& edges, RowRange sources,
                                           ConstMatrixView x, ConstMatrixView y, ConstMatrixView g,
                                           const PoolSpec& spec, MatrixView dx) {
  cuda::pool_backward_sources(use(queue).launch(), work_of(edges.prepared, sources), edges, x, y, g,
                              spec, dx);
}

void CudaBackend::do_pool_slope(Queue& queue, const SparseOperator& op, RowRange rows,
                                ConstMatrixView x, ConstMatrixView y, const PoolSpec& spec,
                                MatrixView slope) {
  cuda::pool_slope(use(queue).launch(), work_of(op.prepared, rows), op, x, y, spec, slope);
}

void CudaBackend::do_gather_rows(Queue& queue, ConstMatrixView x, std::span<const LocalId> rows,
                                 std::span<const float> scale, MatrixView y) {
  cuda::gather_rows(use(queue).launch(), x, rows, scale, y);
}

void CudaBackend::do_quantize_rows(Queue& queue, ConstMatrixView x, const PackList& list,
                                   std::span<const float> scale, const RoundingSpec& rounding,
                                   std::span<std::byte> packets, const PackTrace& trace) {
  cuda::quantize_rows(use(queue).launch(), x, list, scale, rounding, packets, trace);
}

void CudaBackend::do_dequantize_rows(Queue& queue, std::span<const std::byte> packets,
                                     const UnpackList& list, MatrixView y) {
  cuda::dequantize_rows(use(queue).launch(), packets, list, y);
}

void CudaBackend::do_fill_zero(Queue& queue, MatrixView y) {
  cuda::fill_zero(use(queue).launch(), y);
}

void CudaBackend::do_convert(Queue& queue, ConstMatrixView x, MatrixView y) {
  cuda::convert(use(queue).launch(), x, y);
}

void CudaBackend::do_gemm(Queue& queue, Transpose transpose_a, ConstMatrixView a,
                          Transpose transpose_b, ConstMatrixView b, double beta, MatrixView c,
                          const Epilogue& epilogue) {
  cuda::gemm(use(queue), tf32_, transpose_a, a, transpose_b, b, beta, c, epilogue);
}

void CudaBackend::do_apply_epilogue(Queue& queue, ConstMatrixView x, const Epilogue& epilogue,
                                    MatrixView y) {
  cuda::apply_epilogue(use(queue).launch(), x, epilogue, y);
}

void CudaBackend::do_combine(Queue& queue, float a, ConstMatrixView x, float b, ConstMatrixView z,
                             MatrixView y) {
  cuda::combine(use(queue).launch(), a, x, b, z, y);
}

void CudaBackend::do_scale(Queue& queue, ConstMatrixView x, ConstMatrixView factor, MatrixView y) {
  cuda::scale(use(queue).launch(), x, factor, y);
}

void CudaBackend::do_dot(Queue& queue, ConstMatrixView x, ConstMatrixView z, bool accumulate,
                         MatrixView out) {
  cuda::dot(use(queue).launch(), x, z, accumulate, out);
}

void CudaBackend::do_maximum(Queue& queue, ConstMatrixView x, ConstMatrixView z, MatrixView y) {
  cuda::maximum(use(queue).launch(), x, z, y);
}

void CudaBackend::do_maximum_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                      ConstMatrixView z, MaximumOf of, MatrixView dx) {
  cuda::maximum_backward(use(queue).launch(), dy, x, z, of == MaximumOf::kSecond, dx);
}

void CudaBackend::do_activation_backward(Queue& queue, ConstMatrixView dy,
                                         const ActivationGradient& activation) {
  cuda::activation_backward(use(queue).launch(), dy, activation);
}

void CudaBackend::do_column_sums(Queue& queue, ConstMatrixView x, bool accumulate, MatrixView out,
                                 const ActivationGradient& activation) {
  cuda::column_sums(use(queue).launch(), x, accumulate, out, activation);
}

void CudaBackend::do_sum_parts(Queue& queue, ConstMatrixView parts, MatrixView out) {
  cuda::sum_parts(use(queue).launch(), parts, out);
}

void CudaBackend::do_batch_norm_moments(Queue& queue, ConstMatrixView x,
                                        std::span<const double> shift, std::span<double> sums) {
  cuda::batch_norm_moments(use(queue).launch(), x, shift, sums);
}

void CudaBackend::do_batch_norm_statistics(Queue& queue, std::span<const double> sums,
                                           std::int64_t count, double momentum, double epsilon,
                                           std::span<double> running_mean,
                                           std::span<double> running_variance,
                                           std::span<double> mean, std::span<double> inv_std) {
  cuda::batch_norm_statistics(use(queue).launch(), sums, count, momentum, epsilon, running_mean,
                              running_variance, mean, inv_std);
}

void CudaBackend::do_batch_norm_gradient_sums(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                              std::span<const double> mean,
                                              std::span<const double> inv_std,
                                              std::span<double> sums, MatrixView dgamma,
                                              MatrixView dbeta,
                                              const ActivationGradient& activation) {
  cuda::batch_norm_gradient_sums(use(queue).launch(), dy, x, mean, inv_std, sums, dgamma, dbeta,
                                 activation);
}

void CudaBackend::do_batch_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                         std::span<const double> mean,
                                         std::span<const double> inv_std, ConstMatrixView gamma,
                                         std::span<const double> sums, std::int64_t count,
                                         MatrixView dx) {
  cuda::batch_norm_backward(use(queue).launch(), dy, x, mean, inv_std, gamma, sums, count, dx);
}

void CudaBackend::do_inverse_std(Queue& queue, std::span<const double> variance, double epsilon,
                                 std::span<double> out) {
  cuda::inverse_std(use(queue).launch(), variance, epsilon, out);
}

void CudaBackend::do_layer_norm(Queue& queue, ConstMatrixView x, ConstMatrixView gamma,
                                ConstMatrixView beta, double epsilon, MatrixView y) {
  cuda::layer_norm(use(queue).launch(), x, gamma, beta, epsilon, y);
}

void CudaBackend::do_layer_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                         ConstMatrixView gamma, double epsilon, MatrixView dx,
                                         MatrixView dgamma, MatrixView dbeta) {
  cuda::layer_norm_backward(use(queue).launch(), dy, x, gamma, epsilon, dx, dgamma, dbeta);
}

void CudaBackend::do_softmax_cross_entropy(Queue& queue, ConstMatrixView logits,
                                           std::span<const std::int32_t> labels,
                                           std::span<const LocalId> rows, double grad_scale,
                                           MatrixView dlogits, std::span<double> loss_sum) {
  cuda::softmax_cross_entropy(use(queue).launch(), logits, labels, rows, grad_scale, dlogits,
                              loss_sum);
}

void CudaBackend::do_spread_cross_entropy(Queue& queue, ConstMatrixView logits,
                                          std::span<const std::int32_t> labels,
                                          std::span<const LocalId> rows, double grad_scale,
                                          MatrixView dlogits, std::span<double> loss_sum,
                                          const SoftmaxTarget& target) {
  cuda::spread_cross_entropy(use(queue).launch(), logits, labels, rows, grad_scale, dlogits,
                             loss_sum, target);
}

void CudaBackend::do_error_loss(Queue& queue, ErrorMeasure measure, ConstMatrixView values,
                                std::span<const float> targets, std::span<const LocalId> rows,
                                double grad_scale, MatrixView dvalues, std::span<double> loss_sum) {
  cuda::error_loss(use(queue).launch(), measure, values, targets, rows, grad_scale, dvalues,
                   loss_sum);
}

void CudaBackend::do_sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                                           std::span<const std::uint8_t> targets,
                                           std::span<const LocalId> rows, double grad_scale,
                                           MatrixView dlogits, std::span<double> loss_sum) {
  cuda::sigmoid_cross_entropy(use(queue).launch(), logits, targets, rows, grad_scale, dlogits,
                              loss_sum);
}

void CudaBackend::do_weighted_sigmoid(Queue& queue, ConstMatrixView logits,
                                      std::span<const std::uint8_t> targets,
                                      std::span<const LocalId> rows, double grad_scale,
                                      MatrixView dlogits, std::span<double> loss_sum,
                                      const SigmoidTarget& target) {
  cuda::weighted_sigmoid(use(queue).launch(), logits, targets, rows, grad_scale, dlogits, loss_sum,
                         target);
}

void CudaBackend::do_count_correct(Queue& queue, ConstMatrixView logits,
                                   std::span<const std::int32_t> labels,
                                   std::span<const std::uint8_t> split,
                                   std::span<std::int64_t> counts) {
  cuda::count_correct(use(queue).launch(), logits, labels, split, counts);
}

void CudaBackend::do_count_multi_label(Queue& queue, ConstMatrixView logits,
                                       std::span<const std::uint8_t> targets,
                                       std::span<const std::uint8_t> split,
                                       std::span<std::int64_t> counts) {
  cuda::count_multi_label(use(queue).launch(), logits, targets, split, counts);
}

void CudaBackend::do_adam_step(Queue& queue, const AdamSpec& spec, MatrixView parameters,
                               ConstMatrixView gradients, MatrixView m, MatrixView v) {
  cuda::adam_step(use(queue).launch(), spec, parameters, gradients, m, v);
}

}  // namespace atl::cuda
