#include "engine/exchange/messages/message_rule.hpp"

namespace atl {

MessageRule message_rule(const ExchangeOptions& options, Direction direction, int width) {
  const ExchangeMode& mode = exchange_mode(options.mode);
  MessageRule rule;
  // Exact rows have nothing that could be corrected.
  if (mode.differences && width < 32) {
    rule.sends = direction == Direction::kForward ? MessageRule::Sends::kDifferences
                                                  : MessageRule::Sends::kCorrected;
  }
  if (mode.sent == MessagesSent::kSampled) rule.factor = 1 / options.sending.rate;
  rule.measures_drift = mode.sent == MessagesSent::kDrifted;
  rule.pipelined = options.pipelined();
  rule.synchronous_every = options.sending.synchronous_every;
  rule.keeps = options.keeps_rows() && (!mode.differences || rule.pipelined ||
                                        rule.sends == MessageRule::Sends::kDifferences);
  rule.shifts = options.sending.shift && rule.keeps && rule.sends != MessageRule::Sends::kCorrected;
  return rule;
}

}  // namespace atl
