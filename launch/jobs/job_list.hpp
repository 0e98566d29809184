// Lists of training jobs: groups of options that are multiplied with seeds and modes, read from
// TOML or JSON (docs/experiments.md). `atoll jobs` and `atoll schedule` read the same ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

// Arrivals, and what a start takes, are no longer than this: 30 years.
inline constexpr double kMostListSeconds = 1e9;

// Needs of a job beside its options, for a schedule. `atoll jobs` takes no notice of them.
struct JobNeeds {
  double arrival_s = 0;  // after the list's beginning
  int least_ranks = 1;
  std::optional<int> most_ranks;  // none: as many as there are
  double priority = 1;
};

struct ListedJob {
  std::string group;
  std::string mode;
  std::int64_t seed = 0;
  std::vector<std::string> launcher;  // words in front of the program; often none
  std::string dataset;
  std::map<std::string, std::optional<std::string>> options;  // without value: a flag
  JobNeeds needs;

  std::string title() const;                                             // "cora, 8 bits, seed 3"
  std::filesystem::path folder(const std::filesystem::path& out) const;  // OUT/GROUP/MODE/seed-N
  // That which decides its result: neither the program nor where the run folder is.
  Json identity() const;
  // The words of `atoll train`, "train" first, without --run-dir.
  std::vector<std::string> train_words() const;
  // The same behind the launcher and `program`.
  std::vector<std::string> command_words(const std::string& program) const;
};

// In the order in which they run. Throws Error{kOption} naming the file, the group, the key, the
// value found and those allowed; only_groups: all if empty.
std::vector<ListedJob> read_job_list(const std::filesystem::path& path,
                                     std::span<const std::string> only_groups = {});

}  // namespace atl
