// The loss of a task over the training nodes of all ranks, and its gradient.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "engine/exchange/rank.hpp"
#include "engine/program/own_functions.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

// The kind of label that nodes have. Every rank says it: a rank without nodes has empty arrays.
enum class LabelKind : std::uint8_t { kClass, kSeveral, kNumbers };

// Labels of the inner nodes in the backend's memory, and which of them are trained on.
struct LossTargets {
  LabelKind kind = LabelKind::kClass;
  std::span<const std::int32_t> labels;        // softmax: class per node
  std::span<const std::uint8_t> multi_labels;  // sigmoid: [inner, classes], 255 = missing
  std::span<const float> numbers;              // errors: [inner, outputs], NaN = missing
  std::span<const LocalId> rows;               // training nodes with a label
  SoftmaxTarget softmax = {};
  SigmoidTarget sigmoid = {};
  ErrorMeasure measure = ErrorMeasure::kSquared;
  const OwnLoss* own = nullptr;  // in place of these
};

// Queues loss_sum[0] = the sum of the losses of targets.rows and gradient = scale * its gradient,
// both [inner, outputs]. A loss of the program's own is computed at once, on the host, and
// leaves out a gradient without rows.
void queue_loss(const Rank& rank, const LossTargets& targets, ConstMatrixView logits, double scale,
                MatrixView gradient, std::span<double> loss_sum);

// An evaluation goes through the logits in pieces of so many rows, so that the gradient, which the
// losses of a backend write and nobody reads there, takes little memory.
inline constexpr std::int64_t kLossPieceRows = 1 << 16;
// That memory on a rank of so many nodes, and a sum for each piece.
inline std::int64_t evaluation_loss_bytes(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t pieces =
      std::max<std::int64_t>((rows + kLossPieceRows - 1) / kLossPieceRows, 1);
  return std::clamp<std::int64_t>(rows, 1, kLossPieceRows) * padded_columns(columns) *
             bytes_of(dtype) +
         pieces * static_cast<std::int64_t>(sizeof(double));
}

// Mean over all ranks' training nodes of softmax cross-entropy, or over their labelled (node,
// output) pairs of sigmoid cross-entropy or of the error; weighted where classes have weights.
class Loss {
 public:
  virtual ~Loss() = default;
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;
  // total: nodes or (node, output) pairs that the mean runs over, or their weights, all ranks
  // together; > 0 where compute() is called.
  Loss(Backend& backend, const LossTargets& targets, double total);
  // Other nodes from the next compute() on.
  void set_targets(const LossTargets& targets, double total) {
    targets_ = targets;
    total_ = total;
  }

  // Queues d loss / d logits [inner, outputs], and this rank's part of the loss on its way to the
  // host.
  virtual void compute(const Rank& rank, const Round& round, ConstMatrixView logits,
                       MatrixView gradient);
  // This rank's sum of the last compute(); all ranks' sums together, by total(), are the loss.
  // Once the queue has run.
  virtual double local_sum() const { return sum_.host()[0]; }
  double total() const { return total_; }
  // Whether compute() queues the same in every epoch.
  virtual bool repeats() const { return targets_.own == nullptr; }

 private:
  LossTargets targets_;
  double total_;
  ReadBackArray<double> sum_;
};

// The loss of nodes that count differently: gradients are those of the weighted sum of the nodes'
// losses, by the total. local_sum() is without weights, so that the losses of two runs compare.
class NodeWeightedLoss final : public Loss {
 public:
  // weights [inner]; columns and dtype: of the logits [inner, columns]. What is large is allocated
  // by the first compute().
  NodeWeightedLoss(const Rank& rank, const LossTargets& targets, double total,
                   const std::vector<float>& weights, std::int64_t columns, DType dtype);
  // The backend memory that it takes for so many nodes.
  static std::int64_t bytes(std::int64_t rows, std::int64_t columns, DType dtype);

  void compute(const Rank& rank, const Round& round, ConstMatrixView logits,
               MatrixView gradient) override;

 private:
  ConstDeviceArray<float> weights_;
  ConstDeviceArray<LocalId> rows_;  // all
  Tensor plain_;                    // the gradient without weights
};

}  // namespace atl
