// How long an epoch and an evaluation of a training take on a machine, and what they send: by the
// simulator of `atoll plan`, without a plan.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "launch/planned_training.hpp"
#include "launch/schedule/cut_table.hpp"

namespace atl {

struct SimulatedSpeed {
  double epoch_s = std::numeric_limits<double>::infinity();  // without evaluation
  double evaluation_s = 0;
  // By host of the machine: seconds that its card needs, alone, for what an epoch and an evaluation
  // send through it or receive, whichever takes longer.
  std::vector<double> epoch_card_s;
  std::vector<double> evaluation_card_s;
  std::string refusal = {};  // why it can't be trained there; empty: it can
};

// An epoch is that of `atoll plan --search none`. Bits that a run finds or draws count as 4, and of
// several widths the largest one counts for all layers. measured: none, or by a recorded run.
SimulatedSpeed simulated_speed(const ScheduledTraining& training, const Topology& machine,
                               CutTable& cuts, const Measured& measured = {});

Json to_json(const SimulatedSpeed& speed);
// Throws Error{kInput} naming `file` and the field that is wrong.
SimulatedSpeed parse_speed(const Json& json, const std::filesystem::path& file);

}  // namespace atl
