// How fast pairs of ranks talk alone, how much all ranks of a host get through together, and what
// that takes from their computing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/exchange/timed_transfer.hpp"
#include "engine/placement/kernel_probe.hpp"
#include "engine/placement/topology.hpp"

namespace atl {

struct NetworkProbeOptions {
  // For all pairs together; those left then count as the measured ones between the same hosts.
  double pairs_seconds = 120;
  // A message is long enough if it takes so much longer than a quarter of it.
  double message_seconds = 0.06;
  std::int64_t largest_message = 16 << 20;  // bytes
  double progress_seconds = 4;              // of computing, most of it beside messages
};

// The time that messages take from the computing of one rank.
struct ProgressCost {
  double s_per_byte = 0;     // Device::progress_s_per_byte
  double polling_share = 0;  // Device::polling_share
};

// One measurement of a rank that computed.
struct ProgressSample {
  double work = 0;
  double computing_s = 0;  // posting messages included
  double processor_s = 0;  // of all threads of the process, in that time; 0: not known
  double waiting_s = 0;    // for what was under way still when computing ended
};

// From samples alone, beside a message that did not come, and beside `bytes` sent and received.
// Where computing has its processors for itself, what counts is how much longer it took, but not
// more than the processor time that messages needed; where a quota or other ranks share them, times
// vary with what others do, and the processor time counts, which takes longer the smaller the share
// is.
ProgressCost progress_cost(const ProgressSample& alone, const ProgressSample& polling,
                           const ProgressSample& beside, double bytes);

// All functions are collective, with the same result on every rank.
class NetworkProbe {
 public:
  // topology: says on which host every rank is, and gets what is measured. It and `rank` must
  // outlive the probe.
  NetworkProbe(const Rank& rank, Topology& topology, const NetworkProbeOptions& options)
      : rank_(rank), topology_(topology), options_(options) {}

  // Links: every ordered pair alone, one after another. Latency is half the time of 8 bytes there
  // and back, bytes_per_s the slope between two sizes, so that what a card lets pass at once after
  // a pause does not count.
  void measure_pairs();
  // Pairs that measure_pairs() had no time for.
  int skipped_pairs() const { return skipped_pairs_; }

  // Limits of hosts, from links: what left or reached each host per second while all ranks sent to
  // all ranks of other hosts, or what one pair reached alone if that is clearly more. No limit with
  // one host.
  void measure_hosts();

  // The time that messages take from this rank's computing: SpMM alone against SpMM beside a
  // message that does not come, and beside messages between all ranks. This rank's own result.
  ProgressCost measure_progress(KernelProbe& kernels, std::int64_t columns);

 private:
  using Sizes = std::vector<std::int64_t>;

  // Seconds from rank `from` sending `bytes` to rank `to` until that rank's answer of 8 bytes had
  // come; on rank `from`, else 0.
  double echo_seconds(TimedTransfer& transfer, int from, int to, std::int64_t bytes);
  Link measure_pair(TimedTransfer& transfer, int from, int to);
  void fill_skipped(const std::vector<bool>& measured);
  // By host: seconds until the last packet from it, and to it, had come.
  struct HostTimes {
    std::vector<double> sent;
    std::vector<double> received;
  };
  // All ranks send packets of `bytes` to all ranks of other hosts.
  HostTimes all_at_once(TimedTransfer& transfer, std::int64_t bytes);
  // Gives hosts what their best pair shows that they can do.
  void set_best_pairs();
  // About what packets of one byte between all pairs take (s/byte).
  double exchange_seconds(bool within_hosts) const;
  // Packets of `bytes` to every other rank, of other hosts only unless `within_hosts`.
  Sizes packets(std::int64_t bytes, bool within_hosts) const;
  double of_rank(double value, int rank);
  // Other ranks are threads of this process.
  bool shares_process();

  int ranks() const { return topology_.ranks(); }
  int host(int rank) const { return topology_.device(rank).host; }
  Sizes none() const { return Sizes(topology_.devices.size(), 0); }

  const Rank& rank_;
  Topology& topology_;
  NetworkProbeOptions options_;
  int skipped_pairs_ = 0;
};

// Groups the ranks of each host whose links are clearly faster, by two times at least, than those
// to the host's other ranks; a host without such groups is one island. Islands are numbered by
// their lowest rank.
void find_islands(Topology& topology);

}  // namespace atl
