#include "engine/training/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/training/option_table.hpp"
#include "engine/training/rank_files.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr const char* kBestPrefix = "best.";
constexpr const char* kSplitNames[] = {"train", "valid", "test"};
constexpr const char* kMetadata = "atoll checkpoint";
constexpr const char* kRankFiles = "rank_files";
constexpr const char* kGradientSum = "gradient_sum";

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

double number(const Json& object, const char* field, const fs::path& place) {
  if (object.is_object() && object.contains(field) && object.at(field).is_null()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return json_field<double>(object, field, place);
}

SplitValues split_values(const Json& metrics, const std::string& field, const fs::path& place) {
  const auto splits = json_field<Json>(metrics, field.c_str(), place);
  return {number(splits, "train", place), number(splits, "valid", place),
          number(splits, "test", place)};
}

// The value of an option that nobody gives; null if there is no such option.
Json default_of(const std::string& field) {
  const auto row = std::ranges::find(train_options(), field, &Option<TrainOptions>::name);
  return row == train_options().end() ? Json(nullptr) : option_json(*row, TrainOptions());
}

// found, wanted: null where a run has the default, which is not recorded.
[[noreturn]] void fail_other_run(const fs::path& place, const std::string& field, const Json& found,
                                 const Json& wanted) {
  const auto shown = [&](const Json& value) {
    if (!value.is_null()) return value.dump();
    const Json usual = default_of(field);
    return usual.is_null() ? std::string("its default")
                           : fmt::format("its default ({})", usual.dump());
  };
  fail_input(
      "{}: the checkpoint was made with {} = {}, this run has {}; resume with the same value, "
      "which "
      "is the run's own where none is given, or start a new run in another folder; if its model is "
      "the same, --init RUN/model.safetensors begins it with the weights of this one",
      place.string(), field, shown(found), shown(wanted));
}

Json json_of(const SplitValues& values) {
  Json json = Json::object();
  for (std::size_t s = 0; s < values.size(); ++s) json[kSplitNames[s]] = number_or_null(values[s]);
  return json;
}

Json json_of(const ClassCounts& counts) {
  Json json = {{"precision", Json::array()},
               {"recall", Json::array()},
               {"f1", Json::array()},
               {"support", Json::array()}};
  for (std::int64_t c = 0; c < counts.classes(); ++c) {
    json["precision"].push_back(counts.precision(c));
    json["recall"].push_back(counts.recall(c));
    json["f1"].push_back(counts.f1(c));
    json["support"].push_back(counts.support(c));
    if (!counts.has_confusion()) continue;
    Json row = Json::array();
    for (std::int64_t p = 0; p < counts.classes(); ++p) row.push_back(counts.confused(c, p));
    json["confusion"].push_back(std::move(row));
  }
  return json;
}

// Throws where two records of options differ, and names one that explains it. Some options are
// recorded only beside a value of another one, which then differs, too: so one that both records
// have comes first, and one that is recorded with its default last.
void require_same(const Json& found, const Json& wanted, const fs::path& place) {
  Json all = found.is_object() ? found : Json::object();
  all.update(wanted);
  std::optional<std::string> first;
  int least = 0;
  const auto value_in = [](const Json& record, const std::string& field) {
    return record.is_object() && record.contains(field) ? record.at(field) : Json(nullptr);
  };
  for (const auto& [field, value] : all.items()) {
    const Json old = value_in(found, field);
    const Json now = value_in(wanted, field);
    if (old == now) continue;
    const bool in_both = !old.is_null() && !now.is_null();
    const int rank = in_both ? 0 : value == default_of(field) ? 2 : 1;
    if (first && rank >= least) continue;
    first = field;
    least = rank;
  }
  if (first) fail_other_run(place, *first, value_in(found, *first), value_in(wanted, *first));
}

// K of a name "epoch-K.safetensors"; -1 for other names.
int epoch_of(const fs::path& file) {
  constexpr std::string_view kBegin = "epoch-";
  constexpr std::string_view kEnd = ".safetensors";
  const std::string name = file.filename().string();
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) ||
      name.size() <= kBegin.size() + kEnd.size()) {
    return -1;
  }
  const std::string_view number(name.data() + kBegin.size(),
                                name.size() - kBegin.size() - kEnd.size());
  return parse_number<int>(number, 0).value_or(-1);
}

