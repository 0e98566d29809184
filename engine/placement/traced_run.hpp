// The times of phases in a run with --trace, and how a simulated epoch is made to agree with it
// (dPRO, arXiv 2205.02473, replays measured operations in the same way).
#pragma once

#include <filesystem>
#include <map>

#include "engine/placement/epoch_cost.hpp"
#include "engine/trace/trace_file.hpp"

namespace atl {

struct TracedRun {
  ModelConfig model;
  PartitionQuality partition;
  std::vector<LayerPlan> layers;
  bool overlap = true;
  Arrival arrival = Arrival::kOff;  // kOn: marginal rows were computed in order of arrival
  SumRoute gradient_sum;
  // None: every message is used in the epoch that sends it, and no rows are kept.
  std::optional<ExchangeOptions> exchange;
  std::optional<double> share_sent;  // of all messages
  double epoch_s = 0;                // median of the epochs that count; mean where they differ
  int epochs = 0;                    // that count: not the first two, which fill caches and buffers
  // Seconds of each phase of each rank, in the same way; of sums over ranks, those of the rank that
  // came last and waited for nobody, under rank 0.
  std::vector<std::map<PhasePlace, double>> phase_s;

  // To simulate it. corrections must outlive the result, as this must.
  EpochSetting setting(const Topology& topology, const PhaseCorrections& corrections) const;
};

// Reads RUN/trace.json. Throws Error{kInput} naming the file and what is wrong or missing.
TracedRun read_traced_run(const std::filesystem::path& run);

// Corrections by which the simulated epoch of that run takes in each phase what was measured. What
// messages take from computing is in the measured times as well, and is not counted twice. Where
// the epoch waits for the network, that gets the speed at which the whole takes what was measured:
// processors that compute, or are under a quota, keep packets waiting.
PhaseCorrections corrections_of(const TracedRun& run, const Topology& topology);

// The same for other plans: one factor for all ranks, because what a rank has of it depends on its
// part of the graph; where the run had no such phase, that of the phase in its other layers. The
// row work of a layer in another algebra has one factor for all, and halo rows that nobody computed
// in the run have that of the kernels which compute rows.
PhaseCorrections common_corrections(const TracedRun& run, const Topology& topology);

}  // namespace atl
