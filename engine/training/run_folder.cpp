#include "engine/training/run_folder.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checksum.hpp"
#include "base/files.hpp"
#include "base/interrupt.hpp"
#include "base/json_lines.hpp"
#include "base/log.hpp"
#include "engine/training/agreement.hpp"
#include "kernels/wire.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kSnapshots = "snapshots.json";
constexpr const char* kConfigMark = "# Written by atoll train, checksum ";
// Files that a run writes beside config.toml and checkpoints.
constexpr std::array kOwnFiles = {kMetrics,           kSummaryName,       "model.safetensors",
                                  "calibration.json", "trace.json",       "trace-merged.json",
                                  "dataflow.json",    kModelFileName,     kSnapshots,
                                  kEventsName,        kResolvedConfigName};

bool is_name_of_run(const std::string& name) {
  return std::ranges::find(kOwnFiles, name) != kOwnFiles.end() || name == kConfigName ||
         name == "checkpoint";
}

std::string sealed(const std::string& config) {
  return kConfigMark + to_hex(checksum(config)) + "\n" + config;
}

std::string read_if_there(const fs::path& path) {
  return is_there(path) ? read_text(path) : std::string();
}

// As it was written: not made by hand, and not edited.
bool is_untouched(const std::string& text) {
  const std::size_t line = text.find('\n');
  return text.starts_with(kConfigMark) && line != std::string::npos &&
         text == sealed(text.substr(line + 1));
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// Throws where a run that is resumed could not go on with a line: figures that are no numbers,
// widths that no message has.
void check_figures(const Json& line, const std::string& place) {
  for (const char* field : {"loss", "epoch_ms", "exposed_comm_ms", "bytes_sent"}) {
    const std::optional<double> value = optional_number(line, field, place);
    if (std::abs(value.value_or(0)) > 1e18) {
      fail_input("{}: '{}' is {}; allowed are numbers up to 1e18 and null", place, field, *value);
    }
  }
  const auto assignment = json_field_or<Json>(line, "assignment", place, nullptr);
  if (assignment.is_null()) return;
  json_field<double>(assignment, "mean_bits", place);
  for (const Json& channel : json_field<Json>(assignment, "channels", place)) {
    json_field<int>(channel, "layer", place);
    const auto bits = json_field<Json>(channel, "bits", place);
    for (const auto& [width, count] : bits.items()) {
      const bool known = std::ranges::any_of(
          kWireBits, [&width = width](int value) { return width == std::to_string(value); });
      if (!known || !count.is_number()) {
        fail_input("{}: 'bits' gives {} messages of width '{}'; widths are {}", place, shown(count),
                   width, fmt::join(kWireBits, ", "));
      }
    }
  }
}

// With a valid `id`.
Json read_snapshots_json(const fs::path& file) {
  Json json = parse_json(read_text(file), file.string());
  const auto id = json_field<std::string>(json, "id", file);
  if (!is_snapshot_id(id)) {
    fail_input("{}: 'id' is {}; allowed are 32 hex digits", file.string(), id);
  }
  return json;
}

}  // namespace

Json to_json(const ExchangeReport& report) {
  Json result = Json::object();
  if (report.choice) {
    result.update({{"solver_ms", report.choice->solver_ms}, {"gap", report.choice->gap}});
  }
  result["mean_bits"] = report.mean_bits;
  result["channels"] = Json::array();
  for (const ExchangeReport::Messages& messages : report.channels) {
    Json bits = Json::object();
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      bits[std::to_string(kWireBits[w])] = messages.rows_of_width[w];
    }
    Json entry = {
        {"layer", messages.channel.layer}, {"direction", to_string(messages.channel.direction)},
        {"columns", messages.columns},     {"rows", messages.rows},
        {"bytes", messages.bytes},         {"bits", bits}};
    if (messages.as_rows) entry["as_rows"] = true;
    for (const auto& [period, rows] : messages.rows_of_period) {
      entry["periods"][std::to_string(period)] = rows;
    }
    if (report.choice) {
      const auto& times = report.choice->channels.at(messages.channel.slot());
      entry.update({{"wire_ms", times.wire_ms}, {"central_ms", times.central_ms}});
      if (times.error > 0) entry["error"] = times.error;
    }
    result["channels"].push_back(std::move(entry));
  }
  return result;
}

