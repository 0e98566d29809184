// Operations of the cuda backend: each is handed to its kernels.
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/prepared_spmm.hpp"

namespace atl {

using cuda::work_of;

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Spmm& call) {
  backend.spmm(queue, call);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Attend& call) {
  const auto& [op, rows, z, t, attention, y, epilogue] = call;
  cuda::attend(backend.use(queue).launch(), work_of(op.prepared, rows), op, z, t, attention, y,
               epilogue);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::AttendBackwardTargets& call) {
  const auto& [op, rows, z, t, dy, attention, dt, coefficients, dvector, dedge_weight] = call;
  cuda::attend_backward_targets(backend.use(queue).launch(), work_of(op.prepared, rows), op, z, t,
                                dy, attention, dt, coefficients, dvector, dedge_weight);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::AttendBackwardSources& call) {
  const auto& [op, edges, sources, z, t, dy, coefficients, attention, dz, dvector] = call;
  cuda::attend_backward_sources(backend.use(queue).launch(), work_of(edges.prepared, sources), op,
                                edges, z, t, dy, coefficients, attention, dz, dvector);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::AggregateEdges& call) {
  const auto& [op, rows, x, terms, y] = call;
  cuda::aggregate_edges(backend.use(queue).launch(), work_of(op.prepared, rows), op, x, terms, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue,
            const kernels::AggregateEdgesBackwardSources& call) {
  const auto& [op, edges, sources, x, terms, dy, dx] = call;
  cuda::aggregate_edges_backward_sources(
      backend.use(queue).launch(), work_of(edges.prepared, sources), op, edges, x, terms, dy, dx);
}

void kernel(cuda::CudaBackend& backend, Queue& queue,
            const kernels::AggregateEdgesBackwardTerms& call) {
  const auto& [op, rows, x, terms, dy, dweight, dbias] = call;
  cuda::aggregate_edges_backward_terms(backend.use(queue).launch(), work_of(op.prepared, rows), op,
                                       x, terms, dy, dweight, dbias);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::HeadDots& call) {
  const auto& [x, vector, out] = call;
  cuda::head_dots(backend.use(queue).launch(), x, vector, out);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::HeadDotsBackward& call) {
  const auto& [d, x, vector, dx, dvector] = call;
  cuda::head_dots_backward(backend.use(queue).launch(), d, x, vector, dx, dvector);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::HeadMean& call) {
  const auto& [x, y] = call;
  cuda::head_mean(backend.use(queue).launch(), x, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::HeadMeanBackward& call) {
  const auto& [dy, dx] = call;
  cuda::head_mean_backward(backend.use(queue).launch(), dy, dx);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::PairDots& call) {
  const auto& [x, first, second, out] = call;
  cuda::pair_dots(backend.use(queue).launch(), x, first, second, out);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::PairProducts& call) {
  const auto& [x, first, z, second, y] = call;
  cuda::pair_products(backend.use(queue).launch(), x, first, z, second, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Pool& call) {
  const auto& [op, rows, x, spec, y] = call;
  cuda::pool(backend.use(queue).launch(), work_of(op.prepared, rows), op, x, spec, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::PoolBackwardTargets& call) {
  const auto& [op, rows, x, y, dy, spec, g] = call;
  cuda::pool_backward_targets(backend.use(queue).launch(), work_of(op.prepared, rows), op, x, y, dy,
                              spec, g);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::PoolBackwardSources& call) {
  const auto& [op, edges, sources, x, y, g, spec, dx] = call;
  cuda::pool_backward_sources(backend.use(queue).launch(), work_of(edges.prepared, sources), edges,
                              x, y, g, spec, dx);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::PoolSlope& call) {
  const auto& [op, rows, x, y, spec, slope] = call;
  cuda::pool_slope(backend.use(queue).launch(), work_of(op.prepared, rows), op, x, y, spec, slope);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::GatherRows& call) {
  const auto& [x, rows, scale, y] = call;
  cuda::gather_rows(backend.use(queue).launch(), x, rows, scale, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::QuantizeRows& call) {
  const auto& [x, list, scale, rounding, packets, trace] = call;
  cuda::quantize_rows(backend.use(queue).launch(), x, list, scale, rounding, packets, trace);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::DequantizeRows& call) {
  const auto& [packets, list, y] = call;
  cuda::dequantize_rows(backend.use(queue).launch(), packets, list, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::FillZero& call) {
  const auto y = call.y;
  cuda::fill_zero(backend.use(queue).launch(), y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Convert& call) {
  const auto& [x, y] = call;
  cuda::convert(backend.use(queue).launch(), x, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Gemm& call) {
  const auto& [transpose_a, a, transpose_b, b, beta, c, epilogue] = call;
  cuda::gemm(backend.use(queue), backend.tf32(), transpose_a, a, transpose_b, b, beta, c, epilogue);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::ApplyEpilogue& call) {
  const auto& [x, epilogue, y] = call;
  cuda::apply_epilogue(backend.use(queue).launch(), x, epilogue, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Combine& call) {
  const auto& [a, x, b, z, y] = call;
  cuda::combine(backend.use(queue).launch(), a, x, b, z, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Scale& call) {
  const auto& [x, factor, y] = call;
  cuda::scale(backend.use(queue).launch(), x, factor, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Dot& call) {
  const auto& [x, z, accumulate, out] = call;
  cuda::dot(backend.use(queue).launch(), x, z, accumulate, out);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::Maximum& call) {
  const auto& [x, z, y] = call;
  cuda::maximum(backend.use(queue).launch(), x, z, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::MaximumBackward& call) {
  const auto& [dy, x, z, of, dx] = call;
  cuda::maximum_backward(backend.use(queue).launch(), dy, x, z, of == MaximumOf::kSecond, dx);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::ActivationBackward& call) {
  const auto& [dy, activation] = call;
  cuda::activation_backward(backend.use(queue).launch(), dy, activation);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::ColumnSums& call) {
  const auto& [x, accumulate, out, activation] = call;
  cuda::column_sums(backend.use(queue).launch(), x, accumulate, out, activation);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::SumParts& call) {
  const auto& [parts, out] = call;
  cuda::sum_parts(backend.use(queue).launch(), parts, out);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::BatchNormMoments& call) {
  const auto& [x, shift, sums] = call;
  cuda::batch_norm_moments(backend.use(queue).launch(), x, shift, sums);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::BatchNormStatistics& call) {
  const auto& [sums, count, momentum, epsilon, running_mean, running_variance, mean, inv_std] =
      call;
  cuda::batch_norm_statistics(backend.use(queue).launch(), sums, count, momentum, epsilon,
                              running_mean, running_variance, mean, inv_std);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::BatchNormGradientSums& call) {
  const auto& [dy, x, mean, inv_std, sums, dgamma, dbeta, activation] = call;
  cuda::batch_norm_gradient_sums(backend.use(queue).launch(), dy, x, mean, inv_std, sums, dgamma,
                                 dbeta, activation);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::BatchNormBackward& call) {
  const auto& [dy, x, mean, inv_std, gamma, sums, count, dx] = call;
  cuda::batch_norm_backward(backend.use(queue).launch(), dy, x, mean, inv_std, gamma, sums, count,
                            dx);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::InverseStd& call) {
  const auto& [variance, epsilon, out] = call;
  cuda::inverse_std(backend.use(queue).launch(), variance, epsilon, out);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::LayerNorm& call) {
  const auto& [x, gamma, beta, epsilon, y] = call;
  cuda::layer_norm(backend.use(queue).launch(), x, gamma, beta, epsilon, y);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::LayerNormBackward& call) {
  const auto& [dy, x, gamma, epsilon, dx, dgamma, dbeta] = call;
  cuda::layer_norm_backward(backend.use(queue).launch(), dy, x, gamma, epsilon, dx, dgamma, dbeta);
}

namespace {

void spread_cross_entropy(cuda::CudaBackend& backend, Queue& queue,
                          const kernels::SoftmaxCrossEntropy& call) {
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  cuda::spread_cross_entropy(backend.use(queue).launch(), logits, labels, rows, grad_scale, dlogits,
                             loss_sum, target);
}

}  // namespace

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::SoftmaxCrossEntropy& call) {
  if (!call.target.label_only()) return spread_cross_entropy(backend, queue, call);
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  cuda::softmax_cross_entropy(backend.use(queue).launch(), logits, labels, rows, grad_scale,
                              dlogits, loss_sum);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::ErrorLoss& call) {
  const auto& [measure, values, targets, rows, grad_scale, dvalues, loss_sum] = call;
  cuda::error_loss(backend.use(queue).launch(), measure, values, targets, rows, grad_scale, dvalues,
                   loss_sum);
}

namespace {

void weighted_sigmoid(cuda::CudaBackend& backend, Queue& queue,
                      const kernels::SigmoidCrossEntropy& call) {
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  cuda::weighted_sigmoid(backend.use(queue).launch(), logits, targets, rows, grad_scale, dlogits,
                         loss_sum, target);
}

}  // namespace

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::SigmoidCrossEntropy& call) {
  if (!call.target.target_only()) return weighted_sigmoid(backend, queue, call);
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  cuda::sigmoid_cross_entropy(backend.use(queue).launch(), logits, targets, rows, grad_scale,
                              dlogits, loss_sum);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::CountCorrect& call) {
  const auto& [logits, labels, split, counts] = call;
  cuda::count_correct(backend.use(queue).launch(), logits, labels, split, counts);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::CountMultiLabel& call) {
  const auto& [logits, targets, split, counts] = call;
  cuda::count_multi_label(backend.use(queue).launch(), logits, targets, split, counts);
}

void kernel(cuda::CudaBackend& backend, Queue& queue, const kernels::AdamStep& call) {
  const auto& [spec, parameters, gradients, m, v] = call;
  cuda::adam_step(backend.use(queue).launch(), spec, parameters, gradients, m, v);
}

}  // namespace atl
