#include "engine/placement/kernel_probe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/elapsed.hpp"
#include "base/philox.hpp"

namespace atl {

namespace {

constexpr OperationLabel kKernelLabel{"kernel measurement"};
constexpr int kMessageBits = 4;
// A message for every fourth row.
constexpr std::int64_t kRowsPerMessage = 4;

// As many rows as fit into an eighth of the memory: two matrices as wide as the widest, and the
// graph.
std::int64_t rows_that_fit(const KernelProbeOptions& options, double memory_bytes) {
  constexpr double kShare = 1.0 / 8;
  const double per_row = 2.0 * sizeof(float) * static_cast<double>(options.columns.back()) +
                         sizeof(std::int32_t) * options.degree + 64;
  const auto fit = static_cast<std::int64_t>(kShare * memory_bytes / per_row);
  constexpr std::int64_t kLeast = 64;
  return std::max(kLeast, std::min(options.rows, fit));
}

// A permutation of 0 .. count - 1 that leaves no neighbours together.
std::int64_t spread(std::int64_t index, std::int64_t count) {
  constexpr std::int64_t kPrime = 7919;
  return count % kPrime == 0 ? index : index * kPrime % count;
}

// Node of a weight rank^(-1/2), so that a few have very many edges; ranks are spread over the ids.
std::int64_t random_node(std::uint32_t bits, std::int64_t nodes) {
  const double uniform = static_cast<double>(bits) * 0x1p-32;
  const auto rank = static_cast<std::int64_t>(uniform * uniform * static_cast<double>(nodes));
  return spread(rank, nodes);
}

}  // namespace

KernelProbe::KernelProbe(Backend& backend, Queue& queue, const KernelProbeOptions& options,
                         double memory_bytes)
    : backend_(backend), queue_(queue), rows_(rows_that_fit(options, memory_bytes)) {
  ATOLL_ASSERT(!options.columns.empty() && std::ranges::is_sorted(options.columns));
  make_graph(options.degree);
  const std::int64_t widest = options.columns.back();
  x_ = Tensor(backend, rows_, widest, DType::kF32);
  y_ = Tensor(backend, rows_, widest, DType::kF32);
  weight_ = Tensor(backend, widest, widest, DType::kF32);
  std::vector<float> values(static_cast<std::size_t>(rows_ * widest));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<float>(i * 7919 % 1024) - 512) / 1024;
  }
  upload_f32(backend, queue, values, x_.view());
  values.resize(static_cast<std::size_t>(std::max(widest, rows_) * widest), 0.5F);
  upload_f32(backend, queue,
             std::span<const float>(values).first(static_cast<std::size_t>(widest * widest)),
             weight_.view());
  backend.run(queue, kernels::FillZero{y_.view()});
  make_messages();
  finish();
}

void KernelProbe::make_graph(int degree) {
  const std::int64_t edges = rows_ * degree;
  const RandomKey key{1, RandomStream::kGenerator};
  host_row_ptr_.assign(static_cast<std::size_t>(rows_ + 1), 0);
  std::vector<std::int32_t> col_idx(static_cast<std::size_t>(edges));
  for (std::int64_t e = 0; e < edges; e += 2) {
    const PhiloxBlock block = random_block(key, static_cast<std::uint64_t>(e / 2), 0);
    for (std::int64_t k = 0; k < std::min<std::int64_t>(2, edges - e); ++k) {
      ++host_row_ptr_[static_cast<std::size_t>(random_node(block[2 * k], rows_) + 1)];
      col_idx[static_cast<std::size_t>(e + k)] =
          static_cast<std::int32_t>(random_node(block[2 * k + 1], rows_));
    }
  }
  std::partial_sum(host_row_ptr_.begin(), host_row_ptr_.end(), host_row_ptr_.begin());
  graph_ = {backend_, queue_, Csr{host_row_ptr_, std::move(col_idx), {}}, rows_};
  halves_ = {backend_, queue_, std::vector<float>(static_cast<std::size_t>(rows_), 0.5F)};
  ones_ = {backend_, queue_, std::vector<float>(static_cast<std::size_t>(rows_), 1.0F)};
  op_ = graph_.view();
  op_.row_scale = op_.col_scale = halves_.span();
  op_.self_weight = ones_.span();
  std::vector<RowRange> ranges;
  for (std::int64_t row = 0; row < rows_; row += rows_of_step()) {
    ranges.push_back({row, std::min(rows_, row + rows_of_step())});
  }
  prepared_ = backend_.prepare_spmm(queue_, op_, host_row_ptr_, ranges);
  op_.prepared = prepared_.get();
}

void KernelProbe::make_messages() {
  messages_ = rows_ / kRowsPerMessage;
  const auto count = static_cast<std::size_t>(messages_);
  std::vector<LocalId> rows(count);
  for (std::int64_t k = 0; k < messages_; ++k) {
    rows[static_cast<std::size_t>(k)] =
        LocalId{static_cast<std::int32_t>(spread(k, messages_) * kRowsPerMessage)};
  }
  std::vector<std::int64_t> first(count + 1);
  std::iota(first.begin(), first.end(), std::int64_t{0});
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < rows_; ++i) ids.push_back(GlobalId{i});
  message_rows_ = {backend_, queue_, std::move(rows)};
  message_first_ = {backend_, queue_, std::move(first)};
  message_bits_ = {backend_, queue_, std::vector<std::uint8_t>(count, kMessageBits)};
  row_ids_ = {backend_, queue_, std::move(ids)};
  packets_ = {backend_, messages_ * wire_row_bytes(kMessageBits, x_.cols(), DType::kF32)};
  range_ = {backend_, messages_};
  variance_ = {backend_, messages_};
  bad_ = {backend_, 1};
  bad_.upload(backend_, queue_, std::array{messages_});
}

