#include "launch/report/bit_records.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace atl {
namespace {

BitCounts read_counts(const Json& channel, const std::string& place) {
  const auto bits = channel.find("bits");
  if (bits == channel.end() || !bits->is_object()) {
    fail_input("{}: 'bits' is {}; it must be an object of messages per width", place,
               bits == channel.end() ? "missing" : shown(*bits));
  }
  BitCounts counts{};
  for (const auto& [name, count] : bits->items()) {
    const auto width = std::find_if(kWireBits.begin(), kWireBits.end(), [&name = name](int value) {
      return name == std::to_string(value);
    });
    if (width == kWireBits.end()) {
      fail_input("{}: 'bits' names the width '{}'; widths are {}", place, name,
                 fmt::join(kWireBits, ", "));
    }
    if (!count.is_number_integer() || count.get<std::int64_t>() < 0) {
      fail_input("{}: 'bits' gives {} messages of width {}; it must be an integer of at least 0",
                 place, shown(count), name);
    }
    counts[static_cast<std::size_t>(width - kWireBits.begin())] = count.get<double>();
  }
  return counts;
}

ChannelBits read_channel(const Json& channel, const std::string& place) {
  if (!channel.is_object()) fail_input("{}: is {}; it must be an object", place, shown(channel));
  ChannelBits widths;
  const auto layer = channel.find("layer");
  if (layer == channel.end() || !layer->is_number_integer()) {
    fail_input("{}: 'layer' is missing or not an integer", place);
  }
  widths.layer = layer->get<std::int64_t>();
  const Json direction = channel.value("direction", Json());
  if (direction != "forward" && direction != "backward") {
    fail_input("{}: 'direction' is {}; it must be \"forward\" or \"backward\"", place,
               shown(direction));
  }
  widths.direction = direction.get<std::string>();
  widths.messages = read_counts(channel, place);
  const double sent = std::accumulate(widths.messages.begin(), widths.messages.end(), 0.0);
  widths.rows = optional_number(channel, "rows", place).value_or(sent);
  if (!(widths.rows >= sent)) {
    fail_input("{}: 'rows' is {}; it must be at least the {} messages that have a width", place,
               widths.rows, sent);
  }
  return widths;
}

}  // namespace

std::optional<RecordedAssignment> read_assignment(const Json& record, const std::string& place) {
  const auto found = record.find("assignment");
  if (found == record.end() || found->is_null()) return std::nullopt;
  if (!found->is_object()) {
    fail_input("{}: 'assignment' is {}; it must be an object", place, shown(*found));
  }
  RecordedAssignment assignment;
  assignment.solver_ms = optional_number(*found, "solver_ms", place + ": assignment");
  assignment.mean_bits = optional_number(*found, "mean_bits", place + ": assignment");
  const auto channels = found->find("channels");
  if (channels == found->end() || !channels->is_array()) {
    fail_input("{}: assignment: 'channels' is {}; it must be an array", place,
               channels == found->end() ? "missing" : shown(*channels));
  }
  for (const Json& channel : *channels) {
    const std::string where =
        fmt::format("{}: assignment: channel {}", place, assignment.channels.size());
    assignment.channels.push_back(read_channel(channel, where));
  }
  return assignment;
}

ChannelBits RecordedAssignment::total() const {
  ChannelBits total;
  for (const ChannelBits& channel : channels) {
    total.rows += channel.rows;
    for (std::size_t i = 0; i < channel.messages.size(); ++i) {
      total.messages[i] += channel.messages[i];
    }
  }
  return total;
}

double share_sent(const ChannelBits& channel) {
  if (channel.rows == 0) return 1;
  return std::accumulate(channel.messages.begin(), channel.messages.end(), 0.0) / channel.rows;
}

}  // namespace atl
