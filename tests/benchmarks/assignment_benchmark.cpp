// Time of choosing the bit widths of 100,000 messages on one core.
//
//   bench_assignment [--benchmark_repetitions=20] [Google Benchmark's options]
//
// Names are CHANNELSxLINKS/BETAS; the messages are spread evenly over links and channels. The
// counters are the certificate (what part of the objective might be saved at most) and the bits of
// the average message.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "engine/exchange/messages/bit_assignment.hpp"

namespace atl {
namespace {

constexpr std::size_t kMessages = 100000;
constexpr double kMostGap = 1e-3;

enum class Betas { kSpread, kEqual, kHalfZero };

std::vector<float> make_betas(Betas kind) {
  std::mt19937 random(3);
  std::vector<float> betas(kMessages);
  for (float& beta : betas) {
    const double uniform = static_cast<double>(random()) / 4294967296.0;
    beta = kind == Betas::kEqual ? 0.5f : static_cast<float>(std::exp(8 * uniform - 4));
    if (kind == Betas::kHalfZero && uniform < 0.5) beta = 0;
  }
  return betas;
}

// Rows of 256 f32 values over links of about 100 Mbit/s, of which each is a bit slower than the
// last.
std::vector<ChannelProblem> make_channels(std::span<const float> betas, std::size_t channels,
                                          std::size_t links) {
  std::vector<MessageCost> costs;
  for (const int bits : kWireBits) {
    costs.push_back({std::pow(std::ldexp(1.0, bits) - 1, -2), 4 + 32 * bits});
  }
  costs.back() = {0, 1024};
  const std::size_t each = kMessages / (channels * links);
  std::vector<ChannelProblem> problems(channels, {.choices = costs, .links = {}});
  for (std::size_t k = 0; k < channels * links; ++k) {
    const LinkTime cost{
        .wire = {.theta_s_per_byte = 8e-8 * (1 + 0.1 * static_cast<double>(k % links)),
                 .gamma_s = 1e-4},
        .cover = {}};
    problems[k / links].links.push_back({betas.subspan(k * each, each), cost});
  }
  return problems;
}

void run(benchmark::State& state, std::size_t channels, std::size_t links, Betas kind) {
  const std::vector<float> betas = make_betas(kind);
  const std::vector<ChannelProblem> problems = make_channels(betas, channels, links);
  std::vector<ChannelAssignment> assignments;
  for (auto _ : state) assignments = assign_bits(problems, 0.5);
  double gap = 0, bits = 0, messages = 0;
  for (const ChannelAssignment& assignment : assignments) {
    gap = std::max(gap, assignment.gap());
    for (const auto& link : assignment.chosen) {
      for (const std::uint8_t choice : link) bits += kWireBits[choice];
      messages += static_cast<double>(link.size());
    }
  }
  state.counters["gap"] = gap;
  state.counters["bits"] = bits / messages;
  if (gap > kMostGap) state.SkipWithError("the certificate is too wide");
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  using atl::Betas;
  const auto add = [](const char* name, std::size_t channels, std::size_t links, Betas kind) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
      atl::run(state, channels, links, kind);
    })->Unit(benchmark::kMillisecond);
  };
  add("1x1/spread", 1, 1, Betas::kSpread);
  add("1x1/equal", 1, 1, Betas::kEqual);
  add("1x1/half_zero", 1, 1, Betas::kHalfZero);
  add("1x3/spread", 1, 3, Betas::kSpread);
  add("1x31/spread", 1, 31, Betas::kSpread);
  add("6x3/spread", 6, 3, Betas::kSpread);
  add("6x31/spread", 6, 31, Betas::kSpread);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
