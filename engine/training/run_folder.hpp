// The run folder: config.toml, metrics.jsonl, summary.json, model.safetensors, checkpoint/, trace.
// Rank 0 writes it, under a lock, and removes nothing that we did not write.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/run_lock.hpp"
#include "engine/training/snapshot.hpp"
#include "engine/training/trainer.hpp"

namespace atl {

// The copy of --model-file in a run folder, which RUN/config.toml names.
inline constexpr const char* kModelFileName = "model.toml";
// The options that the run was given, and every option of it, defaults included.
inline constexpr const char* kConfigName = "config.toml";
inline constexpr const char* kResolvedConfigName = "config.resolved.toml";
// The result; only a run that is complete, or can't go on since it has diverged, has one.
inline constexpr const char* kSummaryName = "summary.json";
// Events of a run under `atoll launch`, a JSON object per line.
inline constexpr const char* kEventsName = "events.jsonl";

// Texts of config.toml and config.resolved.toml.
struct RunConfig {
  std::string given;
  std::string resolved;
};

// Whether `folder` holds a run, ended or not: a configuration that we have written, or a
// checkpoint.
bool holds_run(const std::filesystem::path& folder);

// The name of the snapshots of the run in `folder`; empty: it has none. Throws Error{kInput} for a
// damaged snapshots.json.
std::string snapshot_id_of(const std::filesystem::path& folder);

// As check_output_file(), and throws Error{kOption} too if it would replace what a run has written.
void check_result_file(const std::filesystem::path& path, std::string_view option);

// In the line of the last epoch of a first phase in metrics.jsonl: true.
inline constexpr const char* kLastBeforeSwitch = "last_before_switch";

// `assignment` in metrics.jsonl (docs/exchange.md).
Json to_json(const ExchangeReport& report);

// The line of an epoch in metrics.jsonl. metrics: null if it was not evaluated.
std::string metrics_line(const EpochResult& result, const Metrics* metrics);

class RunFolder {
 public:
  // The folder of ranks that write nothing.
  RunFolder() = default;
  // Creates the folder, or opens it, and locks it, before anything is computed. `config_file`: what
  // --config names, which may lie in a new run's folder. Throws Error{kOption} if
  //   fresh      the folder holds anything but config_file;
  //   resume     it holds files and no run;
  //   overwrite  it holds no run, but files under names that a run uses. A run there is removed by
  //              begin(), and files with other names stay.
  // In all cases if it can't be written, lies in a dataset folder, or another process works on it.
  RunFolder(const std::filesystem::path& path, RunStart start, bool take_over,
            const std::filesystem::path& config_file);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();  // removes the folder if it was made here and nothing was written

  bool active() const { return lock_ != nullptr; }
  const std::filesystem::path& path() const { return path_; }
  // Where to go on from; empty if the run starts from the beginning.
  std::filesystem::path checkpoint() const;

  // From here on the folder holds this run. Cuts off the lines of metrics.jsonl after epoch
  // `resumed_epoch`, whose own line `last_line` is put in if it is not there and known, and gets
  // the fields of `late_metrics`; 0: removes what an earlier run has left. A config.toml that we
  // did not write, or that was edited since, is kept as config.original.toml.
  void begin(const RunConfig& config, int resumed_epoch, const std::string& last_line = "",
             const Json& late_metrics = Json::object());
  // The lines of the epochs before the resumed one.
  const std::vector<Json>& earlier_epochs() const { return earlier_; }

  // Every function below throws Error{kInput} if the folder was removed or another process has
  // taken it over, and then writes nothing.
  void require_held() const;
  // Appends one line to metrics.jsonl, as metrics_line() makes it, and flushes it.
  void append(const std::string& line);
  void write(const std::string& name, std::string_view bytes) const;
  void keep_checkpoint(const Checkpoint& checkpoint) const;

  // The run's snapshots, on all ranks; null: there are none. What they have found counts where it
  // is newer than the checkpoint.
  Snapshots* snapshots() const { return snapshots_.get(); }
  bool resumes_from_snapshot() const { return from_snapshot_; }
  // Collective: opens them, and removes those of a run that is overwritten. Returns the epochs that
  // are done; 0: neither checkpoint nor snapshot.
  int open_snapshots(Transport& transport, const TrainOptions& options);

 private:
  void check_contents(RunStart start, const std::filesystem::path& config_file) const;
  void remove_if_unused() noexcept;
  void remove_run() const;
  void write_config(const RunConfig& config) const;
  struct SnapshotRecord {
    std::string id;              // empty: there is none
    std::vector<int> set_backs;  // see Snapshots
  };
  SnapshotRecord snapshot_record() const;
  void keep_snapshot_record() const;
  int last_line() const;  // the epoch of the last line of metrics; 0: there is none
  void recall_metrics(int last_epoch, const std::string& last_line);
  void open_metrics();

  std::filesystem::path path_;
  bool made_here_ = false;
  bool begun_ = false;
  std::unique_ptr<RunLock> lock_;
  std::vector<Json> earlier_;
  std::unique_ptr<Snapshots> snapshots_;
  bool from_snapshot_ = false;
  std::FILE* metrics_ = nullptr;
};

// Rank 0 opens the folder that `options` ask for, and all ranks learn whether the run goes on from
// a checkpoint or a snapshot: options.resume. With no --run-dir nothing is opened. Collective;
// throws on all ranks what RunFolder throws.
std::unique_ptr<RunFolder> open_run_folder(Transport& transport, TrainOptions& options,
                                           const std::filesystem::path& config_file = {});

}  // namespace atl
