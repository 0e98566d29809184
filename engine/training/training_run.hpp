// A whole run: epochs, evaluations, early stop, checkpoints, run folder.
#pragma once

#include <functional>
#include <string>

#include "base/json.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

// What the run folder records besides options.
struct RunDescription {
  RunConfig config;
  std::string commit;
  std::string dataset_folder;
  std::string model_file = "";  // the text of --model-file, kept as model.toml
  // Called on every rank when an epoch is done and kept.
  std::function<void(int epoch)> epoch_done = {};
};

// Trains from the first epoch, or from the folder's checkpoint if options.resume, and returns the
// summary (equal on all ranks up to peak_rss_mb). SIGINT, SIGTERM, SIGHUP or SIGUSR1 at any rank,
// or
// --max-time, end the run after the epoch: `stopped_by` says so, checkpoint and best model are
// written, and after a signal no summary.json, which is that of a complete run. `diverged`: the
// loss ends far above where it began. Throws DivergedError where it is no number. Collective.
Json train(const TrainOptions& options, const RunDescription& description, RankJob& job,
           Transport& transport, RunFolder& folder);

// What `stopped_by` says, as a signal; 0 if it was none.
int stopping_signal(const Json& summary);

// The options that define the mathematics of a run, and the dataset: see Checkpoint::fingerprint.
Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset);

}  // namespace atl
