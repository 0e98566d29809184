// The run folder: config.toml, metrics.jsonl, summary.json, model.safetensors, checkpoint/, trace.
// Rank 0 writes it (traces: every rank its own).
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/training/trainer.hpp"

namespace atl {

class RunFolder {
 public:
  // Does nothing for an empty path. Creates the folder; refuses (Error{kOption}) one that holds
  // another run's metrics, unless `resumed_epoch` >= 0: then lines of later epochs are cut off.
  RunFolder(const std::filesystem::path& path, const std::string& config_toml, int resumed_epoch);
  // What can be known before anything is computed: throws Error{kOption} if `path` holds a run and
  // `resume` is false, Error{kInput} if it is true and there is no checkpoint.
  static void check(const std::filesystem::path& path, bool resume);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  bool active() const { return !path_.empty(); }
  // The lines of the epochs before the resumed one; empty without resume.
  const std::vector<Json>& earlier_epochs() const { return earlier_; }
  const std::filesystem::path& path() const { return path_; }
  // Appends one line to metrics.jsonl and flushes it. metrics: null if the epoch was not evaluated.
  void append(const EpochResult& result, const Metrics* metrics);
  void write_summary(const Json& summary) const;
  void write_model(const SafetensorsFile& weights) const;

 private:
  std::filesystem::path path_;
  std::vector<Json> earlier_;
  std::FILE* metrics_ = nullptr;
};

}  // namespace atl
