// The settings of a training that simulated epochs depend on beside graph and machine: how messages
// travel, and how long phases of a recorded run really took.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/placement/plan_space.hpp"
#include "engine/placement/traced_run.hpp"
#include "engine/training/options.hpp"

namespace atl {

// The messages that training is asked for.
struct AskedMessages {
  // None: exact, or rounded where a layer of the plan has few bits.
  std::optional<ExchangeOptions> exchange;
  int start_bits = 32;    // without a plan
  std::vector<int> bits;  // what they may travel at
  Arrival arrival = Arrival::kAuto;
  SumChoice sums = SumChoice::kAuto;
};
// allowed: as --allow-bits; none: as they are. Throws Error{kOption} for widths that a plan has
// not.
AskedMessages asked_messages(const TrainOptions& options,
                             const std::optional<std::string>& allowed = std::nullopt);

// The figures of --measured; none without it.
struct Measured {
  PhaseCorrections corrections;
  std::optional<double> share_sent;  // of messages, with its own exchange mode
  std::string exchange;              // that mode
};
// Whether the run had the layers of this model.
bool is_run_of(const TracedRun& run, const ModelConfig& model);
// Throws Error{kInput} where the run had other ranks than the topology.
Measured measured_by(const TracedRun& run, const Topology& topology);

// For a space of plans. `messages` and `measured` must outlive the result.
PlannedMessages planned_messages(const AskedMessages& messages, const Measured& measured);

// Throws Error{kOption} where values are to wait in another memory than a host's, as training
// would: see RankJob.
void require_offload(const ModelConfig& model, const Topology& topology);

}  // namespace atl