std::string metrics_line(const EpochResult& result, const Metrics* metrics) {
  Json line = {{"epoch", result.epoch}, {"loss", result.loss}};
  if (metrics != nullptr) line.update(to_json(*metrics));
  line["epoch_ms"] = result.epoch_ms;
  line["phases"] = result.phase_ms;
  line["exposed_comm_ms"] = result.exposed_comm_ms;
  line["bytes_sent"] = result.bytes_sent;
  if (result.exchange) line["assignment"] = to_json(*result.exchange);
  if (result.cut) {
    line["cut"] = result.cut->number;
    line["edges_inside"] = result.cut->edges_inside;
    if (result.cut->ms) line["cut_ms"] = *result.cut->ms;
  }
  if (result.blocks) {
    line["steps"] = result.blocks->steps;
    line["edges_kept"] = result.blocks->edges_kept;
  }
  if (result.last_before_switch) line[kLastBeforeSwitch] = true;
  if (result.learning_rate) line["lr"] = *result.learning_rate;
  return line.dump();
}

bool holds_run(const fs::path& folder) {
  const fs::path config = folder / kConfigName;
  return (is_there(config) && read_text(config).starts_with(kConfigMark)) ||
         newest_checkpoint(folder).has_value();
}

std::string snapshot_id_of(const fs::path& folder) {
  const fs::path file = folder / kSnapshots;
  return is_there(file) ? read_snapshots_json(file).at("id").get<std::string>() : std::string();
}

RunFolder::RunFolder(const fs::path& path, RunStart start, bool take_over,
                     const fs::path& config_file)
    : path_(path) {
  std::error_code error;
  check_outside_datasets(path_, "--run-dir");
  if (is_there(path_) && !fs::is_directory(path_, error)) {
    fail_option("--run-dir {}: is no folder", path_.string());
  }
  if (is_there(path_)) check_contents(start, config_file);
  made_here_ = fs::create_directories(path_, error) || start == RunStart::kNew;
  if (error) fail_option("--run-dir {}: can't create: {}", path_.string(), error.message());
  try {
    lock_ = std::make_unique<RunLock>(path_, take_over);
    check_contents(start, config_file);  // nobody changes it any more
  } catch (...) {
    lock_.reset();
    remove_if_unused();
    throw;
  }
  if (made_here_) remove_on_signal(path_);
}

RunFolder::~RunFolder() {
  if (metrics_ != nullptr) std::fclose(metrics_);
  lock_.reset();
  remove_if_unused();
}

void RunFolder::remove_if_unused() noexcept {
  if (!made_here_ || begun_) return;
  std::error_code ignored;  // a folder with something in it stays
  fs::remove(path_, ignored);
  fs::remove(path_.parent_path(), ignored);
  keep_on_signal(path_);
}

void RunFolder::check_contents(RunStart start, const fs::path& config_file) const {
  const bool run = holds_run(path_);
  if (run && start == RunStart::kFresh) {
    fail_option(
        "--run-dir {}: holds a run already; add --resume to go on with it or --overwrite to start "
        "anew, or choose another folder",
        path_.string());
  }
  if (run) return;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    const bool half_written = name.find(".tmp-") != std::string::npos;
    if (name == RunLock::kFileName || half_written || same_file(entry.path(), config_file)) {
      continue;
    }
    if (start == RunStart::kOverwrite && !is_name_of_run(name)) continue;
    fail_option("--run-dir {}: holds {} and no run; choose a new or empty folder", path_.string(),
                name);
  }
  if (error) fail_option("--run-dir {}: can't read: {}", path_.string(), error.message());
}

void check_result_file(const fs::path& path, std::string_view option) {
  check_output_file(path, option);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool is_checkpoint = folder.filename() == "checkpoint";
  const fs::path run = is_checkpoint ? folder / ".." : folder;
  if (!(is_checkpoint || is_name_of_run(path.filename().string())) || !holds_run(run)) return;
  fail_option("{} {}: is a file of the run in {}; choose another name", option, path.string(),
              folder.string());
}

fs::path RunFolder::checkpoint() const { return newest_checkpoint(path_).value_or(fs::path()); }

