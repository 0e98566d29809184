#include "engine/training/host_share.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/checksum.hpp"
#include "base/control_groups.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "base/memory.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/exchange/gradient_steps.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace {

// The need of the ranks that share a memory.
struct Share {
  std::int64_t need = 0;
  std::int64_t available = 0;
  int ranks = 0;
  bool fits() const { return need <= available; }
};

// place: names the memory that this rank shares with others. Collective.
Share share_of(Transport& transport, const std::string& place, std::int64_t bytes_needed,
               std::int64_t available) {
  const auto mine = static_cast<std::int64_t>(checksum(place));
  const std::vector<std::int64_t> places = values_of_ranks(transport, mine, {"memory list"});
  const std::vector<std::int64_t> needs = values_of_ranks(transport, bytes_needed, {"memory need"});
  Share share{.available = available};
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r] != mine) continue;
    share.need += needs[r];
    ++share.ranks;
  }
  return share;
}

// Throws TooLittleMemory on every rank if a share does not fit. Collective.
template <typename Message>
void require(Transport& transport, const Share& share, const Message& message) {
  try {
    on_all_ranks(transport, [&] {
      if (!share.fits()) fail(ErrorKind::kMemory, "{}", message());
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
    throw TooLittleMemory(error.what());
  }
}

}  // namespace

int cores_per_rank(Transport& transport) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int cores = 1;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cores = CPU_COUNT(&allowed);
  std::string place = host_key();
  place.append(reinterpret_cast<const char*>(&allowed), sizeof(allowed));
  const auto mine = static_cast<std::int64_t>(checksum(place));
  int sharers = 0;
  for (const std::int64_t other : values_of_ranks(transport, mine, {"core list"})) {
    sharers += other == mine;
  }
  const double quota = std::ceil(processor_quota());
  if (quota < cores) cores = static_cast<int>(quota);
  return std::max(1, cores / sharers);
}

std::vector<std::int64_t> hosts_of_ranks(Transport& transport) {
  return values_of_ranks(transport, static_cast<std::int64_t>(checksum(host_key())),
                         {"hosts of ranks"});
}

SumRoute sum_route_of_hosts(Transport& transport) {
  return route_by_places(hosts_of_ranks(transport));
}

int device_rank_on_host(Transport& transport, bool uses_device) {
  const std::string place = host_key() + (uses_device ? " device" : " none");
  const auto mine = static_cast<std::int64_t>(checksum(place));
  const std::vector<std::int64_t> hosts = values_of_ranks(transport, mine, {"host list"});
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + transport.rank(), mine));
}

void require_memory(Transport& transport, Backend& backend, std::int64_t bytes_needed) {
  const bool on_host = backend.host_accessible();
  const std::string place =
      on_host ? fmt::format("host {}", host_name())
              : fmt::format("device {} of host {}", backend.device_id(), host_name());
  const Share share = share_of(transport, host_key() + backend.device_id(), bytes_needed,
                               backend.available_bytes());
  require(transport, share, [&] {
    return fmt::format(
        "{}: its {} ranks need {} for model, activations and buffers, {} is available, {} is "
        "missing; use more {}, a smaller --hidden or fewer --layers",
        place, share.ranks, format_bytes(share.need), format_bytes(share.available),
        format_bytes(share.need - share.available), on_host ? "hosts" : "devices");
  });
}

void require_pinned_memory(Transport& transport, std::int64_t bytes_needed) {
  const Share share = share_of(transport, host_key(), bytes_needed, available_memory_bytes());
  require(transport, share, [&] {
    return fmt::format(
        "host {}: its {} ranks need {} of pinned memory for values that wait for backward, {} is "
        "available, {} is missing; use --offload off, more hosts, or a smaller --hidden",
        host_name(), share.ranks, format_bytes(share.need), format_bytes(share.available),
        format_bytes(share.need - share.available));
  });
}

bool has_pinned_memory(Transport& transport, std::int64_t bytes_needed) {
  const Share share = share_of(transport, host_key(), bytes_needed, available_memory_bytes());
  return sum_over_ranks<std::int64_t>(transport, share.fits() ? 0 : 1, {"pinned memory"}) == 0;
}

}  // namespace atl
