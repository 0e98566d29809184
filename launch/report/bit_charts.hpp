// Charts of the report that show how wide the messages of a run were.
#pragma once

#include <string>

#include "launch/report/run_records.hpp"

namespace atl {

// The share of the messages at each width over the epochs: of all channels, and, where the run had
// several widths, per layer and direction. "" for a run without assignments.
std::string draw_bits(const RunRecord& run, const std::string& name);

}  // namespace atl
