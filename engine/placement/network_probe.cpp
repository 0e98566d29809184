#include "engine/placement/network_probe.hpp"

#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/elapsed.hpp"
#include "base/median.hpp"

namespace atl {

namespace {

constexpr OperationLabel kNetworkLabel{"network measurement"};
constexpr std::int64_t kAnswerBytes = 8;
// Rates are taken between a message and one of a quarter of its bytes.
constexpr std::int64_t kRatio = 4;

std::int64_t sum(const std::vector<std::int64_t>& sizes) {
  return std::reduce(sizes.begin(), sizes.end());
}

// Bytes per second of what a long transfer has more than a short one; where that is lost in noise,
// of the whole long one.
double rate_between(double bytes, double seconds, double fewer_bytes, double fewer_seconds) {
  const double all = bytes / std::max(seconds, 1e-9);
  const double slope = (bytes - fewer_bytes) / std::max(seconds - fewer_seconds, 1e-12);
  // Start-up costs time, so the slope is the faster of the two, but not by much for long messages.
  constexpr double kPlausible = 2;
  return slope >= all && slope <= kPlausible * all ? slope : all;
}

}  // namespace

double NetworkProbe::of_rank(double value, int rank) {
  rank_.transport.broadcast(std::as_writable_bytes(std::span(&value, 1)), rank, kNetworkLabel);
  return value;
}

double NetworkProbe::echo_seconds(TimedTransfer& transfer, int from, int to, std::int64_t bytes) {
  const int rank = rank_.transport.rank();
  Sizes there = none();
  Sizes back = none();
  const int peer = rank == from ? to : from;
  if (rank == from || rank == to) {
    there[static_cast<std::size_t>(peer)] = bytes;
    back[static_cast<std::size_t>(peer)] = kAnswerBytes;
  }
  const SteadyTime start = steady_now();
  transfer.post(rank == from ? there : none(), rank == to ? there : none())->wait_all();
  transfer.post(rank == to ? back : none(), rank == from ? back : none())->wait_all();
  return rank == from ? seconds_since(start) : 0;
}

Link NetworkProbe::measure_pair(TimedTransfer& transfer, int from, int to) {
  constexpr int kEchoes = 21;
  constexpr int kMessages = 3;
  constexpr std::int64_t kFirstMessage = 256 << 10;
  rank_.transport.barrier(kNetworkLabel);
  std::vector<double> echoes;
  for (int i = 0; i < kEchoes; ++i) {
    echoes.push_back(echo_seconds(transfer, from, to, kAnswerBytes));
  }
  std::int64_t bytes = std::min(kFirstMessage, options_.largest_message);
  double before = median(echoes);
  for (;;) {
    const double took = of_rank(echo_seconds(transfer, from, to, bytes), from);
    const bool enough = took - before >= options_.message_seconds;
    // A quarter of the message must be more than a card lets pass at once.
    if ((enough && bytes > kFirstMessage) || bytes >= options_.largest_message) break;
    bytes = std::min(bytes * kRatio, options_.largest_message);
    before = took;
  }
  std::vector<double> longs;
  std::vector<double> shorts;
  for (int i = 0; i < kMessages; ++i) {
    longs.push_back(echo_seconds(transfer, from, to, bytes));
    shorts.push_back(echo_seconds(transfer, from, to, bytes / kRatio));
  }
  // The best of each size: nothing else had the processors then, and neither can be too short.
  Link link{median(echoes) / 2,
            rate_between(static_cast<double>(bytes), std::ranges::min(longs),
                         static_cast<double>(bytes / kRatio), std::ranges::min(shorts))};
  rank_.transport.broadcast(std::as_writable_bytes(std::span(&link, 1)), from, kNetworkLabel);
  return link;
}

void NetworkProbe::measure_pairs() {
  topology_.links.assign(topology_.devices.size() * topology_.devices.size(), {});
  std::vector<bool> measured(topology_.links.size(), false);
  TimedTransfer transfer(rank_, options_.largest_message + kAnswerBytes,
                         options_.largest_message + kAnswerBytes);
  // Distances in an order that soon has near and far ones, and every rank in each of them.
  const int distances = ranks() - 1;
  int stride = std::max(1, static_cast<int>(0.618 * distances));
  while (distances > 0 && std::gcd(stride, distances) != 1) ++stride;
  const SteadyTime start = steady_now();
  double spent = 0;
  for (int i = 0; i < distances; ++i) {
    const int distance = 1 + static_cast<int>(std::int64_t{i} * stride % distances);
    for (int from = 0; from < ranks(); ++from) {
      if (spent >= options_.pairs_seconds && (i > 0 || from > 0)) {
        ++skipped_pairs_;
        continue;
      }
      const int to = (from + distance) % ranks();
      topology_.link(from, to) = measure_pair(transfer, from, to);
      measured[topology_.pair(from, to)] = true;
      spent = of_rank(seconds_since(start), 0);
    }
  }
  if (skipped_pairs_ > 0) fill_skipped(measured);
}

void NetworkProbe::fill_skipped(const std::vector<bool>& measured) {
  struct Sum {
    Link link;
    double count = 0;
  };
  // The likeness of pairs, from the most alike to any at all.
  constexpr int kLevels = 3;
  using Key = std::array<int, 3>;
  const auto key = [&](int level, int from, int to) -> Key {
    if (level == 0) return {level, host(from), host(to)};
    return {level, level == 1 && host(from) == host(to), 0};
  };
  std::map<Key, Sum> sums;
  topology_.for_each_pair([&](int from, int to) {
    if (!measured[topology_.pair(from, to)]) return;
    const Link& link = topology_.link(from, to);
    for (int level = 0; level < kLevels; ++level) {
      Sum& sum = sums[key(level, from, to)];
      sum.link.latency_s += link.latency_s;
      sum.link.bytes_per_s += link.bytes_per_s;
      sum.count += 1;
    }
  });
  topology_.for_each_pair([&](int from, int to) {
    if (measured[topology_.pair(from, to)]) return;
    for (int level = 0; level < kLevels; ++level) {
      const auto found = sums.find(key(level, from, to));
      if (found == sums.end()) continue;
      const auto& [link, count] = found->second;
      topology_.link(from, to) = {link.latency_s / count, link.bytes_per_s / count};
      break;
    }
  });
}

NetworkProbe::Sizes NetworkProbe::packets(std::int64_t bytes, bool within_hosts) const {
  Sizes sizes(topology_.devices.size(), bytes);
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool same_host = host(rank) == host(rank_.transport.rank());
    if (rank == rank_.transport.rank() || (same_host && !within_hosts)) {
      sizes[static_cast<std::size_t>(rank)] = 0;
    }
  }
  return sizes;
}

