#include "launch/jobs/job_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/shell_words.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

// In the log: an attempt begins with this and its command.
constexpr const char* kCommandMark = "$ ";
// In the record.
constexpr const char* kDatasetChecksum = "dataset_checksum";

// The JSON object in `file`; empty if it isn't there or is none.
std::optional<Json> object_in(const fs::path& file) {
  if (!is_there(file)) return std::nullopt;
  try {
    Json object = read_json(file);
    if (object.is_object()) return object;
  } catch (const Error&) {  // cut short, say
  }
  return std::nullopt;
}

// The job that a record describes, as far as it decides the result. Throws Error{kInput}.
ListedJob recorded_job(const Json& record, const fs::path& file) {
  ListedJob job;
  job.launcher = json_field<std::vector<std::string>>(record, "launcher", file);
  job.dataset = json_field<std::string>(record, "dataset", file);
  job.seed = json_field<std::int64_t>(record, "seed", file);
  const Json options = json_field<Json>(record, "options", file);
  if (!options.is_object()) {
    fail_input("{}: field 'options' has the wrong type: found {}", file.string(), shown(options));
  }
  for (const auto& [option, value] : options.items()) {
    if (value == true) {
      job.options[option] = std::nullopt;
    } else {
      job.options[option] = json_field<std::string>(options, option.c_str(), file);
    }
  }
  return job;
}

// The text under a key; empty if there is none.
std::string text_in(const std::optional<Json>& object, const char* key) {
  if (!object || !object->contains(key) || !object->at(key).is_string()) return "";
  return object->at(key).get<std::string>();
}

// Every run's summary has it. Null: there are no test nodes, say.
bool has_test(const Json& summary) {
  const auto test = summary.find("test");
  return test != summary.end() && (test->is_number() || test->is_null());
}

// Whether the line is one of that level: of the log, "[21:20:56] warning ...", or of a program,
// "atoll: error: ...".
bool has_level(const std::string& line, const std::string& level) {
  return line.find(level + ": ") != std::string::npos ||
         line.find("] " + level + " ") != std::string::npos;
}

bool are_alike(const ListedJob& a, const ListedJob& b) {
  return a.launcher == b.launcher && a.dataset == b.dataset && a.seed == b.seed &&
         a.options == b.options;
}

void require_none(const JobFolder& folder, const std::optional<std::string>& difference) {
  if (!difference) return;
  fail_option(
      "{}: {}; use 'atoll jobs run --replace' to run again what has changed, or choose another "
      "--out",
      folder.path().string(), *difference);
}

}  // namespace

std::string command_text(const ListedJob& job) { return shell_line(job.command_words("atoll")); }

const std::string& DatasetChecksums::of(const std::string& dataset) {
  const auto [place, is_new] = known_.emplace(dataset, "");
  if (is_new) place->second = text_in(object_in(fs::path(dataset) / "dataset.json"), "checksum");
  return place->second;
}

std::optional<Json> JobFolder::summary() const { return object_in(path_ / kSummaryName); }

std::optional<Json> JobFolder::result() const {
  std::optional<Json> found = summary();
  const bool counts = found && has_test(*found) && found->value("diverged", Json(false)) != true;
  return counts ? std::move(found) : std::nullopt;
}

void JobFolder::warn_of_damage() const {
  const std::optional<Json> found = summary();
  if (!found || has_test(*found)) return;
  const auto test = found->find("test");
  log::warn(
      "{}: field 'test': found {}; allowed are a number and null, so it is not that of a run, and "
      "the job counts as unfinished",
      (path_ / kSummaryName).string(), test == found->end() ? "nothing" : shown(*test));
}

std::optional<double> JobFolder::seconds() const {
  const std::optional<Json> record = object_in(path_ / kJobRecordName);
  const bool known = record && record->contains("seconds") && record->at("seconds").is_number();
  return known ? std::optional(record->at("seconds").get<double>()) : std::nullopt;
}

bool JobFolder::has_checkpoint() const { return newest_checkpoint_epoch(path_) > 0; }

