// `atoll plan train-policy`, a subcommand of `atoll plan`.
#pragma once

#include <CLI/CLI.hpp>

namespace atl {

void add_train_policy_command(CLI::App& plan);

}  // namespace atl
