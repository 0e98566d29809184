// When the jobs of a schedule that is run for real will end, as it is simulated after each
// decision: for `atoll schedule status`.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "engine/placement/job_schedule.hpp"

namespace atl {

// Simulates what is to come and keeps it below `out`. policy: see make_job_policy; search is too
// dear for this, and marginal stands for it. Nothing is kept where hosts are lost that a job needs.
void keep_expected_ends(const ScheduleSetting& setting, const std::string& policy,
                        const JobPolicyOptions& options, const std::filesystem::path& out);

// By job, on the schedule's clock; none where it isn't known.
std::vector<std::optional<double>> read_expected_ends(const std::filesystem::path& out,
                                                      std::size_t jobs);

}  // namespace atl
