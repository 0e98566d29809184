// Quantized messages of every backend against the oracle, byte by byte, and what their rounding
// must be: unbiased, of the variance that the trace says, shared by receivers.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/wire_vectors.hpp"
#include "tests/kernels/wire_messages.hpp"

namespace atl {

namespace {

constexpr RandomKey kOracleKey{11, RandomStream::kRoundBackward, 1, 40};
const std::vector<int> kQuantizedBits{1, 2, 4, 8, 16};

struct Stored {
  std::string backend;
  DType dtype;
};
std::vector<Stored> stored(const std::vector<std::string>& backends) {
  std::vector<Stored> all;
  for (const std::string& backend : backends) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) all.push_back({backend, dtype});
  }
  return all;
}
void PrintTo(const Stored& which, std::ostream* out) { *out << which.backend; }
std::string stored_name(const ::testing::TestParamInfo<Stored>& test) {
  return test.param.backend + "_" + to_string(test.param.dtype);
}

class WireTest : public ::testing::TestWithParam<Stored> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
};
class WireOracleTest : public WireTest {};
INSTANTIATE_TEST_SUITE_P(Backends, WireTest, ::testing::ValuesIn(stored(backend_names())),
                         stored_name);
INSTANTIATE_TEST_SUITE_P(Backends, WireOracleTest, ::testing::ValuesIn(stored({"cpu", "cuda"})),
                         stored_name);

// Rows of every kind that may be sent, by turns: signed; after ReLU; constant; zero; negative zeros
// between zeros; subnormal; far from zero; of very different sizes.
std::vector<float> mixed_rows(std::int64_t rows, std::int64_t cols) {
  std::vector<float> values = random_floats(rows * cols, 21);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      float& value = values[static_cast<std::size_t>(i * cols + j)];
      const auto kind = i % 8;
      if (kind == 1) value = std::max(value, 0.0F);
      if (kind == 2) value = 0.7F;
      if (kind == 3) value = 0;
      if (kind == 4) value = j % 2 == 0 ? -0.0F : 0.0F;
      if (kind == 5) value *= 0x1p-130F;
      if (kind == 6) value = 1000 + value;
      if (kind == 7) value *= std::ldexp(1.0F, static_cast<int>(j % 60) - 30);
    }
  }
  return values;
}

// A third of the rows in no order, to none to four receivers each, at all widths.
WireMessages mixed_messages(std::int64_t rows, std::int64_t sources, std::int64_t cols,
                            DType dtype) {
  WireMessages messages(cols, dtype);
  for (std::int64_t k = 0; k < rows; ++k) {
    std::vector<int> widths;
    for (std::int64_t r = 0; r < (k + 1) % 5; ++r) {
      widths.push_back(kWireBits[static_cast<std::size_t>((k * 7 + r * r + k / 5) % 6)]);
    }
    messages.add((k * 5 + 2) % sources, widths);
  }
  return messages;
}

void expect_same_messages(const WireMessages& messages, const Packed& found,
                          const Packed& expected) {
  for (std::int64_t m = 0; m < messages.count(); ++m) {
    ASSERT_EQ(message(messages, found, m), message(messages, expected, m))
        << "message " << m << " at " << int{messages.bits[static_cast<std::size_t>(m)]} << " bits";
  }
  ASSERT_EQ(found.bytes, expected.bytes) << "bytes between the messages";
  ASSERT_EQ(found.range, expected.range);
  expect_close(found.variance, expected.variance, 1e-5, "variance");
  for (std::size_t m = 0; m < found.variance.size(); ++m) {  // small ones as well
    ASSERT_NEAR(found.variance[m], expected.variance[m], 1e-5 * expected.variance[m] + 1e-30);
  }
  ASSERT_EQ(found.bad, expected.bad);
}

void expect_bits_of_rows(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(found[k]), std::bit_cast<std::uint64_t>(expected[k]))
        << "value " << k << ": " << found[k] << ", expected " << expected[k];
  }
}

