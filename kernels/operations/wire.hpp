// Rows for messages: gathered, packed and unpacked.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/wire.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

// y[k, :] = x[rows[k], :] * scale[rows[k]]; scale empty: 1. x [N, F], y [rows.size(), F].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  ConstMatrixView x;
  std::span<const LocalId> rows;
  std::span<const float> scale;
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// Packs messages of rows of x * scale into `packets` (layout and arithmetic: kernels/wire.hpp),
// each at its place and width; bytes between messages are left alone. x [N, F], f32 or bf16;
// scale [N], empty: 1. A message of 32 bits is what gather_rows gives. packets start at a
// multiple of 4 bytes. With F = 0 nothing is written.
struct QuantizeRows {
  static constexpr const char* kName = "quantize_rows";
  ConstMatrixView x;
  PackList list;
  std::span<const float> scale;
  RoundingSpec rounding;
  std::span<std::byte> packets;
  PackTrace trace;

  bool empty() const { return list.rows.empty() || x.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// Fills the rows of y that `list` names from the messages of quantize_rows: code * step + zero,
// one multiplication and one addition in f32, rounded to nearest even in y's type, f32 or bf16.
// Messages of 32 bits are copied: they must have been packed from y's type.
struct DequantizeRows {
  static constexpr const char* kName = "dequantize_rows";
  std::span<const std::byte> packets;
  UnpackList list;
  MatrixView y;

  bool empty() const { return list.rows.empty() || y.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
