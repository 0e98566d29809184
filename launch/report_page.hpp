// One self-contained HTML page that compares runs: no scripts, no network, light and dark.
#pragma once

#include <string>
#include <vector>

#include "launch/run_records.hpp"

namespace atl {

// A table of results, the options in which the runs differ, curves of scores and loss, epoch times,
// bytes sent, time per phase, and the options that all runs share. Charts and columns without data
// are left out; tables fit every window. Runs with equal names are told apart by their folders.
std::string make_report(const std::vector<RunRecord>& runs);

}  // namespace atl
