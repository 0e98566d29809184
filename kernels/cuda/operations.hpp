// The operations of kernels/backend.hpp that are own kernels, as functions: same shapes, meaning
// and order of parameters as there, already checked, with the place to run in place of the queue.
// Views are f32 or bf16 in device memory, spans are device memory, AdamSpec::segments host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/edge_terms.hpp"
#include "kernels/pool.hpp"
#include "kernels/views.hpp"
#include "kernels/wire.hpp"

namespace atl::cuda {

// elementwise.cu
void fill_zero(const Launch& where, MatrixView y);
void convert(const Launch& where, ConstMatrixView x, MatrixView y);
void pair_dots(const Launch& where, ConstMatrixView x, std::span<const LocalId> first,
               std::span<const LocalId> second, MatrixView out);
void pair_products(const Launch& where, ConstMatrixView x, std::span<const LocalId> first,
                   ConstMatrixView z, std::span<const LocalId> second, MatrixView y);
void gather_rows(const Launch& where, ConstMatrixView x, std::span<const LocalId> rows,
                 std::span<const float> scale, MatrixView y);
void combine(const Launch& where, float a, ConstMatrixView x, float b, ConstMatrixView z,
             MatrixView y);
void scale(const Launch& where, ConstMatrixView x, ConstMatrixView factor, MatrixView y);
void maximum(const Launch& where, ConstMatrixView x, ConstMatrixView z, MatrixView y);
void maximum_backward(const Launch& where, ConstMatrixView dy, ConstMatrixView x, ConstMatrixView z,
                      bool of_second, MatrixView dx);
void activation_backward(const Launch& where, ConstMatrixView dy,
                         const ActivationGradient& activation);
// y: of the type of x, or bf16 beside f32, rounded once.
void apply_epilogue(const Launch& where, ConstMatrixView x, const Epilogue& epilogue, MatrixView y);

// sparse_sums.cu
// y = factor * x, row by row; both bf16.
void scale_rows(const Launch& where, ConstMatrixView x, std::span<const float> factors,
                MatrixView y);
// y = epilogue(beta * y + row_scale * sums) in bf16, each element rounded once, from sums in f32,
// which it overwrites. beta 0 or 1; row_scale empty: 1.
void finish_sums(const Launch& where, MatrixView sums, std::span<const float> row_scale,
                 double beta, const Epilogue& epilogue, MatrixView y);

// matrix_entries.cu, of an ExplicitMatrix
// row_ptr of the range, which has size() + 1 elements.
void count_entries(const Launch& where, const SparseOperator& op, RowRange range,
                   std::span<std::int32_t> row_ptr);
void fill_entries(const Launch& where, const SparseOperator& op, RowRange range, DType dtype,
                  const std::int32_t* row_ptr, std::int32_t* col_idx, void* values);
void largest_column(const Launch& where, std::span<const std::int32_t> col_idx, std::int32_t* out);
// How many of the values are no bf16 numbers.
void count_rounded(const Launch& where, std::span<const float> values, std::int64_t* out);
// A number that, but for one case in 2^64, is the same only for the same bits.
void fingerprint(const Launch& where, ConstMatrixView x, std::uint64_t* out);

// In place of a range of rows, or of sources, how it is divided: `work`.
// attention.cu, attention_backward.cu
void attend(const Launch& where, const SpmmWork& work, const SparseOperator& op, ConstMatrixView z,
            ConstMatrixView t, const AttentionSpec& attention, MatrixView y,
            const Epilogue& epilogue);
void attend_backward_targets(const Launch& where, const SpmmWork& work, const SparseOperator& op,
                             ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy,
                             const AttentionSpec& attention, MatrixView dt, MatrixView coefficients,
                             MatrixView dvector, MatrixView dedge_weight);
void attend_backward_sources(const Launch& where, const SpmmWork& work, const SparseOperator& op,
                             const SourceEdges& edges, ConstMatrixView z, ConstMatrixView t,
                             ConstMatrixView dy, ConstMatrixView coefficients,
                             const AttentionSpec& attention, MatrixView dz, MatrixView dvector);

// heads.cu
void head_dots(const Launch& where, ConstMatrixView x, ConstMatrixView vector, MatrixView out);
void head_dots_backward(const Launch& where, ConstMatrixView d, ConstMatrixView x,
                        ConstMatrixView vector, MatrixView dx, MatrixView dvector);
void head_mean(const Launch& where, ConstMatrixView x, MatrixView y);
void head_mean_backward(const Launch& where, ConstMatrixView dy, MatrixView dx);

// pool.cu
void pool(const Launch& where, const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
          const PoolSpec& spec, MatrixView y);
void pool_backward_targets(const Launch& where, const SpmmWork& work, const SparseOperator& op,
                           ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                           const PoolSpec& spec, MatrixView g);
void pool_backward_sources(const Launch& where, const SpmmWork& work, const SourceEdges& edges,
                           ConstMatrixView x, ConstMatrixView y, ConstMatrixView g,
                           const PoolSpec& spec, MatrixView dx);
void pool_slope(const Launch& where, const SpmmWork& work, const SparseOperator& op,
                ConstMatrixView x, ConstMatrixView y, const PoolSpec& spec, MatrixView slope);

// wire.cu
void quantize_rows(const Launch& where, ConstMatrixView x, const PackList& list,
                   std::span<const float> scale, const RoundingSpec& rounding,
                   std::span<std::byte> packets, const PackTrace& trace);
void dequantize_rows(const Launch& where, std::span<const std::byte> packets,
                     const UnpackList& list, MatrixView y);

// edges.cu
void aggregate_edges(const Launch& where, const SpmmWork& work, const SparseOperator& op,
                     ConstMatrixView x, const EdgeTerms& terms, MatrixView y);
void aggregate_edges_backward_sources(const Launch& where, const SpmmWork& work,
                                      const SparseOperator& op, const SourceEdges& edges,
                                      ConstMatrixView x, const EdgeTerms& terms, ConstMatrixView dy,
                                      MatrixView dx);
void aggregate_edges_backward_terms(const Launch& where, const SpmmWork& work,
                                    const SparseOperator& op, ConstMatrixView x,
                                    const EdgeTerms& terms, ConstMatrixView dy, MatrixView dweight,
                                    MatrixView dbias);

// reduction.cu. All sums go through the workspace, in an order that depends on the shape alone.
void column_sums(const Launch& where, ConstMatrixView x, bool accumulate, MatrixView out,
                 const ActivationGradient& activation);
void dot(const Launch& where, ConstMatrixView x, ConstMatrixView z, bool accumulate,
         MatrixView out);
void sum_parts(const Launch& where, ConstMatrixView parts, MatrixView out);
void batch_norm_moments(const Launch& where, ConstMatrixView x, std::span<const double> shift,
                        std::span<double> sums);
void batch_norm_statistics(const Launch& where, std::span<const double> sums, std::int64_t count,
                           double momentum, double epsilon, std::span<double> running_mean,
                           std::span<double> running_variance, std::span<double> mean,
                           std::span<double> inv_std);
void batch_norm_gradient_sums(const Launch& where, ConstMatrixView dy, ConstMatrixView x,
                              std::span<const double> mean, std::span<const double> inv_std,
                              std::span<double> sums, MatrixView dgamma, MatrixView dbeta,
                              const ActivationGradient& activation);
void batch_norm_backward(const Launch& where, ConstMatrixView dy, ConstMatrixView x,
                         std::span<const double> mean, std::span<const double> inv_std,
                         ConstMatrixView gamma, std::span<const double> sums, std::int64_t count,
                         MatrixView dx);
void inverse_std(const Launch& where, std::span<const double> variance, double epsilon,
                 std::span<double> out);

// layer_norm.cu, layer_norm_backward.cu
void layer_norm(const Launch& where, ConstMatrixView x, ConstMatrixView gamma, ConstMatrixView beta,
                double epsilon, MatrixView y);
void layer_norm_backward(const Launch& where, ConstMatrixView dy, ConstMatrixView x,
                         ConstMatrixView gamma, double epsilon, MatrixView dx, MatrixView dgamma,
                         MatrixView dbeta);

// loss.cu. A listed row whose label is no class makes the loss NaN.
void softmax_cross_entropy(const Launch& where, ConstMatrixView logits,
                           std::span<const std::int32_t> labels, std::span<const LocalId> rows,
                           double grad_scale, MatrixView dlogits, std::span<double> loss_sum);
void spread_cross_entropy(const Launch& where, ConstMatrixView logits,
                          std::span<const std::int32_t> labels, std::span<const LocalId> rows,
                          double grad_scale, MatrixView dlogits, std::span<double> loss_sum,
                          const SoftmaxTarget& target);
void error_loss(const Launch& where, ErrorMeasure measure, ConstMatrixView values,
                std::span<const float> targets, std::span<const LocalId> rows, double grad_scale,
                MatrixView dvalues, std::span<double> loss_sum);
void sigmoid_cross_entropy(const Launch& where, ConstMatrixView logits,
                           std::span<const std::uint8_t> targets, std::span<const LocalId> rows,
                           double grad_scale, MatrixView dlogits, std::span<double> loss_sum);
void weighted_sigmoid(const Launch& where, ConstMatrixView logits,
                      std::span<const std::uint8_t> targets, std::span<const LocalId> rows,
                      double grad_scale, MatrixView dlogits, std::span<double> loss_sum,
                      const SigmoidTarget& target);

// metrics.cu
void count_correct(const Launch& where, ConstMatrixView logits,
                   std::span<const std::int32_t> labels, std::span<const std::uint8_t> split,
                   std::span<std::int64_t> counts);
void count_multi_label(const Launch& where, ConstMatrixView logits,
                       std::span<const std::uint8_t> targets, std::span<const std::uint8_t> split,
                       std::span<std::int64_t> counts);

// optimizer.cu
void adam_step(const Launch& where, const AdamSpec& spec, MatrixView parameters,
               ConstMatrixView gradients, MatrixView m, MatrixView v);

}  // namespace atl::cuda
