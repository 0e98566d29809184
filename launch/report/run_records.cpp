#include "launch/report/run_records.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/json_lines.hpp"
#include "base/median.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, double>> read_phases(const Json& object,
                                                        const std::string& place) {
  std::vector<std::pair<std::string, double>> phases;
  const auto found = object.find("phases");
  if (found == object.end()) return phases;
  if (!found->is_object()) {
    fail_input("{}: 'phases' is {}; it must be an object of milliseconds", place, shown(*found));
  }
  for (const auto& [name, value] : found->items()) {
    if (!value.is_number()) {
      fail_input("{}: phase '{}' is {}; it must be a number", place, name, shown(value));
    }
    phases.emplace_back(name, value.get<double>());
  }
  return phases;
}

EpochRecord to_epoch_record(const Json& object, const std::string& place) {
  const auto epoch = object.find("epoch");
  if (epoch == object.end() || !epoch->is_number_integer()) {
    fail_input("{}: 'epoch' is missing or not an integer", place);
  }
  EpochRecord record;
  record.epoch = epoch->get<std::int64_t>();
  record.loss = optional_number(object, "loss", place);
  record.train = optional_number(object, "train", place);
  record.valid = optional_number(object, "valid", place);
  record.test = optional_number(object, "test", place);
  record.valid_loss = optional_number(object, "valid_loss", place);
  record.epoch_ms = optional_number(object, "epoch_ms", place);
  record.exposed_comm_ms = optional_number(object, "exposed_comm_ms", place);
  record.bytes_sent = optional_number(object, "bytes_sent", place);
  record.phases = read_phases(object, place);
  record.assignment = read_assignment(object, place);
  if (record.assignment) record.solver_ms = record.assignment->solver_ms;
  return record;
}

void fill_from_assignments(std::vector<EpochRecord>& epochs) {
  std::optional<double> bits;
  std::optional<double> share;
  for (EpochRecord& epoch : epochs) {
    if (epoch.assignment) {
      bits = epoch.assignment->mean_bits;
      share = share_sent(epoch.assignment->total());
    }
    epoch.mean_bits = bits;
    epoch.share_sent = share;
  }
}

std::vector<EpochRecord> read_metrics(const fs::path& path) {
  std::vector<EpochRecord> epochs;
  // A last line that is cut off is a run caught writing.
  for (const JsonLine& line : read_json_lines(path).lines) {
    epochs.push_back(to_epoch_record(line.object, line.place));
  }
  if (epochs.empty()) fail_input("{}: holds no epoch", path.string());
  fill_from_assignments(epochs);
  return epochs;
}

std::vector<RunEvent> read_events(const fs::path& path) {
  std::vector<RunEvent> events;
  if (!fs::exists(path)) return events;
  for (const JsonLine& line : read_json_lines(path).lines) {
    const auto text = [&](const char* field) {
      const auto found = line.object.find(field);
      return found != line.object.end() && found->is_string() ? found->get<std::string>() : "";
    };
    const auto number = [&](const char* field) {
      const auto found = line.object.find(field);
      return found != line.object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                                      : 0;
    };
    events.push_back({text("time"), text("event"), text("text"), number("epoch"), number("ranks")});
    if (events.back().event.empty()) fail_input("{}: names no event", line.place);
  }
  return events;
}

}  // namespace

RunRecord read_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    fail_input("{}: no such folder; give run folders as written by atoll train", folder.string());
  }
  RunRecord run;
  run.folder = folder;
  run.name = fs::weakly_canonical(folder).filename().string();
  const fs::path metrics = folder / "metrics.jsonl";
  if (!fs::exists(metrics)) {
    fail_input("{}: holds no metrics.jsonl, so it is no run folder", folder.string());
  }
  run.epochs = read_metrics(metrics);
  run.events = read_events(folder / "events.jsonl");
  const fs::path summary = folder / kSummaryName;
  run.finished = fs::exists(summary);
  if (run.finished) {
    run.summary = read_json(summary);
    if (!run.summary.is_object()) fail_input("{}: expected an object", summary.string());
  }
  for (const char* name :
       {"config.resolved.toml", "config.toml"}) {  // older runs have the latter alone
    if (!run.options.empty() || !fs::exists(folder / name)) continue;
    run.options = read_config_values(folder / name);
  }
  return run;
}

std::optional<double> median_of(const std::vector<EpochRecord>& epochs,
                                std::optional<double> EpochRecord::*field) {
  std::vector<double> values;
  for (const EpochRecord& epoch : epochs) {
    if (epoch.*field) values.push_back(*(epoch.*field));
  }
  if (values.empty()) return std::nullopt;
  return median(std::move(values));
}

std::vector<std::pair<std::string, double>> median_phases(const std::vector<EpochRecord>& epochs) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> times;
  std::size_t count = 0;
  for (const EpochRecord& epoch : epochs) {
    if (!epoch.phases.empty()) ++count;
    for (const auto& [name, milliseconds] : epoch.phases) {
      std::vector<double>& list = times[name];
      if (list.empty()) order.push_back(name);
      list.push_back(milliseconds);
    }
  }
  std::vector<std::pair<std::string, double>> phases;
  for (const std::string& name : order) {
    times[name].resize(count, 0);  // 0 where it is absent
    phases.emplace_back(name, median(times[name]));
  }
  return phases;
}

}  // namespace atl
