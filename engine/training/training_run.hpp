// A whole run: epochs, evaluations, early stop, checkpoints, run folder.
#pragma once

#include <string>

#include "base/json.hpp"
#include "engine/training/rank_job.hpp"

namespace atl {

// What the run folder records besides options.
struct RunDescription {
  std::string config_toml;
  std::string commit;
  std::string dataset_folder;
};

// Trains from the first epoch, or from the checkpoint with --resume, and returns the summary (equal
// on all ranks up to peak_rss_mb). Collective.
Json train(const TrainOptions& options, const RunDescription& description, RankJob& job,
           Transport& transport);

// The options that define the mathematics of a run, and the dataset: see Checkpoint::fingerprint.
Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset);

}  // namespace atl
