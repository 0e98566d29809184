// The costs of each way in which the messages of a channel may travel, in error and in time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/exchange/messages/bit_assignment.hpp"
#include "engine/exchange/messages/channel_measurements.hpp"
#include "engine/exchange/messages/exchange_calibration.hpp"
#include "engine/exchange/messages/message_channel.hpp"
#include "engine/exchange/messages/message_choice.hpp"
#include "engine/exchange/messages/row_movement.hpp"

namespace atl {

// A message is planned to be there when so much of the work that hides it is done. Both times vary
// from epoch to epoch, and a wire that is a little longer than central work is waited for, while
// bits saved below that point cost little variance.
inline constexpr double kHiddenShare = 0.8;

// The choices of a channel's messages, and how much each of these weighs.
struct MessageChoices {
  std::vector<std::uint8_t> codes;  // [choices]
  std::vector<float> beta;          // [messages]
  std::vector<float> rows;          // [messages] A_k |m_k|^2 of rows whose differences are sent
};

// Errors are in units of A_k |m_k|^2, the square of what a row adds to the sums of its receiver,
// and times in seconds of an epoch. Calls that are collective say so.
class ChannelCosts {
 public:
  ChannelCosts(const ExchangeOptions& options, const Rank& rank);

  ChannelMeasurements& measurements() { return measurements_; }
  const ChannelMeasurements& measurements() const { return measurements_; }
  // Collective, the first time that there are messages of its operator.
  void begin(const MessageChannel& channel);
  // Collective: `beta` of all channels, and what is known of the movement of rows. codes: of the
  // messages in this epoch, by slot.
  std::map<int, MessageChoices> weigh(int epoch, MessageChannels& channels,
                                      const std::map<int, MessageCodes>& codes);
  // Adds the ways to travel to `choices`, which must outlive the problem. as_rows: of rows
  // themselves, whatever the channel sends now.
  ChannelProblem problem(const MessageChannel& channel, bool as_rows,
                         const ExchangeCalibration& calibration, MessageChoices& choices) const;
  // The choices of rows themselves where differences are sent, or the other way.
  static MessageChoices others(const MessageChannel& channel, const MessageChoices& now);
  // Whether rows themselves serve better than differences.
  bool rows_serve(const MessageChannel& channel, const ChannelAssignment& rows,
                  const ChannelAssignment& differences) const;
  // The error of sending nothing, where periods are chosen; else 0.
  double unit(int slot) const;

  void forget_all();
  // The state of one channel: fields of a JSON object, and rows; and back. Throws Error{kInput}
  // naming `place`.
  void add_state(int slot, Json& channel, SafetensorsFile& rows) const;
  void load_state(int slot, const Json& channel, const SafetensorsFile& rows,
                  const std::string& place);

 private:
  // The sums by which rows of a channel's messages are known to move little.
  struct Drift {
    double moved = 0;  // A_k D_k
    double rows = 0;   // A_k |m_k|^2
    double share() const { return rows > 0 ? moved / rows : 0; }
  };

  bool chooses_periods() const { return mode_.sent == MessagesSent::kByCost; }
  // Bytes of messages are counted over so many epochs.
  int bytes_epochs() const { return chooses_periods() ? kMessagePeriods.back() : 1; }
  void add_choices(const MessageChannel& channel, bool as_rows, MessageChoices& choices,
                   ChannelProblem& problem) const;
  double variance(const MessageChannel& channel, bool as_rows, MessageChoice choice) const;
  // The same, as far as it can be told, of what the channel doesn't send now.
  double other_variance(const MessageChannel& channel, int bits) const;

  const ExchangeMode& mode_;
  const BitOptions options_;
  const SendOptions sending_;
  const Rank& rank_;
  // A_k of the messages this rank sends.
  std::map<const DistributedOperator*, std::vector<float>> scores_;
  ChannelMeasurements measurements_;
  RowMovement movement_;
  // By slot, the sums of all ranks. Where rows themselves are sent, the share that moved before.
  std::map<int, Drift> drift_;
};

}  // namespace atl
