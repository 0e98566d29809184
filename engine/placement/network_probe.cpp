#include "engine/placement/network_probe.hpp"

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
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
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

NetworkProbe::NetworkProbe(const Rank& rank, const std::vector<int>& host_of,
                           const NetworkProbeOptions& options)
    : rank_(rank), host_of_(host_of), options_(options) {}

double NetworkProbe::of_rank(double value, int rank) {
  rank_.transport.broadcast(std::as_writable_bytes(std::span(&value, 1)), rank, kNetworkLabel);
  return value;
}

double NetworkProbe::echo_seconds(TimedTransfer& transfer, int from, int to, std::int64_t bytes) {
  const int rank = rank_.transport.rank();
  Sizes there(host_of_.size(), 0);
  Sizes back(host_of_.size(), 0);
  Sizes none(host_of_.size(), 0);
  const int peer = rank == from ? to : from;
  if (rank == from || rank == to) {
    there[static_cast<std::size_t>(peer)] = bytes;
    back[static_cast<std::size_t>(peer)] = kAnswerBytes;
  }
  const SteadyTime start = steady_now();
  transfer.post(rank == from ? there : none, rank == to ? there : none)->wait_all();
  transfer.post(rank == to ? back : none, rank == from ? back : none)->wait_all();
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

std::vector<Link> NetworkProbe::measure_pairs() {
  std::vector<Link> links(host_of_.size() * host_of_.size());
  std::vector<bool> measured(links.size(), false);
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
      links[index(from, to)] = measure_pair(transfer, from, to);
      measured[index(from, to)] = true;
      spent = of_rank(seconds_since(start), 0);
    }
  }
  if (skipped_pairs_ > 0) fill_skipped(links, measured);
  return links;
}

void NetworkProbe::fill_skipped(std::vector<Link>& links, const std::vector<bool>& measured) const {
  struct Sum {
    Link link;
    double count = 0;
  };
  // What pairs may have in common, from the most alike to any at all.
  constexpr int kLevels = 3;
  using Key = std::array<int, 3>;
  const auto key = [&](int level, int from, int to) -> Key {
    if (level == 0) return {level, host(from), host(to)};
    return {level, level == 1 && host(from) == host(to), 0};
  };
  std::map<Key, Sum> sums;
  const auto for_each_pair = [&](bool of_measured, const auto& body) {
    for (int from = 0; from < ranks(); ++from) {
      for (int to = 0; to < ranks(); ++to) {
        if (from != to && measured[index(from, to)] == of_measured) body(from, to);
      }
    }
  };
  for_each_pair(true, [&](int from, int to) {
    const Link& link = links[index(from, to)];
    for (int level = 0; level < kLevels; ++level) {
      Sum& sum = sums[key(level, from, to)];
      sum.link.latency_s += link.latency_s;
      sum.link.bytes_per_s += link.bytes_per_s;
      sum.count += 1;
    }
  });
  for_each_pair(false, [&](int from, int to) {
    for (int level = 0; level < kLevels; ++level) {
      const auto found = sums.find(key(level, from, to));
      if (found == sums.end()) continue;
      const auto& [link, count] = found->second;
      links[index(from, to)] = {link.latency_s / count, link.bytes_per_s / count};
      break;
    }
  });
}

NetworkProbe::Sizes NetworkProbe::packets(std::int64_t bytes, bool within_hosts) const {
  Sizes sizes(host_of_.size(), bytes);
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool same_host = host(rank) == host(rank_.transport.rank());
    if (rank == rank_.transport.rank() || (same_host && !within_hosts)) {
      sizes[static_cast<std::size_t>(rank)] = 0;
    }
  }
  return sizes;
}

double NetworkProbe::exchange_seconds(const std::vector<Link>& links,
                                      const std::vector<Host>& hosts, bool within_hosts) const {
  std::vector<double> out(hosts.size(), 0.0);
  std::vector<double> in(hosts.size(), 0.0);
  double longest = 0;
  for (int from = 0; from < ranks(); ++from) {
    double inside = 0;
    for (int to = 0; to < ranks(); ++to) {
      if (from == to) continue;
      const double seconds = 1 / links[index(from, to)].bytes_per_s;
      if (host(from) == host(to)) {
        if (within_hosts) inside += seconds;
        continue;
      }
      longest = std::max(longest, seconds);
      out[static_cast<std::size_t>(host(from))] += 1;
      in[static_cast<std::size_t>(host(to))] += 1;
    }
    longest = std::max(longest, inside);
  }
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    longest = std::max(
        {longest, out[h] / hosts[h].send_bytes_per_s, in[h] / hosts[h].receive_bytes_per_s});
  }
  return longest;
}

void NetworkProbe::set_best_pairs(const std::vector<Link>& links, std::vector<Host>& hosts) const {
  for (Host& host : hosts) host.send_bytes_per_s = host.receive_bytes_per_s = 0;
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      if (host(from) == host(to)) continue;
      const double rate = links[index(from, to)].bytes_per_s;
      double& send = hosts[static_cast<std::size_t>(host(from))].send_bytes_per_s;
      double& receive = hosts[static_cast<std::size_t>(host(to))].receive_bytes_per_s;
      send = std::max(send, rate);
      receive = std::max(receive, rate);
    }
  }
}

NetworkProbe::HostTimes NetworkProbe::all_at_once(TimedTransfer& transfer, std::int64_t bytes,
                                                  std::size_t hosts) {
  const Sizes sizes = packets(bytes, false);
  const std::vector<double> arrivals = transfer.time(sizes, sizes);
  std::vector<double> seconds(host_of_.size() * host_of_.size(), 0.0);
  for (int from = 0; from < ranks(); ++from) {
    seconds[index(from, rank_.transport.rank())] = arrivals[static_cast<std::size_t>(from)];
  }
  rank_.transport.all_reduce(std::span(seconds), kNetworkLabel);
  HostTimes last{std::vector<double>(hosts, 0.0), std::vector<double>(hosts, 0.0)};
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      double& sent = last.sent[static_cast<std::size_t>(host(from))];
      double& received = last.received[static_cast<std::size_t>(host(to))];
      sent = std::max(sent, seconds[index(from, to)]);
      received = std::max(received, seconds[index(from, to)]);
    }
  }
  return last;
}

void NetworkProbe::measure_hosts(const std::vector<Link>& links, std::vector<Host>& hosts) {
  if (hosts.size() == 1) {
    hosts[0].send_bytes_per_s = std::numeric_limits<double>::infinity();
    hosts[0].receive_bytes_per_s = std::numeric_limits<double>::infinity();
    return;
  }
  set_best_pairs(links, hosts);    // what packets should be as large as
  constexpr double kMessages = 5;  // as long as a message between two: the slope has less noise
  constexpr std::int64_t kLeast = 16 << 10;
  constexpr int kRepetitions = 3;
  const double wanted =
      kMessages * options_.message_seconds / exchange_seconds(links, hosts, false);
  const std::int64_t bytes =
      std::min(options_.largest_message,
               std::max(kLeast, static_cast<std::int64_t>(std::min(
                                    wanted, static_cast<double>(options_.largest_message)))));
  const std::int64_t total = sum(packets(bytes, false));
  TimedTransfer transfer(rank_, total, total);
  std::vector<HostTimes> longs;
  std::vector<HostTimes> shorts;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    longs.push_back(all_at_once(transfer, bytes, hosts.size()));
    shorts.push_back(all_at_once(transfer, bytes / kRatio, hosts.size()));
  }
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto inside = std::ranges::count(host_of_, static_cast<int>(h));
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

}  // namespace atl
