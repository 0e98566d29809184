// A training that was recorded, from which a schedule learns how long others take.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/placement/traced_run.hpp"

namespace atl {

struct MeasuredRun {
  TracedRun traced;
  // All that it took beside its epochs and evaluations, from the start of its launcher to that
  // one's end. Only a run knows it that `atoll launch` has made, in one go.
  std::optional<double> start_s;
};

// Throws Error{kInput} naming the file and what is wrong or missing.
MeasuredRun read_measured_run(const std::filesystem::path& run);

}  // namespace atl
