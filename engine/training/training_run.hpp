// A whole run: epochs, evaluations, early stop, checkpoints, run folder.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

// How a run goes on after an epoch.
struct AfterEpoch {
  std::string stopped_by = "";               // not empty: it ends, for this reason
  std::optional<double> learning_rate = {};  // from the next epoch on
};

// Records of the run folder besides options.
struct RunDescription {
  RunConfig config;
  std::string commit;
  std::string dataset_folder;
  std::string model_file = "";  // the text of --model-file, kept as model.toml
  // Called on every rank when an epoch is done and kept.
  std::function<void(int epoch)> epoch_done = {};
  // Called on every rank after an epoch, with its line of metrics.jsonl; collective.
  std::function<AfterEpoch(const std::string& line)> after_epoch = {};
  // Called at once with the signal that asks this run to end; ranks that say nothing have none.
  std::function<void(int signal)> asked_to_end = {};
};

// Trains from the first epoch, or from the folder's checkpoint if options.resume, and returns the
// summary (equal on all ranks up to peak_rss_mb). SIGINT, SIGTERM, SIGHUP or SIGUSR1 at any rank,
// or --max-time, end the run after the epoch: `stopped_by` says so, checkpoint and best model are
// written. After a signal, nothing is evaluated (the resumed run does it), and there is no
// summary.json, which is that of a complete run. `diverged`: the loss ends far above where it
// began. Throws Error{kDiverged} where it is no number; model and summary.json are those of the
// best epoch before, if one was evaluated. Collective.
Json train(const TrainOptions& options, const RunDescription& description, RankJob& job,
           Transport& transport, RunFolder& folder);

// The report of an evaluation: the metric, its values and those of others, `undefined` with the
// reasons by split, and `classes` where they are known.
Json result_json(const Trainer& trainer, const Metrics& metrics);

// Objects line by line, and arrays of arrays or objects; other values take one line each.
std::string readable_json(const Json& json, const std::string& indent = "");

// The value of `stopped_by` as a signal; 0 if it was none.
int stopping_signal(const Json& summary);

}  // namespace atl