struct MessageSize {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t padding;
};
std::vector<MessageSize> message_sizes() {
  if (small_tests()) return {{0, 3, 3}, {33, 7, 3}, {33, 64, 0}};
  std::vector<MessageSize> list;
  for (const std::int64_t rows : {0, 1, 31, 32, 33, 257}) {
    for (const std::int64_t cols : {1, 3, 7, 64, 100, 256}) list.push_back({rows, cols, 3});
  }
  for (const MessageSize size :
       {MessageSize{33, 602, 3}, MessageSize{33, 1500, 3}, MessageSize{257, 64, 0},
        MessageSize{33, 256, 0}, MessageSize{33, 100, 28}, MessageSize{33, 602, 6},
        MessageSize{33, 1500, 0}}) {
    list.push_back(size);
  }
  return list;
}

TEST_P(WireOracleTest, SameBytesAndValues) {
  const auto& [backend, dtype] = GetParam();
  for (const MessageSize& size : message_sizes()) {
    for (const bool scaled : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {}, padding {}, scaled {}", size.rows, size.cols, size.padding,
                               scaled));
      const std::int64_t sources = 3 * size.rows + 4;
      const WireMessages messages = mixed_messages(size.rows, sources, size.cols, dtype);
      const auto values = mixed_rows(sources, size.cols);
      const auto scale = scaled ? random_floats(sources, 22) : std::vector<float>();
      std::vector<Packed> packed;
      std::vector<std::vector<double>> unpacked;
      for (const std::string& name : {backend, std::string("reference")}) {
        Harness h(name, 2, dtype);
        h.set_padding(size.padding);
        packed.push_back(pack(h, messages, h.input(sources, size.cols, values), scale,
                              {kOracleKey, nodes(sources)}));
        // Both from the same bytes.
        unpacked.push_back(unpack(h, messages, packed.front().bytes, dtype));
      }
      expect_same_messages(messages, packed[0], packed[1]);
      expect_bits_of_rows(unpacked[0], unpacked[1]);
      ASSERT_EQ(packed[0].bad, kNoneBad);
      for (const std::uint8_t byte : gaps(messages, packed[0])) ASSERT_EQ(byte, kGapByte);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WireOracleTest, SameBytesToTheNearest) {
  const auto& [backend, dtype] = GetParam();
  for (const MessageSize& size : message_sizes()) {
    SCOPED_TRACE(fmt::format("{} x {}, padding {}", size.rows, size.cols, size.padding));
    const auto values = mixed_rows(size.rows, size.cols);
    WireMessages messages(size.cols, dtype);
    for (std::int64_t k = 0; k < size.rows; ++k) {
      messages.add(size.rows - 1 - k, {kWireBits[static_cast<std::size_t>((k + k / 8) % 6)]});
    }
    const auto scale = size.rows % 2 == 0 ? random_floats(size.rows, 22) : std::vector<float>();
    std::vector<Packed> packed;
    for (const std::string& name : {backend, std::string("reference")}) {
      Harness h(name, 2, dtype);
      h.set_padding(size.padding);
      packed.push_back(pack(h, messages, h.input(size.rows, size.cols, values), scale,
                            {.key = kOracleKey, .row_ids = nodes(size.rows), .nearest = true}));
    }
    expect_same_messages(messages, packed[0], packed[1]);
    if (HasFatalFailure()) return;
  }
}

