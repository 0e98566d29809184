// Packing and unpacking of quantized messages 256 wide, beside a copy of the same rows. Bytes are
// those of the rows as stored, read or written once, whatever the width: rates of different widths
// and of the copy compare.
#include <string>

#include "tests/benchmarks/bench.hpp"

namespace atl {

namespace {

// A quarter of the rows in an order without locality, as one rank's messages, `receivers` times.
struct Messages {
  std::int64_t rows = 0;  // of the matrix
  std::vector<LocalId> sources;
  std::vector<std::int64_t> first{0};
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> bits;
  std::vector<LocalId> targets;
  std::int64_t bytes = 0;

  Messages(std::int64_t matrix_rows, const std::vector<int>& receivers, DType dtype)
      : rows(matrix_rows) {
    for (std::int64_t k = 0; k < rows / 4; ++k) {
      sources.push_back(LocalId{static_cast<std::int32_t>(k * 7919 % rows)});
      for (const int width : receivers) {
        targets.push_back(LocalId{static_cast<std::int32_t>(offset.size())});
        offset.push_back(bytes);
        bits.push_back(static_cast<std::uint8_t>(width));
        bytes += wire_row_bytes(width, kColumns, dtype);
      }
      first.push_back(static_cast<std::int64_t>(offset.size()));
    }
  }
};

std::span<std::byte> make_packets(Bench& bench, const Messages& messages) {
  return bench.upload(std::vector<std::byte>(static_cast<std::size_t>(messages.bytes)));
}

// Packs what `messages` says; the returned function does it again.
std::function<void()> packing(Bench& bench, const Messages& messages, DType dtype,
                              std::span<std::byte> packets, bool nearest = false) {
  const ConstMatrixView x = bench.matrix(messages.rows, kColumns, dtype);
  std::vector<GlobalId> ids;
  for (std::int64_t k = 0; k < messages.rows; ++k) ids.push_back(GlobalId{k});
  const PackList list{bench.upload(messages.sources), bench.upload(messages.first),
                      bench.upload(messages.offset), bench.upload(messages.bits)};
  RoundingSpec rounding;
  rounding.key = {1, RandomStream::kRoundForward, 0, 0};
  rounding.row_ids = bench.upload(ids);
  rounding.nearest = nearest;
  const auto range = bench.upload(std::vector<float>(messages.sources.size()));
  const auto variance = bench.upload(std::vector<float>(messages.bits.size()));
  const auto bad = bench.upload(std::vector<std::int64_t>{messages.rows});
  return [=, &bench] {
    bench.backend().run(bench.queue(), kernels::QuantizeRows{
                                           x, list, {}, rounding, packets, {range, variance, bad}});
  };
}

double row_bytes(std::size_t rows, DType dtype) {
  return static_cast<double>(rows) * static_cast<double>(kColumns * bytes_of(dtype));
}

Case pack(Bench& bench, const std::vector<int>& receivers, DType dtype, bool nearest = false) {
  const Messages messages(bench.scaled(1'000'000), receivers, dtype);
  Case made;
  made.run = packing(bench, messages, dtype, make_packets(bench, messages), nearest);
  made.no_reuse_bytes = made.compulsory_bytes = row_bytes(messages.sources.size(), dtype);
  return made;
}

// adds: the messages, to the rows that are there.
Case unpack(Bench& bench, int width, DType dtype, bool adds = false) {
  const Messages messages(bench.scaled(1'000'000), {width}, dtype);
  const std::span<std::byte> packets = make_packets(bench, messages);
  packing(bench, messages, dtype, packets)();
  const UnpackList list{bench.upload(messages.targets), bench.upload(messages.offset),
                        bench.upload(messages.bits)};
  const auto rows = static_cast<std::int64_t>(messages.targets.size());
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::DequantizeRows{packets, list, y, adds ? 1 : 0});
  };
  made.no_reuse_bytes = made.compulsory_bytes =
      row_bytes((adds ? 2 : 1) * messages.targets.size(), dtype);
  if (width >= 16 && !adds) {  // else too far from what was packed
    made.checked = element(y, rows - 1, 0);
    made.expected = Bench::value(to_index(messages.sources.back()) * kColumns);
  }
  return made;
}

Case copy_rows(Bench& bench, DType dtype) {
  const Messages messages(bench.scaled(1'000'000), {32}, dtype);
  const ConstMatrixView x = bench.matrix(messages.rows, kColumns, dtype);
  const auto rows = static_cast<std::int64_t>(messages.sources.size());
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  const auto ids = bench.upload(messages.sources);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::GatherRows{x, ids, {}, y});
  };
  made.no_reuse_bytes = made.compulsory_bytes = row_bytes(messages.sources.size(), dtype);
  made.checked = element(y, rows - 1, 0);
  made.expected = Bench::value(to_index(messages.sources.back()) * kColumns);
  return made;
}

}  // namespace

std::vector<Benchmark> wire_benchmarks() {
  std::vector<Benchmark> list;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto add = [&](const std::string& name, const std::function<Case(Bench&)>& make) {
      list.push_back({with_type(name, dtype), make, dtype});
    };
    add("wire_copy", [=](Bench& bench) { return copy_rows(bench, dtype); });
    for (const int width : kWireBits) {
      add("quantize/" + std::to_string(width),
          [=](Bench& bench) { return pack(bench, {width}, dtype); });
    }
    for (const int width : {1, 2, 4, 8}) {
      add("quantize_nearest/" + std::to_string(width),
          [=](Bench& bench) { return pack(bench, {width}, dtype, true); });
      add("dequantize_add/" + std::to_string(width),
          [=](Bench& bench) { return unpack(bench, width, dtype, true); });
    }
    add("quantize/8_8", [=](Bench& bench) { return pack(bench, {8, 8}, dtype); });
    add("quantize/8_4_2", [=](Bench& bench) { return pack(bench, {8, 4, 2}, dtype); });
    for (const int width : kWireBits) {
      add("dequantize/" + std::to_string(width),
          [=](Bench& bench) { return unpack(bench, width, dtype); });
    }
  }
  return list;
}

}  // namespace atl
