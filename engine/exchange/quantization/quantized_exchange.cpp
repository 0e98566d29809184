// Exchange mode `quantized`: every message travels at a bit-width of its own, rounded so that its
// expectation is exact (AdaQP, arXiv 2306.01381, section 3; what differs is in
// docs/quantization.md).
#include <utility>

#include "base/log.hpp"
#include "engine/exchange/quantization/bit_chooser.hpp"

namespace atl {

namespace {

class PendingQuantizedExchange final : public PendingExchange {
 public:
  PendingQuantizedExchange(std::unique_ptr<PendingPackets> packets, QuantizedChannel& channel,
                           MatrixView x, TraceRecorder& trace, TraceTag tag)
      : packets_(std::move(packets)), channel_(channel), x_(x), trace_(trace), tag_(tag) {}

  void finish_groups(int last) override {
    if (packets_ == nullptr) return;
    const char* direction = to_string(channel_.channel().direction);
    {
      const ScopedSpan span(trace_, "wait", tag_, direction);
      packets_->finish_pieces(last);
    }
    unpack(direction, last + 1);
  }

  void finish() override {
    if (packets_ == nullptr) return;
    const char* direction = to_string(channel_.channel().direction);
    {
      ScopedSpan span(trace_, "wait", tag_, direction);
      span.set_bytes(channel_.received_bytes());
      packets_->finish();
    }
    record_packets(trace_, packets_->packet_times(), tag_, direction);
    packets_.reset();
    unpack(direction, channel_.op().pieces);
  }

 private:
  void unpack(const char* direction, int end) {
    const ScopedSpan span(trace_, "unpack", tag_, direction);
    channel_.unpack(x_, std::exchange(unpacked_, end), end);
  }

  std::unique_ptr<PendingPackets> packets_;
  QuantizedChannel& channel_;
  MatrixView x_;
  TraceRecorder& trace_;
  TraceTag tag_;
  int unpacked_ = 0;  // pieces
};

class QuantizedExchange final : public HaloExchange {
 public:
  QuantizedExchange(const BitOptions& options, const Rank& rank)
      : options_(options),
        rank_(rank),
        chooser_(make_bit_chooser(options, rank_)),
        exact_(make_exact_exchange(rank)),
        packets_(rank) {}

  std::string name() const override { return "quantized"; }
  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override;
  void keep_alive(std::shared_ptr<const void> memory) override {
    exact_->keep_alive(memory);
    rows_ = std::move(memory);
  }
  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                            DType dtype) const override;
  std::optional<ExchangeReport> end_epoch(const Round& round) override;
  int settled_epochs(int epoch) const override { return chooser_->settled_epochs(epoch); }
  std::string state() const override {
    const Json state = chooser_->state();
    return state.is_null() ? "" : state.dump();
  }
  void load_state(const std::string& state, const std::string& place) override;
  Json calibration() const override { return chooser_->calibration(); }

 private:
  // The widths in use, summed over ranks.
  ExchangeReport describe() const;
  void log_choice(const ExchangeReport& report, int epoch);

  BitOptions options_;
  const Rank& rank_;
  std::unique_ptr<BitChooser> chooser_;
  std::unique_ptr<HaloExchange> exact_;  // for constant channels
  PacketTransfer packets_;
  QuantizedChannels channels_;
  std::shared_ptr<const void> rows_;
  bool changed_ = false;  // the widths since the last epoch
  std::optional<ExchangeReport::Choice> choice_;
  std::map<int, std::string> logged_;  // the last line of each channel, by slot
};

std::unique_ptr<PendingExchange> QuantizedExchange::begin(const DistributedOperator& op,
                                                          MatrixView x, Channel channel,
                                                          const Round& round) {
  if (channel.constant || rank_.transport.size() == 1) {
    return exact_->begin(op, x, channel, round);
  }
  check_rows(op, x);
  std::unique_ptr<QuantizedChannel>& mine = channels_[channel.slot()];
  if (mine == nullptr) {
    mine = std::make_unique<QuantizedChannel>(rank_, op, channel, x.cols, x.dtype);
    chooser_->begin(*mine, round.epoch);
    changed_ = true;
  }
  auto packets = mine->begin(packets_, x, round, rows_);
  const TraceTag received{round.epoch, channel.layer, -1, rank_.transport.rank(), channel.number};
  return std::make_unique<PendingQuantizedExchange>(std::move(packets), *mine, x, rank_.trace,
                                                    received);
}

std::int64_t QuantizedExchange::buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                                             DType dtype) const {
  if (rank_.transport.size() == 1) return 0;
  // Beside the packets: offset, width, row and what packing finds out, per message.
  constexpr std::int64_t kPerMessage = 64;
  return (op.halo.sent_rows() + op.halo.halo_rows()) *
         (wire_row_bytes(chooser_->widest(), columns, dtype) + kPerMessage);
}

