// Runs operations on one backend with every buffer between guard bytes, so that one test source
// serves every backend, also one whose memory the host can't touch and whose queues run late.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/registry.hpp"
#include "tests/support/require_device.hpp"

namespace atl {

enum class Use { kInput, kOutput, kInOut };

// The content of one of an operation's outputs, and how it is stored.
struct Output {
  std::vector<double> values;
  DType dtype;
  std::int64_t terms = 0;  // that a library adds up in f32 for one value, in an order of its own
};

// A backend, a queue and the buffers of one test. Buffers live in the backend's memory; everything
// that an operation must not change (guards, the padding between rows, inputs) is compared with
// what was uploaded by finish(), which the destructor calls. Padding and fresh outputs are NaN, so
// reading the one or leaving the other unwritten shows in the numbers.
class Harness {
 public:
  // Matrices whose type is not named are stored as `storage`.
  explicit Harness(const std::string& backend, int threads = 2, DType storage = DType::kF32);
  Harness(const std::string& backend, const BackendOptions& options, DType storage = DType::kF32);
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;
  ~Harness();
  // Checks and releases all buffers.
  void finish();

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }
  // Unused elements after each row of the matrices made from now on. 3 at first: rows start at odd
  // places; with 0 they are aligned where the columns are.
  void set_padding(std::int64_t padding) { padding_ = padding; }

  // A matrix of element type T, values row by row.
  template <typename T>
  MatrixView matrix(std::int64_t rows, std::int64_t cols, Use use, std::vector<T> values = {});
  template <typename T>
  ConstMatrixView input(std::int64_t rows, std::int64_t cols, std::vector<T> values) {
    return matrix<T>(rows, cols, Use::kInput, std::move(values));
  }
  template <typename T>
  MatrixView output(std::int64_t rows, std::int64_t cols) {
    return matrix<T>(rows, cols, Use::kOutput);
  }
  // A matrix in the storage type of this harness, to which the values are rounded.
  MatrixView matrix(std::int64_t rows, std::int64_t cols, Use use,
                    const std::vector<float>& values = {});
  ConstMatrixView input(std::int64_t rows, std::int64_t cols, const std::vector<float>& values) {
    return matrix(rows, cols, Use::kInput, values);
  }
  MatrixView output(std::int64_t rows, std::int64_t cols) {
    return matrix(rows, cols, Use::kOutput);
  }
  template <typename T>
  std::span<const T> input_span(const std::vector<T>& values);
  template <typename T>
  std::span<T> inout_span(const std::vector<T>& values);
  template <typename T>
  std::span<T> output_span(std::int64_t count);
  const EpochState* epoch_state(const EpochState& state) {
    return input_span(std::vector<EpochState>{state}).data();
  }

  // The elements, row by row, after everything queued has run.
  std::vector<double> download(ConstMatrixView view);
  template <typename T>
  std::vector<double> download_span(std::span<T> values);
  Output result(ConstMatrixView view) { return {download(view), view.dtype}; }
  template <typename T>
  Output result(std::span<T> values) {
    return {download_span(values), DType::kF64};
  }

 private:
  struct Buffer {
    std::byte* data;
    std::vector<std::byte> image;        // what was uploaded, guards included
    std::vector<std::uint8_t> writable;  // 1 where an operation may write
  };
  static constexpr std::int64_t kGuard = 64;  // bytes on either side; keeps the alignment

  template <typename T>
  T* upload_span(const T* values, std::int64_t count, bool writable);
  std::byte* upload(Buffer buffer);
  std::vector<std::byte> read(const void* data, std::int64_t bytes);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  DType storage_;
  std::int64_t padding_ = 3;
  std::deque<Buffer> buffers_;
};

// One test per name of backend_names(). Without a device the cuda tests are skipped visibly, or
// fail if ATOLL_REQUIRE_GPU=1.
class BackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
};
// True if ATOLL_TEST_SMALL=1: a tool that checks every access slows devices down a hundredfold.
bool small_tests();
inline std::string backend_test_name(const ::testing::TestParamInfo<std::string>& test) {
  return test.param;
}

// For suites that run on every backend in both types.
using BackendAndType = std::tuple<std::string, DType>;
inline std::string typed_test_name(const ::testing::TestParamInfo<BackendAndType>& test) {
  return std::get<0>(test.param) + "_" + to_string(std::get<1>(test.param));
}

// d loss / d at, from differences over twice `step`.
std::vector<double> central_differences(
    const std::function<double(const std::vector<double>&)>& loss, std::vector<double> at,
    double step);

// Fails unless |found - expected| <= tolerance * (1 + |expected|) everywhere; NaN never passes.
void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double tolerance, const std::string& what);
// The same for numbers that were then rounded to bf16: two sums `tolerance` apart may lie on either
// side of the middle between two bf16 numbers and so end up one bf16 step apart, which is 2^-7 of
// the power of two below (between 2^-8 and 2^-7 of the number).
void expect_close_bf16(const std::vector<double>& found, const std::vector<double>& expected,
                       double tolerance, const std::string& what);

// Those whose gradient is not told by their zeros.
inline constexpr ActivationFunction kCurvedFunctions[] = {
    ActivationFunction::kLeakyRelu, ActivationFunction::kElu, ActivationFunction::kGelu};
// The gradient through relu and dropout that kept some elements and multiplied them by `scale`.
inline ActivationGradient through_relu(ConstMatrixView y, float scale, MatrixView dx) {
  return {y, dx, ActivationFunction::kRelu, {.key = {}, .rate = {32768, scale}, .row_ids = {}}};
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Reproducible test data: uniform in [-1, 1), or integers in [0, bound).
std::vector<float> random_floats(std::int64_t count, std::uint64_t seed);
// The same after ReLU: about half of them 0.
std::vector<float> activations(std::int64_t count, std::uint64_t seed);
std::vector<double> random_doubles(std::int64_t count, std::uint64_t seed, double offset = 0);
std::vector<std::int32_t> random_integers(std::int64_t count, std::int32_t bound,
                                          std::uint64_t seed);
// Every sign, exponent and bit that bf16 keeps, each with what is cut off below, at and above the
// middle and at its ends: 6 * 2^16 numbers, NaN and infinity among them.
std::vector<float> numbers_to_round();

}  // namespace atl
