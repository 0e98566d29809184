// How a channel makes the row of a message, and what stands for one that doesn't come.
#pragma once

#include <cstdint>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

// m: the row of a message in this epoch, times its factor. Q: what arrives of a row at the width of
// the message.
struct MessageRule {
  enum class Sends : std::uint8_t {
    kRows,         // Q(m), with unbiased rounding
    kDifferences,  // Q(m - h) to the nearest, which both ends add to their h, the row of before
    kCorrected,    // Q(m + e) to the nearest; e: what all messages before have lost of their rows
  };
  Sends sends = Sends::kRows;
  double factor = 1;  // of every row that is sent
  // Receivers keep the row that they made of each message last; it stands for one that doesn't
  // come. Otherwise that is 0.
  bool keeps = false;
  bool measures_drift = false;  // how far each row has moved from the one that its receiver keeps
  // All kept rows move by the mean of (m - h), weighed by A_k, over the messages of a link that
  // don't come whole in time: one row more per link.
  bool shifts = false;
  // Messages of an epoch are used in the next one, but in the first, and every so many epochs (0:
  // never).
  bool pipelined = false;
  int synchronous_every = 0;

  // Whether senders know what receivers keep.
  bool sender_keeps() const { return sends != Sends::kRows || measures_drift || shifts; }
  bool is_synchronous(int epoch) const {
    return !pipelined || (synchronous_every > 0 && epoch % synchronous_every == 0);
  }
};
// The rule of a mode for messages of `width` bits.
MessageRule message_rule(const ExchangeOptions& options, Direction direction, int width);

}  // namespace atl
