// Reads what a training says about its messages: `assignment` in metrics.jsonl.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "kernels/wire.hpp"

namespace atl {

// How many messages have each width of kWireBits, of all ranks together.
using BitCounts = std::array<double, kWireBits.size()>;

struct ChannelBits {
  std::int64_t layer = 0;
  std::string direction;  // "forward" or "backward"
  BitCounts messages{};   // that are sent
  double rows = 0;        // all messages
};

// Holds from the epoch in whose record it stands until the next one.
struct RecordedAssignment {
  std::optional<double> solver_ms;
  std::optional<double> mean_bits;  // over the values of all messages
  std::vector<ChannelBits> channels;

  // The messages of all channels together.
  ChannelBits total() const;
};
// How many of the channel's messages are sent; 1 where there are none.
double share_sent(const ChannelBits& channel);

// Empty if `record`, a line of metrics.jsonl, has no assignment. `place` ("file:line") begins the
// message of Error{kInput}, thrown where a field has another type or an unknown width or direction.
std::optional<RecordedAssignment> read_assignment(const Json& record, const std::string& place);

}  // namespace atl
