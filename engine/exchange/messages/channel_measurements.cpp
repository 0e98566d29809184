#include "engine/exchange/messages/channel_measurements.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace atl {

void ChannelMeasurements::observe_times(const MessageChannels& channels, int bits) {
  for (const auto& [slot, channel] : channels) {
    const Channel key = channel->channel();
    const std::string_view direction = to_string(key.direction);
    // On a queue of its own packing has no span but that of the host, which only queues it.
    const std::optional<double> packing = channel->packing_seconds();
    Sample sample{.bits = bits, .pack_s = packing.value_or(0)};
    for (const TraceSpan& span : rank_.trace.spans()) {
      if (span.direction != direction) continue;
      const std::string_view name = span.name;
      const bool packs = name == "unpack" || (name == "pack" && !packing);
      if (packs && span.tag.channel == key.number) sample.pack_s += span.duration_us / 1e6;
      // All central work of its layer hides the wire.
      const bool hides = name.ends_with(" central") && span.tag.layer == key.layer;
      if (hides) sample.central_s += span.duration_us / 1e6;
    }
    samples_[slot].push_back(sample);
  }
}

void ChannelMeasurements::observe_rounding(const MessageChannels& channels) {
  // Below so many messages a width's figure is an accident of few rows, and the last one stands.
  constexpr double kEnoughMessages = 64;
  constexpr std::size_t kWidths = kWireBits.size();
  std::vector<double> sums;
  for (const auto& [slot, channel] : channels) {
    const MessageChannel::RoundingVariance mine = channel->rounding_variance();
    for (std::size_t w = 0; w < kWidths; ++w) {
      sums.insert(sums.end(), {mine.measured[w], mine.modelled[w], mine.messages[w]});
    }
  }
  rank_.transport.all_reduce(std::span(sums), {"rounding variance"});
  auto sum = sums.begin();
  for (const auto& [slot, channel] : channels) {
    PerBits& ratio = ratios_[slot];
    for (std::size_t w = 0; w < kWidths; ++w, sum += 3) {
      if (sum[2] < kEnoughMessages || sum[1] <= 0 || sum[0] <= 0) continue;
      if (!std::isfinite(sum[0])) continue;
      ratio[w] = sum[0] / sum[1];
    }
  }
}

ExchangeCalibration::ChannelTimes ChannelMeasurements::times(int slot, bool overlap) const {
  ExchangeCalibration::ChannelTimes times;
  const auto found = samples_.find(slot);
  if (found == samples_.end()) return times;
  std::vector<double> beside_few, beside_all, plain, quantized;
  const std::vector<Sample>& samples = found->second;
  for (std::size_t i = samples.size() > 1 ? 1 : 0; i < samples.size(); ++i) {
    const bool all_bytes = samples[i].bits == 32;
    (all_bytes ? beside_all : beside_few).push_back(samples[i].central_s);
    (all_bytes ? plain : quantized).push_back(samples[i].pack_s);
  }
  if (plain.empty() || quantized.empty()) return times;
  times.quantize_s = std::max(0.0, std::ranges::min(quantized) - std::ranges::min(plain));
  if (!overlap) return times;
  times.central_s = std::ranges::min(beside_few);
  // The part beyond the noise of these few epochs.
  times.slowdown_s = std::max(0.0, std::ranges::min(beside_all) - std::ranges::max(beside_few));
  return times;
}

double ChannelMeasurements::rounding_ratio(int slot, int bits) const {
  const auto found = ratios_.find(slot);
  if (found == ratios_.end()) return 1;
  const PerBits& ratio = found->second;
  const auto seen = [&](int width) {
    const double value = ratio[bits_index(width)];
    return value > 0 ? value : 1.0;
  };
  // Widths that have not travelled yet follow their neighbours.
  if (ratio[bits_index(bits)] > 0) return seen(bits);
  if (bits == 2) return std::sqrt(seen(1) * seen(4));
  return bits == 16 ? seen(8) : 1.0;
}

void ChannelMeasurements::add_state(int slot, Json& channel) const {
  Json samples = Json::array();
  if (const auto found = samples_.find(slot); found != samples_.end()) {
    for (const Sample& s : found->second) samples.push_back({s.bits, s.central_s, s.pack_s});
  }
  const auto ratio = ratios_.find(slot);
  channel["ratio"] = ratio == ratios_.end() ? PerBits{} : ratio->second;
  channel["samples"] = samples;
}

void ChannelMeasurements::load_state(int slot, const Json& channel, const std::string& place) {
  ratios_[slot] = json_field<PerBits>(channel, "ratio", place);
  for (const auto& [bits, central_s, pack_s] :
       json_field<std::vector<std::tuple<int, double, double>>>(channel, "samples", place)) {
    samples_[slot].push_back({bits, central_s, pack_s});
  }
}

}  // namespace atl
