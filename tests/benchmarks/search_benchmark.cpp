// How far from the optimum each search strategy ends, and how long it takes besides evaluations.
//
//   bench_search [--instances=24] [--first=1001] [Google Benchmark's options]
//
// Names are STRATEGY/EVALUATIONS; one iteration searches all instances (makespan_space.hpp). The
// counters are gaps to the optimum in percent and the share of instances in which it was found;
// `unfit` is the share that ended with a plan that doesn't fit, which the gaps leave out. mcts was
// tuned on instances 1 to 240.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/placement/search.hpp"
#include "tests/support/makespan_space.hpp"

namespace atl {
namespace {

constexpr int kBudgets[] = {50, 150, 500, 2000};

struct Instance {
  std::unique_ptr<MakespanSpace> space;
  PlanCost optimum;
};

std::vector<Instance> make_instances(int first, int count) {
  std::vector<Instance> instances;
  for (int k = 0; k < count; ++k) {
    Instance& instance = instances.emplace_back();
    instance.space = std::make_unique<MakespanSpace>(static_cast<unsigned>(first + k));
    const SearchOptions everything{.evaluations = 1000000};
    instance.optimum = atl::search("exhaustive", *instance.space, everything).cost;
  }
  return instances;
}

void run(benchmark::State& state, const std::string& name, int budget,
         const std::vector<Instance>& instances) {
  std::vector<double> gaps;
  double optimal = 0, unfit = 0;
  for (auto _ : state) {
    gaps.clear();
    optimal = unfit = 0;
    for (const Instance& instance : instances) {
      const SearchResult found = atl::search(name, *instance.space, {.evaluations = budget});
      if (found.evaluations > budget || is_better(found.start, found.cost) ||
          is_better(found.cost, instance.optimum)) {
        state.SkipWithError("over budget, worse than the start, or better than the optimum");
        return;
      }
      if (found.cost.missing_bytes > 0) {
        ++unfit;
        continue;
      }
      gaps.push_back(100 * (found.cost.seconds / instance.optimum.seconds - 1));
      optimal += is_better(instance.optimum, found.cost) ? 0 : 1;
    }
  }
  const auto count = static_cast<double>(instances.size());
  state.counters["optimal"] = optimal / count;
  state.counters["unfit"] = unfit / count;
  if (gaps.empty()) return;
  std::ranges::sort(gaps);
  state.counters["median"] = (gaps[(gaps.size() - 1) / 2] + gaps[gaps.size() / 2]) / 2;
  state.counters["p90"] = gaps[gaps.size() * 9 / 10];
  state.counters["worst"] = gaps.back();
}

// Takes --NAME=N out of the arguments.
int take_number(const char* name, int fallback, int& argc, char** argv) {
  const std::string prefix = std::string("--") + name + "=";
  for (int k = 1; k < argc; ++k) {
    if (std::strncmp(argv[k], prefix.c_str(), prefix.size()) != 0) continue;
    const char* begin = argv[k] + prefix.size();
    std::from_chars(begin, begin + std::strlen(begin), fallback);
    std::rotate(argv + k, argv + k + 1, argv + argc);
    --argc;
    break;
  }
  return fallback;
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  const int count = atl::take_number("instances", 24, argc, argv);
  const int first = atl::take_number("first", 1001, argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::vector<atl::Instance> instances = atl::make_instances(first, count);
  for (const std::string& name : atl::search_strategies()) {
    if (name == "exhaustive") continue;
    for (const int budget : atl::kBudgets) {
      const std::string title = name + "/" + std::to_string(budget);
      benchmark::RegisterBenchmark(title.c_str(), [&, name, budget](benchmark::State& state) {
        atl::run(state, name, budget, instances);
      })->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
