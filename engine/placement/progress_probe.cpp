#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/placement/network_probe.hpp"

namespace atl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr OperationLabel kLabel{"progress measurement"};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of all threads of this process.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double progress_cost(const ProgressSample& alone, const ProgressSample& beside, double bytes) {
  if (bytes <= 0 || alone.work <= 0) return 0;
  // Of what travelled, the part that was not there when computing ended took nothing from it.
  const double moved = bytes * beside.computing_s / (beside.computing_s + beside.waiting_s);
  const double longer = beside.computing_s - beside.work * alone.computing_s / alone.work;
  if (alone.processor_s <= 0) return std::max(0.0, longer / moved);
  const double needed =
      std::max(0.0, beside.processor_s - beside.work * alone.processor_s / alone.work);
  // As many processors as there are threads, or nearly.
  constexpr double kUnhindered = 0.9;
  const double processors = alone.processor_s / alone.computing_s;
  const bool unhindered = processors >= kUnhindered * std::ceil(processors);
  return (unhindered ? std::clamp(longer, 0.0, needed) : needed) / moved;
}

bool NetworkProbe::shares_process() {
  std::vector<std::int64_t> processes(host_of_.size(), 0);
  const auto rank = static_cast<std::size_t>(transport_.rank());
  processes[rank] = ::getpid();
  transport_.all_reduce(std::span(processes), kLabel);
  for (std::size_t r = 0; r < processes.size(); ++r) {
    if (r != rank && host_of_[r] == host_of_[rank] && processes[r] == processes[rank]) return true;
  }
  return false;
}

double NetworkProbe::measure_progress(const std::vector<Link>& links,
                                      const std::vector<Host>& hosts, KernelProbe& kernels,
                                      std::int64_t columns) {
  if (ranks() == 1) return 0;
  // Segments without and with messages in turn. A segment is as long as the usual period of a
  // processor quota, see measure_rate; packets take most of one.
  constexpr double kSegment = 0.1;
  constexpr double kMessageShare = 0.7;
  const double segment = std::min(kSegment, options_.progress_seconds / 2);
  const auto rounds = static_cast<int>(options_.progress_seconds / (2 * segment));
  const double wanted = kMessageShare * segment / exchange_seconds(links, hosts, true);
  const auto bytes = std::max<std::int64_t>(
      1,
      static_cast<std::int64_t>(std::min(wanted, static_cast<double>(options_.largest_message))));
  const Sizes sizes = packets(bytes, true);
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  TimedTransfer transfer(route_, total, total);
  // A device computes on processors of its own, and a process of several ranks can't say whose
  // time it took.
  const bool processors_known = !shares_process() && route_.backend.host_accessible();
  std::array<ProgressSample, 2> samples;  // alone, beside messages
  for (int k = 0; k < 2 * rounds; ++k) {
    ProgressSample& sample = samples[static_cast<std::size_t>(k % 2)];
    transport_.barrier(kLabel);
    const double processor = processor_seconds();
    const Clock::time_point start = Clock::now();
    const auto pending = k % 2 == 1 ? transfer.post(sizes, sizes) : nullptr;
    do {
      sample.work += kernels.spmm_step(columns);
      kernels.finish();
    } while (seconds_since(start) < segment);
    const double computed = seconds_since(start);
    if (processors_known) sample.processor_s += processor_seconds() - processor;
    if (pending != nullptr) pending->wait_all();
    sample.computing_s += computed;
    sample.waiting_s += seconds_since(start) - computed;
  }
  return progress_cost(samples[0], samples[1], 2.0 * rounds * static_cast<double>(total));
}

}  // namespace atl
