// Reads what a finished or running training left in its run folder: metrics.jsonl, events.jsonl,
// summary.json and config.toml.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "launch/config_file.hpp"
#include "launch/report/bit_records.hpp"

namespace atl {

// One line of metrics.jsonl. Absent or null numbers (not evaluated, not finite) are empty.
struct EpochRecord {
  std::int64_t epoch = 0;
  std::optional<double> loss;
  std::optional<double> train;  // of the run's metric
  std::optional<double> valid;
  std::optional<double> test;
  std::optional<double> valid_loss;
  std::optional<double> epoch_ms;
  std::optional<double> exposed_comm_ms;
  std::optional<double> bytes_sent;
  std::vector<std::pair<std::string, double>> phases;  // name, milliseconds; in file order
  std::optional<RecordedAssignment> assignment;        // where one begins to hold
  std::optional<double> solver_ms;                     // what finding it took
  std::optional<double> mean_bits;                     // of the assignment that holds
  std::optional<double> share_sent;                    // of all messages, by that
};

// A line of events.jsonl, which `atoll launch` writes.
struct RunEvent {
  std::string time;
  std::string event;  // "failed", "regrown", ...
  std::string text;
  std::int64_t epoch = 0;  // the last one that was done
  std::int64_t ranks = 0;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;  // last part of the folder's path
  std::vector<EpochRecord> epochs;
  std::vector<RunEvent> events;      // none without atoll launch
  Json summary = Json::object();     // empty object while the run has not ended
  bool finished = false;             // summary.json is there
  std::vector<ConfigValue> options;  // of config.toml; empty without that file
};

// Throws Error{kInput} naming file and line. A last line without newline that does not parse is a
// run caught writing and is left out; a missing summary.json means the run has not ended.
RunRecord read_run(const std::filesystem::path& folder);

// Median over the epochs that have the number; empty if none has.
std::optional<double> median_of(const std::vector<EpochRecord>& epochs,
                                std::optional<double> EpochRecord::*field);
// Median milliseconds per phase over all epochs that have phases, in the order in which the phases
// first appear. A phase counts as 0 in epochs without it, so that phases add up to a usual epoch
// and what only the first one does has no share in it.
std::vector<std::pair<std::string, double>> median_phases(const std::vector<EpochRecord>& epochs);

}  // namespace atl
