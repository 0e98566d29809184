// An exchange mode before it has run: which messages an epoch sends, as far as that is known, what
// is done to their rows, and the memory that this takes. Plans, simulated epochs and bounds ask
// here.
#pragma once

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

// Epochs that send alike.
struct EpochKind {
  double share = 1;     // of all epochs, once the first ones are over
  double messages = 1;  // share of all messages that one of them sends
  bool late = false;    // they are used in the epoch after it

  bool operator==(const EpochKind&) const = default;
};

struct ExpectedMessages {
  std::vector<EpochKind> kinds;  // one with most messages first
  int cycle = 1;                 // epochs after which all kinds have come in their shares
  bool is_bound = false;         // how many fewer messages are sent only a run can tell

  double mean_share() const;  // of all messages, over all epochs
};
// measured: the share of messages that a run has sent, for modes where it isn't known ahead.
ExpectedMessages expected_messages(const ExchangeOptions& options,
                                   std::optional<double> measured = std::nullopt);

// The work of both ends of a channel on the rows of its messages in an epoch.
struct MessageWork {
  struct Pass {
    double rows = 0;      // how often the rows of all messages are read or written
    double messages = 0;  // how often those that are sent are packed or unpacked
  };
  Pass pack;
  Pass unpack;
  Pass deliver;         // from where rows are kept to where a layer reads them, or zeros to there
  bool exact = false;   // rows travel with their padding and are received in place
  bool travels = true;  // false: no packets at all
  bool shifts = false;  // a row more on every link, of exact values
};
// For rows of `columns` values that are sent at `bits`, as many as epochs of that kind send.
MessageWork message_work(const ExchangeOptions& options, Direction direction, double bits,
                         std::int64_t columns, const EpochKind& kind);

// Messages of a halo operation on one rank.
struct MessageCounts {
  Direction direction = Direction::kForward;
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t outer = 0;  // rows behind the inner ones, whatever they are for
};
// Bytes that exact messages are packed into.
inline std::int64_t exact_buffer_bytes(std::int64_t sent, std::int64_t columns, DType dtype) {
  return sent * padded_columns(columns) * bytes_of(dtype);
}
// As HaloExchange::buffer_bytes(), of every mode but exact. widest: bits of any message.
std::int64_t message_buffer_bytes(const ExchangeOptions& options, int widest,
                                  const MessageCounts& counts, std::int64_t columns, DType dtype);
// The most bits that a message may come to have; 0: none are sent.
int widest_message(const ExchangeOptions& options);

}  // namespace atl
