// Quantized messages with bytes and values worked out by hand, on every backend. Where a number
// lies on a step the noise has no say.
#include <cmath>
#include <limits>

#include "tests/kernels/wire_messages.hpp"

namespace atl {

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr RandomKey kLiteralKey{7, RandomStream::kRoundForward, 2, 5};

class LiteralWire : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) h = std::make_unique<Harness>(GetParam());
  }
  WireMessages one_row(const std::vector<float>& row, const std::vector<int>& widths,
                       DType storage = DType::kF32) {
    WireMessages messages(static_cast<std::int64_t>(row.size()), storage);
    messages.add(0, widths);
    return messages;
  }
  Packed pack_row(const std::vector<float>& row, const WireMessages& messages) {
    const ConstMatrixView x = h->input(1, messages.cols, row);
    return pack(*h, messages, x, {}, {kLiteralKey, nodes(1)});
  }
  Bytes message_of(const std::vector<float>& row, int width) {
    const WireMessages messages = one_row(row, {width});
    const Packed packed = pack_row(row, messages);
    EXPECT_EQ(packed.bad, kNoneBad);
    return message(messages, packed, 0);
  }
  // The row after both ways, in f32.
  std::vector<double> round_trip(const std::vector<float>& row, int width) {
    const WireMessages messages = one_row(row, {width});
    return unpack(*h, messages, pack_row(row, messages).bytes, DType::kF32);
  }
  std::unique_ptr<Harness> h;
};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralWire, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST(WireFormat, BytesOfARow) {
  EXPECT_EQ(wire_row_bytes(8, 256, DType::kF32), 260);
  EXPECT_EQ(wire_row_bytes(4, 256, DType::kF32), 132);
  EXPECT_EQ(wire_row_bytes(2, 256, DType::kF32), 68);
  EXPECT_EQ(wire_row_bytes(2, 256, DType::kBf16), 68);
  EXPECT_EQ(wire_row_bytes(1, 256, DType::kF32), 36);
  EXPECT_EQ(wire_row_bytes(16, 256, DType::kF32), 516);
  EXPECT_EQ(wire_row_bytes(32, 256, DType::kF32), 1024);
  EXPECT_EQ(wire_row_bytes(32, 256, DType::kBf16), 512);
  EXPECT_EQ(wire_row_bytes(32, 255, DType::kBf16), 510);
  EXPECT_EQ(wire_row_bytes(1, 1, DType::kF32), 8);
  EXPECT_EQ(wire_row_bytes(1, 33, DType::kF32), 12);
  EXPECT_EQ(wire_row_bytes(16, 3, DType::kF32), 12);
  EXPECT_EQ(wire_row_bytes(8, 0, DType::kF32), 4);
  EXPECT_DEATH(wire_row_bytes(3, 8, DType::kF32), "8 columns at 3 bits");
}

TEST(Bf16, RoundsDownAndUp) {
  struct Case {
    float value;
    double down;
    double up;
  };
  for (const Case& c :
       std::vector<Case>{{1, 1, 1},
                         {-1, -1, -1},
                         {1 + 0x1p-20F, 1, 1 + 0x1p-7},
                         {-1 - 0x1p-20F, -1 - 0x1p-7, -1},
                         {1 + 0x1.FFp-8F, 1, 1 + 0x1p-7},
                         {0, 0, 0},
                         {0x1p-149F, 0, 0x1p-133},
                         {-0x1p-149F, -0x1p-133, 0},
                         {0x1.8p-133F, 0x1p-133, 0x1p-132},
                         {0x1.FEp127F, 0x1.FEp127, 0x1.FEp127},
                         {kLargest, 0x1.FEp127, static_cast<double>(kInf)},
                         {-kLargest, static_cast<double>(-kInf), -0x1.FEp127},
                         {kInf, static_cast<double>(kInf), static_cast<double>(kInf)},
                         {-kInf, static_cast<double>(-kInf), static_cast<double>(-kInf)}}) {
    EXPECT_EQ(static_cast<double>(to_float(to_bf16_down(c.value))), c.down) << c.value;
    EXPECT_EQ(static_cast<double>(to_float(to_bf16_up(c.value))), c.up) << c.value;
  }
  EXPECT_EQ(to_bf16_down(-0.0F).bits, 0x8000);
  EXPECT_EQ(to_bf16_up(-0.0F).bits, 0x8000);
  // Also one whose payload sits in the half that is cut off.
  for (const float nan : {kNaN, -kNaN, std::bit_cast<float>(0x7F800001U)}) {
    EXPECT_TRUE(std::isnan(to_float(to_bf16_down(nan))));
    EXPECT_TRUE(std::isnan(to_float(to_bf16_up(nan))));
  }
}

