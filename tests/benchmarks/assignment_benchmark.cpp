// Time of choosing the bit widths of 100,000 messages on one core.
//
//   bench_assignment [--benchmark_repetitions=20] [Google Benchmark's options]
//
// Names are CHANNELSxLINKS/BETAS; the messages are spread evenly over links and channels. With
// /periods, messages may be sent in one of several epochs, as in the exchange mode unified. The
// counters are the certificate (what part of the objective might be saved at most) and the bits of
// the average message in an epoch.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "engine/exchange/messages/bit_assignment.hpp"
#include "engine/exchange/messages/message_choice.hpp"

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

// The ways in which a message can travel; the exact one comes last.
struct Ways {
  std::vector<TravelCost> costs;
  std::vector<double> bits;  // in an epoch, of each
  std::size_t one_bit = 0;   // the place of one bit in every epoch
};

Ways plain_ways() {
  Ways ways;
  for (const int bits : kWireBits) {
    ways.costs.push_back({std::pow(std::ldexp(1.0, bits) - 1, -2), 4 + 32 * bits});
    ways.bits.push_back(bits);
  }
  ways.costs.back() = {0, 1024};
  return ways;
}

// Differences of rows that move in a constant direction.
Ways ways_with_periods() {
  Ways ways;
  for (std::size_t p = kMessagePeriods.size(); p-- > 0;) {
    const int period = kMessagePeriods[p];
    for (const int bits : kWireBits) {
      if (period == 1 && bits == 1) ways.one_bit = ways.costs.size();
      const double lost = nearest_loss(bits);
      double lag = 0;
      for (int age = 1; age < period; ++age) lag += age * age;
      const std::int64_t bytes = bits == 32 ? 1024 : 4 + 32 * bits;
      ways.costs.push_back({period * period * lost / (1 - lost) + 10 * lag / period,
                            bytes * kMessagePeriods.back() / period});
      ways.bits.push_back(static_cast<double>(bits) / period);
    }
  }
  return ways;
}

// Rows of 256 f32 values over links of about 100 Mbit/s, of which each is a bit slower than the
// last.
std::vector<ChannelProblem> make_channels(std::span<const float> betas, const Ways& ways,
                                          bool periods, std::size_t channels, std::size_t links) {
  const std::size_t each = kMessages / (channels * links);
  std::vector<ChannelProblem> problems(channels, {.choices = ways.costs, .links = {}});
  const double epochs = periods ? kMessagePeriods.back() : 1;  // that bytes are of
  for (std::size_t k = 0; k < channels * links; ++k) {
    const LinkTime cost{
        .wire = {.theta_s_per_byte = 8e-8 * (1 + 0.1 * static_cast<double>(k % links)) / epochs,
                 .gamma_s = 1e-4},
        .cover = {}};
    problems[k / links].links.push_back({betas.subspan(k * each, each), cost});
  }
  if (!periods) return problems;
  for (ChannelProblem& problem : problems) {
    // Rows are a thousand times what they move by.
    double sum = 0;
    for (const auto& link : problem.links)
      sum = std::reduce(link.beta.begin(), link.beta.end(), sum);
    problem.unit_variance = 1000 * sum;
    problem.unit_time = ways.one_bit;
  }
  return problems;
}

void run(benchmark::State& state, std::size_t channels, std::size_t links, Betas kind,
         bool periods) {
  const std::vector<float> betas = make_betas(kind);
  const Ways ways = periods ? ways_with_periods() : plain_ways();
  const std::vector<ChannelProblem> problems = make_channels(betas, ways, periods, channels, links);
  std::vector<ChannelAssignment> assignments;
  for (auto _ : state) assignments = assign_bits(problems, 0.5);
  double gap = 0, bits = 0, messages = 0;
  for (const ChannelAssignment& assignment : assignments) {
    gap = std::max(gap, assignment.gap());
    for (const auto& link : assignment.chosen) {
      for (const std::uint8_t choice : link) bits += ways.bits[choice];
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
  const auto add = [](const char* name, std::size_t channels, std::size_t links, Betas kind,
                      bool periods = false) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
      atl::run(state, channels, links, kind, periods);
    })->Unit(benchmark::kMillisecond);
  };
  add("1x1/spread", 1, 1, Betas::kSpread);
  add("1x1/equal", 1, 1, Betas::kEqual);
  add("1x1/half_zero", 1, 1, Betas::kHalfZero);
  add("1x3/spread", 1, 3, Betas::kSpread);
  add("1x31/spread", 1, 31, Betas::kSpread);
  add("6x3/spread", 6, 3, Betas::kSpread);
  add("6x31/spread", 6, 31, Betas::kSpread);
  add("1x1/spread/periods", 1, 1, Betas::kSpread, true);
  add("4x3/spread/periods", 4, 3, Betas::kSpread, true);
  add("6x31/spread/periods", 6, 31, Betas::kSpread, true);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
