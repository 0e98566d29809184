// Runs operations on one backend with every buffer between guard bytes, so that one test source
// serves every backend.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/registry.hpp"

namespace atl {

enum class Use { kInput, kOutput, kInOut };

// A backend, a queue and the buffers of one test. Buffers live in the backend's memory; everything
// that an operation must not change (guards, the padding between rows, inputs) is compared with
// what was uploaded when the harness is destroyed. Padding and fresh outputs are NaN, so reading
// the one or leaving the other unwritten shows in the numbers.
class Harness {
 public:
  explicit Harness(const std::string& backend, int threads = 2);
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;
  ~Harness();

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }

  // A matrix with `padding` unused elements after each row.
  template <typename T = float>
  MatrixView matrix(std::int64_t rows, std::int64_t cols, Use use, std::vector<T> values = {},
                    std::int64_t padding = 3);
  template <typename T = float>
  ConstMatrixView input(std::int64_t rows, std::int64_t cols, std::vector<T> values) {
    return matrix<T>(rows, cols, Use::kInput, std::move(values));
  }
  template <typename T = float>
  MatrixView output(std::int64_t rows, std::int64_t cols) {
    return matrix<T>(rows, cols, Use::kOutput);
  }
  template <typename T>
  std::span<const T> input_span(const std::vector<T>& values);
  template <typename T>
  std::span<T> output_span(std::int64_t count);

  // The elements, row by row, after everything queued has run.
  std::vector<double> download(ConstMatrixView view);
  template <typename T>
  std::vector<double> download_span(std::span<T> values);

 private:
  struct Buffer {
    std::byte* data;
    std::vector<std::byte> image;        // what was uploaded, guards included
    std::vector<std::uint8_t> writable;  // 1 where an operation may write
  };
  static constexpr std::int64_t kGuard = 64;  // bytes on either side; keeps the alignment

  std::byte* upload(Buffer buffer);
  std::vector<std::byte> read(const void* data, std::int64_t bytes);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  std::deque<Buffer> buffers_;
};

// One test per name of backend_names(). Without a device the cuda tests are skipped visibly, or
// fail if ATOLL_REQUIRE_GPU=1.
class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
};
void require_backend(const std::string& name);
inline std::string backend_test_name(const ::testing::TestParamInfo<std::string>& test) {
  return test.param;
}

// Fails unless |found - expected| <= tolerance * (1 + |expected|) everywhere; NaN never passes.
void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double tolerance, const std::string& what);

// Reproducible test data: uniform in [-1, 1), or integers in [0, bound).
std::vector<float> random_floats(std::int64_t count, std::uint64_t seed);
std::vector<std::int32_t> random_integers(std::int64_t count, std::int32_t bound,
                                          std::uint64_t seed);

}  // namespace atl
