#include "engine/training/judge.hpp"

#include <fmt/format.h>

#include <cmath>

namespace atl {

Judge::Judge(const Trainer& trainer, bool has_loss) : metric_(trainer.metric()) {
  const std::string reason = trainer.undefined_reason(Split::kValid, metric_);
  if (reason.empty()) return;
  reason_ = reason;
  const bool trained = trainer.undefined_reason(Split::kTrain, metric_).empty();
  by_ = has_loss ? By::kValidLoss : trained ? By::kTrain : By::kLast;
}

double Judge::score(const Metrics& metrics) const {
  const double sign = lower_is_better(metric_) ? -1 : 1;
  switch (by_) {
    case By::kValid:
      return sign * metrics.valid;
    case By::kValidLoss:
      return -metrics.valid_loss;
    case By::kTrain:
      return sign * metrics.train;
    case By::kLast:
      break;
  }
  return kUnknownMetric;
}

bool Judge::prefers(const Metrics& metrics, const Metrics& to) const {
  return std::isnan(score(to)) || score(metrics) > score(to);
}

bool Judge::reaches(const Metrics& metrics, double target) const {
  return score(metrics) >= (lower_is_better(metric_) ? -target : target);
}

std::string Judge::in_words() const {
  switch (by_) {
    case By::kValid:
      return "valid " + shown_name(metric_);
    case By::kValidLoss:
      return "valid loss";
    case By::kTrain:
      return "train " + shown_name(metric_);
    case By::kLast:
      break;
  }
  return "its number";
}

std::string Judge::undefined() const {
  return fmt::format("{} is undefined for the validation set: {}", shown_name(metric_), reason_);
}

std::string Judge::warning() const {
  const bool lowest = by_ == By::kValidLoss || (by_ == By::kTrain && lower_is_better(metric_));
  const std::string what =
      by_ == By::kLast
          ? "the last one"
          : fmt::format("the one with the {} {}", lowest ? "lowest" : "highest", in_words());
  return fmt::format("{}; the best epoch is {}", undefined(), what);
}

}  // namespace atl
