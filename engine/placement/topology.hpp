// The machine as a plan sees it: how fast each rank computes, how fast each pair of ranks talks,
// and what they share while they do. Measured by `atoll topology probe`, or written by hand for a
// cluster that isn't there yet (docs/placement.md has the file format).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

// A rate that depends on how many columns the matrix has.
struct RateAtColumns {
  std::int64_t columns = 0;
  double per_s = 0;
};

// The device that one rank computes on.
struct Device {
  int host = 0;              // index into Topology::hosts
  int island = 0;            // ranks that share fast links have equal numbers, counted from 0
  std::string kind = "cpu";  // "cpu" or "cuda"
  double memory_bytes = 0;   // that this rank may use
  // Both ascending by columns, at least one entry. Bytes of rows read, one per edge, plus rows
  // written, f32; floating-point operations of [rows, columns] x [columns, columns].
  std::vector<RateAtColumns> spmm_bytes_per_s;
  std::vector<RateAtColumns> gemm_flop_per_s;
  double elementwise_bytes_per_s = 0;  // read and written, by ReLU, dropout, norm, Adam
  double quantize_bytes_per_s = 0;     // of f32 rows packed at less than 32 bits
  // Time that a byte on its way takes from the computing of the sender and, again, of the receiver
  // (s/byte); 0 where transfers move by themselves.
  double progress_s_per_byte = 0;
  // The share of computing that polling takes while any message of this rank is under way, 0 to 1.
  double polling_share = 0;
};

// A network card or a memory bus: what all ranks of one host share towards other hosts.
struct Host {
  std::string name;
  double send_bytes_per_s = 0;  // infinity: no limit of its own
  double receive_bytes_per_s = 0;
};

// One ordered pair of ranks, alone: a message of n bytes takes latency_s + n / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 0;
  bool operator==(const Link&) const = default;
};

struct Topology {
  std::vector<Device> devices;  // by rank
  std::vector<Host> hosts;
  std::vector<Link> links;  // [from * ranks() + to]; the diagonal is not used

  int ranks() const { return static_cast<int>(devices.size()); }
  const Device& device(int rank) const { return devices[static_cast<std::size_t>(rank)]; }
  const Host& host_of(int rank) const { return hosts[static_cast<std::size_t>(device(rank).host)]; }
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * devices.size() + static_cast<std::size_t>(to);
  }
  const Link& link(int from, int to) const { return links[pair(from, to)]; }
  Link& link(int from, int to) { return links[pair(from, to)]; }
  // Calls body(from, to) for every ordered pair of ranks.
  template <typename Body>
  void for_each_pair(const Body& body) const {
    for (int from = 0; from < ranks(); ++from) {
      for (int to = 0; to < ranks(); ++to) {
        if (from != to) body(from, to);
      }
    }
  }
};

// Bytes over the network cards of hosts.
class CardLoad {
 public:
  explicit CardLoad(const Topology& topology)
      : topology_(topology), sent_(topology.hosts.size(), 0), received_(sent_) {}

  // False, and nothing counted, inside a host.
  bool add(int from, int to, double bytes) {
    const auto sender = static_cast<std::size_t>(topology_.device(from).host);
    const auto receiver = static_cast<std::size_t>(topology_.device(to).host);
    if (sender == receiver) return false;
    sent_[sender] += bytes;
    received_[receiver] += bytes;
    return true;
  }
  // Until a host's card has moved all.
  double sent_s(std::size_t host) const {
    return sent_[host] / topology_.hosts[host].send_bytes_per_s;
  }
  double received_s(std::size_t host) const {
    return received_[host] / topology_.hosts[host].receive_bytes_per_s;
  }
  // Until all cards have.
  double seconds() const {
    double most = 0;
    for (std::size_t h = 0; h < sent_.size(); ++h) {
      most = std::max({most, sent_s(h), received_s(h)});
    }
    return most;
  }

 private:
  const Topology& topology_;
  std::vector<double> sent_;  // by host
  std::vector<double> received_;
};

// The kind of link between a pair of ranks. An island may span hosts: its ranks then talk over its
// links.
enum class LinkClass : std::uint8_t { kWithinIsland, kWithinHost, kBetweenHosts };
LinkClass link_class(const Topology& topology, int from, int to);

// Ranks by their host or island, ascending, up to the last of these that has any.
std::vector<std::vector<int>> ranks_by(const Topology& topology, int Device::*place);

// Rate at `columns`: between two measured numbers of columns by linear interpolation, outside of
// them the nearest.
double rate_at(const std::vector<RateAtColumns>& rates, std::int64_t columns);

// Throws Error{kInput} naming `place`, the field, the value found and those allowed, also for a
// machine that can't work: links without bandwidth, ranks that can't reach each other.
Topology parse_topology(const Json& json, const std::string& place);
// JSON that parse_topology reads: numbers that came from a file come back to the last bit, islands
// numbered by their lowest rank too.
Json to_json(const Topology& topology);
// Throws Error{kInput} as parse_topology does.
Topology read_topology(const std::filesystem::path& path);

// A changed machine: "cards=0.5x", "card(NAME)=2x" (a host's network card and its links to other
// hosts), "bw(0,1)=2x" (the link from rank 0 to rank 1), "speed(2)=0.5x" (all a rank computes).
// Throws Error{kOption} naming what is wrong and what is allowed.
void change_topology(Topology& topology, const std::string& change);

}  // namespace atl
