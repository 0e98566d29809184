#include "engine/comm/message_route.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/json.hpp"
#include "engine/comm/device_transport.hpp"
#include "engine/comm/rank_list.hpp"

namespace atl {

namespace {

std::vector<int> ranks_with(std::span<const RankDevice> devices,
                            const std::function<bool(const RankDevice&)>& holds) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (holds(devices[r])) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

bool on_cuda(const RankDevice& device) { return device.backend == "cuda"; }

std::string missing_device(std::span<const RankDevice> devices) {
  const auto without = ranks_with(devices, [](const auto& device) { return !on_cuda(device); });
  if (without.empty()) return {};
  if (without.size() == devices.size()) return "no rank computes on a CUDA device";
  std::set<std::string> backends;
  for (const int r : without) backends.insert(devices[static_cast<std::size_t>(r)].backend);
  return fmt::format("{} {} on no CUDA device (backend {})", rank_list(without),
                     without.size() == 1 ? "computes" : "compute", fmt::join(backends, ", "));
}

std::string shared_device(std::span<const RankDevice> devices) {
  for (const RankDevice& device : devices) {
    const auto sharing = ranks_with(devices, [&](const RankDevice& other) {
      return other.host_key == device.host_key && other.device_id == device.device_id;
    });
    if (sharing.size() > 1) {
      return fmt::format("{} share device {} of host {}, which NCCL refuses", rank_list(sharing),
                         device.device_id, device.host);
    }
  }
  return {};
}

std::string missing_library(std::span<const RankDevice> devices) {
  const auto without = ranks_with(devices, [](const auto& d) { return d.nccl_version.empty(); });
  if (!without.empty()) {
    const std::string& why = devices[static_cast<std::size_t>(without.front())].nccl_absence;
    if (without.size() == devices.size()) return why;
    return fmt::format("{} {} no NCCL ({})", rank_list(without),
                       without.size() == 1 ? "has" : "have", why);
  }
  const std::string& version = devices.front().nccl_version;
  const auto different =
      ranks_with(devices, [&](const auto& device) { return device.nccl_version != version; });
  if (different.empty()) return {};
  return fmt::format("rank 0 has NCCL {}, but rank {} has {}", version, different.front(),
                     devices[static_cast<std::size_t>(different.front())].nccl_version);
}

}  // namespace

RankDevice rank_device(const std::string& backend, const std::string& device_id) {
  RankDevice device{backend, host_name(), host_key(), device_id, {}};
  if (!on_cuda(device)) return device;  // nor is the library loaded for others
  device.nccl_absence = nccl_absence();
  device.nccl_version = nccl_version();
  return device;
}

std::string to_text(const RankDevice& device) {
  // A host's name may hold any byte.
  return Json{device.backend,   device.host,         device.host_key,
              device.device_id, device.nccl_version, device.nccl_absence}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankDevice rank_device_from_text(const std::string& text) {
  Json json;
  try {
    json = parse_json(text, "a rank");
  } catch (const Error&) {  // said below
  }
  if (!json.is_array() || json.size() != 6 ||
      !std::ranges::all_of(json, [](const Json& field) { return field.is_string(); })) {
    fail(ErrorKind::kCommunication,
         "a rank describes its device in {} bytes that are no description: do all ranks run the "
         "same program?",
         text.size());
  }
  return {json[0], json[1], json[2], json[3], json[4], json[5]};
}

std::string nccl_obstacle(std::span<const RankDevice> devices) {
  std::string obstacle = missing_device(devices);
  if (obstacle.empty()) obstacle = missing_library(devices);
  if (obstacle.empty()) obstacle = shared_device(devices);
  return obstacle;
}

std::string describe_route(std::span<const RankDevice> devices, const std::string& obstacle,
                           const std::string& transport) {
  if (!obstacle.empty()) {
    const char* memory = std::ranges::any_of(devices, on_cuda) ? "pinned" : "host";
    return fmt::format("{}: messages travel through {} memory and {}", obstacle, memory, transport);
  }
  std::set<std::string> hosts;
  for (const RankDevice& device : devices) hosts.insert(device.host_key);
  return fmt::format("messages travel by NCCL {} between {} device{} of {} host{}",
                     devices.front().nccl_version, devices.size(), devices.size() == 1 ? "" : "s",
                     hosts.size(), hosts.size() == 1 ? "" : "s");
}

}  // namespace atl
