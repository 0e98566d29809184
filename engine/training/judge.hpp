// Decides which epoch of a run is the best: by the metric of the validation nodes, or by what there
// is instead.
#pragma once

#include <string>

#include "engine/training/trainer.hpp"

namespace atl {

class Judge {
 public:
  // has_loss: validation nodes have one.
  Judge(const Trainer& trainer, bool has_loss);

  // More is better.
  double score(const Metrics& metrics) const;
  // An epoch that can't be judged is worse than any other, and the last of these counts.
  bool prefers(const Metrics& metrics, const Metrics& to) const;
  // Whether the metric is as good as `target`, a number in its units; false of what can't be
  // judged.
  bool reaches(const Metrics& metrics, double target) const;

  // "valid accuracy"
  std::string in_words() const;
  // Why it is not the metric of the validation nodes; empty if it is.
  const std::string& reason() const { return reason_; }
  // "accuracy is undefined for the validation set: ..."
  std::string undefined() const;
  std::string warning() const;

 private:
  enum class By { kValid, kValidLoss, kTrain, kLast };
  Metric metric_;
  By by_ = By::kValid;
  std::string reason_;
};

}  // namespace atl
