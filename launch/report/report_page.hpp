// One self-contained HTML page that compares runs: no network, light and dark. A script shows the
// values under the pointer (chart_script.hpp); the page says the same without it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/report/run_records.hpp"
#include "launch/report/sequence_matrix.hpp"

namespace atl {

// A table of results, the mean and deviation of runs that differ in the seed alone, a remark where
// datasets differ, the options in which the runs differ, curves of scores and loss, epoch times,
// bytes sent, time per phase, and the options that all runs share. Charts and columns without data
// are left out; tables fit every window. Runs with equal names are told apart by their folders.
// sequence: of these runs, shown behind the results; none: they are not of a growing dataset.
std::string make_report(const std::vector<RunRecord>& runs,
                        const std::optional<SequenceMatrix>& sequence = {});

}  // namespace atl