// Whether we wrote it: what only has the name is not ours to count or to remove. A file that can't
// be read as one of ours any more is told from others by its metadata's name alone.
bool is_ours(const fs::path& file, const char* metadata) {
  const MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 256));
  return text.find(metadata) != std::string_view::npos;
}

void remove_if_ours(const fs::path& file, const char* metadata) {
  try {
    std::error_code error;
    if (is_ours(file, metadata)) fs::remove(file, error);
  } catch (const Error&) {
    // Another rank that sees this folder may have been first.
    if (is_there(file)) throw;
  }
}

struct Found {
  int epoch = 0;
  fs::path path;
};

std::vector<Found> all_checkpoints(const fs::path& run) {
  std::vector<Found> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint_folder(run), error)) {
    const int epoch = epoch_of(entry.path());
    if (epoch >= 0 && entry.is_regular_file(error)) found.push_back({epoch, entry.path()});
  }
  std::ranges::sort(found, {}, &Found::epoch);
  return found;
}

Json describe(const Checkpoint& checkpoint) {
  Json json = {{"epoch", checkpoint.epoch},
               {"best_epoch", checkpoint.best.epoch},
               {"best_metrics", to_json(checkpoint.best.metrics)},
               {"evaluations_since_best", checkpoint.best.evaluations_since},
               {"fingerprint", checkpoint.fingerprint}};
  if (!checkpoint.line.empty()) json["line"] = checkpoint.line;
  if (checkpoint.evaluation_is_due) json["evaluation_is_due"] = true;
  if (!checkpoint.rank_files.empty()) json[kRankFiles] = checkpoint.rank_files;
  if (checkpoint.last_before_switch > 0) json["last_before_switch"] = checkpoint.last_before_switch;
  if (checkpoint.learning_rate) json["learning_rate"] = *checkpoint.learning_rate;
  if (checkpoint.ranks > 0) {
    json["ranks"] = checkpoint.ranks;
    json[kGradientSum] = to_json(checkpoint.gradient_sum);
  }
  return json;
}

}  // namespace

Json to_json(const Metrics& metrics) {
  Json json = json_of(SplitValues{metrics.train, metrics.valid, metrics.test});
  if (!std::isnan(metrics.valid_loss)) json["valid_loss"] = metrics.valid_loss;
  for (const auto& [metric, splits] : metrics.all) json[to_string(metric)] = json_of(splits);
  return json;
}

Json classes_json(const Metrics& metrics) {
  Json json = Json::object();
  for (std::size_t s = 0; s < metrics.classes.size(); ++s) {
    json[kSplitNames[s]] = json_of(metrics.classes[s]);
  }
  return json;
}

std::string to_bytes(Checkpoint checkpoint) {
  SafetensorsFile file = std::move(checkpoint.state);
  for (auto& [name, tensor] : checkpoint.best.weights.tensors) {
    file.tensors[kBestPrefix + name] = std::move(tensor);
  }
  file.metadata[kMetadata] = describe(checkpoint).dump();
  return to_safetensors(file);
}

void write_checkpoint(const fs::path& run, const Checkpoint& checkpoint,
                      const std::function<void()>& may_write) {
  make_checkpoint_folder(run);
  const fs::path path =
      checkpoint_folder(run) / ("epoch-" + std::to_string(checkpoint.epoch) + ".safetensors");
  write_atomically(path, to_bytes(checkpoint), [&] {
    const std::vector<Found> others = all_checkpoints(run);
    if (may_write) may_write();
    if (!others.empty() && others.back().epoch > checkpoint.epoch) {
      fail_input(
          "{}: a newer checkpoint than that of epoch {}: another process has gone on with "
          "this run",
          others.back().path.string(), checkpoint.epoch);
    }
  });
  // Only now may the older ones go: this one too, if the process was stopped right before it got
  // its name, and another one has gone on meanwhile.
  remove_checkpoints_before(run, newest_checkpoint_epoch(run));
}

