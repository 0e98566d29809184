// Every exchange mode but `exact`: which messages travel and at how many bits is a MessagePolicy's,
// how their rows are made and when they are used a MessageRule's. AdaQP (arXiv 2306.01381, section
// 3) is the mode `quantized`: each message at a bit-width of its own, rounded so that its
// expectation is exact.
#include <cmath>
#include <utility>

#include "base/log.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/exchange/expected_messages.hpp"
#include "engine/exchange/messages/aggregation_scores.hpp"
#include "engine/exchange/messages/message_policy.hpp"

namespace atl {

namespace {

class MessageExchange final : public HaloExchange {
 public:
  MessageExchange(const ExchangeOptions& options, const Rank& rank)
      : options_(options),
        rank_(rank),
        policy_(make_message_policy(options, rank_)),
        exact_(make_exact_exchange(rank)),
        packets_(rank) {}

  std::string name() const override { return options_.mode; }
  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override;
  void keep_alive(std::shared_ptr<const void> memory) override {
    exact_->keep_alive(memory);
    rows_ = std::move(memory);
  }
  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                            DType dtype) const override;
  std::optional<ExchangeReport> end_epoch(const Round& round) override;
  void leave_graph(const Round& round) override;
  int settled_epochs(int epoch) const override {
    // A recording is of packets that are used in the epoch that sends them.
    return options_.pipelined() ? 1 : policy_->settled_epochs(epoch);
  }
  std::string state() override;
  void load_state(const std::string& state, const std::string& place) override;
  Json calibration() const override { return policy_->calibration(); }

 private:
  MessageChannel& make_channel(const DistributedOperator& op, const Channel& channel,
                               std::int64_t cols, DType storage, int epoch);
  // Those of the epoch, or step, that ends: where the host could not see them at once.
  void require_sendable(int epoch) const;
  // Collective: whether the checkpoint's rows are those of this channel on all ranks.
  bool restore(MessageChannel& channel);
  // The widths in use, summed over ranks.
  ExchangeReport describe() const;
  void log_choice(const ExchangeReport& report, int epoch);

  const ExchangeOptions options_;
  const Rank& rank_;
  std::unique_ptr<MessagePolicy> policy_;
  std::unique_ptr<HaloExchange> exact_;  // for constant channels
  PacketTransfer packets_;
  MessageChannels channels_;
  std::optional<SafetensorsFile> restored_;  // rows of a checkpoint
  std::shared_ptr<const void> rows_;
  bool changed_ = false;  // the widths since the last epoch
  std::optional<ExchangeReport::Choice> choice_;
  std::map<int, std::string> logged_;  // the last line of each channel, by slot
};

MessageChannel& MessageExchange::make_channel(const DistributedOperator& op, const Channel& channel,
                                              std::int64_t cols, DType storage, int epoch) {
  const BitChoice& bits = options_.message_bits.bits;
  const bool fixed = exchange_mode(options_.mode).takes_bits() && bits.by == BitChoice::By::kFixed;
  const MessageRule rule =
      message_rule(options_, channel.direction, fixed ? width_of_layer(bits, channel.layer) : 0);
  const std::vector<float> scores =
      rule.shifts ? sent_scores(op, Sensitivity::kVariance, rank_.transport) : std::vector<float>();
  const auto make = [&] {
    return std::make_unique<MessageChannel>(rank_, op, channel, cols, storage, rule, scores);
  };
  std::unique_ptr<MessageChannel>& mine = channels_[channel.slot()];
  mine = make();
  const bool restored = restore(*mine);
  if (!restored && restored_) {
    mine.reset();
    mine = make();
  }
  policy_->begin(*mine, epoch, restored);
  changed_ = true;
  return *mine;
}

bool MessageExchange::restore(MessageChannel& channel) {
  if (!options_.keeps_rows()) return false;
  const bool fits = restored_ && channel.load(*restored_);
  const auto misfits =
      sum_over_ranks<double>(rank_.transport, fits ? 0 : 1, {"kept rows of the checkpoint"});
  if (misfits == 0) return true;
  if (rank_.transport.rank() == 0 && restored_) {
    log::warn("layer {} {}: the checkpoint's kept rows belong to other messages; all are sent anew",
              channel.channel().layer, to_string(channel.channel().direction));
  }
  return false;
}

std::unique_ptr<PendingExchange> MessageExchange::begin(const DistributedOperator& op, MatrixView x,
                                                        Channel channel, const Round& round) {
  if (channel.constant || rank_.transport.size() == 1) {
    return exact_->begin(op, x, channel, round);
  }
  check_rows(op, x);
  const auto found = channels_.find(channel.slot());
  MessageChannel& mine = found != channels_.end()
                             ? *found->second
                             : make_channel(op, channel, x.cols, x.dtype, round.epoch);
  if (widest_message(options_) > 0) {
    // A device replays in later epochs what it records in one.
    const bool measured = !rank_.backend.host_accessible() || policy_->measures(round.epoch);
    return mine.begin(packets_, x, round, rows_, measured);
  }
  mine.clear(x);
  return std::make_unique<NothingPending>();
}

std::int64_t MessageExchange::buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                                           DType dtype) const {
  if (rank_.transport.size() == 1) return 0;
  return message_buffer_bytes(options_, widest_message(options_),
                              {.direction = op.direction,
                               .sent = op.halo.sent_rows(),
                               .received = op.halo.halo_rows(),
                               .outer = op.with_halo() - op.inner()},
                              columns, dtype);
}

