// Edges as a pure function of their index: sampled in parallel, streamed in order, and as many as
// are needed for a given number of distinct ones. Internal to datasets/.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/philox.hpp"
#include "datasets/graph_builder.hpp"

namespace atl {

// The edge of an index; called from several threads.
using EdgeSampler = std::function<Edge(std::uint64_t)>;

// Which random matrix of RandomStream::kGenerator a number belongs to (the layer of its key).
enum class GeneratorPurpose : std::uint8_t {
  kOrder,
  kEdges,
  kCentres,
  kNoise,
  kLabels,
  kHubs,
  kNodeFeatures,  // row = node
};

constexpr RandomKey generator_key(std::uint64_t seed, GeneratorPurpose purpose) {
  return {seed, RandomStream::kGenerator, static_cast<std::uint8_t>(purpose)};
}
// Uniform in [0, 1) with 53 bits.
constexpr double uniform53(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 32U | low) >> 11U) * 0x1p-53;
}

// Edges 0 .. count - 1.
EdgeStream sampled_stream(const EdgeSampler& sampler, std::uint64_t count);

// How many edges to sample so that about 1 % more than `distinct` distinct ones without self-loops
// are among them (exactly `distinct` for small numbers). The distinct ones are counted by those
// whose hash is below a bound (Bar-Yossef et al., RANDOM'02). Throws Error{kOption} if 64 samples
// per distinct edge don't do.
std::uint64_t samples_needed(const EdgeSampler& sampler, std::int64_t distinct, bool directed);

// A random order of 0 .. count - 1 (Fisher-Yates).
std::vector<std::int32_t> random_order(std::int64_t count, std::uint64_t seed);

}  // namespace atl
