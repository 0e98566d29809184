// Speed of the kernels: bytes per second beside the machine's own STREAM triad and copy, and
// floating-point operations per second for products.
//
//   bench_kernels [--backend=cpu] [--threads=N] [--rows=200000] [--degree=15] [Google Benchmark's]
//
// Bytes of SpMM: one row of x and one column index per edge, one row of y and one row pointer per
// row, each counted once per use as if no cache held it (the model of the roofline in
// docs/performance.md); bytes of the others: every matrix once per read and once per write.
#include <benchmark/benchmark.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

struct Options {
  std::string backend = "auto";
  int threads = 0;
  std::int64_t rows = 200'000;
  std::int64_t degree = 15;
};

// What all benchmarks share: the backend, and memory that lives as long as one benchmark.
class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        backend_(make_backend(options.backend, {.threads = options.threads, .device = 0})),
        queue_(backend_->make_queue()) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    for (void* data : buffers_) backend_->release(data);
  }

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }
  const Options& options() const { return options_; }

  template <typename T>
  std::span<T> upload(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    buffers_.push_back(backend_->allocate(bytes));
    backend_->copy(*queue_, buffers_.back(), values.data(), bytes, CopyKind::kHostToDevice);
    backend_->synchronize(*queue_);
    return {static_cast<T*>(buffers_.back()), values.size()};
  }
  // Every element is 1, so that results are known.
  MatrixView ones(std::int64_t rows, std::int64_t cols) {
    const auto values = upload(std::vector<float>(static_cast<std::size_t>(rows * cols), 1));
    return {values.data(), rows, cols, cols};
  }

  // Times `operation`; then the first element of the last row of `y` must be `expected`.
  template <typename Operation>
  void measure(benchmark::State& state, std::int64_t bytes, ConstMatrixView y, float expected,
               const Operation& operation) {
    for (auto iteration : state) {
      static_cast<void>(iteration);
      operation();
      backend_->synchronize(*queue_);
    }
    state.SetBytesProcessed(state.iterations() * bytes);
    float found = 0;
    backend_->copy(*queue_, &found, y.row<float>(y.rows - 1), sizeof(found),
                   CopyKind::kDeviceToHost);
    backend_->synchronize(*queue_);
    if (!(std::abs(found - expected) <= 1e-3F * std::abs(expected))) {
      state.SkipWithError(fmt::format("result {}, expected {}", found, expected).c_str());
    }
  }

 private:
  Options options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  std::vector<void*> buffers_;
};

constexpr std::int64_t kFloat = sizeof(float);

std::vector<std::int32_t> random_rows(std::int64_t count, std::int64_t bound) {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    const std::uint32_t bits =
        random_bits({1, RandomStream::kGenerator}, static_cast<std::uint64_t>(k), 0);
    ids.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(bound)));
  }
  return ids;
}

// Uniform degrees, uniformly random columns: no locality at all, the worst case for caches.
void spmm(benchmark::State& state, const Options& options, bool scaled) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  const std::int64_t nnz = rows * options.degree;
  std::vector<std::int64_t> row_ptr;
  for (std::int64_t i = 0; i <= rows; ++i) row_ptr.push_back(i * options.degree);
  const std::vector<float> halves(static_cast<std::size_t>(rows), 0.5F);
  SparseOperator op;
  op.rows = rows;
  op.cols = rows;
  op.row_ptr = bench.upload(row_ptr);
  op.col_idx = bench.upload(random_rows(nnz, rows));
  if (scaled) {
    op.row_scale = bench.upload(halves);
    op.col_scale = bench.upload(halves);
  }
  const MatrixView x = bench.ones(rows, cols);
  const MatrixView y = bench.ones(rows, cols);
  const std::int64_t bytes = nnz * (cols * kFloat + 4) + rows * (cols * kFloat + 8);
  const float expected = static_cast<float>(options.degree) * (scaled ? 0.25F : 1.0F);
  bench.measure(state, bytes, y, expected, [&] {
    bench.backend().spmm(bench.queue(), op, {0, rows}, x, y);
  });
  state.SetItemsProcessed(state.iterations() * nnz);
}

void gather(benchmark::State& state, const Options& options) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  std::vector<LocalId> ids;
  for (const std::int32_t row : random_rows(rows, rows)) ids.push_back(LocalId{row});
  const auto device_ids = bench.upload(ids);
  const MatrixView x = bench.ones(rows, cols);
  const MatrixView y = bench.ones(rows, cols);
  bench.measure(state, 2 * rows * cols * kFloat, y, 1,
                [&] { bench.backend().gather_rows(bench.queue(), x, device_ids, {}, y); });
}

