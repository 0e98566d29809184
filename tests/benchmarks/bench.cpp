#include "tests/benchmarks/bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/philox.hpp"
#include "kernels/bf16.hpp"

namespace atl {

namespace {

constexpr std::int64_t kValues = 65521;  // a prime: no column of a matrix repeats one value

// Multiples of 1/64, which bf16 stores exactly.
const std::array<float, kValues>& values() {
  static const auto table = [] {
    std::array<float, kValues> made{};
    for (std::int64_t k = 0; k < kValues; ++k) {
      const float uniform =
          random_uniform({1, RandomStream::kGenerator}, static_cast<std::uint64_t>(k), 0);
      made[static_cast<std::size_t>(k)] = std::round(uniform * 128 - 64) / 64;
    }
    return made;
  }();
  return table;
}

}  // namespace

Bench::Bench(const std::string& backend, const BenchOptions& options)
    : scale_(options.scale),
      threads_(options.threads > 0 ? options.threads : parallel_threads()),
      choices_(std::make_shared<KernelChoices>()),
      backend_(make_backend(backend, {.threads = threads_, .device = 0, .choices = choices_})),
      queue_(backend_->make_queue()),
      clock_(backend_->make_clock(*queue_)) {}

Bench::~Bench() { release_all(); }

void Bench::release_all() {
  case_ = {};
  for (void* data : buffers_) backend_->release(data);
  buffers_.clear();
}

std::int64_t Bench::scaled(std::int64_t full) const {
  return std::max<std::int64_t>(64, std::llround(static_cast<double>(full) * scale_));
}

std::int64_t Bench::limit_size(std::int64_t full) const {
  const auto wanted = static_cast<double>(full) * std::min(1.0, 16 * scale_);
  return std::max<std::int64_t>(64, std::llround(wanted / 64) * 64);
}

double Bench::value(std::int64_t index) {
  return static_cast<double>(values()[static_cast<std::size_t>(index % kValues)]);
}

void* Bench::upload_bytes(const void* data, std::int64_t bytes) {
  buffers_.push_back(backend_->allocate(bytes));
  backend_->copy(*queue_, buffers_.back(), data, bytes, CopyKind::kHostToDevice);
  backend_->synchronize(*queue_);
  return buffers_.back();
}

MatrixView Bench::matrix(std::int64_t rows, std::int64_t cols, DType dtype) {
  const std::int64_t count = rows * cols;
  const std::int64_t size = bytes_of(dtype);
  buffers_.push_back(backend_->allocate(count * size));
  // A piece at a time: a large matrix would not fit the host twice.
  constexpr std::int64_t kPiece = std::int64_t{1} << 22;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, count) * size));
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    for (std::int64_t k = 0; k < length; ++k) {
      const auto number = static_cast<float>(value(begin + k));
      if (dtype == DType::kBf16) {
        reinterpret_cast<Bf16*>(piece.data())[k] = to_bf16(number);
      } else {
        reinterpret_cast<float*>(piece.data())[k] = number;
      }
    }
    backend_->copy(*queue_, static_cast<std::byte*>(buffers_.back()) + begin * size, piece.data(),
                   length * size, CopyKind::kHostToDevice);
    backend_->synchronize(*queue_);
  }
  return {buffers_.back(), rows, cols, cols, dtype};
}

// The fault in the result; empty if there is none.
std::string Bench::check() {
  if (case_.checked.absent()) return "";
  std::array<std::byte, 8> bytes{};
  backend_->copy(*queue_, bytes.data(), case_.checked.data, bytes_of(case_.checked.dtype),
                 CopyKind::kDeviceToHost);
  backend_->synchronize(*queue_);
  double found = 0;
  if (case_.checked.dtype == DType::kF64) {
    found = *reinterpret_cast<const double*>(bytes.data());
  } else if (case_.checked.dtype == DType::kBf16) {
    found = static_cast<double>(to_float(*reinterpret_cast<const Bf16*>(bytes.data())));
  } else {
    found = static_cast<double>(*reinterpret_cast<const float*>(bytes.data()));
  }
  const double precision = case_.checked.dtype == DType::kBf16 ? 0x1p-7 : 1e-3;
  if (std::abs(found - case_.expected) <= precision * (1 + std::abs(case_.expected))) return "";
  return fmt::format("result {}, expected {}", found, case_.expected);
}

// Seconds of one run, on the device's clock if it has one.
double Bench::time_once() {
  if (clock_ != nullptr) {
    clock_->reset();
    const int begin = clock_->mark();
    case_.run();
    const int end = clock_->mark();
    backend_->synchronize(*queue_);
    return (clock_->microseconds(end) - clock_->microseconds(begin)) * 1e-6;
  }
  const auto begin = std::chrono::steady_clock::now();
  case_.run();
  backend_->synchronize(*queue_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Bench::bound_seconds(DType dtype) {
  auto found = ceilings_.find(dtype);
  if (found == ceilings_.end()) {
    found = ceilings_.emplace(dtype, measure_ceilings(*backend_, *queue_, threads_, dtype)).first;
  }
  return std::max(case_.no_reuse_bytes / found->second.bytes_per_s,
                  case_.flops / found->second.flop_per_s);
}

void Bench::run(benchmark::State& state, const Benchmark& benchmark) {
  if (benchmark.name != name_) {
    release_all();
    name_ = benchmark.name;
    case_ = benchmark.make(*this);
    time_once();
    failure_ = check();
  }
  if (!failure_.empty()) return state.SkipWithError(failure_.c_str());
  double seconds = 0;
  for (auto iteration : state) {
    static_cast<void>(iteration);
    const double once = time_once();
    seconds += once;
    state.SetIterationTime(once);
  }
  const auto rate = [&](const char* counter, double amount) {
    if (amount == 0) return;
    state.counters[counter] =
        benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (case_.no_reuse_bytes == case_.compulsory_bytes) {
    rate("bytes_per_second", case_.compulsory_bytes);
  } else {
    rate("no_reuse_bytes_per_second", case_.no_reuse_bytes);
    rate("compulsory_bytes_per_second", case_.compulsory_bytes);
  }
  rate("flops", case_.flops);
  state.counters["of_ceiling"] =
      bound_seconds(benchmark.dtype) * static_cast<double>(state.iterations()) / seconds;
}

}  // namespace atl