// 1 is 3F80 in bf16, -3 is C040; both little-endian in front of the codes.
TEST_P(LiteralWire, LayoutAtEveryWidth) {
  EXPECT_EQ(message_of({1, 0, 1, 1, 0, 0, 1, 0, 1}, 1),
            (Bytes{0, 0, 0x80, 0x3F, 0x4D, 0x01, 0, 0}));
  EXPECT_EQ(message_of({-3, -2, -1, 0, 0}, 2), (Bytes{0x40, 0xC0, 0x80, 0x3F, 0xE4, 0x03, 0, 0}));
  EXPECT_EQ(message_of({15, 0, 7, 9, 1}, 4), (Bytes{0, 0, 0x80, 0x3F, 0x0F, 0x97, 0x01, 0}));
  EXPECT_EQ(message_of({255, 0, 16}, 8), (Bytes{0, 0, 0x80, 0x3F, 0xFF, 0x00, 0x10, 0}));
  EXPECT_EQ(message_of({0, 65535, 258}, 16),
            (Bytes{0, 0, 0x80, 0x3F, 0x00, 0x00, 0xFF, 0xFF, 0x02, 0x01, 0, 0}));
  EXPECT_EQ(message_of({1.5F, -2}, 32), (Bytes{0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0}));
}

TEST_P(LiteralWire, LayoutOfBf16) {
  h = std::make_unique<Harness>(GetParam(), 2, DType::kBf16);
  const std::vector<float> row{1.5F, -2, 1};
  const WireMessages messages = one_row(row, {32, 8}, DType::kBf16);
  const Packed packed = pack_row(row, messages);
  EXPECT_EQ(message(messages, packed, 0), (Bytes{0xC0, 0x3F, 0, 0xC0, 0x80, 0x3F}));
  // -2 is C000; 3.5 / 255 lies between the bf16 numbers .01367 (3C60) and .01373 (3C61).
  const Bytes quantized = message(messages, packed, 1);
  EXPECT_EQ((Bytes{quantized.begin(), quantized.begin() + 4}), (Bytes{0, 0xC0, 0x61, 0x3C}));
}

// zero: -1.001 down to -1 - 2^-7 (BF81). range: 2 + 2^-7, up to 2 + 2^-6 (4001), which is the step.
TEST_P(LiteralWire, ZeroIsRoundedDownAndStepUp) {
  const std::vector<float> row{-1.001F, 1};
  const WireMessages messages = one_row(row, {1});
  const Packed packed = pack_row(row, messages);
  const Bytes bytes = message(messages, packed, 0);
  EXPECT_EQ((Bytes{bytes.begin(), bytes.begin() + 4}), (Bytes{0x81, 0xBF, 0x01, 0x40}));
  EXPECT_EQ(packed.range, (std::vector<double>{2 + 0x1p-7}));
}

TEST_P(LiteralWire, CodesFollowTheNoiseOfNodeAndColumn) {
  std::vector<float> row(300, 0.25F);
  row.front() = 0;
  row.back() = 1;
  const WireMessages messages = one_row(row, {1});
  const Packed packed = pack_row(row, messages);
  const auto found = codes(messages, packed, 0);
  for (std::uint32_t j = 1; j < 299; ++j) {
    ASSERT_EQ(found[j], random_uniform(kLiteralKey, 1000, j) < 0.25F ? 1U : 0U) << j;
  }
  EXPECT_EQ(found.front(), 0U);
  EXPECT_EQ(found.back(), 1U);
  // 298 numbers at t = 1/4, step 1.
  EXPECT_NEAR(packed.variance[0], 298 * 0.1875, 1e-3);
}