void gemm(benchmark::State& state, const Options& options, Transpose transpose_a) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  const bool gradient = transpose_a == Transpose::kYes;
  const MatrixView a = bench.ones(rows, cols);
  const MatrixView b = gradient ? bench.ones(rows, cols) : bench.ones(cols, cols);
  const MatrixView c = gradient ? bench.ones(cols, cols) : bench.ones(rows, cols);
  const auto expected = static_cast<float>(gradient ? rows : cols);
  bench.measure(state, 2 * rows * cols * kFloat, c, expected, [&] {
    bench.backend().gemm(bench.queue(), transpose_a, a, Transpose::kNo, b, 0, c);
  });
  state.counters["flop/s"] = benchmark::Counter(static_cast<double>(2 * rows * cols * cols),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void epilogue(benchmark::State& state, const Options& options, bool dropout) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{i});
  Epilogue epilogue;
  epilogue.beta = bench.ones(1, cols);
  epilogue.relu = true;
  float expected = 2;
  if (dropout) {
    epilogue.dropout = {{7, RandomStream::kDropout}, dropout_threshold(0.5), bench.upload(ids)};
    const bool keeps =
        dropout_keeps(epilogue.dropout.key, static_cast<std::uint64_t>(rows - 1), 0, 32768);
    expected = keeps ? 4 : 0;
  }
  const MatrixView x = bench.ones(rows, cols);
  const MatrixView y = bench.ones(rows, cols);
  bench.measure(state, 2 * rows * cols * kFloat, y, expected,
                [&] { bench.backend().apply_epilogue(bench.queue(), x, epilogue, y); });
}

// STREAM's triad as the contract has it, y += alpha x: reads x and y, writes y.
void triad(benchmark::State& state, const Options& options) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  const MatrixView x = bench.ones(rows, cols);
  const MatrixView y = bench.ones(rows, cols);
  // alpha 0 keeps the result known however often it runs; the traffic is the same.
  bench.measure(state, 3 * rows * cols * kFloat, y, 1,
                [&] { bench.backend().add(bench.queue(), 0, x, y); });
}

void copy(benchmark::State& state, const Options& options) {
  Bench bench(options);
  const std::int64_t rows = options.rows;
  const std::int64_t cols = state.range(0);
  const MatrixView x = bench.ones(rows, cols);
  const MatrixView y = bench.ones(rows, cols);
  bench.measure(state, 2 * rows * cols * kFloat, y, 1, [&] {
    bench.backend().copy(bench.queue(), y.data, x.data, rows * cols * kFloat,
                         CopyKind::kDeviceToDevice);
  });
}

void register_benchmarks(const Options& options) {
  const auto add = [](const char* name, auto body) {
    return benchmark::RegisterBenchmark(name, body)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("copy", [=](benchmark::State& s) { copy(s, options); })->Arg(256);
  add("triad", [=](benchmark::State& s) { triad(s, options); })->Arg(256);
  add("gather", [=](benchmark::State& s) { gather(s, options); })->Arg(64)->Arg(256);
  add("spmm", [=](benchmark::State& s) { spmm(s, options, false); })->Arg(16)->Arg(64)->Arg(256);
  add("spmm_scaled", [=](benchmark::State& s) { spmm(s, options, true); })->Arg(256);
  add("gemm", [=](benchmark::State& s) { gemm(s, options, Transpose::kNo); })->Arg(64)->Arg(256);
  add("gemm_gradient", [=](benchmark::State& s) { gemm(s, options, Transpose::kYes); })
      ->Arg(64)
      ->Arg(256);
  add("epilogue", [=](benchmark::State& s) { epilogue(s, options, false); })->Arg(256);
  add("epilogue_dropout", [=](benchmark::State& s) { epilogue(s, options, true); })->Arg(256);
}

// Takes this program's own options out of the arguments; what is left is Google Benchmark's.
Options take_options(int& argc, char** argv) {
  Options options;
  int kept = 1;
  for (int k = 1; k < argc; ++k) {
    const std::string_view argument = argv[k];
    const auto value = argument.substr(std::min(argument.size(), argument.find('=') + 1));
    const auto number = [&] {
      std::int64_t parsed = 0;
      const auto result = std::from_chars(value.data(), value.data() + value.size(), parsed);
      if (result.ec != std::errc() || result.ptr != value.data() + value.size() || parsed < 1) {
        fail_option("{}: allowed are whole numbers from 1 on", argument);
      }
      return parsed;
    };
    if (argument.starts_with("--backend=")) {
      options.backend = value;
    } else if (argument.starts_with("--threads=")) {
      options.threads = static_cast<int>(number());
    } else if (argument.starts_with("--rows=")) {
      options.rows = number();
    } else if (argument.starts_with("--degree=")) {
      options.degree = number();
    } else {
      argv[kept++] = argv[k];
    }
  }
  argc = kept;
  return options;
}

}  // namespace

}  // namespace atl

int main(int argc, char** argv) {
  try {
    const atl::Options options = atl::take_options(argc, argv);
    benchmark::AddCustomContext("backend",
                                atl::make_backend(options.backend, {options.threads, 0})->device());
    atl::register_benchmarks(options);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const atl::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return error.exit_code();
  }
}
