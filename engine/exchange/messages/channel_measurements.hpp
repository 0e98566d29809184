// Measurements of the channels of a rank over epochs: how long the work beside messages and the
// packing take, and how far the variance of rounding is from its model.
#pragma once

#include "engine/exchange/messages/exchange_calibration.hpp"
#include "engine/exchange/messages/message_channel.hpp"

namespace atl {

class ChannelMeasurements {
 public:
  explicit ChannelMeasurements(const Rank& rank) : rank_(rank) {}

  // After an epoch in which all messages travelled at `bits`: takes the times of its spans.
  void observe_times(const MessageChannels& channels, int bits);
  // After any epoch: sums up the variance of rounding over all ranks. Collective.
  void observe_rounding(const MessageChannels& channels);

  // From the epochs observed, the first left out, for this rank: all 0 if they had not both 32 bits
  // and fewer. overlap: central work hides the wire.
  ExchangeCalibration::ChannelTimes times(int slot, bool overlap) const;
  // True variance of rounding over its model F * range^2 / (6 (2^b - 1)^2).
  double rounding_ratio(int slot, int bits) const;

  void forget_times() { samples_.clear(); }
  void forget_rounding(int slot) { ratios_.erase(slot); }
  void forget_all() {
    samples_.clear();
    ratios_.clear();
  }
  // The state of one channel, as fields of a JSON object, and back. Throws Error{kInput} naming
  // `place`.
  void add_state(int slot, Json& channel) const;
  void load_state(int slot, const Json& channel, const std::string& place);

 private:
  using PerBits = std::array<double, kWireBits.size()>;

  // The times of one epoch, in seconds.
  struct Sample {
    int bits = 0;
    double central_s = 0;
    double pack_s = 0;  // and unpacking
  };

  const Rank& rank_;
  std::map<int, std::vector<Sample>> samples_;  // by slot
  std::map<int, PerBits> ratios_;               // by slot; 0: not seen yet
};

}  // namespace atl
