// Reads what a training says about the widths of its messages: `assignment` in metrics.jsonl.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

// Bits per value that a message can have; 32 stands for the storage type.
inline constexpr std::array<int, 6> kMessageWidths = {1, 2, 4, 8, 16, 32};

// How many messages have each of kMessageWidths, of all ranks together.
using WidthCounts = std::array<double, kMessageWidths.size()>;

struct ChannelWidths {
  std::int64_t layer = 0;
  std::string direction;  // "forward" or "backward"
  WidthCounts messages{};
};

// Holds from the epoch in whose record it stands until the next one.
struct WidthAssignment {
  std::optional<double> solver_ms;
  std::vector<ChannelWidths> channels;
};

// Empty if `record`, a line of metrics.jsonl, has no assignment. `place` ("file:line") begins the
// message of Error{kInput}, thrown where a field has another type or an unknown width or direction.
std::optional<WidthAssignment> read_assignment(const Json& record, const std::string& place);

// The messages of all channels together.
WidthCounts total_messages(const WidthAssignment& assignment);

// Mean over messages, long and short rows alike; empty without messages.
std::optional<double> mean_bits(const WidthCounts& messages);

}  // namespace atl