void MessageExchange::require_sendable(int epoch) const {
  if (rank_.backend.host_accessible()) return;
  for (const auto& [slot, channel] : channels_) channel->require_sendable(epoch);
}

void MessageExchange::leave_graph(const Round& round) {
  require_sendable(round.epoch);
  channels_.clear();
  policy_ = make_message_policy(options_, rank_);
  if (packets_.packing_clock() != nullptr) packets_.packing_clock()->reset();
}

std::optional<ExchangeReport> MessageExchange::end_epoch(const Round& round) {
  require_sendable(round.epoch);
  std::optional<ExchangeReport> news;
  if (changed_) {
    news = describe();
    log_choice(*news, round.epoch);
  }
  choice_.reset();
  changed_ = policy_->end_epoch(round, channels_, choice_);
  restored_.reset();  // all channels have begun
  if (packets_.packing_clock() != nullptr) packets_.packing_clock()->reset();
  return news;
}

ExchangeReport MessageExchange::describe() const {
  std::vector<std::int64_t> sums;
  for (const auto& [slot, channel] : channels_) {
    std::vector<std::int64_t> counts(kMessageCodes + 2, 0);
    for (const std::uint8_t code : policy_->codes(slot)) ++counts[code];
    if (policy_->codes(slot).empty()) {
      for (const std::uint8_t bits : channel->sent_bits()) {
        if (bits != 0) ++counts[code_of({.bits = bits})];
      }
    }
    counts[kMessageCodes] = std::ssize(channel->sent_bits());
    counts[kMessageCodes + 1] = channel->sent_bytes();
    sums.insert(sums.end(), counts.begin(), counts.end());
  }
  rank_.transport.all_reduce(std::span(sums), {"bit-width report"});
  ExchangeReport report;
  report.choice = choice_;
  double values = 0;
  double value_bits = 0;
  auto sum = sums.begin();
  for (const auto& [slot, channel] : channels_) {
    ExchangeReport::Messages messages{
        .channel = channel->channel(), .columns = channel->cols(), .as_rows = channel->as_rows()};
    double bytes = 0;  // in the mean of epochs
    for (std::uint8_t code = 0; code < kMessageCodes; ++code) {
      const std::int64_t rows = *sum++;
      const MessageChoice choice = choice_of(code);
      const double in_epoch = static_cast<double>(rows) / choice.period;
      messages.rows_of_width[bits_index(choice.bits)] += rows;
      if (choice.period > 1 && rows > 0) messages.rows_of_period[choice.period] += rows;
      value_bits += in_epoch * static_cast<double>(messages.columns * choice.bits);
      bytes += in_epoch * static_cast<double>(
                              wire_row_bytes(choice.bits, channel->cols(), channel->storage()));
    }
    messages.rows = *sum++;
    messages.bytes = *sum++;
    if (!messages.rows_of_period.empty()) messages.bytes = std::llround(bytes);
    values += static_cast<double>(messages.rows * messages.columns);
    report.channels.push_back(messages);
  }
  if (values > 0) report.mean_bits = value_bits / values;
  return report;
}

void MessageExchange::log_choice(const ExchangeReport& report, int epoch) {
  // The transport may be that of one slice among several (PartGroup): its job has one rank 0.
  if (rank_.trace.rank() != 0 || !report.choice) return;
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
    if (m.as_rows) shares.push_back("rows as they are");
    for (const auto& [period, rows] : m.rows_of_period) {
      shares.push_back(fmt::format("{:.0f} % in one of {} epochs",
                                   100 * static_cast<double>(rows) / static_cast<double>(m.rows),
                                   period));
    }
    const std::string line = fmt::format("  layer {} {}: {}", m.channel.layer,
                                         to_string(m.channel.direction), fmt::join(shares, ", "));
    if (std::exchange(logged_[m.channel.slot()], line) != line) log::info("{}", line);
  }
}

std::string MessageExchange::state() {
  SafetensorsFile file;
  file.metadata[kExchangeState] = options_.mode;
  const Json state = policy_->state(file);
  const std::string text = state.is_null() ? "" : state.dump();
  if (!options_.keeps_rows()) return text;
  file.metadata["policy"] = text;
  for (const auto& [slot, channel] : channels_) channel->save(file);
  return to_safetensors(file);
}

void MessageExchange::load_state(const std::string& state, const std::string& place) {
  if (state.empty()) return;
  std::string text = state;
  if (options_.keeps_rows()) {
    restored_ =
        parse_safetensors(std::as_bytes(std::span(state)), place + ": state of the exchange");
    text = restored_->metadata["policy"];
  }
  if (text.empty()) return;
  policy_->load_state(parse_json(text, place + ": state of the exchange"),
                      restored_ ? *restored_ : SafetensorsFile{}, place);
}

}  // namespace

std::unique_ptr<HaloExchange> make_message_exchange(const ExchangeOptions& options,
                                                    const Rank& rank) {
  return std::make_unique<MessageExchange>(options, rank);
}

}  // namespace atl
