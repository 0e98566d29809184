// Checks of option values whose messages name the value found and the values allowed.
#pragma once

#include <CLI/CLI.hpp>

namespace atl {

CLI::Validator positive_number();      // a finite number above 0
CLI::Validator non_negative_number();  // a finite number of at least 0
CLI::Validator share_number();         // 0 to 1
CLI::Validator seed_number();          // a whole number from 0 to 2^64 - 1
CLI::Validator duration();             // "45s", "90m", "1h30m"
CLI::Validator epochs_or_duration();   // a whole number, or a duration
CLI::Validator backend_list();         // names of backends separated by commas

}  // namespace atl