double NetworkProbe::exchange_seconds(bool within_hosts) const {
  CardLoad cards(topology_);
  std::vector<double> inside(topology_.devices.size(), 0.0);  // by sender
  double longest = 0;
  topology_.for_each_pair([&](int from, int to) {
    const double seconds = 1 / topology_.link(from, to).bytes_per_s;
    if (cards.add(from, to, 1)) {
      longest = std::max(longest, seconds);
    } else if (within_hosts) {
      inside[static_cast<std::size_t>(from)] += seconds;
    }
  });
  return std::max({longest, std::ranges::max(inside), cards.seconds()});
}

void NetworkProbe::set_best_pairs() {
  for (Host& host : topology_.hosts) host.send_bytes_per_s = host.receive_bytes_per_s = 0;
  topology_.for_each_pair([&](int from, int to) {
    if (host(from) == host(to)) return;
    const double rate = topology_.link(from, to).bytes_per_s;
    double& send = topology_.hosts[static_cast<std::size_t>(host(from))].send_bytes_per_s;
    double& receive = topology_.hosts[static_cast<std::size_t>(host(to))].receive_bytes_per_s;
    send = std::max(send, rate);
    receive = std::max(receive, rate);
  });
}

NetworkProbe::HostTimes NetworkProbe::all_at_once(TimedTransfer& transfer, std::int64_t bytes) {
  const Sizes sizes = packets(bytes, false);
  const std::vector<double> arrivals = transfer.time(sizes, sizes);
  std::vector<double> seconds(topology_.links.size(), 0.0);
  for (int from = 0; from < ranks(); ++from) {
    seconds[topology_.pair(from, rank_.transport.rank())] =
        arrivals[static_cast<std::size_t>(from)];
  }
  rank_.transport.all_reduce(std::span(seconds), kNetworkLabel);
  const std::vector<double> zeros(topology_.hosts.size(), 0.0);
  HostTimes last{zeros, zeros};
  topology_.for_each_pair([&](int from, int to) {
    double& sent = last.sent[static_cast<std::size_t>(host(from))];
    double& received = last.received[static_cast<std::size_t>(host(to))];
    sent = std::max(sent, seconds[topology_.pair(from, to)]);
    received = std::max(received, seconds[topology_.pair(from, to)]);
  });
  return last;
}

