// Packs and unpacks messages on one backend, with gaps between them that nothing may write.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/harness.hpp"

namespace atl {

// The content of gaps, and of packets before they are packed (the guard byte of the harness).
inline constexpr std::uint8_t kGapByte = 0xA5;

// A list of messages on the host. Every message starts as unevenly as it may: after a gap, at
// an offset that is no multiple of 8.
struct WireMessages {
  std::int64_t cols;
  DType storage;
  std::vector<LocalId> rows;
  std::vector<std::int64_t> first{0};
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> bits;
  std::int64_t bytes = 0;

  WireMessages(std::int64_t columns, DType stored) : cols(columns), storage(stored) {}
  // `row` goes to one receiver per entry of `widths`.
  void add(std::int64_t row, const std::vector<int>& widths);
  std::int64_t count() const { return static_cast<std::int64_t>(bits.size()); }
  std::int64_t message_bytes(std::int64_t m) const;
};

// The results of quantize_rows.
struct Packed {
  std::vector<std::uint8_t> bytes;
  std::vector<double> range;
  std::vector<double> variance;
  std::int64_t bad = 0;
};

// The bytes of message m, and of the gaps between all messages.
std::vector<std::uint8_t> message(const WireMessages& messages, const Packed& packed,
                                  std::int64_t m);
std::vector<std::uint8_t> gaps(const WireMessages& messages, const Packed& packed);
// Codes of message m, from its bytes.
std::vector<std::uint32_t> codes(const WireMessages& messages, const Packed& packed,
                                 std::int64_t m);

// `bad` of the trace before the call.
inline constexpr std::int64_t kNoneBad = 1'000'000;

// row_ids of `rounding` are on the host and copied; `scale` empty: none.
struct Rounding {
  RandomKey key;
  std::vector<GlobalId> row_ids;
  const EpochState* state = nullptr;  // of the harness
  bool nearest = false;
};
Packed pack(Harness& h, const WireMessages& messages, ConstMatrixView x,
            const std::vector<float>& scale, const Rounding& rounding);
// The rows that messages are added to.
struct Held {
  int adds = 0;               // DequantizeRows::adds
  std::vector<float> values;  // by message
};
// The unpacked messages, each a row.
std::vector<double> unpack(Harness& h, const WireMessages& messages,
                           const std::vector<std::uint8_t>& bytes, DType storage,
                           const Held& held = {});

// The results of quantize_residuals.
struct Residuals {
  Packed packed;
  std::vector<double> kept;       // [M, F]
  std::vector<double> residuals;  // the same; empty if not wanted
};
// Message m is of row rows[m] of x [N, F], and kept [M, F]; `messages`: of residuals.
struct ResidualRows {
  ConstMatrixView x;
  std::vector<LocalId> rows;
  std::vector<float> scale;  // empty: none
  std::vector<float> kept;
  int sign = -1;
  bool wanted = false;
};
Residuals pack_residuals(Harness& h, const WireMessages& messages, const ResidualRows& about);

// Node 1000 + i for row i.
std::vector<GlobalId> nodes(std::int64_t rows);

}  // namespace atl
