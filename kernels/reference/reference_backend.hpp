// The oracle: every operation of the contract as a plain serial loop with sums in double, rounded
// once on store, for all storage types. Written to be read and trusted, never tuned.
#pragma once

#include "kernels/host_backend.hpp"

namespace atl {

class ReferenceBackend final : public HostBackend {
 public:
  std::string name() const override { return "reference"; }
  std::string device() const override { return "host, serial, sums in double"; }
  bool supports(DType) const override { return true; }

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
  void do_batch_norm_moments(Queue&, ConstMatrixView, std::span<const double>,
                             std::span<double>) override;
  void do_batch_norm_gradient_sums(Queue&, ConstMatrixView, ConstMatrixView,
                                   std::span<const double>, std::span<const double>,
                                   std::span<double>, MatrixView, MatrixView,
                                   const ActivationGradient&) override;
  void do_batch_norm_backward(Queue&, ConstMatrixView, ConstMatrixView, std::span<const double>,
                              std::span<const double>, ConstMatrixView, std::span<const double>,
                              std::int64_t, MatrixView) override;
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
};

}  // namespace atl
