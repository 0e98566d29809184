#include "launch/report/bit_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "launch/report/svg_chart.hpp"

namespace atl {
namespace {

using MessageChannel = std::pair<std::int64_t, std::string>;  // layer, direction

// Shares of all messages: those that are not sent leave a gap.
StackedStep to_step(const EpochRecord& epoch, const ChannelBits& channel) {
  // An epoch is drawn around its number, so that a run of one epoch has a width too.
  StackedStep step{static_cast<double>(epoch.epoch) - 0.5, {}};
  for (const double part : channel.messages) {
    step.parts.push_back(channel.rows > 0 ? part / channel.rows : 0);
  }
  return step;
}

// Forward channels first, each direction by layer.
std::vector<MessageChannel> channels_of(const RunRecord& run) {
  std::vector<MessageChannel> channels;
  for (const EpochRecord& epoch : run.epochs) {
    if (!epoch.assignment) continue;
    for (const ChannelBits& widths : epoch.assignment->channels) {
      const MessageChannel channel{widths.layer, widths.direction};
      if (std::find(channels.begin(), channels.end(), channel) == channels.end()) {
        channels.push_back(channel);
      }
    }
  }
  std::sort(channels.begin(), channels.end(), [](const MessageChannel& a, const MessageChannel& b) {
    return std::tuple(a.second != "forward", a.first) < std::tuple(b.second != "forward", b.first);
  });
  return channels;
}

StackedPanel panel_of(const RunRecord& run, const MessageChannel& channel) {
  StackedPanel panel{fmt::format("layer {} {}", channel.first, channel.second), {}};
  for (const EpochRecord& epoch : run.epochs) {
    if (!epoch.assignment) continue;
    for (const ChannelBits& widths : epoch.assignment->channels) {
      if (widths.layer == channel.first && widths.direction == channel.second) {
        panel.steps.push_back(to_step(epoch, widths));
      }
    }
  }
  return panel;
}

bool has_several_bits(const StackedPanel& panel) {
  BitCounts sum{};
  for (const StackedStep& step : panel.steps) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += step.parts[i];
  }
  return std::count_if(sum.begin(), sum.end(), [](double share) { return share > 0; }) > 1;
}

}  // namespace

std::string draw_bits(const RunRecord& run, const std::string& name) {
  StackedAreas chart{"Widths of messages: " + name, "epoch", {}, 0, {{"", {}}}};
  for (const int width : kWireBits) {
    chart.parts.push_back(fmt::format("{} {}", width, width == 1 ? "bit" : "bits"));
  }
  StackedPanel& all = chart.panels.front();
  for (const EpochRecord& epoch : run.epochs) {
    if (epoch.assignment) all.steps.push_back(to_step(epoch, epoch.assignment->total()));
  }
  if (all.steps.empty()) return "";
  chart.end = static_cast<double>(run.epochs.back().epoch) + 0.5;
  const bool several = has_several_bits(all);
  std::string html = draw_areas(chart);
  const std::vector<MessageChannel> channels = channels_of(run);
  if (!several || channels.size() < 2) return html;
  chart.title = "By layer and direction: " + name;
  chart.panels.clear();
  for (const MessageChannel& channel : channels) chart.panels.push_back(panel_of(run, channel));
  return html + draw_areas(chart);
}

}  // namespace atl
