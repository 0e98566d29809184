#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/elapsed.hpp"
#include "engine/placement/network_probe.hpp"

namespace atl {

namespace {

constexpr OperationLabel kProgressLabel{"progress measurement"};

// Of all threads of this process.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of `sample`, the seconds of computing that messages took.
double lost_seconds(const ProgressSample& alone, const ProgressSample& sample) {
  const double longer = sample.computing_s - sample.work * alone.computing_s / alone.work;
  if (alone.processor_s <= 0) return std::max(0.0, longer);
  const double needed =
      std::max(0.0, sample.processor_s - sample.work * alone.processor_s / alone.work);
  // As many processors as there are threads, or nearly.
  constexpr double kUnhindered = 0.9;
  const double processors = alone.processor_s / alone.computing_s;
  const bool unhindered = processors >= kUnhindered * std::ceil(processors);
  return unhindered ? std::clamp(longer, 0.0, needed) : needed / processors;
}

// Whose message `rank` waits for while the other one computes: ranks in pairs, of which first the
// lower waits, then (`second`) the higher. The last of an odd number waits for rank 0. -1: none.
int awaited_rank(int rank, int ranks, bool second) {
  const bool last_alone = ranks % 2 == 1 && rank == ranks - 1;
  if (last_alone) return second ? 0 : -1;
  if ((rank % 2 == 1) != second) return -1;
  return second ? rank - 1 : rank + 1;
}

}  // namespace

ProgressCost progress_cost(const ProgressSample& alone, const ProgressSample& polling,
                           const ProgressSample& beside, double bytes) {
  if (bytes <= 0 || alone.work <= 0) return {};
  ProgressCost cost;
  if (polling.computing_s > 0) {
    cost.polling_share = std::min(1.0, lost_seconds(alone, polling) / polling.computing_s);
  }
  // Of what travelled, the part that was not there when computing ended took nothing from it.
  const double moved = bytes * beside.computing_s / (beside.computing_s + beside.waiting_s);
  const double by_bytes = lost_seconds(alone, beside) - cost.polling_share * beside.computing_s;
  cost.s_per_byte = std::max(0.0, by_bytes / moved);
  return cost;
}

bool NetworkProbe::shares_process() {
  std::vector<std::int64_t> processes(host_of_.size(), 0);
  const auto rank = static_cast<std::size_t>(rank_.transport.rank());
  processes[rank] = ::getpid();
  rank_.transport.all_reduce(std::span(processes), kProgressLabel);
  for (std::size_t r = 0; r < processes.size(); ++r) {
    if (r != rank && host_of_[r] == host_of_[rank] && processes[r] == processes[rank]) return true;
  }
  return false;
}

ProgressCost NetworkProbe::measure_progress(const std::vector<Link>& links,
                                            const std::vector<Host>& hosts, KernelProbe& kernels,
                                            std::int64_t columns) {
  if (ranks() == 1) return {};
  // Segments in turn. A segment is as long as the usual period of a processor quota, see
  // measure_rate; packets take most of one.
  enum Segment { kAlone, kFirstWait, kSecondWait, kBeside };
  constexpr int kSegments = 4;
  constexpr double kSegment = 0.1;
  constexpr double kMessageShare = 0.7;
  const double segment = std::min(kSegment, options_.progress_seconds / kSegments);
  const auto rounds = static_cast<int>(options_.progress_seconds / (kSegments * segment));
  const double wanted = kMessageShare * segment / exchange_seconds(links, hosts, true);
  const auto bytes = std::max<std::int64_t>(
      1,
      static_cast<std::int64_t>(std::min(wanted, static_cast<double>(options_.largest_message))));
  const Sizes sizes = packets(bytes, true);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  TimedTransfer transfer(rank_, total, total);
  // A device computes on processors of its own, and a process of several ranks can't say whose
  // time it took.
  const bool processors_known = !shares_process() && rank_.backend.host_accessible();
  std::array<ProgressSample, kSegments> samples;
  for (int k = 0; k < kSegments * rounds; ++k) {
    const int kind = k % kSegments;
    ProgressSample& sample = samples[static_cast<std::size_t>(kind)];
    const bool second = kind == kSecondWait;
    Sizes sends(host_of_.size(), 0);
    Sizes receives(host_of_.size(), 0);
    if (kind == kBeside) sends = receives = sizes;
    if (kind == kFirstWait || kind == kSecondWait) {
      const int rank = rank_.transport.rank();
      for (int other = 0; other < ranks(); ++other) {
        const auto o = static_cast<std::size_t>(other);
        if (awaited_rank(rank, ranks(), second) == other) receives[o] = 1;
        if (awaited_rank(other, ranks(), second) == rank) sends[o] = 1;
      }
    }
    // A message that others wait for leaves when this rank has computed.
    const bool posts_late = kind != kBeside && std::ranges::count(receives, 1) == 0;
    rank_.transport.barrier(kProgressLabel);
    const double processor = processor_seconds();
    const SteadyTime start = steady_now();
    auto pending = posts_late ? nullptr : transfer.post(sends, receives);
    do {
      sample.work += kernels.spmm_step(columns);
      kernels.finish();
    } while (seconds_since(start) < segment);
    const double computed = seconds_since(start);
    if (processors_known) sample.processor_s += processor_seconds() - processor;
    if (posts_late) pending = transfer.post(sends, receives);
    pending->wait_all();
    sample.computing_s += computed;
    sample.waiting_s += seconds_since(start) - computed;
  }
  const ProgressSample& wait =
      samples[awaited_rank(rank_.transport.rank(), ranks(), false) >= 0 ? kFirstWait : kSecondWait];
  return progress_cost(samples[kAlone], wait, samples[kBeside],
                       2.0 * rounds * static_cast<double>(total));
}

}  // namespace atl
