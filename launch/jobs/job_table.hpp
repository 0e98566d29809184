// Compares the modes of a list of jobs that have finished: means over seeds, and differences paired
// by seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "launch/jobs/job_list.hpp"
#include "launch/jobs/student_t.hpp"

namespace atl {

// Scores in percent, differences in percentage points; empty: too few jobs say it.
struct ModeResults {
  std::string mode;
  int runs = 0;  // finished ones
  int planned = 0;
  std::map<std::int64_t, double> tests = {};  // score by seed
  std::optional<double> test_mean = {};
  std::optional<double> test_deviation = {};
  MeanInterval difference = {};             // to the baseline, of seeds that both have
  int pairs = 0;                            // number of these
  std::optional<double> mb_per_epoch = {};  // mean over runs, of all ranks
  std::optional<double> epoch_ms = {};      // median over runs of their medians
};

struct GroupResults {
  std::string group;
  std::string dataset;
  std::string baseline = {};
  std::set<std::string> commits = {};  // of the programs that have run it
  std::vector<ModeResults> modes = {};
};

// By group, in the order of the list. out: the folder of the run folders. Throws Error{kOption}
// naming the modes if no group has the baseline.
std::vector<GroupResults> compare_jobs(std::span<const ListedJob> jobs,
                                       const std::filesystem::path& out,
                                       const std::string& baseline);

// A table per group.
std::string to_markdown(const std::vector<GroupResults>& groups);
Json to_json(const std::vector<GroupResults>& groups);

}  // namespace atl