void RunFolder::remove_run() const {
  std::error_code error;
  if (!holds_run(path_)) return;
  remove_checkpoints_before(path_, std::numeric_limits<int>::max());
  fs::remove(path_ / "checkpoint", error);  // only if nothing else is in it
  for (const char* name : kOwnFiles) fs::remove(path_ / name, error);
}

void RunFolder::begin(const RunConfig& config, int resumed_epoch, const std::string& last_line,
                      const Json& late_metrics) {
  if (!active()) return;
  require_held();
  if (resumed_epoch > 0) recall_metrics(resumed_epoch, last_line);  // before anything is changed
  begun_ = true;
  keep_on_signal(path_);
  // A checkpoint that was cut short may have been of an epoch that is no multiple for this run.
  for (const fs::path& folder : {path_, path_ / "checkpoint"}) remove_all_stale_temporaries(folder);
  keep_snapshot_record();  // before lines of metrics go
  if (resumed_epoch == 0) remove_run();
  // A kill may have come between the newest one and the removal of the one before it.
  remove_checkpoints_before(path_, newest_checkpoint_epoch(path_));
  write_config(config);
  if (std::ssize(earlier_) != resumed_epoch) {
    log::warn("{}: has lines of {} of the {} epochs before; charts and medians lack the others",
              (path_ / kMetrics).string(), earlier_.size(), resumed_epoch);
  }
  if (!earlier_.empty() && earlier_.back().at("epoch") == resumed_epoch) {
    earlier_.back().update(late_metrics);
  }
  std::string lines;
  for (const Json& line : earlier_) lines += line.dump() + "\n";
  write(kMetrics, lines);
  keep_snapshot_record();
  // It says that a run is complete.
  std::error_code error;
  fs::remove(path_ / kSummaryName, error);
  open_metrics();
}

void RunFolder::write_config(const RunConfig& config) const {
  const fs::path file = path_ / kConfigName;
  const std::string found = read_if_there(file);
  if (!found.empty() && !is_untouched(found) && found != config.given) {
    fs::path kept = path_ / "config.original.toml";
    for (int k = 2; is_there(kept); ++k) kept = path_ / fmt::format("config.original-{}.toml", k);
    std::error_code error;
    fs::rename(file, kept, error);
    if (error) fail_input("{}: can't rename: {}", file.string(), error.message());
    log::info("{}: was written or edited by hand; kept as {}", file.string(),
              kept.filename().string());
  }
  // First what makes it the folder of a run: what a full disk or a kill leaves here goes on then.
  write(kConfigName, sealed(config.given));
  write(kResolvedConfigName, config.resolved);
}

// Epochs after the checkpoint are trained again. A kill may have cut the last line off; any other
// damage is somebody's to look at.
void RunFolder::recall_metrics(int last_epoch, const std::string& last_line) {
  const fs::path file = path_ / kMetrics;
  int before = 0;
  std::vector<JsonLine> lines;
  if (is_there(file)) lines = read_json_lines(file).lines;
  for (auto& [line, place] : lines) {
    const int epoch = json_field<int>(line, "epoch", place);
    if (epoch <= before) {
      fail_input("{}: 'epoch' is {} after {}; allowed are rising numbers", place, epoch, before);
    }
    before = epoch;
    check_figures(line, place);
    if (epoch <= last_epoch) earlier_.push_back(std::move(line));
  }
  // Another rank may have been faster with its snapshot than rank 0 with its line.
  if (before < last_epoch && !last_line.empty()) {
    earlier_.push_back(parse_json(last_line, "the line of a snapshot"));
  }
}

void RunFolder::open_metrics() {
  const fs::path file = path_ / kMetrics;
  metrics_ = std::fopen(file.c_str(), "ab");
  if (metrics_ == nullptr) fail_input("{}: can't write: {}", file.string(), std::strerror(errno));
}

void RunFolder::require_held() const {
  if (active()) lock_->require_held();
}

void RunFolder::append(const std::string& line) {
  if (!active()) return;
  require_held();
  const std::string text = line + "\n";
  const fs::path file = path_ / kMetrics;
  struct stat status {};
  if (::fstat(::fileno(metrics_), &status) != 0 || status.st_nlink == 0) {
    require_held();  // it may have been taken over since
    fail_input("{}: was removed or replaced while the run went on", file.string());
  }
  if (std::fwrite(text.data(), 1, text.size(), metrics_) != text.size() ||
      std::fflush(metrics_) != 0) {
    fail_input("{}: can't write: {}", file.string(), std::strerror(errno));
  }
}