// In one pass as in steps: differences to rows that are kept, and rows with what was lost, of which
// some are not sent.
TEST_P(WireOracleTest, SameResidualsAndRowsThatAreKept) {
  const auto& [backend, dtype] = GetParam();
  for (const MessageSize& size : message_sizes()) {
    for (const int sign : {-1, 1}) {
      SCOPED_TRACE(
          fmt::format("{} x {}, padding {}, sign {}", size.rows, size.cols, size.padding, sign));
      const std::int64_t sources = size.rows + 8;
      const std::vector<float> values = mixed_rows(sources, size.cols);
      ResidualRows about;
      WireMessages messages(size.cols, dtype);
      for (std::int64_t m = 0; m < size.rows; ++m) {
        const std::int64_t row = (m * 3 + 1) % sources;
        about.rows.push_back(LocalId{static_cast<std::int32_t>(row)});
        if (m % 5 == 3) continue;
        messages.add(m, {kWireBits[static_cast<std::size_t>((m + m / 8) % 6)]});
      }
      about.scale = size.rows % 2 == 0 ? random_floats(sources, 22) : std::vector<float>();
      about.kept = random_floats(size.rows * size.cols, 23);
      // Some differences are 0, and some small beside the rows.
      for (std::int64_t m = 0; m < size.rows; m += 2) {
        const auto row =
            static_cast<std::size_t>(to_index(about.rows[static_cast<std::size_t>(m)]));
        for (std::int64_t j = 0; j < size.cols; ++j) {
          float& kept = about.kept[static_cast<std::size_t>(m * size.cols + j)];
          const auto at = row * static_cast<std::size_t>(size.cols) + static_cast<std::size_t>(j);
          const float m_j = values[at] * (about.scale.empty() ? 1.0F : about.scale[row]);
          kept = m % 4 == 0 ? m_j : m_j + kept * 1e-3F;
        }
      }
      about.sign = sign;
      for (const bool wanted : {false, true}) {
        about.wanted = wanted;
        std::vector<Residuals> found;
        for (const std::string& name : {backend, std::string("reference")}) {
          Harness h(name, 2, dtype);
          h.set_padding(size.padding);
          about.x = h.input(sources, size.cols, values);
          found.push_back(pack_residuals(h, messages, about));
        }
        expect_same_messages(messages, found[0].packed, found[1].packed);
        expect_bits_of_rows(found[0].kept, found[1].kept);
        expect_bits_of_rows(found[0].residuals, found[1].residuals);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(WireTest, NamesTheFirstResidualThatCannotBeSent) {
  Harness h(GetParam().backend, 2, GetParam().dtype);
  const std::int64_t cols = 5;
  std::vector<float> values = random_floats(6 * cols, 4);
  ResidualRows about;
  WireMessages messages(cols, GetParam().dtype);
  for (std::int32_t m = 0; m < 6; ++m) {
    about.rows.push_back(LocalId{5 - m});
    if (m != 1) messages.add(m, {2});
  }
  about.kept.assign(values.size(), 0.0F);
  about.kept[3 * cols + 2] = std::numeric_limits<float>::infinity();  // the third that is sent
  about.x = h.input(6, cols, values);
  EXPECT_EQ(pack_residuals(h, messages, about).packed.bad, 2);
}

// The square of what is lost, over that of the row.
double lost_to_the_nearest(Harness& h, const std::vector<float>& row, int bits) {
  const auto cols = static_cast<std::int64_t>(row.size());
  const ConstMatrixView x = h.input(1, cols, row);
  WireMessages messages(cols, DType::kF32);
  messages.add(0, {bits});
  const Packed packed =
      pack(h, messages, x, {}, {.key = kOracleKey, .row_ids = nodes(1), .nearest = true});
  const std::vector<double> found = unpack(h, messages, packed.bytes, DType::kF32);
  double lost = 0;
  double whole = 0;
  for (std::size_t j = 0; j < row.size(); ++j) {
    lost += std::pow(found[j] - static_cast<double>(row[j]), 2);
    whole += std::pow(static_cast<double>(row[j]), 2);
  }
  return lost / whole;
}

TEST_P(WireTest, RoundingToTheNearestLosesAShareOfTheRow) {
  const auto& [backend, dtype] = GetParam();
  if (dtype != DType::kF32) return;
  Harness h(backend, 2, dtype);
  // Sums of twelve uniform numbers are nearly Gaussian.
  const auto uniform = random_floats(12 * 4096, 31);
  std::vector<float> gaussian(4096, 0.0F);
  for (std::size_t k = 0; k < uniform.size(); ++k) gaussian[k / 12] += uniform[k];
  std::vector<float> one_of_many(256, 0.0F);
  one_of_many[77] = -3;
  std::vector<float> heavy = gaussian;
  for (float& value : heavy) value = value * value * value;
  for (const auto& [bits, share] :
       {std::pair{1, 0.364}, {2, 0.222}, {4, 0.0125}, {8, 0.0002}, {16, 1e-8}}) {
    EXPECT_LT(lost_to_the_nearest(h, gaussian, bits), 1.03 * share) << bits;
    // Never more than the row itself: what is left over shrinks from one message to the next.
    EXPECT_LT(lost_to_the_nearest(h, heavy, bits), 0.9) << bits;
    EXPECT_LT(lost_to_the_nearest(h, one_of_many, bits), 0.01) << bits;
  }
}

// Messages packed from bf16 may be unpacked to f32, on the other backend as well.
TEST_P(WireOracleTest, UnpacksToF32) {
  const auto& [backend, dtype] = GetParam();
  WireMessages messages(100, dtype);
  for (std::int64_t i = 0; i < 40; ++i) messages.add(i, kQuantizedBits);
  Harness tested(backend, 2, dtype);
  Harness oracle("reference", 2, dtype);
  const auto values = mixed_rows(40, 100);
  const Packed packed =
      pack(oracle, messages, oracle.input(40, 100, values), {}, {kOracleKey, nodes(40)});
  expect_bits_of_rows(unpack(tested, messages, packed.bytes, DType::kF32),
                      unpack(oracle, messages, packed.bytes, DType::kF32));
}

TEST_P(WireTest, At32BitsMessagesAreGatheredRows) {
  const auto& [backend, dtype] = GetParam();
  for (const std::int64_t cols : {3, 64, 257}) {
    for (const bool scaled : {false, true}) {
      Harness h(backend, 2, dtype);
      const ConstMatrixView x = h.input(40, cols, mixed_rows(40, cols));
      const auto scale = scaled ? random_floats(40, 23) : std::vector<float>();
      WireMessages messages(cols, dtype);
      for (std::int64_t k = 0; k < 13; ++k) messages.add(k * 3, {32});
      const Packed packed = pack(h, messages, x, scale, {kOracleKey, nodes(40)});
      const MatrixView gathered = h.output(13, cols);
      h.backend().run(
          h.queue(),
          kernels::GatherRows{x, h.input_span(messages.rows),
                              scaled ? h.input_span(scale) : std::span<const float>(), gathered});
      expect_bits_of_rows(unpack(h, messages, packed.bytes, dtype), h.download(gathered));
      EXPECT_EQ(packed.variance, std::vector<double>(13, 0));
      if (HasFatalFailure()) return;
    }
  }
}

float rounded(double value, DType dtype) {
  const auto wide = static_cast<float>(value);
  return dtype == DType::kBf16 ? to_float(to_bf16(wide)) : wide;
}

// Each message as it would have been stored, plus or minus, rounded once more.
TEST_P(WireTest, AddsMessagesToWhatRowsHold) {
  const auto& [backend, dtype] = GetParam();
  for (const std::int64_t cols : {1, 3, 64, 300}) {
    Harness h(backend, 2, dtype);
    WireMessages messages(cols, dtype);
    for (std::int64_t i = 0; i < 16; ++i) messages.add(i, {1, 2, 4, 8, 16, 32});
    const Packed packed = pack(h, messages, h.input(16, cols, mixed_rows(16, cols)), {},
                               {kOracleKey, nodes(16), nullptr, /*nearest=*/cols == 64});
    const auto alone = unpack(h, messages, packed.bytes, dtype);
    std::vector<float> held = random_floats(messages.count() * cols, 29);
    for (float& value : held) value = rounded(value, dtype);
    for (const int adds : {1, -1}) {
      std::vector<double> sums;
      for (std::size_t k = 0; k < alone.size(); ++k) {
        const float sum = held[k] + static_cast<float>(adds) * static_cast<float>(alone[k]);
        sums.push_back(rounded(sum, dtype));
      }
      SCOPED_TRACE(fmt::format("{} columns, {}", cols, adds));
      expect_bits_of_rows(unpack(h, messages, packed.bytes, dtype, {adds, held}), sums);
      if (HasFatalFailure()) return;
    }
  }
}

// Values come back within one step of what was sent.
TEST_P(WireTest, ErrorsAreBelowOneStep) {
  const auto& [backend, dtype] = GetParam();
  Harness h(backend, 2, dtype);
  const ConstMatrixView x = h.input(64, 100, mixed_rows(64, 100));
  const auto sent = h.download(x);
  WireMessages messages(100, dtype);
  for (std::int64_t i = 0; i < 64; ++i) messages.add(i, kQuantizedBits);
  const Packed packed = pack(h, messages, x, {}, {kOracleKey, nodes(64)});
  const auto found = unpack(h, messages, packed.bytes, DType::kF32);
  for (std::int64_t m = 0; m < messages.count(); ++m) {
    const double range = packed.range[static_cast<std::size_t>(m / 5)];
    const double top = (1 << messages.bits[static_cast<std::size_t>(m)]) - 1;
    // Step was rounded up by 2^-7 of itself, or to the smallest bf16.
    const double step = range / top * (1 + 0x1p-7) + 0x1p-133;
    for (std::int64_t j = 0; j < 100; ++j) {
      const double exact = sent[static_cast<std::size_t>(m / 5 * 100 + j)];
      const double error = found[static_cast<std::size_t>(m * 100 + j)] - exact;
      // Beside the step, f32 rounds the sum, and t by some 2^-23 of it.
      ASSERT_LE(std::abs(error), step + (range + std::abs(exact)) * 0x1p-22) << m << " " << j;
    }
  }
}

TEST_P(WireTest, NoiseIsSharedByReceiversAndDiffersOtherwise) {
  const auto& [backend, dtype] = GetParam();
  Harness h(backend, 2, dtype);
  constexpr std::int64_t kCols = 400;
  // In both rows half a step everywhere at 1 bit; one and a half at 2.
  std::vector<float> values(2 * kCols, 1.5F);
  for (const std::size_t row : {0, 1}) {
    values[row * kCols] = 0;
    values[row * kCols + kCols - 1] = 3;
  }
  const ConstMatrixView x = h.input(2, kCols, values);
  WireMessages messages(kCols, dtype);
  messages.add(0, {1, 2, 1});
  messages.add(1, {1});
  const auto bits_of = [&](const RandomKey& key, const std::vector<GlobalId>& ids) {
    const Packed packed = pack(h, messages, x, {}, {key, ids});
    std::vector<std::vector<std::uint32_t>> found;
    for (std::int64_t m = 0; m < 4; ++m) found.push_back(codes(messages, packed, m));
    return found;
  };
  const auto differences = [](const auto& a, const auto& b) {
    int count = 0;
    for (std::size_t j = 1; j + 1 < kCols; ++j) count += a[j] != b[j] ? 1 : 0;
    return count;
  };
  const auto base = bits_of(kOracleKey, nodes(2));
  EXPECT_EQ(differences(base[0], base[2]), 0);
  for (std::size_t j = 1; j + 1 < kCols; ++j) ASSERT_EQ(base[1][j], base[0][j] + 1) << j;
  // Independent noise differs in 199 of 398 columns, give or take 10.
  EXPECT_NEAR(differences(base[0], base[3]), 199, 50);
  std::vector<RandomKey> others(4, kOracleKey);
  others[0].epoch += 1;
  others[1].layer += 1;
  others[2].stream = RandomStream::kRoundForward;
  others[3].seed += 1;
  for (const RandomKey& other : others) {
    EXPECT_NEAR(differences(base[0], bits_of(other, nodes(2))[0]), 199, 50);
  }
  // It belongs to the node, not to the place of its row.
  const auto swapped = bits_of(kOracleKey, {nodes(2)[1], nodes(2)[0]});
  EXPECT_EQ(differences(base[0], swapped[3]), 0);
  EXPECT_EQ(differences(base[3], swapped[0]), 0);
}

// Means and variances of kDraws codes of one row, over nodes and epochs. The exact scheme: with the
// rounded zero and step, t = (v - zero) / step is met on average.
TEST_P(WireTest, RoundingIsUnbiasedAndOfTheVarianceInTheTrace) {
  const auto& [backend, dtype] = GetParam();
  constexpr std::int64_t kRows = 1000;
  constexpr std::int64_t kCols = 24;
  // The others write the bytes of the reference backend (WireOracleTest); that theirs, too, differ
  // from epoch to epoch takes fewer draws.
  const std::int64_t epochs = small_tests() ? 2 : backend == "reference" ? 100 : 10;
  const auto draws = static_cast<double>(kRows * epochs);
  Harness h(backend, 2, dtype);
  const std::vector<float> row = random_floats(kCols, 31);
  std::vector<float> values;
  for (std::int64_t i = 0; i < kRows; ++i) values.insert(values.end(), row.begin(), row.end());
  const ConstMatrixView x = h.input(kRows, kCols, values);
  const std::vector<double> stored_values = h.download(x.rows_in({0, 1}));
  WireMessages messages(kCols, dtype);
  for (std::int64_t i = 0; i < kRows; ++i) messages.add(i, kQuantizedBits);
  std::vector<double> sums(kQuantizedBits.size() * kCols);
  std::vector<double> squares(sums.size());
  std::vector<double> t(sums.size());
  std::vector<double> trace(kQuantizedBits.size());
  std::vector<double> steps(kQuantizedBits.size());
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    Harness one(backend, 2, dtype);
    RandomKey key = kOracleKey;
    key.epoch = static_cast<std::uint32_t>(epoch);
    const Packed packed =
        pack(one, messages, one.input(kRows, kCols, values), {}, {key, nodes(kRows)});
    for (std::size_t w = 0; w < kQuantizedBits.size(); ++w) {
      const auto bytes = message(messages, packed, static_cast<std::int64_t>(w));
      const auto word = [&](std::size_t at) {
        return static_cast<double>(
            to_float(Bf16{static_cast<std::uint16_t>(bytes[at] | bytes[at + 1] << 8)}));
      };
      steps[w] = word(2);
      trace[w] = packed.variance[w];
      for (std::size_t j = 0; j < kCols; ++j) {
        t[w * kCols + j] = (stored_values[j] - word(0)) / steps[w];
      }
    }
    for (std::int64_t m = 0; m < messages.count(); ++m) {
      const auto w = static_cast<std::size_t>(m) % kQuantizedBits.size();
      const auto found = codes(messages, packed, m);
      for (std::size_t j = 0; j < kCols; ++j) {
        const double error = static_cast<double>(found[j]) - t[w * kCols + j];
        sums[w * kCols + j] += error;
        squares[w * kCols + j] += error * error;
      }
    }
  }
  for (std::size_t w = 0; w < kQuantizedBits.size(); ++w) {
    SCOPED_TRACE(kQuantizedBits[w]);
    double expected = 0;
    double found = 0;
    for (std::size_t j = 0; j < kCols; ++j) {
      const double fraction = t[w * kCols + j] - std::floor(t[w * kCols + j]);
      const double variance = fraction * (1 - fraction);
      // Four standard deviations of the mean, beside the rounding of t to f32: 2^-24 of up to 255.
      EXPECT_NEAR(sums[w * kCols + j] / draws, 0, 4 * std::sqrt(variance / draws) + 2e-5) << j;
      expected += variance;
      found += squares[w * kCols + j] / draws;
    }
    EXPECT_NEAR(found, expected, (small_tests() ? 0.2 : 0.05) * expected);
    EXPECT_NEAR(trace[w], expected * steps[w] * steps[w], 2e-4 * expected * steps[w] * steps[w]);
  }
}

// Enough bytes that `cpu` writes past its caches, on two threads, from rows that start at odd
// places.
TEST(LargeMessages, At32BitsComeBackAsTheyWere) {
  constexpr std::int64_t kRows = 4200;
  constexpr std::int64_t kCols = 1001;
  constexpr auto kCount = static_cast<std::size_t>(kRows * kCols);
  static_assert(kCount * sizeof(float) > 16U << 20U);
  const auto backend = make_backend("cpu", {.threads = 2, .device = 0});
  const auto queue = backend->make_queue();
  const std::vector<float> sent = random_floats(kRows * kCols, 51);
  std::vector<float> packet(kCount + 1, -7);  // one value more, which must stay
  std::vector<float> received(kCount + 1, -7);
  std::vector<LocalId> rows;
  std::vector<std::int64_t> first{0};
  std::vector<std::int64_t> offset;
  for (std::int64_t k = 0; k < kRows; ++k) {
    rows.push_back(LocalId{static_cast<std::int32_t>(kRows - 1 - k)});
    first.push_back(k + 1);
    offset.push_back(k * kCols * 4);
  }
  const std::vector<std::uint8_t> bits(kRows, 32);
  std::vector<float> range(kRows);
  std::vector<float> variance(kRows);
  std::vector<std::int64_t> bad{kNoneBad};
  const std::vector<GlobalId> ids = nodes(kRows);
  const auto bytes = std::as_writable_bytes(std::span(packet).first(kCount));
  backend->run(*queue, kernels::QuantizeRows{{sent.data(), kRows, kCols, kCols, DType::kF32},
                                             {rows, first, offset, bits},
                                             {},
                                             {kOracleKey, ids},
                                             bytes,
                                             {range, variance, bad}});
  backend->run(
      *queue,
      kernels::DequantizeRows{
          bytes, {rows, offset, bits}, {received.data(), kRows, kCols, kCols, DType::kF32}});
  for (std::size_t k = 0; k < kRows; ++k) {
    const std::size_t size = kCols * sizeof(float);
    ASSERT_EQ(std::memcmp(&packet[k * kCols], &sent[(kRows - 1 - k) * kCols], size), 0) << k;
  }
  EXPECT_EQ(std::memcmp(received.data(), sent.data(), kCount * sizeof(float)), 0);
  EXPECT_EQ(packet.back(), -7);
  EXPECT_EQ(received.back(), -7);
  EXPECT_EQ(bad.front(), kNoneBad);
}

TEST(CopyPastCaches, CopiesEveryByteAndNoOther) {
  std::vector<std::uint8_t> from(2000);
  for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<std::uint8_t>(k % 251);
  for (const std::size_t size : {0, 1, 15, 63, 64, 65, 127, 128, 129, 500, 1024}) {
    for (const std::size_t start : {0, 1, 4, 16, 60, 63, 64}) {
      std::vector<std::uint8_t> to(1200, 255);
      copy_past_caches(to.data() + start, from.data() + 3, size);
      finish_copies();
      for (std::size_t k = 0; k < to.size(); ++k) {
        const bool inside = k >= start && k < start + size;
        ASSERT_EQ(to[k], inside ? from[k - start + 3] : 255) << size << " from " << start;
      }
    }
  }
}

}  // namespace

}  // namespace atl