// The host's clock times a step well if it is short; a device takes all rows at once.
std::int64_t KernelProbe::rows_of_step() const {
  constexpr std::int64_t kHostRows = 8192;
  return backend_.host_accessible() ? std::min(kHostRows, rows_) : rows_;
}

RowRange KernelProbe::next_rows() {
  if (next_row_ >= rows_) next_row_ = 0;
  const std::int64_t begin = next_row_;
  next_row_ = std::min(rows_, begin + rows_of_step());
  return {begin, next_row_};
}

double KernelProbe::spmm_step(std::int64_t columns) {
  const RowRange rows = next_rows();
  backend_.run(queue_, kernels::Spmm{op_, rows, x_.reshaped(rows_, columns), 0,
                                     y_.reshaped(rows_, columns)});
  const std::int64_t edges = host_row_ptr_[static_cast<std::size_t>(rows.end)] -
                             host_row_ptr_[static_cast<std::size_t>(rows.begin)];
  return static_cast<double>((edges + rows.size()) * columns) * sizeof(float);
}

double KernelProbe::gemm_step(std::int64_t columns) {
  const RowRange rows = next_rows();
  backend_.run(queue_, kernels::Gemm{Transpose::kNo, x_.reshaped(rows_, columns).rows_in(rows),
                                     Transpose::kNo, weight_.reshaped(columns, columns), 0,
                                     y_.reshaped(rows_, columns).rows_in(rows)});
  return 2.0 * static_cast<double>(rows.size() * columns * columns);
}

double KernelProbe::elementwise_step(std::int64_t columns) {
  const RowRange rows = next_rows();
  Epilogue relu;
  relu.function = ActivationFunction::kRelu;
  backend_.run(queue_, kernels::ApplyEpilogue{x_.reshaped(rows_, columns).rows_in(rows), relu,
                                              y_.reshaped(rows_, columns).rows_in(rows)});
  return 2.0 * static_cast<double>(rows.size() * columns) * sizeof(float);
}

double KernelProbe::quantize_step(std::int64_t columns) {
  ConstDeviceArray<std::int64_t>& offset = message_offset_[columns];
  if (offset.span().empty()) {
    std::vector<std::int64_t> host(static_cast<std::size_t>(messages_));
    const std::int64_t bytes = wire_row_bytes(kMessageBits, columns, DType::kF32);
    for (std::size_t k = 0; k < host.size(); ++k) host[k] = static_cast<std::int64_t>(k) * bytes;
    offset = {backend_, queue_, std::move(host)};
  }
  RoundingSpec rounding;
  rounding.key = {1, RandomStream::kRoundForward, 0, 0};
  rounding.row_ids = row_ids_.span();
  backend_.run(queue_, kernels::QuantizeRows{x_.reshaped(rows_, columns),
                                             {message_rows_.span(), message_first_.span(),
                                              offset.span(), message_bits_.span()},
                                             {},
                                             rounding,
                                             packets_.span(),
                                             {range_.span(), variance_.span(), bad_.span()}});
  return static_cast<double>(messages_ * columns) * sizeof(float);
}

double measure_rate(Transport& transport, KernelProbe& probe, double seconds,
                    const std::function<double()>& step) {
  constexpr std::size_t kWindows = 3;
  constexpr double kBatchSeconds = 0.002;  // long enough for the clock and for a queue to fill
  constexpr double kMostSteps = 1000;
  step();  // pages, caches and clocks
  probe.finish();
  const SteadyTime warm = steady_now();
  step();
  probe.finish();
  const int batch = static_cast<int>(
      std::clamp(kBatchSeconds / std::max(seconds_since(warm), 1e-9), 1.0, kMostSteps));
  transport.barrier(kKernelLabel);
  std::array<double, kWindows> rates{};
  for (double& rate : rates) {
    const SteadyTime start = steady_now();
    double work = 0;
    double elapsed = 0;
    while (elapsed < seconds / kWindows) {
      for (int i = 0; i < batch; ++i) work += step();
      probe.finish();
      elapsed = seconds_since(start);
    }
    rate = work / elapsed;
  }
  std::ranges::sort(rates);
  return rates[kWindows / 2];
}

void measure_kernels(Transport& transport, KernelProbe& probe, const KernelProbeOptions& options,
                     Device& device) {
  const auto rate = [&](const std::function<double()>& step) {
    return measure_rate(transport, probe, options.seconds, step);
  };
  for (const std::int64_t columns : options.columns) {
    device.spmm_bytes_per_s.push_back({columns, rate([&] { return probe.spmm_step(columns); })});
    device.gemm_flop_per_s.push_back({columns, rate([&] { return probe.gemm_step(columns); })});
  }
  // Nothing of these depends on the columns but what starts a row.
  const std::int64_t middle = options.columns[options.columns.size() / 2];
  device.elementwise_bytes_per_s = rate([&] { return probe.elementwise_step(middle); });
  device.quantize_bytes_per_s = rate([&] { return probe.quantize_step(middle); });
}

}  // namespace atl