void RunFolder::write(const std::string& name, std::string_view bytes) const {
  if (active()) write_atomically(path_ / name, bytes, [this] { require_held(); });
}

void RunFolder::keep_checkpoint(const Checkpoint& checkpoint) const {
  if (!active()) return;
  // The lines of the epochs before it must not be younger than the checkpoint after a power cut.
  if (metrics_ != nullptr) ::fsync(::fileno(metrics_));
  write_checkpoint(path_, checkpoint, [this] { require_held(); });
}

void RunFolder::keep_snapshot_record() const {
  if (snapshots_ == nullptr) return;
  const Json record = {{"id", snapshots_->id()}, {"set_backs", snapshots_->set_backs()}};
  write(kSnapshots, record.dump() + "\n");
}

RunFolder::SnapshotRecord RunFolder::snapshot_record() const {
  const fs::path file = path_ / kSnapshots;
  if (!is_there(file)) return {};
  const Json json = read_snapshots_json(file);
  return {json.at("id").get<std::string>(),
          json_field_or<std::vector<int>>(json, "set_backs", file, {})};
}

int RunFolder::last_line() const {
  const fs::path file = path_ / kMetrics;
  if (!is_there(file)) return 0;
  const JsonLines found = read_json_lines(file);
  if (found.lines.empty()) return 0;
  return json_field<int>(found.lines.back().object, "epoch", found.lines.back().place);
}

int RunFolder::open_snapshots(Transport& transport, const TrainOptions& options) {
  const bool resumes = options.start == RunStart::kResume;
  std::string id;
  SnapshotRecord old;
  // Epochs of the checkpoint and of the last line, and how often the run was set back.
  std::array<int, 3> known{};
  on_all_ranks(transport, [&] {
    if (!active()) return;
    old = snapshot_record();
    if (options.snapshot_every > 0) id = make_snapshot_id();
    if (resumes && !old.id.empty()) id = old.id;
    if (!resumes) return;
    known = {newest_checkpoint_epoch(path_), last_line(), static_cast<int>(old.set_backs.size())};
  });
  share_text(transport, id, {"name of the snapshots"});
  share_text(transport, old.id, {"name of the snapshots"});
  transport.broadcast(std::as_writable_bytes(std::span(known)), 0, {"epochs of the run"});
  const auto [checkpoint, last, set_backs] = known;
  if (!old.id.empty() && old.id != id) {
    Snapshots(transport, options.snapshot_dir, old.id).remove();
  }
  if (id.empty()) return checkpoint;
  old.set_backs.resize(static_cast<std::size_t>(set_backs));
  if (set_backs > 0) {
    transport.broadcast(std::as_writable_bytes(std::span(old.set_backs)), 0, {"epochs of the run"});
  }
  snapshots_ = std::make_unique<Snapshots>(transport, options.snapshot_dir, id, old.set_backs);
  if (!resumes) return checkpoint;
  snapshots_->find();
  const auto& found = snapshots_->found();
  from_snapshot_ = found && found->epoch > checkpoint;
  const int epoch = from_snapshot_ ? found->epoch : checkpoint;
  if (last > epoch) snapshots_->set_back(epoch);
  return epoch;
}

std::unique_ptr<RunFolder> open_run_folder(Transport& transport, TrainOptions& options,
                                           const fs::path& config_file) {
  auto folder = std::make_unique<RunFolder>();
  options.resume = false;
  if (options.run_dir.empty()) return folder;
  on_all_ranks(transport, [&] {
    if (transport.rank() != 0) return;
    folder =
        std::make_unique<RunFolder>(options.run_dir, options.start, options.take_over, config_file);
  });
  options.resume = folder->open_snapshots(transport, options) > 0;
  if (options.start == RunStart::kResume && !options.resume && folder->active()) {
    log::warn("--resume: {} holds no checkpoint yet; the run starts from the beginning",
              options.run_dir.string());
  }
  return folder;
}

}  // namespace atl
