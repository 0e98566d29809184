// The measured times that adaptive widths are chosen by. Kept in RUN/calibration.json and in
// checkpoints, so that a run can be repeated bit by bit.
#pragma once

#include <map>
#include <vector>

#include "base/json.hpp"
#include "engine/exchange/messages/link_cost.hpp"

namespace atl {

struct ExchangeCalibration {
  struct ChannelTimes {
    double central_s = 0;   // work that hides the wire, of the rank that has least of it
    double slowdown_s = 0;  // how much longer it takes beside messages of 32 bits, at most
    double quantize_s = 0;  // what packing and unpacking cost beyond copies, at most
  };
  int ranks = 0;
  std::vector<LinkCost> links;           // [from * ranks + to]
  std::map<int, ChannelTimes> channels;  // by Channel::slot()

  // `layer` is the number of the channel, which is that of its layer where each layer has one halo
  // operation.
  // {"ranks": P, "links": [{from, to, theta_s_per_byte, gamma_s}], "channels": [{layer, direction,
  // central_s, slowdown_s, quantize_s}]}
  Json to_json() const;
};

// Throws Error{kInput} naming `place` and the field for anything but what to_json() gives, for
// another number of ranks or for numbers that are negative or not finite.
ExchangeCalibration exchange_calibration(const Json& json, int ranks, const std::string& place);

}  // namespace atl