std::optional<ExchangeReport> QuantizedExchange::end_epoch(const Round& round) {
  if (!rank_.backend.host_accessible()) {
    for (const auto& [slot, channel] : channels_) channel->require_sendable(round.epoch);
  }
  std::optional<ExchangeReport> news;
  if (changed_) {
    news = describe();
    log_choice(*news, round.epoch);
  }
  choice_.reset();
  changed_ = chooser_->end_epoch(round, channels_, choice_);
  if (packets_.packing_clock() != nullptr) packets_.packing_clock()->reset();
  return news;
}

ExchangeReport QuantizedExchange::describe() const {
  constexpr std::size_t kWidths = kWireBits.size();
  std::vector<std::int64_t> sums;
  for (const auto& [slot, channel] : channels_) {
    std::vector<std::int64_t> counts(kWidths + 1, 0);
    for (const std::uint8_t bits : channel->sent_bits()) ++counts[bits_index(bits)];
    counts[kWidths] = channel->sent_bytes();
    sums.insert(sums.end(), counts.begin(), counts.end());
  }
  rank_.transport.all_reduce(std::span(sums), {"bit-width report"});
  ExchangeReport report;
  report.choice = choice_;
  double values = 0;
  double value_bits = 0;
  auto sum = sums.begin();
  for (const auto& [slot, channel] : channels_) {
    ExchangeReport::Messages messages{.channel = channel->channel(), .columns = channel->cols()};
    for (std::size_t w = 0; w < kWidths; ++w) {
      const std::int64_t rows = *sum++;
      messages.rows_of_width[w] = rows;
      messages.rows += rows;
      value_bits += static_cast<double>(rows * messages.columns * kWireBits[w]);
    }
    messages.bytes = *sum++;
    values += static_cast<double>(messages.rows * messages.columns);
    report.channels.push_back(messages);
  }
  if (values > 0) report.mean_bits = value_bits / values;
  return report;
}

void QuantizedExchange::log_choice(const ExchangeReport& report, int epoch) {
  if (rank_.transport.rank() != 0 || !report.choice) return;
  double bytes = 0;
  for (const ExchangeReport::Messages& m : report.channels) bytes += static_cast<double>(m.bytes);
  log::info(
      "epoch {}: {:.2f} mean bits, {:.3f} MB of messages per epoch, assigned in {:.1f} ms, "
      "within {:.1e} of the optimum",
      epoch, report.mean_bits, bytes / 1e6, report.choice->solver_ms, report.choice->gap);
  // Shares change little from one assignment to the next: only what is new is worth a line.
  for (const ExchangeReport::Messages& m : report.channels) {
    std::vector<std::string> shares;
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      if (m.rows_of_width[w] == 0) continue;
      const double share = static_cast<double>(m.rows_of_width[w]) / static_cast<double>(m.rows);
      shares.push_back(fmt::format("{} bits {:.0f} %", kWireBits[w], 100 * share));
    }
    const std::string line = fmt::format("  layer {} {}: {}", m.channel.layer,
                                         to_string(m.channel.direction), fmt::join(shares, ", "));
    if (std::exchange(logged_[m.channel.slot()], line) != line) log::info("{}", line);
  }
}

void QuantizedExchange::load_state(const std::string& state, const std::string& place) {
  if (state.empty()) return;
  chooser_->load_state(parse_json(state, place + ": state of the exchange"), place);
}

}  // namespace

std::unique_ptr<HaloExchange> make_quantized_exchange(const BitOptions& options, const Rank& rank) {
  return std::make_unique<QuantizedExchange>(options, rank);
}

}  // namespace atl
