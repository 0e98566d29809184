// The contract of a compute device. Public operations check shapes, types and aliasing once; the
// private do_* functions compute. Operations take views, allocate nothing that the caller sees, and
// run on an explicit Queue; on a CPU the work is done when the call returns.
//
// Unless an operation says otherwise: matrices share one dtype, but gamma, beta and the gradients
// of parameters have parameter_dtype() of it; outputs must not overlap inputs; empty matrices are
// valid and do nothing (outputs that are sums become 0); spans and matrices live in memory of this
// backend. Sums are f32 or wider and rounded once to the storage type. Two runs of an operation on
// the same data give the same bits, unless a kernel was asked for that does not promise it
// (SpmmWish::kCusparse).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/trace.hpp"
#include "kernels/attention.hpp"
#include "kernels/edge_terms.hpp"
#include "kernels/pool.hpp"
#include "kernels/views.hpp"
#include "kernels/wire.hpp"

namespace atl {

// An ordered sequence of operations on one device (a CUDA stream; nothing on a CPU).
class Queue {
 public:
  virtual ~Queue() = default;
  // What libraries of the device call it (cudaStream_t); null on a CPU.
  virtual void* native_handle() const { return nullptr; }
};

// Work that was queued once and can be queued again as a whole (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

enum class Transpose : std::uint8_t { kNo, kYes };
enum class MaximumOf : std::uint8_t { kFirst, kSecond };
enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };
enum class QueuePriority : std::uint8_t { kNormal, kHigh };

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;    // "reference", "cpu", "cuda"
  virtual std::string device() const = 0;  // for logs, e.g. "AMD EPYC, 2 threads, AVX-512"
  virtual bool supports(DType dtype) const = 0;
  // True if host code may dereference this backend's memory.
  virtual bool host_accessible() const = 0;
  // Equal for two backends of one host if and only if they share a device: "host", or a PCI id.
  virtual std::string device_id() const = 0;
  // Bytes that allocate() could hand out now, other processes of the device considered.
  virtual std::int64_t available_bytes() = 0;

  // Memory, 64-byte aligned, uninitialised. Throws Error{kMemory} with the bytes asked for.
  // release() waits for queued work that may use it.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  // Host memory that copies to and from the device run on without the host (pinned); 64-byte
  // aligned. Throws Error{kMemory}. release_staging() waits for queued copies that may use it.
  virtual void* allocate_staging(std::int64_t bytes) = 0;
  virtual void release_staging(void* data) noexcept = 0;
  // Calls of both so far: an epoch in its stride makes none.
  std::int64_t allocations() const { return allocations_; }
  // Host memory must stay unchanged until the copy has run, unless it is not of
  // allocate_staging(): then it is read, or written, before copy() returns.
  virtual void copy(Queue& queue, void* to, const void* from, std::int64_t bytes,
                    CopyKind kind) = 0;

  // Work on a queue of high priority is preferred where both could run.
  virtual std::unique_ptr<Queue> make_queue(QueuePriority priority = QueuePriority::kNormal) = 0;
  // For nothing but copy(): unlike others it takes no memory of the device.
  virtual std::unique_ptr<Queue> make_copy_queue() = 0;
  // Work queued on `queue` after this call runs after everything queued on `before` so far.
  virtual void wait_for(Queue& queue, Queue& before) = 0;
  // Blocks the host until the queue is empty; throws Error{kDevice} for deferred errors.
  virtual void synchronize(Queue& queue) = 0;
  // True if everything queued so far has run; throws Error{kDevice} for deferred errors.
  virtual bool is_idle(Queue& queue) = 0;

  // Calls body and keeps what it queues on `queue`, and on queues joined to it by wait_for, without
  // running it; body must not allocate, synchronize or copy from memory not of allocate_staging().
  // Null if this backend can't record: body was not called then.
  virtual std::unique_ptr<Recording> record(Queue& queue, const std::function<void()>& body) = 0;
  // Queues everything of the recording, which must stay alive until it has run.
  virtual void replay(Queue& queue, Recording& recording) = 0;

  // Times work of this queue on the device; null if the host's clock does (a CPU).
  virtual std::unique_ptr<SpanClock> make_clock(Queue& queue) = 0;

  // From now on every operation on `queue` is recorded as a span with its name. Where make_clock()
  // gives a clock, the recorder must use one of that queue. A null recorder ends it.
  void profile_into(TraceRecorder* recorder, const Queue* queue) {
    profile_ = recorder;
    profiled_queue_ = queue;
  }

  // --- sparse ---------------------------------------------------------------------------------
  // y[i, :] = epilogue(beta * y[i, :] + (S x)[i, :]) for i in `rows` (S: see SparseOperator), beta
  // 0 or 1 (0 ignores what y held). x [op.cols, F], y [op.rows, F]; dropout.row_ids [rows.size()].
  void spmm(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x, double beta,
            MatrixView y, const Epilogue& epilogue = {});
  // y[i, :] = epilogue of row i of the attention that kernels/attention.hpp defines, over the edges
  // of `op`, whose factors and values are not read. A row without edges, and not attending to
  // itself, gives epilogue(0). z [op.cols, H C]; t [op.rows, H C], additive: [op.rows, H] of the
  // parameters' type; y [op.rows, H C]. rows, y and dropout as in spmm. Nothing of size edges x
  // columns exists.
  void attend(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView z,
              ConstMatrixView t, const AttentionSpec& attention, MatrixView y,
              const Epilogue& epilogue = {});
  // The half of attend's gradient that goes along the edges of rows i in `rows`, from dy [op.rows,
  // H C] = d loss / d (the attention before the epilogue):
  //   dt[i, :], of t's shape and type, is written;
  //   coefficients[e, h] = dropped(alpha) and coefficients[e, H + h] = the gradient of what stands
  //   behind it: e_ij, additive: s_j + t_i; e is the edge's place in col_idx, nnz + i for the row
  //   itself. [nnz + (with_self ? op.rows : 0), 2 H] of the parameters' type; edges that with_self
  //   passes over get 0. Only edges of `rows` are written;
  //   gatv2: the gradient of `vector` is added to dvector [1, H C]; else dvector is absent;
  //   with features of edges, that of their weight to dedge_weight, of its shape and type; else
  //   that is absent.
  void attend_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                               ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy,
                               const AttentionSpec& attention, MatrixView dt,
                               MatrixView coefficients, MatrixView dvector,
                               MatrixView dedge_weight = {});
  // The other half: what reaches z[j, :] for sources j in `sources`, columns of `op`, from the
  // targets whose coefficients are there:
  //   dz[j - sources.begin, :] = sum over its edges of dropped(alpha) dy_i + the gradient of the
  //   score with respect to z_j, of additive with s_j = <vector, z_j>. dz [sources.size(), H C];
  //   additive: the gradient of `vector` from these sources is added to dvector; else absent.
  void attend_backward_sources(Queue& queue, const SparseOperator& op, const SourceEdges& edges,
                               RowRange sources, ConstMatrixView z, ConstMatrixView t,
                               ConstMatrixView dy, ConstMatrixView coefficients,
                               const AttentionSpec& attention, MatrixView dz, MatrixView dvector);
  // y[i, :] = sum of max(m_e, 0) over the edges e of row i, i in `rows`, with m_e of
  // kernels/edge_terms.hpp; the operator's factors and values are not read. x [op.cols, F], y
  // [op.rows, F]. Nothing of size edges x columns exists, here and in both halves of the gradient.
  void aggregate_edges(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                       const EdgeTerms& terms, MatrixView y);
  // dx[j - sources.begin, :] = sum of dy_i over the edges e from j, each to its i, in the columns
  // where m_e > 0. dy [op.rows, F], dx [sources.size(), F].
  void aggregate_edges_backward_sources(Queue& queue, const SparseOperator& op,
                                        const SourceEdges& edges, RowRange sources,
                                        ConstMatrixView x, const EdgeTerms& terms,
                                        ConstMatrixView dy, MatrixView dx);
  // Along the edges of rows in `rows`, the gradients of W and b are added to dweight and dbias, of
  // their shapes and types.
  void aggregate_edges_backward_terms(Queue& queue, const SparseOperator& op, RowRange rows,
                                      ConstMatrixView x, const EdgeTerms& terms, ConstMatrixView dy,
                                      MatrixView dweight, MatrixView dbias);
  // out[i, h] = <x[i, slice h], vector[slice h]>, summed in f32 or wider. x [N, H C], vector
  // [1, H C], out [N, H], the latter two of the parameters' type.
  void head_dots(Queue& queue, ConstMatrixView x, ConstMatrixView vector, MatrixView out);
  // Its gradients: dx[i, slice h] = d[i, h] vector[slice h]; dvector[slice h] += sum_i d[i, h]
  // x[i, slice h], summed in double. d [N, H] and dvector [1, H C] of the parameters' type.
  void head_dots_backward(Queue& queue, ConstMatrixView d, ConstMatrixView x,
                          ConstMatrixView vector, MatrixView dx, MatrixView dvector);
  // y[i, c] = sum_h x[i, h C + c] / H, and its gradient dx[i, h C + c] = dy[i, c] / H. x, dx
  // [N, H C], y, dy [N, C].
  void head_mean(Queue& queue, ConstMatrixView x, MatrixView y);
  void head_mean_backward(Queue& queue, ConstMatrixView dy, MatrixView dx);
  // out[k, 0] = <x[first[k], :], x[second[k], :]>, summed in f32 or wider: the same bits wherever a
  // pair stands in the lists. x [N, F], out [first.size(), 1] of the parameters' type.
  void pair_dots(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                 std::span<const LocalId> second, MatrixView out);
  // y[k, c] = x[first[k], c] z[second[k], c], rounded once. x, z [., F], y [first.size(), F]; z may
  // be x.
  void pair_products(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                     ConstMatrixView z, std::span<const LocalId> second, MatrixView y);
  // y[i, :] = the rows of x that row i of `op` has edges from, pooled as kernels/pool.hpp defines
  // it; 0 where it has none. Factors and values of `op` are not read. x [op.cols, F], y [op.rows,
  // F]; a NaN among the numbers that are pooled gives NaN.
  void pool(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
            const PoolSpec& spec, MatrixView y);
  // The half of pool's gradient that belongs to rows i in `rows`, from y as pool wrote it and dy:
  //   g_ic = dy_ic / how many edges have the maximum, which share the gradient;
  //   softmax: dy_ic / sum_j exp(t (x_jc - y_ic)), where no term exceeds the number of edges;
  //   power mean: dy_ic / sum_j (b_jc / y_ic)^p.
  // g [op.rows, F] of the parameters' type; 0 for rows without edges.
  void pool_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                             ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                             const PoolSpec& spec, MatrixView g);
  // The other half: what reaches x[j, :] for sources j in `sources`, columns of `op`:
  //   dx[j - sources.begin, c] = sum over its edges of g_ic where x_jc = y_ic; or, softmax,
  //   g_ic exp(d) (1 + d) with d = t (x_jc - y_ic); power mean, g_ic (b_jc / y_ic)^(p - 1) where
  //   x_jc lies between the bounds of b. dx [sources.size(), F].
  void pool_backward_sources(Queue& queue, const SparseOperator& op, const SourceEdges& edges,
                             RowRange sources, ConstMatrixView x, ConstMatrixView y,
                             ConstMatrixView g, const PoolSpec& spec, MatrixView dx);
  // slope_ic = the derivative of y_ic with respect to t of softmax, or p of the power mean, for
  // rows i in `rows`, from y as pool wrote it; 0 for rows without edges:
  //   softmax: sum_j alpha_ijc x_jc^2 - y_ic^2;
  //   power mean: y_ic / p (sum_j beta_ijc log b_jc - log y_ic), beta the shares of b_jc^p.
  // slope [op.rows, F].
  void pool_slope(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                  ConstMatrixView y, const PoolSpec& spec, MatrixView slope);
  // The kernel that ran the last spmm, where the backend has several; else "".
  const char* last_kernel() const { return last_kernel_; }
  // Works out how to run spmm of `op` on each of `ranges` fast, and how what else goes along its
  // edges divides rows of many. host_row_ptr: op.row_ptr in host memory. Null where nothing is to
  // be worked out. May measure on the device; not while recording.
  virtual std::shared_ptr<const PreparedSparse> prepare_spmm(
      Queue& queue, const SparseOperator& op, std::span<const std::int64_t> host_row_ptr,
      std::span<const RowRange> ranges) = 0;

  // --- wire -----------------------------------------------------------------------------------
  // y[k, :] = x[rows[k], :] * scale[rows[k]]; scale empty: 1. x [N, F], y [rows.size(), F].
  void gather_rows(Queue& queue, ConstMatrixView x, std::span<const LocalId> rows,
                   std::span<const float> scale, MatrixView y);
  // Packs messages of rows of x * scale into `packets` (layout and arithmetic: kernels/wire.hpp),
  // each at its place and width; bytes between messages are left alone. x [N, F], f32 or bf16;
  // scale [N], empty: 1. A message of 32 bits is what gather_rows gives. packets start at a
  // multiple of 4 bytes. With F = 0 nothing is written.
  void quantize_rows(Queue& queue, ConstMatrixView x, const PackList& list,
                     std::span<const float> scale, const RoundingSpec& rounding,
                     std::span<std::byte> packets, const PackTrace& trace);
  // Fills the rows of y that `list` names from the messages of quantize_rows: code * step + zero,
  // one multiplication and one addition in f32, rounded to nearest even in y's type, f32 or bf16.
  // Messages of 32 bits are copied: they must have been packed from y's type.
  void dequantize_rows(Queue& queue, std::span<const std::byte> packets, const UnpackList& list,
                       MatrixView y);

  // --- dense ----------------------------------------------------------------------------------
  void fill_zero(Queue& queue, MatrixView y);
  // y = x in the type of y, rounded to nearest even.
  void convert(Queue& queue, ConstMatrixView x, MatrixView y);
  // c = epilogue(op(a) op(b) + beta * c), beta 0 or 1 (0 ignores what c held, NaN included). c has
  // the type of a, or parameter_dtype() of it.
  void gemm(Queue& queue, Transpose transpose_a, ConstMatrixView a, Transpose transpose_b,
            ConstMatrixView b, double beta, MatrixView c, const Epilogue& epilogue = {});
  // y = epilogue(x); y may be x.
  void apply_epilogue(Queue& queue, ConstMatrixView x, const Epilogue& epilogue, MatrixView y);
  // y = a * x + b * z, in f32 and rounded once. All of one shape; y may be x or z.
  void combine(Queue& queue, float a, ConstMatrixView x, float b, ConstMatrixView z, MatrixView y);
  // y = e x with the number e that lies in `factor` [1, 1], of the parameters' type; y may be x.
  void scale(Queue& queue, ConstMatrixView x, ConstMatrixView factor, MatrixView y);
  // out = sum_ij x[i, j] z[i, j] + (accumulate ? out : 0), summed in double. x may be z. out
  // [1, 1], of the parameters' type or f64.
  void dot(Queue& queue, ConstMatrixView x, ConstMatrixView z, bool accumulate, MatrixView out);
  // y = max(x, z), of equal ones x; NaN if either is. All of one shape; y may be x or z.
  void maximum(Queue& queue, ConstMatrixView x, ConstMatrixView z, MatrixView y);
  // The gradient of x in max(x, z): dx = dy where x >= z, else 0; or that of z, which has the rest.
  // dx may be dy.
  void maximum_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x, ConstMatrixView z,
                        MaximumOf of, MatrixView dx);
  // activation.dx from dy, both [N, F] as activation.from is: see ActivationGradient, which must
  // not be absent here.
  void activation_backward(Queue& queue, ConstMatrixView dy, const ActivationGradient& activation);
  // out[j] = sum_i x[i, j] + (accumulate ? out[j] : 0), summed in double. out [1, cols], of the
  // parameters' type. With `activation`, which must be relu, x is a dy that goes through it in the
  // same pass: the sums are of dx as it is stored, the same bits as by activation_backward and sums
  // of dx.
  void column_sums(Queue& queue, ConstMatrixView x, bool accumulate, MatrixView out,
                   const ActivationGradient& activation = {});
  // out[j] = parts[0, j] + parts[1, j] + ..., added in this order in double and rounded once: the
  // sum over ranks. f32 or f64 on every backend. parts [P, n], out [1, n].
  void sum_parts(Queue& queue, ConstMatrixView parts, MatrixView out);

  // --- normalisation --------------------------------------------------------------------------
  // Batch norm over rows of all ranks (Ioffe & Szegedy 2015) runs in four steps around sums over
  // ranks. All statistics are double. W = x.cols.
  //
  // Forward, 1: sums[j] = sum_i (x[i, j] - shift[j]) and sums[W + j] = sum_i (x[i, j] -
  // shift[j])^2. shift, which all ranks share, lies near the mean, so that sums over ranks don't
  // cancel (shifted data; Chan, Golub, LeVeque 1983). No rows: zeros. sums [2 W].
  void batch_norm_moments(Queue& queue, ConstMatrixView x, std::span<const double> shift,
                          std::span<double> sums);
  // Forward, 2: from sums over `count` rows the mean and 1 / sqrt(variance + epsilon), and the
  // running estimates moved by `momentum` towards mean and unbiased variance. The running mean is
  // the shift of step 1.
  void batch_norm_statistics(Queue& queue, std::span<const double> sums, std::int64_t count,
                             double momentum, double epsilon, std::span<double> running_mean,
                             std::span<double> running_variance, std::span<double> mean,
                             std::span<double> inv_std);
  // Backward, 3: sums[j] = sum_i dy and sums[W + j] = sum_i dy * xhat, xhat = (x - mean) * inv_std;
  // the same is added to dbeta and dgamma [1, W] (this rank's share of the gradients).
  // `activation`: as of column_sums; dy in the sums is dx then.
  void batch_norm_gradient_sums(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                std::span<const double> mean, std::span<const double> inv_std,
                                std::span<double> sums, MatrixView dgamma, MatrixView dbeta,
                                const ActivationGradient& activation = {});
  // Backward, 4: dx = gamma * inv_std * (dy - sums[j] / count - xhat * sums[W + j] / count), with
  // sums over `count` rows of all ranks. dx may be dy. gamma [1, W].
  void batch_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                           std::span<const double> mean, std::span<const double> inv_std,
                           ConstMatrixView gamma, std::span<const double> sums, std::int64_t count,
                           MatrixView dx);
  // out[j] = 1 / sqrt(variance[j] + epsilon).
  void inverse_std(Queue& queue, std::span<const double> variance, double epsilon,
                   std::span<double> out);
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
                             double grad_scale, MatrixView dlogits, std::span<double> loss_sum,
                             const SoftmaxTarget& target = {});
  // Sigmoid cross-entropy with logits, summed over the listed rows and all classes; targets are
  // 0, 1, or 255 = missing (no loss), row-major [N, cols].
  void sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                             std::span<const std::uint8_t> targets, std::span<const LocalId> rows,
                             double grad_scale, MatrixView dlogits, std::span<double> loss_sum,
                             const SigmoidTarget& target = {});
  // Losses of values - targets, summed over the listed rows and all columns. targets: row-major
  // [N, cols], NaN = missing (no loss). dvalues = grad_scale * d(loss_sum)/dvalues, 0 elsewhere.
  void error_loss(Queue& queue, ErrorMeasure measure, ConstMatrixView values,
                  std::span<const float> targets, std::span<const LocalId> rows, double grad_scale,
                  MatrixView dvalues, std::span<double> loss_sum);
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
  // One step of Adam over flat arrays of equal length, all [1, n]; parameter, m and v are updated.
  void adam_step(Queue& queue, const AdamSpec& spec, MatrixView parameters,
                 ConstMatrixView gradients, MatrixView m, MatrixView v);

 protected:
  void count_allocation() { ++allocations_; }
  // For backends that have several kernels for an operation: which one it runs. A literal.
  void name_kernel(const char* kernel) { last_kernel_ = kernel; }

 private:
  virtual void do_spmm(Queue&, const SparseOperator&, RowRange, ConstMatrixView, double beta,
                       MatrixView, const Epilogue&) = 0;
  virtual void do_attend(Queue&, const SparseOperator&, RowRange, ConstMatrixView z,
                         ConstMatrixView t, const AttentionSpec&, MatrixView y,
                         const Epilogue&) = 0;
  virtual void do_attend_backward_targets(Queue&, const SparseOperator&, RowRange,
                                          ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy,
                                          const AttentionSpec&, MatrixView dt,
                                          MatrixView coefficients, MatrixView dvector,
                                          MatrixView dedge_weight) = 0;
  virtual void do_attend_backward_sources(Queue&, const SparseOperator&, const SourceEdges&,
                                          RowRange, ConstMatrixView z, ConstMatrixView t,
                                          ConstMatrixView dy, ConstMatrixView coefficients,
                                          const AttentionSpec&, MatrixView dz,
                                          MatrixView dvector) = 0;
  virtual void do_aggregate_edges(Queue&, const SparseOperator&, RowRange, ConstMatrixView,
                                  const EdgeTerms&, MatrixView) = 0;
  virtual void do_aggregate_edges_backward_sources(Queue&, const SparseOperator&,
                                                   const SourceEdges&, RowRange, ConstMatrixView,
                                                   const EdgeTerms&, ConstMatrixView dy,
                                                   MatrixView dx) = 0;
  virtual void do_aggregate_edges_backward_terms(Queue&, const SparseOperator&, RowRange,
                                                 ConstMatrixView, const EdgeTerms&,
                                                 ConstMatrixView dy, MatrixView dweight,
                                                 MatrixView dbias) = 0;
  virtual void do_head_dots(Queue&, ConstMatrixView, ConstMatrixView vector, MatrixView) = 0;
  virtual void do_head_dots_backward(Queue&, ConstMatrixView d, ConstMatrixView x,
                                     ConstMatrixView vector, MatrixView dx, MatrixView dvector) = 0;
  virtual void do_head_mean(Queue&, ConstMatrixView, MatrixView) = 0;
  virtual void do_head_mean_backward(Queue&, ConstMatrixView, MatrixView) = 0;
  virtual void do_pair_dots(Queue&, ConstMatrixView, std::span<const LocalId> first,
                            std::span<const LocalId> second, MatrixView) = 0;
  virtual void do_pair_products(Queue&, ConstMatrixView x, std::span<const LocalId> first,
                                ConstMatrixView z, std::span<const LocalId> second,
                                MatrixView y) = 0;
  virtual void do_pool(Queue&, const SparseOperator&, RowRange, ConstMatrixView x, const PoolSpec&,
                       MatrixView y) = 0;
  virtual void do_pool_backward_targets(Queue&, const SparseOperator&, RowRange, ConstMatrixView x,
                                        ConstMatrixView y, ConstMatrixView dy, const PoolSpec&,
                                        MatrixView g) = 0;
  virtual void do_pool_backward_sources(Queue&, const SparseOperator&, const SourceEdges&, RowRange,
                                        ConstMatrixView x, ConstMatrixView y, ConstMatrixView g,
                                        const PoolSpec&, MatrixView dx) = 0;
  virtual void do_pool_slope(Queue&, const SparseOperator&, RowRange, ConstMatrixView x,
                             ConstMatrixView y, const PoolSpec&, MatrixView slope) = 0;
  virtual void do_gather_rows(Queue&, ConstMatrixView, std::span<const LocalId>,
                              std::span<const float>, MatrixView) = 0;
  virtual void do_quantize_rows(Queue&, ConstMatrixView, const PackList&, std::span<const float>,
                                const RoundingSpec&, std::span<std::byte>, const PackTrace&) = 0;
  virtual void do_dequantize_rows(Queue&, std::span<const std::byte>, const UnpackList&,
                                  MatrixView) = 0;
  virtual void do_fill_zero(Queue&, MatrixView) = 0;
  virtual void do_convert(Queue&, ConstMatrixView, MatrixView) = 0;
  virtual void do_gemm(Queue&, Transpose, ConstMatrixView, Transpose, ConstMatrixView, double beta,
                       MatrixView, const Epilogue&) = 0;
  virtual void do_apply_epilogue(Queue&, ConstMatrixView, const Epilogue&, MatrixView) = 0;
  virtual void do_combine(Queue&, float a, ConstMatrixView, float b, ConstMatrixView,
                          MatrixView) = 0;
  virtual void do_scale(Queue&, ConstMatrixView, ConstMatrixView, MatrixView) = 0;
  virtual void do_dot(Queue&, ConstMatrixView, ConstMatrixView, bool, MatrixView) = 0;
  virtual void do_maximum(Queue&, ConstMatrixView, ConstMatrixView, MatrixView) = 0;
  virtual void do_maximum_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView,
                                   MaximumOf, MatrixView) = 0;
  virtual void do_activation_backward(Queue&, ConstMatrixView, const ActivationGradient&) = 0;
  virtual void do_column_sums(Queue&, ConstMatrixView, bool, MatrixView,
                              const ActivationGradient&) = 0;
  virtual void do_sum_parts(Queue&, ConstMatrixView, MatrixView) = 0;
  virtual void do_batch_norm_moments(Queue&, ConstMatrixView, std::span<const double>,
                                     std::span<double>) = 0;
  virtual void do_batch_norm_statistics(Queue&, std::span<const double>, std::int64_t, double,
                                        double, std::span<double>, std::span<double>,
                                        std::span<double>, std::span<double>) = 0;
  virtual void do_batch_norm_gradient_sums(Queue&, ConstMatrixView, ConstMatrixView,
                                           std::span<const double>, std::span<const double>,
                                           std::span<double>, MatrixView, MatrixView,
                                           const ActivationGradient&) = 0;
  virtual void do_batch_norm_backward(Queue&, ConstMatrixView, ConstMatrixView,
                                      std::span<const double>, std::span<const double>,
                                      ConstMatrixView, std::span<const double>, std::int64_t,
                                      MatrixView) = 0;
  virtual void do_inverse_std(Queue&, std::span<const double>, double, std::span<double>) = 0;
  virtual void do_layer_norm(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, double,
                             MatrixView) = 0;
  virtual void do_layer_norm_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView,
                                      double, MatrixView, MatrixView, MatrixView) = 0;
  virtual void do_softmax_cross_entropy(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                        std::span<const LocalId>, double, MatrixView,
                                        std::span<double>) = 0;
  // Called where the label is not all.
  virtual void do_spread_cross_entropy(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                       std::span<const LocalId>, double, MatrixView,
                                       std::span<double>, const SoftmaxTarget&) = 0;
  virtual void do_sigmoid_cross_entropy(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                        std::span<const LocalId>, double, MatrixView,
                                        std::span<double>) = 0;
  // Called where the target is not all.
  virtual void do_weighted_sigmoid(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                   std::span<const LocalId>, double, MatrixView, std::span<double>,
                                   const SigmoidTarget&) = 0;
  virtual void do_error_loss(Queue&, ErrorMeasure, ConstMatrixView, std::span<const float>,
                             std::span<const LocalId>, double, MatrixView, std::span<double>) = 0;
  virtual void do_count_correct(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                std::span<const std::uint8_t>, std::span<std::int64_t>) = 0;
  virtual void do_count_multi_label(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                    std::span<const std::uint8_t>, std::span<std::int64_t>) = 0;
  virtual void do_adam_step(Queue&, const AdamSpec&, MatrixView, ConstMatrixView, MatrixView,
                            MatrixView) = 0;

  // The recorder if operations on this queue are profiled, else null.
  TraceRecorder* profile_of(const Queue& queue) const {
    return &queue == profiled_queue_ ? profile_ : nullptr;
  }

  std::int64_t allocations_ = 0;
  TraceRecorder* profile_ = nullptr;
  const Queue* profiled_queue_ = nullptr;
  const char* last_kernel_ = "";
  std::set<std::string> labels_;  // of operations in profiles
};

}  // namespace atl
