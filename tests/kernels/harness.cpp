#include "tests/kernels/harness.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "base/philox.hpp"

namespace atl {

namespace {

constexpr std::byte kGuardByte{0xA5};

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, double>  ? DType::kF64
                           : std::is_same_v<T, float> ? DType::kF32
                                                      : DType::kBf16;

template <typename T>
T not_a_number() {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(std::numeric_limits<float>::quiet_NaN());
  } else {
    return std::numeric_limits<T>::quiet_NaN();
  }
}

double element(const std::byte* row, std::int64_t j, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return reinterpret_cast<const double*>(row)[j];
    case DType::kF32:
      return static_cast<double>(reinterpret_cast<const float*>(row)[j]);
    case DType::kBf16:
      return static_cast<double>(to_float(reinterpret_cast<const Bf16*>(row)[j]));
  }
  return 0;
}

}  // namespace

Harness::Harness(const std::string& backend, int threads, DType storage)
    : Harness(backend, BackendOptions{.threads = threads, .device = 0}, storage) {}

Harness::Harness(const std::string& backend, const BackendOptions& options, DType storage)
    : backend_(make_backend(backend, options)), queue_(backend_->make_queue()), storage_(storage) {}

Harness::~Harness() { finish(); }

void Harness::finish() {
  for (const Buffer& buffer : buffers_) {
    const auto now = read(buffer.data, static_cast<std::int64_t>(buffer.image.size()));
    for (std::size_t k = 0; k < now.size(); ++k) {
      if (buffer.writable[k] != 0 || now[k] == buffer.image[k]) continue;
      ADD_FAILURE() << backend_->name() << " wrote byte " << static_cast<std::int64_t>(k) - kGuard
                    << " of a buffer, which is an input, padding or a guard";
      break;
    }
    backend_->release(buffer.data);
  }
  buffers_.clear();
}

// Does not wait: on a device that runs late the copy is read now and takes place later.
std::byte* Harness::upload(Buffer buffer) {
  const auto bytes = static_cast<std::int64_t>(buffer.image.size());
  buffer.data = static_cast<std::byte*>(backend_->allocate(bytes));
  buffers_.push_back(std::move(buffer));
  const Buffer& stored = buffers_.back();
  backend_->copy(*queue_, stored.data, stored.image.data(), bytes, CopyKind::kHostToDevice);
  return stored.data + kGuard;
}

std::vector<std::byte> Harness::read(const void* data, std::int64_t bytes) {
  std::vector<std::byte> host(static_cast<std::size_t>(bytes));
  if (bytes > 0) backend_->copy(*queue_, host.data(), data, bytes, CopyKind::kDeviceToHost);
  backend_->synchronize(*queue_);
  return host;
}

template <typename T>
MatrixView Harness::matrix(std::int64_t rows, std::int64_t cols, Use use, std::vector<T> values) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t stride = cols + padding_;
  Buffer buffer{
      nullptr, std::vector<std::byte>(2 * kGuard + rows * stride * kSize, kGuardByte), {}};
  buffer.writable.assign(buffer.image.size(), 0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      const bool inside = j < cols;
      const T value = inside && !values.empty() ? values.at(i * cols + j) : not_a_number<T>();
      const std::int64_t at = kGuard + (i * stride + j) * kSize;
      std::memcpy(buffer.image.data() + at, &value, sizeof(T));
      if (inside && use != Use::kInput) std::fill_n(buffer.writable.begin() + at, kSize, 1);
    }
  }
  return {upload(std::move(buffer)), rows, cols, stride, kDTypeOf<T>};
}
template MatrixView Harness::matrix(std::int64_t, std::int64_t, Use, std::vector<float>);
template MatrixView Harness::matrix(std::int64_t, std::int64_t, Use, std::vector<double>);
template MatrixView Harness::matrix(std::int64_t, std::int64_t, Use, std::vector<Bf16>);

MatrixView Harness::matrix(std::int64_t rows, std::int64_t cols, Use use,
                           const std::vector<float>& values) {
  if (storage_ == DType::kF32) return matrix<float>(rows, cols, use, values);
  std::vector<Bf16> rounded;
  for (const float value : values) rounded.push_back(to_bf16(value));
  return matrix<Bf16>(rows, cols, use, std::move(rounded));
}

// Without values: 0xA5 bytes, an absurd double, an absurd count.
template <typename T>
T* Harness::upload_span(const T* values, std::int64_t count, bool writable) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  Buffer buffer{nullptr, std::vector<std::byte>(2 * kGuard + bytes, kGuardByte), {}};
  if (values != nullptr) std::memcpy(buffer.image.data() + kGuard, values, bytes);
  buffer.writable.assign(buffer.image.size(), 0);
  if (writable) std::fill_n(buffer.writable.begin() + kGuard, bytes, 1);
  return reinterpret_cast<T*>(upload(std::move(buffer)));
}

template <typename T>
std::span<const T> Harness::input_span(const std::vector<T>& values) {
  return {upload_span(values.data(), static_cast<std::int64_t>(values.size()), false),
          values.size()};
}
template std::span<const float> Harness::input_span(const std::vector<float>&);
template std::span<const double> Harness::input_span(const std::vector<double>&);
template std::span<const std::uint8_t> Harness::input_span(const std::vector<std::uint8_t>&);
template std::span<const std::int32_t> Harness::input_span(const std::vector<std::int32_t>&);
template std::span<const std::int64_t> Harness::input_span(const std::vector<std::int64_t>&);
template std::span<const LocalId> Harness::input_span(const std::vector<LocalId>&);
template std::span<const GlobalId> Harness::input_span(const std::vector<GlobalId>&);
template std::span<const EpochState> Harness::input_span(const std::vector<EpochState>&);

