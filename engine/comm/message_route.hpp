// Decides from facts about all ranks whether NCCL can carry messages between their devices.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace atl {

// The device that one rank computes on.
struct RankDevice {
  std::string backend;            // Backend::name()
  std::string host;               // for messages
  std::string host_key;           // equal on two ranks if and only if they share a host
  std::string device_id;          // Backend::device_id()
  std::string nccl_version;       // of the library this program runs with; empty without
  std::string nccl_absence = {};  // why it runs without, as a clause
};
// A rank of this host and program.
RankDevice rank_device(const std::string& backend, const std::string& device_id);
// For the wire; the second throws Error{kCommunication} on anything but a result of the first.
std::string to_text(const RankDevice& device);
RankDevice rank_device_from_text(const std::string& text);

// Why NCCL can't serve these ranks (entry r is rank r), as a clause that names the ranks of the
// first obstacle; empty if it can.
std::string nccl_obstacle(std::span<const RankDevice> devices);

// The sentence for logs: `obstacle` and where messages travel instead ("through pinned memory and
// mpi"), or with which NCCL between how many devices.
std::string describe_route(std::span<const RankDevice> devices, const std::string& obstacle,
                           const std::string& transport);

}  // namespace atl
