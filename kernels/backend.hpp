// The contract of a compute device. Public operations check shapes, types and aliasing once; the
// private do_* functions compute. Operations take views, allocate nothing that the caller sees, and
// run on an explicit Queue; on a CPU the work is done when the call returns.
//
// Unless an operation says otherwise: matrices share one dtype, outputs must not overlap inputs,
// empty matrices are valid and do nothing (outputs that are sums become 0), and spans and matrices
// live in memory of this backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/views.hpp"

namespace atl {

// An ordered sequence of operations on one device (a CUDA stream; nothing on a CPU).
class Queue {
 public:
  virtual ~Queue() = default;
};

enum class Transpose : std::uint8_t { kNo, kYes };
enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;    // "reference", "cpu", "cuda"
  virtual std::string device() const = 0;  // for logs, e.g. "AMD EPYC, 2 threads, AVX-512"
  virtual bool supports(DType dtype) const = 0;
  // True if host code may dereference this backend's memory.
  virtual bool host_accessible() const = 0;

  // Memory, 64-byte aligned, uninitialised. Throws Error{kMemory} with the bytes asked for.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  virtual void copy(Queue& queue, void* to, const void* from, std::int64_t bytes,
                    CopyKind kind) = 0;

  virtual std::unique_ptr<Queue> make_queue() = 0;
  // Work queued on `queue` after this call runs after everything queued on `before` so far.
  virtual void wait_for(Queue& queue, Queue& before) = 0;
  // Blocks the host until the queue is empty; throws Error{kDevice} for deferred errors.
  virtual void synchronize(Queue& queue) = 0;

  // --- sparse ---------------------------------------------------------------------------------
  // y[i, :] = (S x)[i, :] for i in `rows` (S: see SparseOperator). x [op.cols, F], y [op.rows, F].
  void spmm(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x, MatrixView y);

  // --- wire -----------------------------------------------------------------------------------
  // y[k, :] = x[rows[k], :] * scale[rows[k]]; scale empty: 1. x [N, F], y [rows.size(), F].
  void gather_rows(Queue& queue, ConstMatrixView x, std::span<const LocalId> rows,
                   std::span<const float> scale, MatrixView y);

  // --- dense ----------------------------------------------------------------------------------
  void fill_zero(Queue& queue, MatrixView y);
  // y += alpha * x
  void add(Queue& queue, double alpha, ConstMatrixView x, MatrixView y);
  // c = op(a) op(b) + beta * c, beta 0 or 1 (0 ignores what c held, NaN included).
  void gemm(Queue& queue, Transpose transpose_a, ConstMatrixView a, Transpose transpose_b,
            ConstMatrixView b, double beta, MatrixView c);
  // y = epilogue(x); y may be x.
  void apply_epilogue(Queue& queue, ConstMatrixView x, const Epilogue& epilogue, MatrixView y);
  // Gradient through dropout(relu(.)): dx = (y != 0) * dropout_scale * dy, where y is the forward
  // output. dx may be dy.
  void relu_dropout_backward(Queue& queue, ConstMatrixView y, ConstMatrixView dy,
                             float dropout_scale, MatrixView dx);
  // out[j] = sum_i x[i, j] + (accumulate ? out[j] : 0), summed in double. out [1, cols].
  void column_sums(Queue& queue, ConstMatrixView x, bool accumulate, MatrixView out);

  // --- normalisation --------------------------------------------------------------------------
  // Per column j of x: mean[j] and m2[j] = sum_i (x[i, j] - mean[j])^2, in double. No rows: 0, 0.
  void column_moments(Queue& queue, ConstMatrixView x, std::span<double> mean,
                      std::span<double> m2);
  // Per column: sum_dy = sum_i dy, sum_dy_xhat = sum_i dy * (x - mean) * inv_std, in double.
  void batch_norm_sums(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                       std::span<const double> mean, std::span<const double> inv_std,
                       std::span<double> sum_dy, std::span<double> sum_dy_xhat);
  // dx = gamma * inv_std * (dy - mean_dy - xhat * mean_dy_xhat), xhat = (x - mean) * inv_std.
  // dx may be dy. gamma [1, cols].
  void batch_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                           std::span<const double> mean, std::span<const double> inv_std,
                           ConstMatrixView gamma, std::span<const double> mean_dy,
                           std::span<const double> mean_dy_xhat, MatrixView dx);
  // y = (x - mean_i) / sqrt(var_i + epsilon) * gamma + beta per row i (biased variance). Row
  // statistics are recomputed in backward, not stored.
  void layer_norm(Queue& queue, ConstMatrixView x, ConstMatrixView gamma, ConstMatrixView beta,
                  double epsilon, MatrixView y);
  // dx of layer_norm; dgamma and dbeta [1, cols] are added to. dx may be dy.
  void layer_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                           ConstMatrixView gamma, double epsilon, MatrixView dx, MatrixView dgamma,
                           MatrixView dbeta);

  // --- loss and metrics -----------------------------------------------------------------------
  // Softmax cross-entropy over the rows listed in `rows` (labels[row] >= 0 there):
  // loss_sum[0] = sum of losses (double); dlogits = grad_scale * d(loss_sum)/dlogits, 0 elsewhere.
  void softmax_cross_entropy(Queue& queue, ConstMatrixView logits,
                             std::span<const std::int32_t> labels, std::span<const LocalId> rows,
                             double grad_scale, MatrixView dlogits, std::span<double> loss_sum);
  // Sigmoid cross-entropy with logits, summed over the listed rows and all classes; targets are
  // 0, 1, or 255 = missing (no loss), row-major [N, cols].
  void sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                             std::span<const std::uint8_t> targets, std::span<const LocalId> rows,
                             double grad_scale, MatrixView dlogits, std::span<double> loss_sum);
  // counts[2 * s] = rows with split[row] == s, label >= 0 and argmax == label (the first maximum
  // wins), counts[2 * s + 1] = rows with split[row] == s and label >= 0; s in {0, 1, 2}. counts: 6.
  // A row whose first logit is NaN is never correct; later NaNs are passed over.
  void count_correct(Queue& queue, ConstMatrixView logits, std::span<const std::int32_t> labels,
                     std::span<const std::uint8_t> split, std::span<std::int64_t> counts);
  // Per split s: counts[3 * s + {0, 1, 2}] = true positives, false positives, false negatives over
  // all classes, predicting 1 where logit > 0; target 255 is skipped. counts: 9.
  void count_multi_label(Queue& queue, ConstMatrixView logits,
                         std::span<const std::uint8_t> targets, std::span<const std::uint8_t> split,
                         std::span<std::int64_t> counts);

  // --- optimizer ------------------------------------------------------------------------------
  // One Adam step over flat arrays of equal length, all [1, n]; parameter, m and v are updated.
  void adam_step(Queue& queue, const AdamSpec& spec, MatrixView parameters,
                 ConstMatrixView gradients, MatrixView m, MatrixView v);

 private:
  virtual void do_spmm(Queue&, const SparseOperator&, RowRange, ConstMatrixView, MatrixView) = 0;
  virtual void do_gather_rows(Queue&, ConstMatrixView, std::span<const LocalId>,
                              std::span<const float>, MatrixView) = 0;
  virtual void do_fill_zero(Queue&, MatrixView) = 0;
  virtual void do_add(Queue&, double, ConstMatrixView, MatrixView) = 0;
  virtual void do_gemm(Queue&, Transpose, ConstMatrixView, Transpose, ConstMatrixView, double,
                       MatrixView) = 0;
  virtual void do_apply_epilogue(Queue&, ConstMatrixView, const Epilogue&, MatrixView) = 0;
  virtual void do_relu_dropout_backward(Queue&, ConstMatrixView, ConstMatrixView, float,
                                        MatrixView) = 0;
  virtual void do_column_sums(Queue&, ConstMatrixView, bool, MatrixView) = 0;
  virtual void do_column_moments(Queue&, ConstMatrixView, std::span<double>, std::span<double>) = 0;
  virtual void do_batch_norm_sums(Queue&, ConstMatrixView, ConstMatrixView, std::span<const double>,
                                  std::span<const double>, std::span<double>,
                                  std::span<double>) = 0;
  virtual void do_batch_norm_backward(Queue&, ConstMatrixView, ConstMatrixView,
                                      std::span<const double>, std::span<const double>,
                                      ConstMatrixView, std::span<const double>,
                                      std::span<const double>, MatrixView) = 0;
  virtual void do_layer_norm(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, double,
                             MatrixView) = 0;
  virtual void do_layer_norm_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView,
                                      double, MatrixView, MatrixView, MatrixView) = 0;
  virtual void do_softmax_cross_entropy(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                        std::span<const LocalId>, double, MatrixView,
                                        std::span<double>) = 0;
  virtual void do_sigmoid_cross_entropy(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                        std::span<const LocalId>, double, MatrixView,
                                        std::span<double>) = 0;
  virtual void do_count_correct(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                std::span<const std::uint8_t>, std::span<std::int64_t>) = 0;
  virtual void do_count_multi_label(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                    std::span<const std::uint8_t>, std::span<std::int64_t>) = 0;
  virtual void do_adam_step(Queue&, const AdamSpec&, MatrixView, ConstMatrixView, MatrixView,
                            MatrixView) = 0;
};

}  // namespace atl
