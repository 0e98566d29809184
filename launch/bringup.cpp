#include "launch/command.hpp"
// Removed once all subcommands exist.
namespace atl {
__attribute__((weak)) void add_import_command(CLI::App&) {}
__attribute__((weak)) void add_generate_command(CLI::App&) {}
__attribute__((weak)) void add_info_command(CLI::App&) {}
__attribute__((weak)) void add_partition_command(CLI::App&) {}
__attribute__((weak)) void add_train_command(CLI::App&) {}
__attribute__((weak)) void add_predict_command(CLI::App&) {}
__attribute__((weak)) void add_bench_command(CLI::App&) {}
__attribute__((weak)) void add_doctor_command(CLI::App&) {}
__attribute__((weak)) void add_report_command(CLI::App&) {}
}  // namespace atl
#ifdef ATOLL_NO_COMM_YET
#include "engine/comm/transport.hpp"
namespace atl {
LauncherInfo launcher_info() { return {}; }
}  // namespace atl
#endif
#include "kernels/registry.hpp"
namespace atl {
__attribute__((weak)) int cuda_device_count(std::string& why) {
  why = "this build has no CUDA part";
  return 0;
}
}  // namespace atl
