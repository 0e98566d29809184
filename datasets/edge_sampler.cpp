#include "datasets/edge_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.hpp"
#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"

namespace atl {

namespace {

constexpr std::uint64_t kEdgesPerBlock = std::uint64_t{1} << 18U;

// Samples [0, count) block by block; `visit` returns false to stop.
template <typename Visit>
void each_block(const EdgeSampler& sampler, std::uint64_t count, const Visit& visit) {
  std::vector<Edge> edges;
  for (std::uint64_t begin = 0; begin < count; begin += edges.size()) {
    edges.resize(std::min(kEdgesPerBlock, count - begin));
    const auto size = static_cast<std::int64_t>(edges.size());
    parallel_for(size, 4096, [&](std::int64_t i) {
      edges[i] = sampler(begin + static_cast<std::uint64_t>(i));
    });
    if (!visit(std::span<const Edge>(edges))) return;
  }
}

}  // namespace

EdgeStream sampled_stream(const EdgeSampler& sampler, std::uint64_t count) {
  return [&sampler, count](const EdgeSink& sink) {
    Activity activity("sampling edges", static_cast<std::int64_t>(count));
    std::int64_t done = 0;
    each_block(sampler, count, [&](std::span<const Edge> edges) {
      sink(edges);
      activity.advance_to(done += static_cast<std::int64_t>(edges.size()));
      return true;
    });
  };
}

std::uint64_t samples_needed(const EdgeSampler& sampler, std::int64_t distinct, bool directed) {
  constexpr double kHashes = 0x1p18;
  const double rate =
      std::min(1.0, kHashes / static_cast<double>(std::max<std::int64_t>(1, distinct)));
  const double margin = rate < 1 ? 1 + 5 / std::sqrt(kHashes) : 1;
  const double wanted = static_cast<double>(distinct) * rate * margin;
  const std::uint64_t limit = 64 * static_cast<std::uint64_t>(distinct) + 1024;
  std::unordered_set<std::uint64_t> seen;
  const Activity activity("counting distinct edges");
  std::uint64_t samples = 0;
  each_block(sampler, limit, [&](std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      if (static_cast<double>(seen.size()) >= wanted) return false;
      ++samples;
      if (edge.source == edge.target) continue;
      const auto [low, high] = std::minmax(edge.source, edge.target);
      const auto first = static_cast<std::uint64_t>(directed ? edge.source : low);
      const auto second = static_cast<std::uint64_t>(directed ? edge.target : high);
      const std::uint64_t hash = mixed_bits(0, first << 32U | second);
      if (static_cast<double>(hash) <= rate * 0x1p64) seen.insert(hash);
    }
    return true;
  });
  if (static_cast<double>(seen.size()) < wanted) {
    fail_option(
        "{} distinct edges are too many for this graph: after {} samples only about {} were "
        "found; ask for a smaller degree or more nodes",
        distinct, samples, static_cast<std::int64_t>(static_cast<double>(seen.size()) / rate));
  }
  return samples;
}

std::vector<std::int32_t> random_order(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const RandomKey key = generator_key(seed, GeneratorPurpose::kOrder);
  for (std::int64_t i = count - 1; i > 0; --i) {
    const std::uint32_t bits = random_block(key, static_cast<std::uint64_t>(i), 0)[0];
    const auto j = (std::uint64_t{bits} * static_cast<std::uint64_t>(i + 1)) >> 32U;
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace atl