void NetworkProbe::measure_hosts() {
  std::vector<Host>& hosts = topology_.hosts;
  if (hosts.size() == 1) {
    hosts[0].send_bytes_per_s = std::numeric_limits<double>::infinity();
    hosts[0].receive_bytes_per_s = std::numeric_limits<double>::infinity();
    return;
  }
  set_best_pairs();                // what packets should be as large as
  constexpr double kMessages = 5;  // as long as a message between two: the slope has less noise
  constexpr std::int64_t kLeast = 16 << 10;
  constexpr int kRepetitions = 3;
  const double wanted = kMessages * options_.message_seconds / exchange_seconds(false);
  const std::int64_t bytes =
      std::min(options_.largest_message,
               std::max(kLeast, static_cast<std::int64_t>(std::min(
                                    wanted, static_cast<double>(options_.largest_message)))));
  const std::int64_t total = sum(packets(bytes, false));
  TimedTransfer transfer(rank_, total, total);
  std::vector<HostTimes> longs;
  std::vector<HostTimes> shorts;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    longs.push_back(all_at_once(transfer, bytes));
    shorts.push_back(all_at_once(transfer, bytes / kRatio));
  }
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto inside = std::ranges::count(topology_.devices, static_cast<int>(h), &Device::host);
    const auto pairs = static_cast<double>(inside * (ranks() - inside));
    const auto limit = [&](std::vector<double> HostTimes::*times, double best_pair) {
      const auto middle = [&](const std::vector<HostTimes>& samples) {
        std::vector<double> seconds;
        for (const HostTimes& sample : samples) seconds.push_back((sample.*times)[h]);
        return median(seconds);
      };
      const double rate = rate_between(pairs * static_cast<double>(bytes), middle(longs),
                                       pairs * static_cast<double>(bytes / kRatio), middle(shorts));
      // A little more is noise of the pair's figure, much more means that others were waited for.
      constexpr double kClearly = 1.1;
      return best_pair > kClearly * rate ? best_pair : rate;
    };
    hosts[h].send_bytes_per_s = limit(&HostTimes::sent, hosts[h].send_bytes_per_s);
    hosts[h].receive_bytes_per_s = limit(&HostTimes::received, hosts[h].receive_bytes_per_s);
  }
}

// --- progress
// ---------------------------------------------------------------------------------------

namespace {

constexpr OperationLabel kProgressLabel{"progress measurement"};

// Processor time of all threads of this process.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The seconds of computing that messages took in `sample`.
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
  // The part of the bytes that was not there when computing ended took nothing from it.
  const double moved = bytes * beside.computing_s / (beside.computing_s + beside.waiting_s);
  const double by_bytes = lost_seconds(alone, beside) - cost.polling_share * beside.computing_s;
  cost.s_per_byte = std::max(0.0, by_bytes / moved);
  return cost;
}

bool NetworkProbe::shares_process() {
  std::vector<std::int64_t> processes(topology_.devices.size(), 0);
  const auto rank = static_cast<std::size_t>(rank_.transport.rank());
  processes[rank] = ::getpid();
  rank_.transport.all_reduce(std::span(processes), kProgressLabel);
  for (std::size_t r = 0; r < processes.size(); ++r) {
    const bool same_host = topology_.devices[r].host == topology_.devices[rank].host;
    if (r != rank && same_host && processes[r] == processes[rank]) return true;
  }
  return false;
}

