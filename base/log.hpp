// Logging: human-readable lines on standard error, one logger per process, prefixed with the rank
// when there is more than one. Whatever a terminal would obey is escaped.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace atl::log {

// Lines of ranks other than 0 are shown from level warn on, unless `verbose`; activities
// (base/progress.hpp) on rank 0 only.
void configure(int rank, int size, bool verbose);

using spdlog::debug;
using spdlog::info;
using spdlog::warn;

}  // namespace atl::log
