#include "engine/training/message_record.hpp"

#include <numeric>

namespace atl {

void MessageRecord::add(const Json& assignment) {
  if (!assignment.is_null()) assignment_ = assignment;
  if (assignment_.is_null()) return;
  double rows = 0;
  Sent sent;
  for (const Json& channel : assignment_.at("channels")) {
    rows += json_field_or<double>(channel, "rows", "assignment", 0);
    for (const Json& count : channel.at("bits")) sent.rows += count.get<double>();
  }
  sent.share = rows > 0 ? sent.rows / rows : 1;
  sent_.push_back(sent);
}

std::optional<MessageRecord::Sent> MessageRecord::mean() const {
  if (sent_.empty()) return std::nullopt;
  const auto mean_of = [&](auto member) {
    return std::accumulate(sent_.begin(), sent_.end(), 0.0,
                           [&](double sum, const Sent& sent) { return sum + sent.*member; }) /
           static_cast<double>(sent_.size());
  };
  return Sent{mean_of(&Sent::rows), mean_of(&Sent::share)};
}

double MessageRecord::layer_bits(int layer, const TrainOptions& options) const {
  const BitChoice& bits = options.message_bits.bits;
  if (exchange_mode(options.exchange).takes_bits() && bits.by == BitChoice::By::kFixed) {
    return bits.widths.size() == 1 ? bits.widths.front()
                                   : bits.widths.at(static_cast<std::size_t>(layer));
  }
  if (assignment_.is_null()) return 32;
  double rows = 0;
  double sum = 0;
  for (const Json& channel : assignment_.at("channels")) {
    if (channel.at("layer") != layer) continue;
    for (const auto& [width, count] : channel.at("bits").items()) {
      rows += count.get<double>();
      sum += count.get<double>() * std::stod(width);
    }
  }
  return rows > 0 ? sum / rows : 32;
}

}  // namespace atl