TEST_P(LiteralWire, TheEpochOfTheStateCounts) {
  std::vector<float> row(64, 0.5F);
  row.front() = 0;
  row.back() = 1;
  const WireMessages messages = one_row(row, {1});
  const ConstMatrixView x = h->input(1, 64, row);
  const Packed packed =
      pack(*h, messages, x, {}, {kLiteralKey, nodes(1), h->epoch_state({.epoch = 12})});
  RandomKey key = kLiteralKey;
  key.epoch = 12;
  const auto found = codes(messages, packed, 0);
  for (std::uint32_t j = 1; j < 63; ++j) {
    ASSERT_EQ(found[j], random_uniform(key, 1000, j) < 0.5F ? 1U : 0U) << j;
  }
}

// Row 2 of x first, times 2, to two receivers; then row 0, times 1/2. What lies between stays.
TEST_P(LiteralWire, RowsAndScalesAreThoseOfTheRowsOfX) {
  const ConstMatrixView x = h->input(3, 2, {0, 30, kNaN, kNaN, 0, 127.5F});
  WireMessages messages(2, DType::kF32);
  messages.add(2, {8, 32});
  messages.add(0, {4});
  const Packed packed = pack(*h, messages, x, {0.5F, 1, 2}, {kLiteralKey, nodes(3)});
  EXPECT_EQ(message(messages, packed, 0), (Bytes{0, 0, 0x80, 0x3F, 0, 0xFF, 0, 0}));
  EXPECT_EQ(message(messages, packed, 1), (Bytes{0, 0, 0, 0, 0, 0, 0x7F, 0x43}));
  EXPECT_EQ(message(messages, packed, 2), (Bytes{0, 0, 0x80, 0x3F, 0xF0, 0, 0, 0}));
  EXPECT_EQ(packed.range, (std::vector<double>{255, 15}));
  EXPECT_EQ(packed.variance, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(packed.bad, kNoneBad);
  for (const std::uint8_t byte : gaps(messages, packed)) EXPECT_EQ(byte, kGapByte);
}

TEST_P(LiteralWire, UnpacksWhatTheBytesSay) {
  // zero 256 (4380), step 1; codes 1, 3, 0 at 2 bits, then at 8 bits 1, 3, 255.
  const Bytes bytes{0x80, 0x43, 0x80, 0x3F, 0x0D, 0, 0, 0, 0x80, 0x43, 0x80, 0x3F, 1, 3, 255, 0};
  WireMessages messages(3, DType::kF32);
  messages.bits = {2, 8};
  messages.offset = {0, 8};
  EXPECT_EQ(unpack(*h, messages, bytes, DType::kF32),
            (std::vector<double>{257, 259, 256, 257, 259, 511}));
  // Neighbours of 256 in bf16 lie 2 apart; ties go to even.
  EXPECT_EQ(unpack(*h, messages, bytes, DType::kBf16),
            (std::vector<double>{256, 260, 256, 256, 260, 512}));
}

// One rounding to f32, because the product of 16 and 8 bits is exact, and none before that to bf16.
TEST_P(LiteralWire, TheSumIsRounded) {
  // zero 2^-16 (3780), step 1 + 2^-7 (3F81), code 65535.
  const Bytes bytes{0x80, 0x37, 0x81, 0x3F, 0xFF, 0xFF, 0, 0};
  WireMessages messages(1, DType::kF32);
  messages.bits = {16};
  messages.offset = {0};
  EXPECT_EQ(unpack(*h, messages, bytes, DType::kF32), (std::vector<double>{65535 * (1 + 0x1p-7)}));
}

TEST_P(LiteralWire, ConstantRowsThatBf16HoldsAreExact) {
  for (const float value : {0.0F, -0.0F, 1.5F, -0x1p-133F, 0x1p100F}) {
    for (const int width : {1, 2, 4, 8, 16, 32}) {
      const auto expected = std::vector<double>(5, static_cast<double>(value));
      EXPECT_EQ(round_trip(std::vector<float>(5, value), width), expected) << width;
    }
  }
  // No sign of zero reaches the wire: the bytes would depend on the order of comparisons.
  EXPECT_EQ(message_of({-0.0F, -0.0F}, 8), (Bytes{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(message_of({-0.0F, 0, 3}, 2), (Bytes{0, 0, 0x80, 0x3F, 0x30, 0, 0, 0}));
}

// The range of the first row is below 255 / 2 times the smallest f32: its step is 0.
TEST_P(LiteralWire, RowsOfSubnormalNumbers) {
  EXPECT_EQ(message_of({0, 0x1p-149F, 0x1p-146F}, 8), (Bytes{0, 0, 0, 0, 0, 0, 0, 0}));
  // 3 * 2^-133 in steps of the smallest bf16 (0001).
  EXPECT_EQ(message_of({0x1p-133F, 0, 3 * 0x1p-133F}, 2), (Bytes{0, 0, 0x01, 0, 0x31, 0, 0, 0}));
  EXPECT_EQ(round_trip({0x1p-133F, 0, 3 * 0x1p-133F}, 2),
            (std::vector<double>{0x1p-133, 0, 3 * 0x1p-133}));
}

// Both 255 and a number just below it: rounding up from 255 would be 256.
TEST_P(LiteralWire, TheGreatestCodeNeverWraps) {
  std::vector<float> row(64, 254.99998F);
  row[0] = 0;
  row[1] = 255;
  for (const int width : {1, 2, 4, 8, 16}) {
    const WireMessages messages = one_row(row, {width});
    const Packed packed = pack_row(row, messages);
    const auto found = codes(messages, packed, 0);
    const std::uint32_t top = (1U << width) - 1;
    for (std::size_t j = 1; j < row.size(); ++j) ASSERT_GE(found[j], top - top / 100) << width;
  }
}

TEST_P(LiteralWire, RowsThatCannotBeSentAreNamed) {
  const std::vector<std::vector<float>> bad{
      {kNaN, 1, 2},        {1, 2, kNaN},      {kInf, 1, 1},      {1, 1, -kInf},
      {3e38F, 0, -3e38F},  {0, 0, kLargest},  {-kLargest, 1, 1}, {kLargest, kLargest, kLargest},
      {0, 1, 0x1.FEp127F}, {1e38F, 1, -3e38F}};
  for (const auto& row : bad) {
    for (const int width : {1, 2, 4, 8, 16, 32}) {
      WireMessages messages(3, DType::kF32);
      messages.add(0, {8});
      messages.add(1, {width});
      messages.add(2, {width});
      messages.add(3, {8});
      std::vector<float> values{0, 1, 255};
      for (int times = 0; times < 2; ++times) values.insert(values.end(), row.begin(), row.end());
      for (const float value : {0.0F, 1.0F, 255.0F}) values.push_back(value);
      const Packed packed = pack(*h, messages, h->input(4, 3, values), {}, {kLiteralKey, nodes(4)});
      EXPECT_EQ(packed.bad, 1) << row[0] << " " << width;
      EXPECT_TRUE(std::isnan(packed.range[1]));
      EXPECT_EQ(packed.variance[1], 0);
      const Bytes good{0, 0, 0x80, 0x3F, 0, 1, 0xFF, 0};
      EXPECT_EQ(message(messages, packed, 0), good);
      EXPECT_EQ(message(messages, packed, 3), good);
      for (const std::uint8_t byte : gaps(messages, packed)) EXPECT_EQ(byte, kGapByte);
    }
  }
}

TEST_P(LiteralWire, ARowIsJudgedAfterItsScale) {
  WireMessages messages(2, DType::kF32);
  messages.add(1, {8});
  messages.add(0, {8});
  const ConstMatrixView x = h->input(2, 2, {1e38F, 0, 1, 0});
  EXPECT_EQ(pack(*h, messages, x, {10, 1}, {kLiteralKey, nodes(2)}).bad, 1);
  EXPECT_EQ(pack(*h, messages, x, {0.1F, 1}, {kLiteralKey, nodes(2)}).bad, kNoneBad);
  EXPECT_EQ(pack(*h, messages, x, {1, kNaN}, {kLiteralKey, nodes(2)}).bad, 0);
}

// Everything that is sent must come back as a number, at the edge as well.
TEST_P(LiteralWire, GreatNumbersThatCanBeSent) {
  const std::vector<float> row{-1.6e38F, 0, 1.6e38F};
  for (const int width : {1, 2, 4, 8, 16}) {
    const WireMessages messages = one_row(row, {width});
    const Packed packed = pack_row(row, messages);
    EXPECT_EQ(packed.bad, kNoneBad);
    for (const double value : unpack(*h, messages, packed.bytes, DType::kF32)) {
      EXPECT_TRUE(std::isfinite(value)) << width;
    }
  }
}

TEST_P(LiteralWire, TwoMeansAreCodesToTheNearest) {
  const auto bytes_of = [&](const std::vector<float>& row, int width) {
    const WireMessages messages = one_row(row, {width});
    const Packed packed = pack(*h, messages, h->input(1, messages.cols, row), {},
                               {.key = kLiteralKey, .row_ids = nodes(1), .nearest = true});
    EXPECT_EQ(packed.variance[0], 0);
    return message(messages, packed, 0);
  };
  // -1 and 3 are all there is: zero -1, step 4, and around it.
  const std::vector<float> row{-1, 3, 3, -1};
  EXPECT_EQ(bytes_of(row, 1), (Bytes{0x80, 0xBF, 0x80, 0x40, 0b0110, 0, 0, 0}));
  // -5, -1, 3, 7
  EXPECT_EQ(bytes_of(row, 2), (Bytes{0xA0, 0xC0, 0x80, 0x40, 0b01101001, 0, 0, 0}));
  // A fifth of 4 in bf16, five of them below -1: codes 5 and 10.
  EXPECT_EQ(bytes_of(row, 4), (Bytes{0xA0, 0xC0, 0x4D, 0x3F, 0xA5, 0x5A, 0, 0}));
  EXPECT_EQ(bytes_of({0, 0, 0}, 1), (Bytes{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bytes_of({2, 2, 2}, 2), (Bytes{0x00, 0x40, 0, 0, 0, 0, 0, 0}));
}

TEST_P(LiteralWire, GreatNumbersToTheNearest) {
  for (const float size : {0.5e38F, 0.8e38F, 1e38F, 1.2e38F, 1.6e38F}) {
    const std::vector<float> row{-size, 0, size, size};
    for (const int width : {1, 2, 4, 8, 16}) {
      const WireMessages messages = one_row(row, {width});
      const Packed packed = pack(*h, messages, h->input(1, 4, row), {},
                                 {.key = kLiteralKey, .row_ids = nodes(1), .nearest = true});
      const std::vector<double> found = unpack(*h, messages, packed.bytes, DType::kF32);
      for (std::size_t j = 0; j < row.size(); ++j) {
        EXPECT_LE(std::abs(found[j] - row[j]), 1.1 * size) << width;
      }
    }
  }
}

TEST_P(LiteralWire, NothingToSend) {
  const WireMessages none(3, DType::kF32);
  const ConstMatrixView x = h->input(2, 3, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(pack(*h, none, x, {}, {kLiteralKey, nodes(2)}).bad, kNoneBad);
  WireMessages unread(3, DType::kF32);
  unread.add(1, {});
  const Packed packed = pack(*h, unread, x, {}, {kLiteralKey, nodes(2)});
  EXPECT_EQ(packed.range, (std::vector<double>{2}));
  WireMessages empty(0, DType::kF32);
  empty.add(0, {8, 32});
  EXPECT_EQ(pack(*h, empty, h->input(2, 0, {}), {}, {kLiteralKey, nodes(2)}).bad, kNoneBad);
}

}  // namespace

}  // namespace atl
