// The options of a training run, each one row of a table.
#pragma once

#include <span>

#include "base/option.hpp"
#include "datasets/dataset.hpp"
#include "engine/training/options.hpp"

namespace atl {

// Rows of all groups; those of the model are model_options() and computation_options(). What is
// recorded comes in the order of the rows.
const OptionTable<TrainOptions>& train_options();

// The options that define the mathematics of a run, and the dataset: see Checkpoint::fingerprint.
Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset);

// The values that a plan is made for, by the names of their options (Plan::model).
Json planned_options(const TrainOptions& options);

// The options with which epochs are others than those on the whole graph with the messages of
// --exchange, which plans and schedules simulate: as typed, "--blocks 8".
std::vector<std::string> options_beside_plans(const TrainOptions& options);

// Whether the option is the exchange mode, or says what a mode sends and keeps.
bool is_of_exchange(const Option<TrainOptions>& option);
// These options, where they count, by name.
Json exchange_json(const TrainOptions& options);
// Sets the options that `json` has. Throws Error{kInput} naming `place`, the option, the value
// found and those allowed, also for one that is no option of an exchange mode.
void read_exchange_json(const Json& json, const std::filesystem::path& place,
                        TrainOptions& options);

// An option as somebody gave it.
struct GivenOption {
  std::string name;
  std::string value;
  bool typed = false;  // on the command line; otherwise a file may say it
};
// Throws Error{kOption} for one that is of other exchange modes, or of other --bits, than any of
// `runs` has, and for one that needs a value of another option that none has. choice: how the modes
// were chosen, as "--exchange exact". `runs` is not empty.
void require_effect(std::span<const GivenOption> given, std::span<const TrainOptions> runs,
                    const std::string& choice);

}  // namespace atl
