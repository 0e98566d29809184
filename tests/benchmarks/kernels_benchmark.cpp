// Speed of the kernels beside the limits of the machine, measured in the same run: the STREAM triad
// (on a device one large copy) and large square products.
//
//   bench_kernels [--backends=cuda,cpu] [--threads=N] [--scale=0.1] [Google Benchmark's options]
//
// Names are BACKEND/OPERATION/SHAPE/TYPE/manual_time; of an SpMM by another kernel than the own one
// its name follows the type. Counters are rates: bytes_per_second of
// operations that stream; of SpMM no_reuse_bytes_per_second, as if no cache held anything, and
// compulsory_bytes_per_second, each byte once; flops. of_ceiling is the share
// of the limit that counts: the time that memory (no-reuse bytes) or products would take at these
// rates, by the time measured; above 1 where caches help. Times are the device's
// where it has a clock. --benchmark_out=FILE writes JSON.
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "tests/benchmarks/arguments.hpp"
#include "tests/benchmarks/bench.hpp"

namespace atl {

namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const auto end = std::min(list.size(), list.find(','));
    names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(list.size(), end + 1));
  }
  return names;
}

// Takes this program's own options out of the arguments; what is left is Google Benchmark's.
BenchOptions take_options(int& argc, char** argv) {
  BenchOptions options;
  int kept = 1;
  for (int k = 1; k < argc; ++k) {
    const std::string_view argument = argv[k];
    const auto value = argument.substr(std::min(argument.size(), argument.find('=') + 1));
    if (argument.starts_with("--backends=")) {
      options.backends = split(value);
    } else if (argument.starts_with("--threads=")) {
      options.threads = parse_number<int>(argument, value, "whole numbers from 1 on");
    } else if (argument.starts_with("--scale=")) {
      options.scale = parse_number<double>(argument, value, "numbers above 0, at most 1");
      if (options.scale > 1) fail_option("{}: allowed are numbers above 0, at most 1", argument);
    } else {
      argv[kept++] = argv[k];
    }
  }
  argc = kept;
  if (options.backends.empty()) {
    options.backends = {make_backend("auto", {.threads = 1, .device = 0})->name()};
  }
  return options;
}

void register_benchmarks(Bench& bench) {
  const std::string backend = bench.backend().name();
  benchmark::AddCustomContext(backend, bench.backend().device());
  for (const auto& group : {limit_benchmarks(), sparse_benchmarks(), attention_benchmarks(),
                            wire_benchmarks(), dense_benchmarks(), normalization_benchmarks()}) {
    for (const Benchmark& one : group) {
      if (!bench.backend().supports(one.dtype)) continue;
      if (!one.kernel.empty() && bench.backend().host_accessible()) continue;
      const std::string name = backend + "/" + one.name;
      benchmark::RegisterBenchmark(
          name.c_str(), [&bench, one](benchmark::State& state) { bench.run(state, one); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace

}  // namespace atl

int main(int argc, char** argv) {
  try {
    const atl::BenchOptions options = atl::take_options(argc, argv);
    benchmark::AddCustomContext("scale", fmt::format("{}", options.scale));
    std::vector<std::unique_ptr<atl::Bench>> benches;
    for (const std::string& backend : options.backends) {
      benches.push_back(std::make_unique<atl::Bench>(backend, options));
      atl::register_benchmarks(*benches.back());
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const atl::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return error.exit_code();
  }
}
