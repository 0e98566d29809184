#include "engine/exchange/group_report.hpp"

#include <array>
#include <cstring>
#include <map>

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
};

std::vector<SentInSlice> to_travel(const ExchangeReport& report) {
  std::vector<SentInSlice> all;
  for (const ExchangeReport::Messages& m : report.channels) {
    all.push_back({m.channel.number, m.channel.layer,
                   static_cast<std::int64_t>(m.channel.direction), m.channel.constant ? 1 : 0,
                   m.columns, m.rows, m.bytes, m.rows_of_width});
  }
  return all;
}

void add_slice(const std::vector<std::byte>& bytes,
               std::map<int, ExchangeReport::Messages>& by_slot) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(SentInSlice)) {
    SentInSlice sent;
    std::memcpy(&sent, bytes.data() + at, sizeof(sent));
    const Channel channel{.number = static_cast<int>(sent.number),
                          .layer = static_cast<int>(sent.layer),
                          .direction = static_cast<Direction>(sent.direction),
                          .constant = sent.constant != 0};
    ExchangeReport::Messages& messages = by_slot[channel.slot()];
    messages.channel = channel;
    messages.columns += sent.columns;
    messages.bytes += sent.bytes;
    messages.rows = sent.rows;
    messages.rows_of_width = sent.rows_of_width;
  }
}

}  // namespace

std::optional<ExchangeReport> report_of_group(const std::optional<ExchangeReport>& own,
                                              Transport& members) {
  std::int64_t reports = own ? 1 : 0;
  members.all_reduce(std::span(&reports, 1), {"who has a report of messages"});
  if (reports == 0) return std::nullopt;
  const std::vector<SentInSlice> mine = to_travel(own.value_or(ExchangeReport()));
  const auto all = members.gather(std::as_bytes(std::span(mine)), 0, {"report of messages"});
  if (members.rank() != 0) return own;
  std::map<int, ExchangeReport::Messages> by_slot;
  for (const std::vector<std::byte>& slice : all) add_slice(slice, by_slot);
  ExchangeReport report;
  double values = 0;
  double value_bits = 0;
  for (const auto& [slot, messages] : by_slot) {
    report.channels.push_back(messages);
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      const auto sent = static_cast<double>(messages.rows_of_width[w] * messages.columns);
      values += sent;
      value_bits += sent * kWireBits[w];
    }
  }
  report.mean_bits = values > 0 ? value_bits / values : 0;
  return report;
}

}  // namespace atl
