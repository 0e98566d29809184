#include "launch/command.hpp"
// Removed once all subcommands exist.
namespace atl {
__attribute__((weak)) void add_info_command(CLI::App&) {}
__attribute__((weak)) void add_predict_command(CLI::App&) {}
__attribute__((weak)) void add_bench_command(CLI::App&) {}
}  // namespace atl
