#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <string>

namespace atl::log {

void configure(int rank, int size, bool verbose) {
  auto logger = spdlog::get("atoll");
  if (!logger) {
    logger = spdlog::stderr_color_mt("atoll");
    spdlog::set_default_logger(logger);
  }
  const std::string prefix = size > 1 ? "rank " + std::to_string(rank) + ": " : "";
  logger->set_pattern("[%H:%M:%S] %^%l%$ " + prefix + "%v");
  logger->set_level(verbose     ? spdlog::level::debug
                    : rank == 0 ? spdlog::level::info
                                : spdlog::level::warn);
}

}  // namespace atl::log
