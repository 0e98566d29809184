#include "tests/kernels/operations.hpp"
#include "tests/kernels/wire_messages.hpp"

namespace atl {

namespace {

Outputs gather(Harness& h, std::int64_t rows, std::int64_t cols, bool scaled) {
  const std::int64_t sources = rows + 5;
  std::vector<LocalId> ids;
  for (const std::int32_t row : random_integers(rows, static_cast<std::int32_t>(sources), 7)) {
    ids.push_back(LocalId{row});
  }
  const ConstMatrixView x = h.input(sources, cols, random_floats(sources * cols, 8));
  const auto scale = scaled ? h.input_span(random_floats(sources, 9)) : std::span<const float>();
  const MatrixView y = h.output(rows, cols);
  h.backend().run(h.queue(), kernels::GatherRows{x, h.input_span(ids), scale, y});
  return {h.result(y)};
}

// Every row to one to three receivers at all widths; packets, trace and what is unpacked.
Outputs quantize(Harness& h, std::int64_t rows, std::int64_t cols, bool scaled) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 10));
  WireMessages messages(cols, x.dtype);
  for (std::int64_t k = 0; k < rows; ++k) {
    std::vector<int> widths;
    for (std::int64_t r = 0; r <= k % 3; ++r) {
      widths.push_back(kWireBits[static_cast<std::size_t>((k + 2 * r) % 6)]);
    }
    messages.add(rows - 1 - k, widths);
  }
  const auto scale = scaled ? random_floats(rows, 11) : std::vector<float>();
  const RandomKey key{3, RandomStream::kRoundForward, 0, 1};
  const EpochState* state = scaled ? h.epoch_state({.epoch = 10}) : nullptr;
  const Packed packed = pack(h, messages, x, scale, {key, nodes(rows), state});
  const std::vector<double> bytes(packed.bytes.begin(), packed.bytes.end());
  return {{bytes, DType::kF64},
          {packed.range, DType::kF64},
          {packed.variance, DType::kF64},
          {unpack(h, messages, packed.bytes, x.dtype), x.dtype}};
}

// Two messages of three are sent.
Outputs quantize_residuals(Harness& h, std::int64_t rows, std::int64_t cols, bool scaled) {
  const std::int64_t sources = rows + 5;
  ResidualRows about;
  about.x = h.input(sources, cols, random_floats(sources * cols, 10));
  WireMessages messages(cols, about.x.dtype);
  for (const std::int32_t row : random_integers(rows, static_cast<std::int32_t>(sources), 7)) {
    const auto m = std::ssize(about.rows);
    about.rows.push_back(LocalId{row});
    if (m % 3 != 1) messages.add(m, {kWireBits[static_cast<std::size_t>(m % 6)]});
  }
  if (scaled) about.scale = random_floats(sources, 11);
  about.kept = random_floats(rows * cols, 12);
  about.sign = scaled ? 1 : -1;
  about.wanted = true;
  const Residuals found = pack_residuals(h, messages, about);
  return {{std::vector<double>(found.packed.bytes.begin(), found.packed.bytes.end()), DType::kF64},
          {found.packed.range, DType::kF64},
          {found.kept, about.x.dtype},
          {found.residuals, about.x.dtype}};
}

}  // namespace

std::vector<TestedOperation> wire_operations() {
  std::vector<TestedOperation> list;
  const auto add = [&](const char* name, auto run, bool scaled, double tolerance) {
    list.push_back({name,
                    [run, scaled](Harness& h, std::int64_t rows, std::int64_t cols) {
                      return run(h, rows, cols, scaled);
                    },
                    tolerance, Bf16Case::kSame});
  };
  add("gather_plain", gather, false, 0);
  add("gather_scaled", gather, true, 0);
  // Only the variance is a sum; other tests ask for the same bytes.
  add("quantize_plain", quantize, false, 5e-6);
  add("quantize_scaled", quantize, true, 5e-6);
  add("quantize_residuals_plain", quantize_residuals, false, 0);
  add("quantize_residuals_scaled", quantize_residuals, true, 0);
  return list;
}

}  // namespace atl
