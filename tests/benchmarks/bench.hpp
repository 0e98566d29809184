// Shared by the kernels' benchmarks: a backend, data of known values, timing on the device, and the
// counters of a roofline under ceilings measured in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ceilings.hpp"
#include "kernels/kernel_choices.hpp"
#include "kernels/registry.hpp"

namespace atl {

constexpr std::int64_t kArxivNodes = 169'343;
constexpr std::int64_t kColumns = 256;  // of most matrices

struct BenchOptions {
  std::vector<std::string> backends;  // empty: what `auto` chooses
  int threads = 0;
  double scale = 0.1;  // of the nodes and edges of the graphs, and of the rows of dense matrices
};

// One operation on data that is there already, and what it costs.
struct Case {
  std::function<void()> run;
  // Bytes if nothing were cached, every matrix, index and factor counted once per use; and if each
  // were moved once only. The same for operations that stream.
  double no_reuse_bytes = 0;
  double compulsory_bytes = 0;
  double flops = 0;
  // After the first run this element must have this value, to about the precision of its type.
  ConstMatrixView checked{};  // [1, 1]
  double expected = 0;
};

class Bench;

// A benchmark by its name, which is unique, and how to make its case.
struct Benchmark {
  std::string name;
  std::function<Case(Bench&)> make;
  DType dtype = DType::kF32;  // left out on backends that can't store it
  std::string kernel{};       // of an spmm: left out on backends that have no choice
};

// One backend and the data of the benchmark that is running.
class Bench {
 public:
  Bench(const std::string& backend, const BenchOptions& options);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench();

  Backend& backend() { return *backend_; }
  // The choices that the backend takes its kernels from.
  KernelChoices& choices() { return *choices_; }
  Queue& queue() { return *queue_; }

  // Rows of a matrix or elements of an array that has `full` of them at scale 1.
  std::int64_t scaled(std::int64_t full) const;
  // The size of what shows a limit of the machine: `full` unless the scale is tiny.
  std::int64_t limit_size(std::int64_t full) const;

  template <typename T>
  std::span<T> upload(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    return {static_cast<T*>(upload_bytes(values.data(), bytes)), values.size()};
  }
  // Element (i, j) is value(i * cols + j); 64-byte aligned rows where cols allows.
  MatrixView matrix(std::int64_t rows, std::int64_t cols, DType dtype);
  // Reproducible numbers in [-1, 1] that every type stores exactly. Not one constant: a device
  // needs less power for it and runs faster.
  static double value(std::int64_t index);

  // Makes the case of this name, unless it was the last one: Google Benchmark calls a benchmark
  // several times. Then times it.
  void run(benchmark::State& state, const Benchmark& benchmark);

 private:
  void* upload_bytes(const void* data, std::int64_t bytes);
  void release_all();
  std::string check();
  double time_once();
  // The least time that the ceilings allow the case, nothing being cached.
  double bound_seconds(DType dtype);

  double scale_;
  int threads_;
  std::shared_ptr<KernelChoices> choices_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<SpanClock> clock_;
  std::map<DType, Ceilings> ceilings_;
  std::vector<void*> buffers_;
  std::string name_;
  Case case_;
  std::string failure_;
};

inline ConstMatrixView element(ConstMatrixView view, std::int64_t i, std::int64_t j) {
  const auto* data =
      static_cast<const std::byte*>(view.data) + (i * view.stride + j) * bytes_of(view.dtype);
  return {data, 1, 1, 1, view.dtype};
}

// `name` with the type appended, e.g. "gemm/hidden/bf16".
inline std::string with_type(const std::string& name, DType dtype) {
  return name + (dtype == DType::kBf16 ? "/bf16" : "/f32");
}

std::vector<Benchmark> limit_benchmarks();
std::vector<Benchmark> sparse_benchmarks();
std::vector<Benchmark> attention_benchmarks();
std::vector<Benchmark> dense_benchmarks();
std::vector<Benchmark> normalization_benchmarks();
std::vector<Benchmark> wire_benchmarks();

}  // namespace atl
