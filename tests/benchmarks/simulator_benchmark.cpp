// How many epochs the simulator does per second on one core.
//
//   bench_simulator [--benchmark_repetitions=20] [Google Benchmark's options]
//
// Names are RANKSxLAYERS; every rank exchanges messages with every other one, two ranks per host.
// evaluate: what a strategy search spends per choice, tasks made and simulated. simulate: the tasks
// are there.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

#include "engine/placement/plan_space.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

// Parts of some 20,000 nodes, no two alike.
PartitionQuality make_parts(int ranks) {
  PartitionQuality quality;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t nodes = 20000 + 137 * r;
    quality.parts.push_back({.nodes = nodes,
                             .central = nodes / 2 + 31 * r,
                             .edges = 14 * nodes,
                             .marginal_edges = 8 * nodes});
    for (int from = 0; from < ranks; ++from) {
      quality.forward_rows.push_back(from == r ? 0 : 900 + 17 * ((r * 7 + from * 3) % 11));
    }
  }
  quality.backward_rows = quality.forward_rows;
  return quality;
}

struct Problem {
  explicit Problem(int ranks, int layers)
      : topology(small_topology(ranks / 2, 2, 1.25e8, 1e-4)), cuts{{"cut", {}, make_parts(ranks)}} {
    model.layers = layers;
    model.features = 128;
    model.outputs = 40;
    model.norm = Norm::kBatch;
  }
  Topology topology;
  ModelConfig model;
  std::vector<CutCandidate> cuts;
};

void check(benchmark::State& state, double seconds) {
  if (!(std::isfinite(seconds) && seconds > 0)) state.SkipWithError("no epoch takes that long");
}

void evaluate(benchmark::State& state, int ranks, int layers) {
  const Problem problem(ranks, layers);
  PlanSpace space(problem.topology, problem.model, problem.cuts, {32, 8, 4});
  std::vector<int> choice = space.start();
  double seconds = 0;
  for (auto _ : state) {
    choice.back() = (choice.back() + 1) % space.options(space.decisions() - 1);
    benchmark::DoNotOptimize(seconds = space.evaluate(choice).seconds);
  }
  check(state, seconds);
  state.SetItemsProcessed(state.iterations());
}

void simulate(benchmark::State& state, int ranks, int layers) {
  const Problem problem(ranks, layers);
  const PlanSpace space(problem.topology, problem.model, problem.cuts, {32});
  const TaskGraph graph = space.tasks(space.start(), TaskDetail::kMerged);
  Simulator simulator(problem.topology);
  double seconds = 0;
  for (auto _ : state) benchmark::DoNotOptimize(seconds = simulator.run(graph).makespan_s);
  check(state, seconds);
  state.SetItemsProcessed(state.iterations());
  state.counters["tasks"] = graph.size();
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  for (const auto& [ranks, layers] : {std::pair(4, 3), {8, 3}, {16, 3}, {32, 3}}) {
    const std::string size = "/" + std::to_string(ranks) + "x" + std::to_string(layers);
    benchmark::RegisterBenchmark(("evaluate" + size).c_str(), atl::evaluate, ranks, layers);
    benchmark::RegisterBenchmark(("simulate" + size).c_str(), atl::simulate, ranks, layers);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
