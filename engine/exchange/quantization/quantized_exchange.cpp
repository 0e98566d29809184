// Exchange mode `quantized`: every message travels at a bit-width of its own, rounded so that its
// expectation is exact (AdaQP, arXiv 2306.01381, section 3; what differs is in
// docs/quantization.md).
#include <utility>

#include "base/log.hpp"
#include "engine/exchange/quantization/bit_policy.hpp"

namespace atl {

namespace {

class PendingQuantizedExchange final : public PendingExchange {
 public:
  PendingQuantizedExchange(std::unique_ptr<PendingPackets> packets, QuantizedChannel& channel,
                           MatrixView x, TraceRecorder& trace, TraceTag tag)
      : packets_(std::move(packets)), channel_(channel), x_(x), trace_(trace), tag_(tag) {}

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
    const ScopedSpan span(trace_, "unpack", tag_, direction);
    channel_.unpack(x_);
  }

 private:
  std::unique_ptr<PendingPackets> packets_;
  QuantizedChannel& channel_;
  MatrixView x_;
  TraceRecorder& trace_;
  TraceTag tag_;
};

class QuantizedExchange final : public HaloExchange {
 public:
  QuantizedExchange(const WidthOptions& options, const Rank& rank)
      : options_(options),
        rank_(rank),
        policy_(make_bit_policy(options, rank_)),
        exact_(make_exact_exchange(rank)),
        packets_(rank) {}

  std::string name() const override { return "quantized"; }
  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override;
  void keep_alive(std::shared_ptr<const void> memory) override {
    exact_->keep_alive(memory);
    rows_ = std::move(memory);
  }
  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t width,
                            DType dtype) const override;
  Json end_epoch(const Round& round) override;
  bool repeats() const override { return policy_->constant(); }
  std::string state() const override {
    const Json state = policy_->state();
    return state.is_null() ? "" : state.dump();
  }
  void load_state(const std::string& state, const std::string& place) override;
  Json calibration() const override { return policy_->calibration(); }

 private:
  // The widths in use, summed over ranks.
  Json describe() const;
  void log_assignment(const Json& assignment, int epoch);

  WidthOptions options_;
  const Rank& rank_;
  std::unique_ptr<BitPolicy> policy_;
  std::unique_ptr<HaloExchange> exact_;  // for constant channels
  PacketTransfer packets_;
  QuantizedChannels channels_;
  std::shared_ptr<const void> rows_;
  bool changed_ = false;  // the widths since the last epoch
  std::optional<AssignmentReport> report_;
  std::map<std::string, std::string> logged_;  // the last line of each channel
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
    policy_->begin(*mine, round.epoch);
    changed_ = true;
  }
  auto packets = mine->begin(packets_, x, round, rows_);
  const TraceTag received{round.epoch, channel.layer, -1, rank_.transport.rank(), channel.number};
  return std::make_unique<PendingQuantizedExchange>(std::move(packets), *mine, x, rank_.trace,
                                                    received);
}

std::int64_t QuantizedExchange::buffer_bytes(const DistributedOperator& op, std::int64_t width,
                                             DType dtype) const {
  if (rank_.transport.size() == 1) return 0;
  // Beside the packets: offset, width, row and what packing finds out, per message.
  constexpr std::int64_t kPerMessage = 64;
  return (op.plan.sent_rows() + op.plan.halo_rows()) *
         (wire_row_bytes(policy_->widest(), width, dtype) + kPerMessage);
}

Json QuantizedExchange::end_epoch(const Round& round) {
  if (!rank_.backend.host_accessible()) {
    for (const auto& [slot, channel] : channels_) channel->require_sendable(round.epoch);
  }
  Json news = changed_ ? describe() : Json(nullptr);
  if (changed_) log_assignment(news, round.epoch);
  report_.reset();
  changed_ = policy_->end_epoch(round, channels_, report_);
  return news;
}

Json QuantizedExchange::describe() const {
  constexpr std::size_t kWidths = kWireBits.size();
  std::vector<std::int64_t> sums;
  for (const auto& [slot, channel] : channels_) {
    std::vector<std::int64_t> counts(kWidths + 1, 0);
    for (const std::uint8_t bits : channel->sent_bits()) ++counts[width_index(bits)];
    counts[kWidths] = channel->sent_bytes();
    sums.insert(sums.end(), counts.begin(), counts.end());
  }
  rank_.transport.all_reduce(std::span(sums), {"bit-width report"});
  Json result = Json::object();
  if (report_) result.update({{"solver_ms", report_->solver_ms}, {"gap", report_->gap}});
  result["mean_bits"] = 0.0;
  result["channels"] = Json::array();
  double values = 0;
  double value_bits = 0;
  auto sum = sums.begin();
  for (const auto& [slot, channel] : channels_) {
    Json bits = Json::object();
    std::int64_t rows = 0;
    for (std::size_t w = 0; w < kWidths; ++w) {
      const std::int64_t messages = sum[static_cast<std::ptrdiff_t>(w)];
      bits[std::to_string(kWireBits[w])] = messages;
      rows += messages;
      value_bits += static_cast<double>(messages * channel->cols() * kWireBits[w]);
    }
    Json entry = {{"layer", channel->channel().layer},
                  {"direction", to_string(channel->channel().direction)},
                  {"columns", channel->cols()},
                  {"rows", rows},
                  {"bytes", sum[kWidths]},
                  {"bits", bits}};
    if (report_) {
      const AssignmentReport::Times& times = report_->channels.at(slot);
      entry.update({{"wire_ms", times.wire_ms}, {"central_ms", times.central_ms}});
    }
    result["channels"].push_back(entry);
    values += static_cast<double>(rows * channel->cols());
    sum += kWidths + 1;
  }
  if (values > 0) result["mean_bits"] = value_bits / values;
  return result;
}

void QuantizedExchange::log_assignment(const Json& assignment, int epoch) {
  if (rank_.transport.rank() != 0 || !report_) return;
  double bytes = 0;
  for (const Json& channel : assignment.at("channels")) bytes += channel.at("bytes").get<double>();
  log::info(
      "epoch {}: {:.2f} mean bits, {:.3f} MB of messages per epoch, assigned in {:.1f} ms, "
      "within {:.1e} of the optimum",
      epoch, assignment.at("mean_bits").get<double>(), bytes / 1e6, report_->solver_ms,
      report_->gap);
  // Shares change little from one assignment to the next: only what is new is worth a line.
  for (const Json& channel : assignment.at("channels")) {
    std::vector<std::string> shares;
    for (const auto& [bits, count] : channel.at("bits").items()) {
      const double share = count.get<double>() / channel.at("rows").get<double>();
      if (count != 0) shares.push_back(fmt::format("{} bits {:.0f} %", bits, 100 * share));
    }
    const std::string place = fmt::format("layer {} {}", channel.at("layer").get<int>(),
                                          channel.at("direction").get<std::string>());
    const std::string line = fmt::format("  {}: {}", place, fmt::join(shares, ", "));
    if (std::exchange(logged_[place], line) != line) log::info("{}", line);
  }
}

void QuantizedExchange::load_state(const std::string& state, const std::string& place) {
  if (state.empty()) return;
  policy_->load_state(parse_json(state, place + ": state of the exchange"), place);
}

}  // namespace

std::unique_ptr<HaloExchange> make_quantized_exchange(const WidthOptions& options,
                                                      const Rank& rank) {
  return std::make_unique<QuantizedExchange>(options, rank);
}

}  // namespace atl
