#include "kernels/ceilings.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace atl {

namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 24;  // 128 MiB per array
constexpr int kPasses = 5;

struct Free {
  void operator()(double* data) const { std::free(data); }
};
using Array = std::unique_ptr<double, Free>;

// In huge pages where the system has them; every thread touches first what it will use.
Array make_array(int threads, double value) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  constexpr std::size_t kBytes = sizeof(double) * kElements;
  auto* data = static_cast<double*>(std::aligned_alloc(kHugePage, kBytes));
  if (data == nullptr) fail(ErrorKind::kMemory, "{} bytes of memory asked for, refused", kBytes);
  ::madvise(data, kBytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < kElements; ++i) data[i] = value;
  return Array(data);
}

class Matrix {
 public:
  Matrix(Backend& backend, std::int64_t rows, std::int64_t cols, DType dtype)
      : backend_(backend),
        view_{backend.allocate(rows * cols * bytes_of(dtype)), rows, cols, cols, dtype} {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { backend_.release(view_.data); }
  MatrixView view() const { return view_; }

 private:
  Backend& backend_;
  MatrixView view_;
};

// Numbers in [-1, 1]: with zeros a device takes less power, and so runs faster than it ever will on
// data. A short series is repeated, doubled by copies on the device.
void fill_random(Backend& backend, Queue& queue, MatrixView to) {
  constexpr std::int64_t kSeries = 65521;  // a prime: the columns of a matrix differ
  const std::int64_t count = to.rows * to.cols;
  const std::int64_t first = std::min(count, kSeries);
  std::vector<float> series(static_cast<std::size_t>(first));
  for (std::int64_t k = 0; k < first; ++k) {
    const auto uniform =
        random_uniform({1, RandomStream::kGenerator}, static_cast<std::uint64_t>(k), 0);
    series[static_cast<std::size_t>(k)] = 2 * uniform - 1;
  }
  const Matrix exact(backend, 1, first, DType::kF32);
  backend.copy(queue, exact.view().data, series.data(), 4 * first, CopyKind::kHostToDevice);
  backend.run(queue, kernels::Convert{exact.view(), {to.data, 1, first, first, to.dtype}});
  const std::int64_t size = bytes_of(to.dtype);
  auto* data = static_cast<std::byte*>(to.data);
  for (std::int64_t filled = first; filled < count; filled *= 2) {
    backend.copy(queue, data + filled * size, data, std::min(filled, count - filled) * size,
                 CopyKind::kDeviceToDevice);
  }
}

// The least of kPasses, after one that nobody times.
double least_seconds(Backend& backend, Queue& queue, const std::function<void()>& body) {
  double least = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass <= kPasses; ++pass) {
    backend.synchronize(queue);
    const auto start = std::chrono::steady_clock::now();
    body();
    backend.synchronize(queue);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (pass > 0) least = std::min(least, took.count());
  }
  return least;
}

// Copies grow until one takes long, as on a fast device, or memory becomes scarce, as on a small
// one.
double copy_bytes_per_s(Backend& backend, Queue& queue) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  constexpr double kLong = 0.2e-3;
  double rate = 0;
  for (std::int64_t bytes = 16 << 20; bytes <= kMostBytes; bytes *= 2) {
    const Matrix from(backend, 1, bytes / 4, DType::kF32);
    const Matrix to(backend, 1, bytes / 4, DType::kF32);
    backend.run(queue, kernels::FillZero{from.view()});
    const double seconds = least_seconds(backend, queue, [&] {
      backend.copy(queue, to.view().data, from.view().data, bytes, CopyKind::kDeviceToDevice);
    });
    rate = std::max(rate, 2.0 * static_cast<double>(bytes) / seconds);
    if (seconds > kLong) break;
  }
  return rate;
}

double product_flop_per_s(Backend& backend, Queue& queue, DType dtype) {
  constexpr std::int64_t kMostColumns = 8192;
  constexpr double kLong = 5e-3;
  double rate = 0;
  for (std::int64_t n = 256; n <= kMostColumns; n *= 2) {
    const Matrix a(backend, n, n, dtype);
    const Matrix b(backend, n, n, dtype);
    const Matrix c(backend, n, n, dtype);
    fill_random(backend, queue, a.view());
    fill_random(backend, queue, b.view());
    const double seconds = least_seconds(backend, queue, [&] {
      backend.run(queue,
                  kernels::Gemm{Transpose::kNo, a.view(), Transpose::kNo, b.view(), 0, c.view()});
    });
    const auto side = static_cast<double>(n);
    rate = std::max(rate, 2 * side * side * side / seconds);
    if (seconds > kLong) break;
  }
  return rate;
}

}  // namespace

Ceilings measure_ceilings(Backend& backend, Queue& queue, int threads, DType dtype) {
  const double bytes_per_s =
      backend.host_accessible() ? triad_bytes_per_s(threads) : copy_bytes_per_s(backend, queue);
  return {bytes_per_s, product_flop_per_s(backend, queue, dtype)};
}

double triad_bytes_per_s(int threads) {
  const Array a = make_array(threads, 0);
  const Array b = make_array(threads, 1);
  const Array c = make_array(threads, 2);
  double* to = a.get();
  const double* first = b.get();
  const double* second = c.get();
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (std::int64_t i = 0; i < kElements; ++i) to[i] = first[i] + 3.0 * second[i];
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 3.0 * sizeof(double) * kElements / seconds);
  }
  return best;
}

}  // namespace atl
