// Reads what a training says about the widths of its messages: `assignment` in metrics.jsonl.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "kernels/wire.hpp"

namespace atl {

// How many messages have each width of kWireBits, of all ranks together.
using WidthCounts = std::array<double, kWireBits.size()>;

struct ChannelWidths {
  std::int64_t layer = 0;
  std::string direction;  // "forward" or "backward"
  WidthCounts messages{};
};

// Holds from the epoch in whose record it stands until the next one.
struct WidthAssignment {
  std::optional<double> solver_ms;
  std::optional<double> mean_bits;  // over the values of all messages
  std::vector<ChannelWidths> channels;
};

// Empty if `record`, a line of metrics.jsonl, has no assignment. `place` ("file:line") begins the
// message of Error{kInput}, thrown where a field has another type or an unknown width or direction.
std::optional<WidthAssignment> read_assignment(const Json& record, const std::string& place);

// The messages of all channels together.
WidthCounts total_messages(const WidthAssignment& assignment);
}  // namespace atl