std::optional<std::string> JobFolder::other_command() const {
  const fs::path file = path_ / kJobRecordName;
  const std::optional<Json> record = object_in(file);
  if (!record) {
    if (!is_there(path_) || fs::is_empty(path_)) return std::nullopt;
    fail_option(
        "{}: holds files but no {}, so no list of jobs has made it; remove it or choose another "
        "--out",
        path_.string(), kJobRecordName);
  }
  try {
    const ListedJob recorded = recorded_job(*record, file);
    if (are_alike(recorded, *job_)) return std::nullopt;
    return command_text(recorded);
  } catch (const Error& error) {
    fail_option("{}; the record is damaged: remove the folder", error.what());
  }
}

std::string JobFolder::dataset_checksum() const {
  return text_in(object_in(path_ / kJobRecordName), kDatasetChecksum);
}

std::optional<std::string> JobFolder::difference_of_commands() const {
  const std::optional<std::string> other = other_command();
  if (!other) return std::nullopt;
  return fmt::format("holds a run of '{}', but the list says now '{}'", *other,
                     command_text(*job_));
}

std::optional<std::string> JobFolder::difference(DatasetChecksums& checksums) const {
  if (auto commands = difference_of_commands()) return commands;
  // A run that left nothing to go on from starts anew with what is there now.
  const std::string recorded = dataset_checksum();
  if (recorded.empty() || (!has_checkpoint() && !result())) return std::nullopt;
  const std::string& now = checksums.of(job_->dataset);
  if (now.empty() || now == recorded) return std::nullopt;
  return fmt::format(
      "holds a run on the dataset {} with the checksum {}, but the dataset in this folder has now "
      "the checksum {}",
      job_->dataset, recorded, now);
}

void JobFolder::prepare() {
  try {
    make_or_clear();
  } catch (const fs::filesystem_error& error) {
    fail_input("{}: can't be made or cleared: {}", path_.string(), error.code().message());
  }
}

void JobFolder::make_or_clear() {
  const fs::path file = path_ / kJobRecordName;
  if (!is_there(file)) {
    // A folder that is there has its record, whenever this process is killed.
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::create_directories(path_.parent_path());
    AtomicFolder folder(path_);
    write_json(folder.path() / kJobRecordName, new_record());
    folder.commit();
    return;
  }
  if (has_checkpoint()) return;
  write_json(file, new_record());  // the dataset may be another one
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const fs::path name = entry.path().filename();
    if (name != kJobRecordName && name != kJobLogName) fs::remove_all(entry.path());
  }
}

Json JobFolder::new_record() const {
  Json record = job_->identity();
  const std::string checksum = DatasetChecksums().of(job_->dataset);
  if (!checksum.empty()) record[kDatasetChecksum] = checksum;
  return record;
}

Descriptor JobFolder::open_log(std::span<const std::string> command) const {
  const fs::path file = path_ / kJobLogName;
  Descriptor log(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const std::string line = kCommandMark + shell_line(command) + "\n";
  if (!log || ::write(log.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fail_input("{}: can't be written: {}", file.string(), std::strerror(errno));
  }
  return log;
}

void JobFolder::keep_seconds(double seconds) {
  Json record = job_->identity();
  const std::string checksum = dataset_checksum();  // of its beginning
  if (!checksum.empty()) record[kDatasetChecksum] = checksum;
  record["seconds"] = seconds;
  write_json(path_ / kJobRecordName, record);
}

void JobFolder::drop_summary() { fs::remove(path_ / kSummaryName); }

std::string JobFolder::last_line() const {
  const std::string log = read_text(path_ / kJobLogName);
  const auto says_something = [](unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; };
  std::string last, warning;
  for (std::size_t end = log.size(); end > 0;) {
    const std::size_t newline = log.rfind('\n', end - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string line = log.substr(begin, end - begin);
    if (line.starts_with(kCommandMark)) break;
    if (has_level(line, "error")) return line;
    if (warning.empty() && has_level(line, "warning")) warning = line;
    if (last.empty() && std::ranges::any_of(line, says_something)) last = line;
    end = newline == std::string::npos ? 0 : newline;
  }
  return warning.empty() ? last : warning;
}

void require_same_commands(std::span<const ListedJob> jobs, const fs::path& out) {
  for (const ListedJob& job : jobs) {
    const JobFolder folder(job, out);
    require_none(folder, folder.difference_of_commands());
  }
}

void require_unchanged(std::span<const ListedJob> jobs, const fs::path& out) {
  DatasetChecksums checksums;
  for (const ListedJob& job : jobs) {
    const JobFolder folder(job, out);
    require_none(folder, folder.difference(checksums));
  }
}

}  // namespace atl
