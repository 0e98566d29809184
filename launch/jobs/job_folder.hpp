// The run folder of a job of a list: what was asked for there, and what earlier runs of the list
// have left.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "launch/jobs/job_list.hpp"

namespace atl {

// In a run folder: what was asked for, and once that is done what it took; the output of every
// attempt.
inline constexpr const char* kJobRecordName = "job.json";
inline constexpr const char* kJobLogName = "log.txt";

// The checksums of datasets, as their dataset.json states them, each read once.
class DatasetChecksums {
 public:
  // Empty where the folder is not there, or somebody else has made it and states none.
  const std::string& of(const std::string& dataset);

 private:
  std::map<std::string, std::string> known_;
};

class JobFolder {
 public:
  // `job` must outlive it. out: the folder of the whole list.
  JobFolder(const ListedJob& job, const std::filesystem::path& out)
      : job_(&job), path_(job.folder(out)) {}

  const std::filesystem::path& path() const { return path_; }
  // The measurements of the finished job; empty if it has not finished. See also result().
  std::optional<Json> summary() const;
  // Those that count as the job's result: empty, too, if the run has diverged, or if they are not
  // those of a run.
  std::optional<Json> result() const;
  // Says of measurements that are not those of a run why they are no result.
  void warn_of_damage() const;
  // The seconds that the job took, where it was not interrupted and has finished.
  std::optional<double> seconds() const;
  bool has_checkpoint() const;
  // The command of the run in the folder, where that is not the job's. Throws Error{kOption} naming
  // the folder if no list of jobs has made it, or its record is damaged.
  std::optional<std::string> other_command() const;
  // The checksum that the job's dataset had when the job began; empty where no record has it, as
  // those of earlier versions.
  std::string dataset_checksum() const;
  // As a sentence whose subject is the folder: which other command the run in it has, and which the
  // list. Empty and throws as other_command().
  std::optional<std::string> difference_of_commands() const;
  // The same, also of runs on other content of the dataset that have left a result or a checkpoint.
  std::optional<std::string> difference(DatasetChecksums& checksums) const;

  // Makes the folder. Without a checkpoint, nothing of a broken run is kept but its output. Throws
  // Error{kInput} naming the folder if that can't be.
  void prepare();
  // The log of the folder that is there, open for an attempt, whose command it has as a headline.
  Descriptor open_log(std::span<const std::string> command) const;
  // So long took a job that has ended well and was not interrupted.
  void keep_seconds(double seconds);
  // Whatever the job has said, it counts as unfinished.
  void drop_summary();
  // The line in the output of its last attempt that says most about an end: the last error, or else
  // the last warning, or else the last line that says something.
  std::string last_line() const;

 private:
  void make_or_clear();
  Json new_record() const;

  const ListedJob* job_;
  std::filesystem::path path_;
};

// The job as a command line.
std::string command_text(const ListedJob& job);

// Throws Error{kOption} naming the first job whose folder holds a run of another command, and both
// commands; see also JobFolder::other_command().
void require_same_commands(std::span<const ListedJob> jobs, const std::filesystem::path& out);
// Throws Error{kOption} naming the first job whose folder holds a run of another command or on
// other content of the dataset, and what differs; see also JobFolder::difference().
void require_unchanged(std::span<const ListedJob> jobs, const std::filesystem::path& out);

}  // namespace atl
