// `atoll trace draw`.
#pragma once

#include <CLI/CLI.hpp>

namespace atl {

void add_trace_draw_command(CLI::App& trace);

}  // namespace atl
