// The cuda backend: one device, queues that are streams, own kernels beside cuBLAS and cuSPARSE;
// f32 and bf16.
//
// One backend belongs to one host thread at a time; many may live in one process, on one device or
// several. Results are the same in every run: no sum depends on which block or thread is first.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/registry.hpp"

namespace atl::cuda {

class CudaBackend final : public Backend {
 public:
  // Throws as choose_device().
  explicit CudaBackend(const BackendOptions& options);

  std::string name() const override { return "cuda"; }
  std::string device() const override { return device_.describe(); }
  bool supports(DType dtype) const override { return dtype != DType::kF64; }
  bool host_accessible() const override { return false; }
  std::string device_id() const override { return device_.pci_id; }
  std::int64_t available_bytes() override;

  void* allocate(std::int64_t bytes) override;
  void release(void* data) noexcept override;
  void* allocate_staging(std::int64_t bytes) override;
  void release_staging(void* data) noexcept override;
  void copy(Queue& queue, void* to, const void* from, std::int64_t bytes, CopyKind kind) override;

  std::unique_ptr<Queue> make_queue(QueuePriority priority) override;
  void wait_for(Queue& queue, Queue& before) override;
  void synchronize(Queue& queue) override;
  bool is_idle(Queue& queue) override;
  std::unique_ptr<Recording> record(Queue& queue, const std::function<void()>& body) override;
  void replay(Queue& queue, Recording& recording) override;
  std::unique_ptr<SpanClock> make_clock(Queue& queue) override;
  std::shared_ptr<const PreparedSparse> prepare_spmm(Queue& queue, const SparseOperator& op,
                                                     std::span<const std::int64_t> host_row_ptr,
                                                     std::span<const RowRange> ranges) override;

 private:
  void do_spmm(Queue&, const SparseOperator&, RowRange, ConstMatrixView, double, MatrixView,
               const Epilogue&) override;
  void do_attend(Queue&, const SparseOperator&, RowRange, ConstMatrixView, ConstMatrixView,
                 const AttentionSpec&, MatrixView, const Epilogue&) override;
  void do_attend_backward_targets(Queue&, const SparseOperator&, RowRange, ConstMatrixView,
                                  ConstMatrixView, ConstMatrixView, const AttentionSpec&,
                                  MatrixView, MatrixView, MatrixView) override;
  void do_attend_backward_sources(Queue&, const SparseOperator&, const SourceEdges&, RowRange,
                                  ConstMatrixView, ConstMatrixView, ConstMatrixView,
                                  ConstMatrixView, const AttentionSpec&, MatrixView,
                                  MatrixView) override;
  void do_head_dots(Queue&, ConstMatrixView, ConstMatrixView, MatrixView) override;
  void do_head_dots_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, MatrixView,
                             MatrixView) override;
  void do_head_mean(Queue&, ConstMatrixView, MatrixView) override;
  void do_head_mean_backward(Queue&, ConstMatrixView, MatrixView) override;
  void do_gather_rows(Queue&, ConstMatrixView, std::span<const LocalId>, std::span<const float>,
                      MatrixView) override;
  void do_quantize_rows(Queue&, ConstMatrixView, const PackList&, std::span<const float>,
                        const RoundingSpec&, std::span<std::byte>, const PackTrace&) override;
  void do_dequantize_rows(Queue&, std::span<const std::byte>, const UnpackList&,
                          MatrixView) override;
  void do_fill_zero(Queue&, MatrixView) override;
  void do_convert(Queue&, ConstMatrixView, MatrixView) override;
  void do_gemm(Queue&, Transpose, ConstMatrixView, Transpose, ConstMatrixView, double, MatrixView,
               const Epilogue&) override;
  void do_apply_epilogue(Queue&, ConstMatrixView, const Epilogue&, MatrixView) override;
  void do_combine(Queue&, float a, ConstMatrixView, float b, ConstMatrixView, MatrixView) override;
  void do_scale(Queue&, ConstMatrixView, ConstMatrixView, MatrixView) override;
  void do_dot(Queue&, ConstMatrixView, ConstMatrixView, bool, MatrixView) override;
  void do_maximum(Queue&, ConstMatrixView, ConstMatrixView, MatrixView) override;
  void do_maximum_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, MaximumOf,
                           MatrixView) override;
  void do_activation_backward(Queue&, ConstMatrixView, const ActivationGradient&) override;
  void do_column_sums(Queue&, ConstMatrixView, bool, MatrixView,
                      const ActivationGradient&) override;
  void do_sum_parts(Queue&, ConstMatrixView, MatrixView) override;
  void do_batch_norm_moments(Queue&, ConstMatrixView, std::span<const double>,
                             std::span<double>) override;
  void do_batch_norm_statistics(Queue&, std::span<const double>, std::int64_t, double, double,
                                std::span<double>, std::span<double>, std::span<double>,
                                std::span<double>) override;
  void do_batch_norm_gradient_sums(Queue&, ConstMatrixView, ConstMatrixView,
                                   std::span<const double>, std::span<const double>,
                                   std::span<double>, MatrixView, MatrixView,
                                   const ActivationGradient&) override;
  void do_batch_norm_backward(Queue&, ConstMatrixView, ConstMatrixView, std::span<const double>,
                              std::span<const double>, ConstMatrixView, std::span<const double>,
                              std::int64_t, MatrixView) override;
  void do_inverse_std(Queue&, std::span<const double>, double, std::span<double>) override;
  void do_layer_norm(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, double,
                     MatrixView) override;
  void do_layer_norm_backward(Queue&, ConstMatrixView, ConstMatrixView, ConstMatrixView, double,
                              MatrixView, MatrixView, MatrixView) override;
  void do_softmax_cross_entropy(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                                std::span<const LocalId>, double, MatrixView,
                                std::span<double>) override;
  void do_spread_cross_entropy(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                               std::span<const LocalId>, double, MatrixView, std::span<double>,
                               const SoftmaxTarget&) override;
  void do_sigmoid_cross_entropy(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                                std::span<const LocalId>, double, MatrixView,
                                std::span<double>) override;
  void do_error_loss(Queue&, ErrorMeasure, ConstMatrixView, std::span<const float>,
                     std::span<const LocalId>, double, MatrixView, std::span<double>) override;
  void do_count_correct(Queue&, ConstMatrixView, std::span<const std::int32_t>,
                        std::span<const std::uint8_t>, std::span<std::int64_t>) override;
  void do_count_multi_label(Queue&, ConstMatrixView, std::span<const std::uint8_t>,
                            std::span<const std::uint8_t>, std::span<std::int64_t>) override;
  void do_adam_step(Queue&, const AdamSpec&, MatrixView, ConstMatrixView, MatrixView,
                    MatrixView) override;

  // This backend's queue behind the interface, with its device made the thread's current one: the
  // host thread may have used another device since.
  CudaQueue& use(Queue& queue) const;
  void use_device() const;
  bool is_staging(const void* data, std::int64_t bytes) const;
  void end_recording();

  Device device_;
  bool tf32_;
  std::shared_ptr<KernelChoices> choices_;
  MemoryPool memory_;
  QueueList queues_;
  std::map<const std::byte*, std::int64_t> staging_;  // bytes by address
  bool recording_ = false;
  std::vector<void*> released_;  // while recording, to be released after it
  std::vector<void*> released_staging_;
};

}  // namespace atl::cuda