ProgressCost NetworkProbe::measure_progress(KernelProbe& kernels, std::int64_t columns) {
  if (ranks() == 1) return {};
  // Segments in turn. A segment is as long as the usual period of a processor quota, see
  // measure_rate; packets take most of one.
  enum Segment { kAlone, kFirstWait, kSecondWait, kBeside };
  constexpr int kSegments = 4;
  constexpr double kSegment = 0.1;
  constexpr double kMessageShare = 0.7;
  const double segment = std::min(kSegment, options_.progress_seconds / kSegments);
  const auto rounds = static_cast<int>(options_.progress_seconds / (kSegments * segment));
  const double wanted = kMessageShare * segment / exchange_seconds(true);
  const auto bytes = std::max<std::int64_t>(
      1,
      static_cast<std::int64_t>(std::min(wanted, static_cast<double>(options_.largest_message))));
  const Sizes sizes = packets(bytes, true);
  const std::int64_t total = sum(sizes);
  TimedTransfer transfer(rank_, total, total);
  // A device computes on processors of its own, and a process of several ranks can't say whose
  // time it took.
  const bool processors_known = !shares_process() && rank_.backend.host_accessible();
  std::array<ProgressSample, kSegments> samples;
  for (int k = 0; k < kSegments * rounds; ++k) {
    const int kind = k % kSegments;
    ProgressSample& sample = samples[static_cast<std::size_t>(kind)];
    const bool second = kind == kSecondWait;
    Sizes sends = none();
    Sizes receives = none();
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

// --- islands
// ----------------------------------------------------------------------------------------

namespace {

constexpr double kClearlyFaster = 2;

struct HostPairs {
  const std::vector<int>& members;  // ranks of one host
  const Topology& topology;

  // The rate of the slower direction.
  double rate(std::size_t i, std::size_t j) const {
    return std::min(topology.link(members[i], members[j]).bytes_per_s,
                    topology.link(members[j], members[i]).bytes_per_s);
  }

  template <typename Body>
  void for_each(const Body& body) const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t j = i + 1; j < members.size(); ++j) body(i, j, rate(i, j));
    }
  }
};

// The slowest rate of the fast class, after the widest gap; 0 if no gap is clear.
double fast_from(const HostPairs& pairs) {
  std::vector<double> rates;
  pairs.for_each([&](std::size_t, std::size_t, double rate) { rates.push_back(rate); });
  std::ranges::sort(rates);
  double widest = kClearlyFaster;
  double result = 0;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (rates[i] < widest * rates[i - 1]) continue;
    widest = rates[i] / rates[i - 1];
    result = rates[i];
  }
  return result;
}

// By member: the lowest member of its island. All 0 if fast pairs form no groups, in which every
// pair is fast and outside of which none is.
std::vector<std::size_t> groups_of(const HostPairs& pairs) {
  const std::vector<std::size_t> together(pairs.members.size(), 0);
  const double fast = fast_from(pairs);
  if (fast == 0) return together;
  std::vector<std::size_t> group(pairs.members.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (pairs.rate(i, j) < fast) continue;
      group[i] = group[j];
      break;
    }
  }
  bool clear = true;
  pairs.for_each([&](std::size_t i, std::size_t j, double rate) {
    clear = clear && (group[i] == group[j]) == (rate >= fast);
  });
  return clear ? group : together;
}

}  // namespace

void find_islands(Topology& topology) {
  std::vector<int> lowest(topology.devices.size());  // rank of each rank's island
  for (const std::vector<int>& members : ranks_by(topology, &Device::host)) {
    const std::vector<std::size_t> group = groups_of({members, topology});
    for (std::size_t i = 0; i < members.size(); ++i) {
      lowest[static_cast<std::size_t>(members[i])] = members[group[i]];
    }
  }
  int next = 0;
  for (std::size_t rank = 0; rank < lowest.size(); ++rank) {
    const auto first = static_cast<std::size_t>(lowest[rank]);
    topology.devices[rank].island = first == rank ? next++ : topology.devices[first].island;
  }
}

}  // namespace atl
