#include "tests/kernels/wire_messages.hpp"

namespace atl {

namespace {

std::vector<std::uint8_t> to_bytes(const std::vector<double>& values) {
  std::vector<std::uint8_t> bytes;
  for (const double value : values) bytes.push_back(static_cast<std::uint8_t>(value));
  return bytes;
}

}  // namespace

std::int64_t WireMessages::message_bytes(std::int64_t m) const {
  return wire_row_bytes(bits[static_cast<std::size_t>(m)], cols, storage);
}

void WireMessages::add(std::int64_t row, const std::vector<int>& widths) {
  rows.push_back(LocalId{static_cast<std::int32_t>(row)});
  for (const int width : widths) {
    const std::int64_t unit = width == 32 ? bytes_of(storage) : 4;
    bytes += unit - bytes % unit;  // at least one byte
    if (bytes % (2 * unit) == 0) bytes += unit;
    offset.push_back(bytes);
    bits.push_back(static_cast<std::uint8_t>(width));
    bytes += wire_row_bytes(width, cols, storage);
  }
  first.push_back(count());
}

std::vector<std::uint8_t> message(const WireMessages& messages, const Packed& packed,
                                  std::int64_t m) {
  const auto begin = packed.bytes.begin() + messages.offset[static_cast<std::size_t>(m)];
  return {begin, begin + messages.message_bytes(m)};
}

std::vector<std::uint8_t> gaps(const WireMessages& messages, const Packed& packed) {
  std::vector<std::uint8_t> found;
  std::int64_t end = 0;
  for (std::int64_t m = 0; m < messages.count(); ++m) {
    const std::int64_t begin = messages.offset[static_cast<std::size_t>(m)];
    found.insert(found.end(), packed.bytes.begin() + end, packed.bytes.begin() + begin);
    end = begin + messages.message_bytes(m);
  }
  return found;
}

std::vector<std::uint32_t> codes(const WireMessages& messages, const Packed& packed,
                                 std::int64_t m) {
  const auto bytes = message(messages, packed, m);
  const int width = messages.bits[static_cast<std::size_t>(m)];
  std::vector<std::uint32_t> found;
  for (std::int64_t j = 0; j < messages.cols; ++j) {
    std::uint32_t code = 0;
    for (int bit = 0; bit < width; ++bit) {
      const std::int64_t at = kWireMetadataBytes * 8 + j * width + bit;
      code |= (bytes[static_cast<std::size_t>(at / 8)] >> (at % 8) & 1U) << bit;
    }
    found.push_back(code);
  }
  return found;
}

std::vector<GlobalId> nodes(std::int64_t rows) {
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{1000 + i});
  return ids;
}

Packed pack(Harness& h, const WireMessages& messages, ConstMatrixView x,
            const std::vector<float>& scale, const Rounding& rounding) {
  const PackList list{h.input_span(messages.rows), h.input_span(messages.first),
                      h.input_span(messages.offset), h.input_span(messages.bits)};
  const RoundingSpec spec{rounding.key, h.input_span(rounding.row_ids), rounding.state,
                          rounding.nearest};
  const auto packets = h.output_span<std::uint8_t>(messages.bytes);
  const PackTrace trace{h.output_span<float>(static_cast<std::int64_t>(messages.rows.size())),
                        h.output_span<float>(messages.count()),
                        h.inout_span<std::int64_t>({kNoneBad})};
  const auto factors = scale.empty() ? std::span<const float>() : h.input_span(scale);
  h.backend().run(h.queue(), kernels::QuantizeRows{x, list, factors, spec,
                                                   std::as_writable_bytes(packets), trace});
  return {to_bytes(h.download_span(packets)), h.download_span(trace.range),
          h.download_span(trace.variance),
          static_cast<std::int64_t>(h.download_span(trace.bad).front())};
}

Residuals pack_residuals(Harness& h, const WireMessages& messages, const ResidualRows& about) {
  const auto count = static_cast<std::int64_t>(about.rows.size());
  const bool is_bf16 = about.x.dtype == DType::kBf16;
  const auto matrix = [&] {
    return is_bf16 ? h.output<Bf16>(count, messages.cols) : h.output<float>(count, messages.cols);
  };
  const MatrixView kept = matrix();
  const MatrixView residuals = matrix();
  h.backend().run(h.queue(), kernels::Convert{h.input(count, messages.cols, about.kept), kept});
  const PackList list{h.input_span(messages.rows), h.input_span(messages.first),
                      h.input_span(messages.offset), h.input_span(messages.bits)};
  const auto packets = h.output_span<std::uint8_t>(messages.bytes);
  const PackTrace trace{h.output_span<float>(messages.count()),
                        h.output_span<float>(messages.count()),
                        h.inout_span<std::int64_t>({kNoneBad})};
  h.backend().run(h.queue(),
                  kernels::QuantizeResiduals{
                      about.x,
                      h.input_span(about.rows),
                      about.scale.empty() ? std::span<const float>() : h.input_span(about.scale),
                      about.sign,
                      kept,
                      residuals,
                      about.wanted,
                      list,
                      {.key = {}, .row_ids = h.input_span(nodes(count)), .nearest = true},
                      std::as_writable_bytes(packets),
                      trace});
  return {{to_bytes(h.download_span(packets)), h.download_span(trace.range),
           h.download_span(trace.variance),
           static_cast<std::int64_t>(h.download_span(trace.bad).front())},
          h.download(kept),
          about.wanted ? h.download(residuals) : std::vector<double>()};
}

std::vector<double> unpack(Harness& h, const WireMessages& messages,
                           const std::vector<std::uint8_t>& bytes, DType storage,
                           const Held& held) {
  // Into rows in another order than the messages'.
  std::vector<LocalId> targets;
  for (std::int64_t m = messages.count(); m-- > 0;) {
    targets.push_back(LocalId{static_cast<std::int32_t>(m)});
  }
  const auto packets = h.input_span(bytes);
  const UnpackList list{h.input_span(targets), h.input_span(messages.offset),
                        h.input_span(messages.bits)};
  const MatrixView y = storage == DType::kBf16 ? h.output<Bf16>(messages.count(), messages.cols)
                                               : h.output<float>(messages.count(), messages.cols);
  if (!held.values.empty()) {
    std::vector<float> reversed;
    for (std::int64_t m = messages.count(); m-- > 0;) {
      const auto row = held.values.begin() + m * messages.cols;
      reversed.insert(reversed.end(), row, row + messages.cols);
    }
    h.backend().run(h.queue(),
                    kernels::Convert{h.input(messages.count(), messages.cols, reversed), y});
  }
  h.backend().run(h.queue(), kernels::DequantizeRows{std::as_bytes(packets), list, y, held.adds});
  const auto reversed = h.download(y);
  std::vector<double> values;
  for (std::int64_t m = messages.count(); m-- > 0;) {
    const auto begin = reversed.begin() + m * messages.cols;
    values.insert(values.end(), begin, begin + messages.cols);
  }
  return values;
}

}  // namespace atl
