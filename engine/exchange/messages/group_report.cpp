#include "engine/exchange/group_report.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "engine/comm/rank_values.hpp"
#include "engine/exchange/messages/message_choice.hpp"

namespace atl {

namespace {

// One channel of one slice as it travels.
struct SentInSlice {
  std::int64_t number = 0;
  std::int64_t layer = 0;
  std::int64_t direction = 0;
  std::int64_t constant = 0;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::array<std::int64_t, kWireBits.size()> rows_of_width{};
  std::array<std::int64_t, kMessagePeriods.size()> rows_of_period{};  // by place there
  std::int64_t as_rows = 0;
  double mean_bits = 0;         // of all channels
  std::int64_t was_chosen = 0;  // its widths, and what follows says how
  double solver_ms = 0;         // of all channels, as the next one
  double gap = 0;
  ExchangeReport::Choice::Times times = {};
};

std::vector<SentInSlice> to_travel(const ExchangeReport& report) {
  std::vector<SentInSlice> all;
  for (const ExchangeReport::Messages& m : report.channels) {
    SentInSlice& sent = all.emplace_back(SentInSlice{
        m.channel.number, m.channel.layer, static_cast<std::int64_t>(m.channel.direction),
        m.channel.constant ? 1 : 0, m.columns, m.rows, m.bytes, m.rows_of_width});
    for (std::size_t p = 0; p < kMessagePeriods.size(); ++p) {
      const auto found = m.rows_of_period.find(kMessagePeriods[p]);
      if (found != m.rows_of_period.end()) sent.rows_of_period[p] = found->second;
    }
    sent.as_rows = m.as_rows ? 1 : 0;
    sent.mean_bits = report.mean_bits;
    if (!report.choice) continue;
    sent.was_chosen = 1;
    sent.solver_ms = report.choice->solver_ms;
    sent.gap = report.choice->gap;
    sent.times = report.choice->channels.at(m.channel.slot());
  }
  return all;
}

// The report of all slices, from those of one after the other.
class SumOfSlices {
 public:
  void add(const SentInSlice& sent) {
    const Channel channel{.number = static_cast<int>(sent.number),
                          .layer = static_cast<int>(sent.layer),
                          .direction = static_cast<Direction>(sent.direction),
                          .constant = sent.constant != 0};
    ExchangeReport::Messages& messages = by_slot_[channel.slot()];
    messages.channel = channel;
    messages.columns += sent.columns;
    messages.rows += sent.rows;
    messages.bytes += sent.bytes;
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      messages.rows_of_width[w] += sent.rows_of_width[w];
    }
    for (std::size_t p = 0; p < kMessagePeriods.size(); ++p) {
      if (sent.rows_of_period[p] == 0) continue;
      messages.rows_of_period[kMessagePeriods[p]] += sent.rows_of_period[p];
    }
    messages.as_rows |= sent.as_rows != 0;
    const auto values = static_cast<double>(sent.rows * sent.columns);
    values_ += values;
    value_bits_ += values * sent.mean_bits;
    if (sent.was_chosen != 0) add_choice(sent, channel.slot());
  }
  ExchangeReport report() const {
    ExchangeReport report;
    for (const auto& [slot, messages] : by_slot_) report.channels.push_back(messages);
    report.mean_bits = values_ > 0 ? value_bits_ / values_ : 0;
    report.choice = choice_;
    return report;
  }

 private:
  void add_choice(const SentInSlice& sent, int slot) {
    if (!choice_) choice_.emplace();
    choice_->solver_ms = std::max(choice_->solver_ms, sent.solver_ms);
    choice_->gap = std::max(choice_->gap, sent.gap);
    ExchangeReport::Choice::Times& times = choice_->channels[slot];
    times.wire_ms = std::max(times.wire_ms, sent.times.wire_ms);
    times.central_ms = std::max(times.central_ms, sent.times.central_ms);
    times.error = std::max(times.error, sent.times.error);
  }

  std::map<int, ExchangeReport::Messages> by_slot_;
  std::optional<ExchangeReport::Choice> choice_;
  double values_ = 0;
  double value_bits_ = 0;
};

}  // namespace

std::optional<ExchangeReport> report_of_group(const std::optional<ExchangeReport>& own,
                                              Transport& members) {
  const auto reports =
      sum_over_ranks<std::int64_t>(members, own ? 1 : 0, {"who has a report of messages"});
  if (reports == 0) return std::nullopt;
  const std::vector<SentInSlice> mine = to_travel(own.value_or(ExchangeReport()));
  const auto all = members.gather(std::as_bytes(std::span(mine)), 0, {"report of messages"});
  if (members.rank() != 0) return own;
  SumOfSlices sum;
  for (const std::vector<std::byte>& slice : all) {
    for (std::size_t at = 0; at < slice.size(); at += sizeof(SentInSlice)) {
      SentInSlice sent;
      std::memcpy(&sent, slice.data() + at, sizeof(sent));
      sum.add(sent);
    }
  }
  return sum.report();
}

}  // namespace atl
