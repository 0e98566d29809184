// How many epochs the simulator does per second on one core.
//
//   bench_simulator [--benchmark_repetitions=20] [Google Benchmark's options]
//
// Names are RANKSxLAYERS and the norm: with batch norm an epoch falls into stages. Every rank
// exchanges messages with every other one, two ranks per host, eight from 64 ranks on.
// simulate: the tasks are there. evaluate: what a search spends on a choice of which it knows
// nothing. change: one decision of a known choice becomes one that was not simulated yet. walk:
// one decision after another changes at random; after a while every stage is known.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <random>

#include "engine/placement/plan_space.hpp"
#include "tests/engine/placement/made_parts.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

struct Problem {
  Problem(int ranks, int layers, Norm norm)
      : topology(small_topology(ranks / per_host(ranks), per_host(ranks), 1.25e8, 1e-4)),
        cuts{{"cut", {}, make_parts(ranks)}} {
    model.layers = layers;
    model.features = 128;
    model.outputs = 40;
    model.norm = norm;
  }
  static int per_host(int ranks) { return ranks < 64 ? 2 : 8; }
  PlanSpace space() const { return {topology, model, cuts, {32, 8, 4}}; }

  Topology topology;
  ModelConfig model;
  std::vector<CutCandidate> cuts;
};

void finish(benchmark::State& state, double seconds) {
  if (!(std::isfinite(seconds) && seconds > 0)) state.SkipWithError("no epoch takes that long");
  state.SetItemsProcessed(state.iterations());
}

// One decision of `choice` takes another option.
void change_one(const PlanSpace& space, std::mt19937& random, std::vector<int>& choice) {
  for (;;) {
    const auto decision = static_cast<int>(random() % choice.size());
    const int options = space.options(decision);
    if (options == 1) continue;
    int& option = choice[static_cast<std::size_t>(decision)];
    option =
        (option + 1 + static_cast<int>(random() % static_cast<unsigned>(options - 1))) % options;
    return;
  }
}

// No compiler sees through these calls, so none is left out. benchmark::DoNotOptimize would spoil
// `seconds` under GCC 12 and -O2: of two places that it may take, one is never written.
void simulate(benchmark::State& state, const Problem& problem) {
  const PlanSpace space = problem.space();
  const TaskGraph graph = space.tasks(space.start(), TaskDetail::kMerged);
  Simulator simulator(problem.topology);
  double seconds = 0;
  for (auto _ : state) seconds = simulator.run(graph).makespan_s;
  state.counters["tasks"] = graph.size();
  finish(state, seconds);
}

void evaluate(benchmark::State& state, const Problem& problem) {
  std::unique_ptr<PlanSpace> space;  // freed while the clock stands still
  double seconds = 0;
  for (auto _ : state) {
    state.PauseTiming();
    space.reset(new PlanSpace(problem.space()));
    const std::vector<int> choice = space->start();
    state.ResumeTiming();
    seconds = space->evaluate(choice).seconds;
  }
  finish(state, seconds);
}

void change(benchmark::State& state, const Problem& problem) {
  std::mt19937 random(1);
  std::unique_ptr<PlanSpace> space;  // freed while the clock stands still
  double seconds = 0;
  for (auto _ : state) {
    state.PauseTiming();
    space.reset(new PlanSpace(problem.space()));
    std::vector<int> choice = space->start();
    space->evaluate(choice);
    change_one(*space, random, choice);
    state.ResumeTiming();
    seconds = space->evaluate(choice).seconds;
  }
  finish(state, seconds);
}

void walk(benchmark::State& state, const Problem& problem) {
  std::mt19937 random(1);
  PlanSpace space = problem.space();
  std::vector<int> choice = space.start();
  double seconds = 0;
  for (auto _ : state) {
    change_one(space, random, choice);
    seconds = space.evaluate(choice).seconds;
  }
  finish(state, seconds);
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  using atl::Norm;
  using atl::Problem;
  for (const int ranks : {4, 8, 16, 32, 256}) {
    constexpr int kLayers = 3;
    for (const Norm norm : {Norm::kBatch, Norm::kNone}) {
      const auto problem = std::make_shared<Problem>(ranks, kLayers, norm);
      const auto add = [&](const char* name, void (*run)(benchmark::State&, const Problem&)) {
        benchmark::RegisterBenchmark(fmt::format("{}/{}x{}/{}", name, ranks, kLayers,
                                                 norm == Norm::kBatch ? "batch" : "none")
                                         .c_str(),
                                     [=](benchmark::State& state) { run(state, *problem); })
            ->Unit(ranks < 64 ? benchmark::kMicrosecond : benchmark::kMillisecond);
      };
      add("simulate", atl::simulate);
      add("evaluate", atl::evaluate);
      add("change", atl::change);
      add("walk", atl::walk);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