int newest_checkpoint_epoch(const fs::path& run) {
  const std::vector<Found> all = all_checkpoints(run);
  return all.empty() ? 0 : all.back().epoch;
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const std::vector<Found> all = all_checkpoints(run);
  return all.empty() ? std::nullopt : std::optional(all.back().path);
}

void remove_checkpoints_before(const fs::path& run, int epoch) {
  std::error_code error;
  for (const Found& found : all_checkpoints(run)) {
    if (found.epoch < epoch) remove_if_ours(found.path, kMetadata);
  }
  std::vector<fs::path> of_ranks;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint_folder(run), error)) {
    const int found = epoch_of_rank_file(entry.path());
    if (found >= 0 && found < epoch) of_ranks.push_back(entry.path());
  }
  for (const fs::path& file : of_ranks) remove_if_ours(file, kExchangeState);
}

Checkpoint parse_checkpoint(std::span<const std::byte> bytes, const fs::path& path,
                            const Json& fingerprint) {
  SafetensorsFile file = parse_safetensors(bytes, path);
  require_checksum(file, path);
  const auto found = file.metadata.find(kMetadata);
  if (found == file.metadata.end()) {
    fail_input("{}: its metadata has no '{}': not a checkpoint of this program", path.string(),
               kMetadata);
  }
  const Json json = parse_json(found->second, path.string() + ": metadata");
  Checkpoint checkpoint;
  checkpoint.epoch = json_field<int>(json, "epoch", path);
  // A snapshot's name says none.
  if (const int named = epoch_of(path); named >= 0 && checkpoint.epoch != named) {
    fail_input("{}: is the checkpoint of epoch {}; its name says another", path.string(),
               checkpoint.epoch);
  }
  checkpoint.fingerprint = json_field<Json>(json, "fingerprint", path);
  require_same(checkpoint.fingerprint, fingerprint, path);
  const std::string prefix = kBestPrefix;
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) {
      checkpoint.best.weights.tensors[name.substr(prefix.size())] = std::move(tensor);
    } else {
      checkpoint.state.tensors[name] = std::move(tensor);
    }
  }
  checkpoint.best.epoch = json_field<int>(json, "best_epoch", path);
  const Json metrics = json_field<Json>(json, "best_metrics", path);
  Metrics& best = checkpoint.best.metrics;
  best.train = number(metrics, "train", path);
  best.valid = number(metrics, "valid", path);
  best.test = number(metrics, "test", path);
  best.valid_loss = json_field_or<double>(metrics, "valid_loss", path, kUnknownMetric);
  for (const auto& [name, splits] : metrics.items()) {
    const auto metric = metric_named(name);
    if (metric) best.all.push_back({*metric, split_values(metrics, name, path)});
  }
  checkpoint.best.evaluations_since = json_field<int>(json, "evaluations_since_best", path);
  checkpoint.line = json_field_or<std::string>(json, "line", path, "");
  checkpoint.evaluation_is_due = json_field_or<bool>(json, "evaluation_is_due", path, false);
  checkpoint.rank_files =
      json_field_or<std::vector<std::string>>(json, kRankFiles, path, std::vector<std::string>());
  checkpoint.last_before_switch = json_field_or<int>(json, "last_before_switch", path, 0);
  checkpoint.learning_rate = optional_number(json, "learning_rate", path.string());
  checkpoint.ranks = json_field_or<int>(json, "ranks", path, 0);
  checkpoint.gradient_sum =
      parse_sum_route(json_field_or<Json>(json, kGradientSum, path, nullptr), checkpoint.ranks,
                      fmt::format("{}: field '{}'", path.string(), kGradientSum));
  return checkpoint;
}

}  // namespace atl
