#include "engine/comm/device_transport.hpp"

#include "base/error.hpp"
#include "engine/comm/message_route.hpp"
#include "engine/comm/rank_texts.hpp"

namespace atl {

namespace {

constexpr OperationLabel kChoice{.operation = "choice of how messages travel"};

struct Route {
  std::string obstacle;  // why not by NCCL; empty: by NCCL
  std::string reason;
};

// Rank 0 decides for all from the facts of all.
Route agree_on_route(const std::string& choice, Transport& transport, const Backend& backend) {
  std::vector<RankDevice> devices;
  const std::string own = to_text(rank_device(backend.name(), backend.device_id()));
  for (const std::string& text : gather_texts(transport, own, kChoice)) {
    devices.push_back(rank_device_from_text(text));
  }
  Route route;
  if (transport.rank() == 0) {
    route.obstacle = choice == "staging" ? fmt::format("--transport {} was given", transport.name())
                                         : nccl_obstacle(devices);
    route.reason = describe_route(devices, route.obstacle, transport.name());
  }
  share_text(transport, route.obstacle, kChoice);
  share_text(transport, route.reason, kChoice);
  return route;
}

}  // namespace

void DeviceTransport::all_to_all_v(const std::vector<std::span<const std::byte>>& sends,
                                   const std::vector<std::span<std::byte>>& receives,
                                   const OperationLabel& label) {
  const auto size = static_cast<std::size_t>(size_);
  const auto rank = static_cast<std::size_t>(rank_);
  ATOLL_ASSERT(sends.size() == size && receives.size() == size,
               "{} sends and {} receives for {} ranks", sends.size(), receives.size(), size);
  ATOLL_ASSERT(sends[rank].size() == receives[rank].size(),
               "rank {} sends {} bytes to itself and receives {}", rank, sends[rank].size(),
               receives[rank].size());
  do_all_to_all_v(sends, receives, label);
  std::int64_t bytes = 0;
  for (const auto& send : sends) bytes += std::ssize(send);
  add_bytes_sent(bytes);
}

void DeviceTransport::add_bytes_sent(std::int64_t bytes) {
  for (DeviceTransport* counting = this; counting != nullptr; counting = counting->parent_) {
    counting->bytes_sent_ += bytes;
  }
}

std::unique_ptr<DeviceTransport> DeviceTransport::split(Transport* group) {
  auto made = do_split(group);
  if (made) made->parent_ = this;
  return made;
}

DeviceTransportChoice make_device_transport(const std::string& choice, Transport& transport,
                                            Backend& backend) {
  ATOLL_ASSERT(choice == "auto" || choice == "nccl" || choice == "staging", "'{}'", choice);
  if (transport.size() == 1 && choice != "nccl") {
    return {nullptr, "there is one rank and so no message"};
  }
  Route route = agree_on_route(choice, transport, backend);
  if (choice == "nccl" && !route.obstacle.empty()) {
    fail_option("--transport nccl: {}; use auto or {}", route.obstacle, transport.name());
  }
  DeviceTransportChoice result{nullptr, std::move(route.reason)};
  if (!route.obstacle.empty()) return result;
  std::string id;
  if (transport.rank() == 0) {
    const std::vector<std::byte> made = nccl_unique_id();
    id.assign(reinterpret_cast<const char*>(made.data()), made.size());
  }
  share_text(transport, id, kChoice);
  result.transport = make_nccl_transport(transport, backend, std::as_bytes(std::span(id)));
  return result;
}

}  // namespace atl
