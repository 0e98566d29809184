// Logging: human-readable lines on standard error, one logger per process, prefixed with the rank
// when there is more than one. Whatever a terminal would obey is escaped.
#pragma once

#include <spdlog/spdlog.h>

#include <functional>
#include <string>
#include <string_view>

namespace atl::log {

// Lines of ranks other than 0 are shown from level warn on, unless `verbose`; activities
// (base/progress.hpp) on rank 0 only.
void configure(int rank, int size, bool verbose);

// Warnings and errors only: standard error shows neither what is done nor how it goes on.
void silence();

// From now on lines go there instead of standard error, without time and level, from any thread;
// standard error is left alone: no activity and no line of progress is shown.
using Receiver = std::function<void(spdlog::level::level_enum, const std::string&)>;
void send_to(Receiver receiver);

using spdlog::debug;
using spdlog::info;
using spdlog::log;
using spdlog::warn;

}  // namespace atl::log