template <typename T>
std::span<T> Harness::inout_span(const std::vector<T>& values) {
  return {upload_span(values.data(), static_cast<std::int64_t>(values.size()), true),
          values.size()};
}
template std::span<double> Harness::inout_span(const std::vector<double>&);
template std::span<std::int64_t> Harness::inout_span(const std::vector<std::int64_t>&);
template std::span<EpochState> Harness::inout_span(const std::vector<EpochState>&);

template <typename T>
std::span<T> Harness::output_span(std::int64_t count) {
  return {upload_span<T>(nullptr, count, true), static_cast<std::size_t>(count)};
}
template std::span<float> Harness::output_span(std::int64_t);
template std::span<double> Harness::output_span(std::int64_t);
template std::span<std::uint8_t> Harness::output_span(std::int64_t);
template std::span<std::int64_t> Harness::output_span(std::int64_t);

std::vector<double> Harness::download(ConstMatrixView view) {
  std::vector<double> values;
  if (view.empty()) return values;
  const std::int64_t size = bytes_of(view.dtype);
  const auto bytes = read(view.data, ((view.rows - 1) * view.stride + view.cols) * size);
  for (std::int64_t i = 0; i < view.rows; ++i) {
    for (std::int64_t j = 0; j < view.cols; ++j) {
      values.push_back(element(bytes.data() + i * view.stride * size, j, view.dtype));
    }
  }
  return values;
}

template <typename T>
std::vector<double> Harness::download_span(std::span<T> values) {
  const auto bytes = read(values.data(), static_cast<std::int64_t>(values.size_bytes()));
  std::vector<double> found;
  for (std::size_t k = 0; k < values.size(); ++k) {
    found.push_back(static_cast<double>(reinterpret_cast<const T*>(bytes.data())[k]));
  }
  return found;
}
template std::vector<double> Harness::download_span(std::span<float>);
template std::vector<double> Harness::download_span(std::span<double>);
template std::vector<double> Harness::download_span(std::span<std::uint8_t>);
template std::vector<double> Harness::download_span(std::span<std::int64_t>);

namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

}  // namespace

bool small_tests() { return is_set("ATOLL_TEST_SMALL"); }

void BackendTest::SetUp() { require_backend(GetParam()); }

namespace {

// `step(found, expected)` is allowed on top of the tolerance.
template <typename Step>
void compare(const std::vector<double>& found, const std::vector<double>& expected,
             double tolerance, const std::string& what, const Step& step) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k] == expected[k]) continue;  // infinities too
    const double bound = tolerance * (1 + std::abs(expected[k])) + step(found[k], expected[k]);
    // Not `difference > bound`: every comparison with NaN is false, and NaN must fail.
    const bool close = std::abs(found[k] - expected[k]) <= bound;
    ASSERT_TRUE(close && std::isfinite(expected[k]))
        << what << ": element " << k << " is " << found[k] << ", expected " << expected[k];
  }
}

}  // namespace

std::vector<double> central_differences(
    const std::function<double(const std::vector<double>&)>& loss, std::vector<double> at,
    double step) {
  std::vector<double> gradient;
  for (double& value : at) {
    const double centre = value;
    value = centre + step;
    const double above = loss(at);
    value = centre - step;
    gradient.push_back((above - loss(at)) / (2 * step));
    value = centre;
  }
  return gradient;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  compare(found, expected, tolerance, what, [](double, double) { return 0.0; });
}

void expect_close_bf16(const std::vector<double>& found, const std::vector<double>& expected,
                       double tolerance, const std::string& what) {
  compare(found, expected, tolerance, what, [](double a, double b) {
    const double smaller = std::min(std::abs(a), std::abs(b));
    return std::isnormal(smaller) ? std::ldexp(1.0, std::ilogb(smaller) - 7) : 0.0;
  });
}

namespace {

// The first `count` values of draw(0), draw(1), ... They are kept for the cases that follow, which
// ask for the same ones thousands of times: drawing took a third of all tests on CPUs.
template <typename T, typename Draw>
std::vector<T> kept_values(std::int64_t count, std::uint64_t seed, const Draw& draw) {
  static thread_local std::map<std::uint64_t, std::vector<T>> drawn;
  std::vector<T>& values = drawn[seed];
  for (auto k = values.size(); k < static_cast<std::size_t>(count); ++k) values.push_back(draw(k));
  return {values.begin(), values.begin() + count};
}

}  // namespace

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  return kept_values<float>(count, seed, [&](std::uint64_t k) {
    return 2 * random_uniform({seed, RandomStream::kGenerator}, k, 0) - 1;
  });
}

std::vector<float> activations(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values = random_floats(count, seed);
  for (float& value : values) value = std::max(value, 0.0F);
  return values;
}

std::vector<double> random_doubles(std::int64_t count, std::uint64_t seed, double offset) {
  std::vector<double> values;
  for (const float value : random_floats(count, seed)) {
    values.push_back(offset + static_cast<double>(value));
  }
  return values;
}

std::vector<std::int32_t> random_integers(std::int64_t count, std::int32_t bound,
                                          std::uint64_t seed) {
  std::vector<std::int32_t> values;
  for (const std::uint32_t bits : kept_values<std::uint32_t>(count, seed, [&](std::uint64_t k) {
         return random_bits({seed, RandomStream::kGenerator}, k, 1);
       })) {
    values.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint32_t>(bound)));
  }
  return values;
}

std::vector<float> numbers_to_round() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>(upper << 16U | lower));
    }
  }
  return values;
}

}  // namespace atl
