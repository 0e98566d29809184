// The options of a training run, each one row of a table.
#pragma once

#include <span>

#include "base/option.hpp"
#include "engine/training/options.hpp"

namespace atl {

// Rows of all groups; those of the model are model_options() and computation_options(). What is
// recorded comes in the order of the rows.
const OptionTable<TrainOptions>& train_options();

// The values that a plan is made for, by the names of their options (Plan::model).
Json planned_options(const TrainOptions& options);

// An option as somebody gave it.
struct GivenOption {
  std::string name;
  std::string value;
};
// Throws Error{kOption} for one that is of other exchange modes, or of other --bits, than any of
// `runs` has. choice: how they were chosen, as "--exchange exact".
void require_effect(std::span<const GivenOption> given, std::span<const TrainOptions> runs,
                    const std::string& choice);

}  // namespace atl
