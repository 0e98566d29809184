#include "engine/exchange/messages/link_probe.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/comm/max_over_ranks.hpp"
#include "engine/exchange/timed_transfer.hpp"

namespace atl {

namespace {

// The factor of all sizes, the same on every rank.
double probe_scale(Transport& transport, std::span<const std::int64_t> sends) {
  // Below some 100 kB the buffers on the way are faster than what follows them, and clocks that
  // start apart by a barrier's latency show in the times.
  constexpr double kLeast = 256 << 10;
  constexpr double kMost = 2 << 20;
  double bytes = static_cast<double>(std::ranges::max(sends));
  max_over_ranks(transport, std::span(&bytes, 1), {"link measurement"});
  return bytes > 0 ? std::clamp(bytes / 4, kLeast, kMost) / bytes : 0;
}

std::vector<std::int64_t> scaled(std::span<const std::int64_t> bytes, double scale) {
  std::vector<std::int64_t> result;
  for (const std::int64_t b : bytes) {
    result.push_back(static_cast<std::int64_t>(std::ceil(static_cast<double>(b) * scale)));
  }
  return result;
}

std::int64_t sum(const std::vector<std::int64_t>& packets) {
  return std::accumulate(packets.begin(), packets.end(), std::int64_t{0});
}

// Until the last packet that shares the sender's or the receiver's network card had come. Which of
// them comes first is a matter of queues: a link that was served first would look fast, although
// more bytes on it delay the others. Widths are chosen so that packets keep their proportions.
double shared_seconds(std::span<const double> seconds, std::size_t size, std::size_t from,
                      std::size_t to) {
  double last = 0;
  for (std::size_t r = 0; r < size; ++r) {
    last = std::max({last, seconds[from * size + r], seconds[r * size + to]});
  }
  return last;
}

}  // namespace

std::vector<LinkCost> measure_links(const Rank& rank, std::span<const std::int64_t> sends,
                                    std::span<const std::int64_t> receives) {
  constexpr std::size_t kSizes = 5;
  constexpr int kRepetitions = 3;
  const auto size = static_cast<std::size_t>(rank.transport.size());
  const auto own = static_cast<std::size_t>(rank.transport.rank());
  double scale = probe_scale(rank.transport, sends);
  TimedTransfer transfer(rank, sum(scaled(sends, scale)), sum(scaled(receives, scale)));

  // By size and link, from-major: bytes and seconds until they had come. Only the receiver knows.
  const std::size_t links = size * size;
  std::vector<double> bytes(kSizes * links, 0.0);
  std::vector<double> seconds(kSizes * links, 0.0);
  for (std::size_t s = 0; s < kSizes; ++s, scale /= 2) {
    const std::vector<std::int64_t> sent = scaled(sends, scale);
    const std::vector<std::int64_t> received = scaled(receives, scale);
    std::vector<std::vector<double>> times(size);
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      const std::vector<double> arrivals = transfer.time(sent, received);
      for (std::size_t peer = 0; peer < size; ++peer) times[peer].push_back(arrivals[peer]);
    }
    for (std::size_t peer = 0; peer < size; ++peer) {
      std::sort(times[peer].begin(), times[peer].end());
      const std::size_t link = s * links + peer * size + own;
      bytes[link] = static_cast<double>(received[peer]);
      seconds[link] = received[peer] > 0 ? times[peer][kRepetitions / 2] : 0;
    }
  }
  rank.transport.all_reduce(std::span(bytes), {"link measurement"});
  rank.transport.all_reduce(std::span(seconds), {"link measurement"});

  std::vector<LinkCost> costs;
  for (std::size_t link = 0; link < links; ++link) {
    std::vector<LinkSample> samples;
    for (std::size_t s = 0; s < kSizes; ++s) {
      const auto of_link = static_cast<std::int64_t>(bytes[s * links + link]);
      if (of_link == 0) continue;
      samples.push_back({of_link, shared_seconds(std::span(seconds).subspan(s * links, links), size,
                                                 link / size, link % size)});
    }
    costs.push_back(fit_link_cost(samples).cost);
  }
  return costs;
}

}  // namespace atl
