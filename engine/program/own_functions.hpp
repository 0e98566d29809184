// Losses and metrics of a program's own: functions of rows of logits and of their labels.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atl {

// Labelled nodes, in the host's memory. Of the labels, those are there that the task has.
struct LabelledRows {
  std::int64_t outputs = 0;               // columns of the logits
  std::span<const float> logits;          // [rows, outputs]
  std::span<const std::int32_t> classes;  // [rows]: single-label
  // [rows, outputs]: 0, 1, or 255 = missing: multi-label, and binary with its one output.
  std::span<const std::uint8_t> multi_labels;
  std::span<const float> numbers;  // [rows, outputs], NaN = missing: regression

  std::int64_t rows() const { return std::ssize(logits) / outputs; }
};

struct OwnLoss {
  std::string name;
  // Returns the sum of the rows' losses and fills `gradient` [rows, outputs], which is all 0, with
  // its derivatives. Atoll divides both by the number of labels of all ranks. Each rank calls it
  // with training nodes of its own, once an epoch or step, and with validation nodes, some of them
  // at a time; ranks that are threads call it at the same time.
  std::function<double(const LabelledRows& rows, std::span<float> gradient)> compute;
};

struct OwnMetric {
  std::string name;
  bool lower_is_better = false;
  // The first rank calls it with the labelled nodes of one split, of all ranks, in the order of
  // their ids.
  std::function<double(const LabelledRows& rows)> compute;
};

struct OwnFunctions {
  std::vector<OwnLoss> losses = {};
  std::vector<OwnMetric> metrics = {};

  bool empty() const { return losses.empty() && metrics.empty(); }
};

// A metric's name has a '-', which no other field of the records has that it is a field of.
// In place of those that were there: for the start of a program, or of a command in one. `losses`
// and `metrics`: names that Atoll has itself. Throws Error{kOption} for a name that is taken or no
// word of a command line, and if there is no function.
void set_own_functions(const OwnFunctions& functions, const std::vector<std::string>& losses,
                       const std::vector<std::string>& metrics);
const OwnFunctions& own_functions();
// Null: there is none.
const OwnLoss* own_loss(const std::string& name);
// Its place in own_functions().metrics.
std::optional<std::size_t> own_metric(const std::string& name);

}  // namespace atl
