// Rows for messages: gathered, packed and unpacked.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"
#include "kernels/operations/dense.hpp"

namespace atl::kernels {

// y[k, :] = x[rows[k], :] * scale[rows[k]]; scale empty: 1. x [N, F], y [rows.size(), F].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  ConstMatrixView x;
  std::span<const LocalId> rows;
  std::span<const float> scale;
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "gather_rows x");
    check_shape(backend, y, length(rows), x.cols, x.dtype, "gather_rows y");
    check_optional_length(length(scale), x.rows, "gather_rows scale");
    if (empty()) return;
    check_disjoint(y, x, "gather_rows y and x");
  }
  SpanWork work(bool) const { return streaming_work({y, y}); }
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
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "quantize_rows x");
    check_wire_storage(x, "quantize_rows x");
    check_length(length(list.first), length(list.rows) + 1, "quantize_rows first");
    check_length(length(list.bits), length(list.offset), "quantize_rows bits");
    check_optional_length(length(scale), x.rows, "quantize_rows scale");
    check_length(length(rounding.row_ids), x.rows, "quantize_rows row_ids");
    check_length(length(trace.range), length(list.rows), "quantize_rows range");
    check_length(length(trace.variance), length(list.bits), "quantize_rows variance");
    check_length(length(trace.bad), 1, "quantize_rows bad");
    check_packets(packets, x, "quantize_rows packets");
  }
  SpanWork work(bool) const { return pack_work(x, list.rows.size(), packets); }
};

// Fills the rows of y that `list` names from the messages of quantize_rows: code * step + zero,
// one multiplication and one addition in f32, rounded to nearest even in y's type, f32 or bf16.
// Messages of 32 bits are copied: they must have been packed from y's type. adds: +1 or -1 adds the
// messages, times that, to what the rows hold, rounded once more; 0 replaces it.
struct DequantizeRows {
  static constexpr const char* kName = "dequantize_rows";
  std::span<const std::byte> packets;
  UnpackList list;
  MatrixView y;
  int adds = 0;

  bool empty() const { return list.rows.empty() || y.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, y, "dequantize_rows y");
    check_wire_storage(y, "dequantize_rows y");
    check_length(length(list.offset), length(list.rows), "dequantize_rows offset");
    check_length(length(list.bits), length(list.rows), "dequantize_rows bits");
    check_packets(packets, y, "dequantize_rows packets");
    ATOLL_ASSERT(adds >= -1 && adds <= 1, "dequantize_rows adds {} times the messages", adds);
  }
  SpanWork work(bool) const {
    SpanWork work = pack_work(y, list.rows.size(), packets);
    if (adds == 0) return work;
    const auto held = static_cast<double>(static_cast<std::int64_t>(list.rows.size()) * y.cols *
                                          bytes_of(y.dtype));
    work.bytes += held;
    work.no_reuse_bytes += held;
    return work;
  }
};

// Packs, to the nearest code, what rows have moved by since they were sent (sign -1) or, with what
// earlier messages have lost of them (+1). For each of M messages, with v and its terms rounded in
// the type of x, f32 or bf16:
//   v = x[rows[m]] * scale[rows[m]] + sign kept[m]
//   kept[m] = kept[m] + Q(v) with sign -1, v - Q(v) with +1
// where Q(v) is what dequantize_rows makes of the message, 0 of one that isn't in `list`: messages
// of one row each, those of `residuals`, ascending. x [N, F], kept and residuals [M, F]. v is left
// in `residuals` if `residuals_wanted`; else what they hold afterwards means nothing.
struct QuantizeResiduals {
  static constexpr const char* kName = "quantize_residuals";
  ConstMatrixView x;
  std::span<const LocalId> rows;
  std::span<const float> scale;
  int sign = -1;
  MatrixView kept;
  MatrixView residuals;
  bool residuals_wanted = false;
  PackList list;
  RoundingSpec rounding;
  std::span<std::byte> packets;
  PackTrace trace;

  bool empty() const { return kept.empty(); }
  void check(const BackendTraits& backend) const {
    gathering().check(backend);
    check_shape(backend, kept, length(rows), x.cols, x.dtype, "quantize_residuals kept");
    check_disjoint(kept, x, "quantize_residuals kept and x");
    check_disjoint(kept, residuals, "quantize_residuals kept and residuals");
    packing().check(backend);
    check_length(length(list.rows), length(list.bits), "quantize_residuals rows");
    ATOLL_ASSERT(sign == -1 || sign == 1, "quantize_residuals sign {}", sign);
    ATOLL_ASSERT(rounding.nearest, "quantize_residuals to random codes");
  }
  SpanWork work(bool) const {
    SpanWork work = streaming_work({kept, kept, kept});  // x is read as well
    if (residuals_wanted) work.bytes += streaming_work({residuals}).bytes;
    work.bytes += static_cast<double>(packets.size());
    work.no_reuse_bytes = work.bytes;
    return work;
  }
  // The operations that give the same, one after the other.
  template <typename Compute>
  void in_steps(const Compute& compute) const {
    compute(gathering());
    compute(Combine{1, residuals, static_cast<float>(sign), kept, residuals});
    if (!packing().empty()) compute(packing());
    if (sign > 0) compute(Convert{residuals, kept});
    const DequantizeRows unpacking{packets, {list.rows, list.offset, list.bits}, kept, -sign};
    if (!unpacking.empty()) compute(unpacking);
  }

 private:
  GatherRows gathering() const { return {x, rows, scale, residuals}; }
  QuantizeRows packing() const { return {residuals, list, {}, rounding, packets, trace}; }
};

}  // namespace atl::kernels
