#include "engine/exchange/messages/exchange_calibration.hpp"

#include <cmath>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

namespace {

double time_field(const Json& object, const char* field, const std::string& place) {
  const auto value = json_field<double>(object, field, place);
  if (!std::isfinite(value) || value < 0) {
    fail_input("{}: field '{}' is {}; allowed are finite numbers of at least 0", place, field,
               value);
  }
  return value;
}

int rank_field(const Json& object, const char* field, int ranks, const std::string& place) {
  const auto rank = json_field<int>(object, field, place);
  if (rank < 0 || rank >= ranks) {
    fail_input("{}: field '{}' is {}; allowed are 0 to {}", place, field, rank, ranks - 1);
  }
  return rank;
}

}  // namespace

Json ExchangeCalibration::to_json() const {
  Json json = {{"ranks", ranks}, {"links", Json::array()}, {"channels", Json::array()}};
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const LinkCost& link = links[static_cast<std::size_t>(from * ranks + to)];
      json["links"].push_back({{"from", from},
                               {"to", to},
                               {"theta_s_per_byte", link.theta_s_per_byte},
                               {"gamma_s", link.gamma_s}});
    }
  }
  for (const auto& [slot, times] : channels) {
    const Direction direction = slot % 2 == 1 ? Direction::kBackward : Direction::kForward;
    json["channels"].push_back({{"layer", slot / 2},
                                {"direction", to_string(direction)},
                                {"central_s", times.central_s},
                                {"slowdown_s", times.slowdown_s},
                                {"quantize_s", times.quantize_s}});
  }
  return json;
}

ExchangeCalibration exchange_calibration(const Json& json, int ranks, const std::string& place) {
  ExchangeCalibration result;
  result.ranks = json_field<int>(json, "ranks", place);
  if (result.ranks != ranks) {
    fail_input(
        "{}: the exchange was measured between {} parts of the graph, and this run has {}; measure "
        "it again",
        place, result.ranks, ranks);
  }
  const auto count = static_cast<std::size_t>(ranks);
  result.links.resize(count * count);
  std::vector<bool> seen(count * count, false);
  for (const Json& link : json_field<Json>(json, "links", place)) {
    const auto index = static_cast<std::size_t>(rank_field(link, "from", ranks, place) * ranks +
                                                rank_field(link, "to", ranks, place));
    result.links[index] = {time_field(link, "theta_s_per_byte", place),
                           time_field(link, "gamma_s", place)};
    seen[index] = true;
  }
  for (std::size_t index = 0; index < seen.size(); ++index) {
    if (seen[index] || index / count == index % count) continue;
    fail_input("{}: the link from rank {} to rank {} is missing", place, index / count,
               index % count);
  }
  for (const Json& channel : json_field<Json>(json, "channels", place)) {
    const auto number = json_field<int>(channel, "layer", place);
    const auto direction = json_field<std::string>(channel, "direction", place);
    if (number < 0 || (direction != "forward" && direction != "backward")) {
      fail_input("{}: layer {}, direction '{}'; allowed are layers from 0 and forward, backward",
                 place, number, direction);
    }
    const Channel key{
        .number = number,
        .direction = direction == "backward" ? Direction::kBackward : Direction::kForward};
    result.channels[key.slot()] = {time_field(channel, "central_s", place),
                                   time_field(channel, "slowdown_s", place),
                                   time_field(channel, "quantize_s", place)};
  }
  return result;
}

}  // namespace atl
