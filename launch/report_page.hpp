// One self-contained HTML page that compares runs: no scripts, no network, light and dark.
#pragma once

#include <string>
#include <vector>

#include "launch/run_records.hpp"

namespace atl {

// Curves of loss and scores, epoch times, bytes sent, time per phase and a table of the summaries.
// Charts without data are left out. Runs with equal names are told apart by their folders.
std::string make_report(const std::vector<RunRecord>& runs);

}  // namespace atl
