// The transports that exist.
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "engine/comm/transport.hpp"

namespace atl {

namespace {

void run_local(const TransportOptions& options, const std::function<void(Transport&)>& body) {
  const int launched = launcher_info().size;
  if (launched > 1) {
    fail_option(
        "--transport local runs all ranks in one process, but a launcher started {} processes; "
        "start one, or use --transport mpi",
        launched);
  }
  run_local_ranks(options.ranks == 0 ? 1 : options.ranks, options.timeout_seconds, body);
}

void run_mpi(const TransportOptions& options, const std::function<void(Transport&)>& body) {
  const int launched = launcher_info().size;
  if (options.ranks != 0 && options.ranks != launched) {
    fail_option("--ranks {} does not fit --transport mpi: the launcher started {} process{}",
                options.ranks, launched, launched == 1 ? "" : "es");
  }
  const auto transport = make_mpi_transport(options.timeout_seconds);
  body(*transport);
}

}  // namespace

std::vector<std::string> transport_names() { return {"auto", "local", "mpi", "nccl"}; }

void run_ranks(const TransportOptions& options, const std::function<void(Transport&)>& body) {
  if (options.ranks < 0) fail_option("--ranks {}: must be at least 1", options.ranks);
  // NCCL needs one of the others beside it.
  const bool automatic = options.name == "auto" || options.name == "nccl";
  const std::string name = automatic ? (launched_by_mpi() ? "mpi" : "local") : options.name;
  if (name == "local") return run_local(options, body);
  if (name == "mpi") return run_mpi(options, body);
  fail_option("--transport {}: unknown; use one of {}", options.name,
              fmt::join(transport_names(), ", "));
}

}  // namespace atl
