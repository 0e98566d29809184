// --help on one screen for commands that have more options than fit one; --help-all shows them all.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace atl {

// Gives every subcommand the flag --help-all, which ends parsing as --help does and then sets
// `all`. Call after all are declared.
void add_help_all(CLI::App& program, bool& all);

// The output of --help for `command`, if it has a screen of its own; else "".
std::string short_help(const CLI::App& command);

}  // namespace atl
