// Rows for messages: gathered, packed and unpacked.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

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

}  // namespace atl::kernels
