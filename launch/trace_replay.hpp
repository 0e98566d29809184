// `atoll trace replay`.
#pragma once

#include <CLI/CLI.hpp>

namespace atl {

void add_trace_replay_command(CLI::App& trace);

}  // namespace atl
