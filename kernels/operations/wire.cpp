#include "kernels/operations/wire.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void GatherRows::check(const Backend& backend) const {
  check_view(backend, x, "gather_rows x");
  check_shape(backend, y, length(rows), x.cols, x.dtype, "gather_rows y");
  check_optional_length(length(scale), x.rows, "gather_rows scale");
  if (empty()) return;
  check_disjoint(y, x, "gather_rows y and x");
}

SpanWork GatherRows::work(bool) const { return streaming_work({y, y}); }

void QuantizeRows::check(const Backend& backend) const {
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

SpanWork QuantizeRows::work(bool) const { return pack_work(x, list.rows.size(), packets); }

void DequantizeRows::check(const Backend& backend) const {
  check_view(backend, y, "dequantize_rows y");
  check_wire_storage(y, "dequantize_rows y");
  check_length(length(list.offset), length(list.rows), "dequantize_rows offset");
  check_length(length(list.bits), length(list.rows), "dequantize_rows bits");
  check_packets(packets, y, "dequantize_rows packets");
}

SpanWork DequantizeRows::work(bool) const { return pack_work(y, list.rows.size(), packets); }

}  // namespace atl::kernels
