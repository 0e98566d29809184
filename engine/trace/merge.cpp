#include "engine/trace/merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace atl {

namespace {

void move_to_common_clock(Trace& trace, const ClockAlignment& clocks) {
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const HostClock& clock = clocks.hosts[static_cast<std::size_t>(clocks.host_of[r])];
    for (TraceEvent& event : trace.ranks[r].events) {
      event.begin_us = clock.common_us(event.begin_us);
      event.end_us = clock.common_us(event.end_us);
      first = std::min(first, event.begin_us);
    }
  }
  for (RankTrace& rank : trace.ranks) {
    for (TraceEvent& event : rank.events) {
      event.begin_us -= first;
      event.end_us -= first;
    }
  }
}

void clip(TraceEvent& packet, const TraceEvent& send) {
  packet.begin_us = std::min(std::max(packet.begin_us, send.begin_us), packet.end_us);
}

Json name_event(const char* name, std::size_t rank, int lane, const Json& arguments) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", arguments}};
}

Json span_event(const TraceEvent& event, std::size_t rank) {
  Json arguments = Json::object();
  if (!event.what.empty()) arguments["what"] = event.what;
  if (event.tag.epoch >= 0) arguments["epoch"] = event.tag.epoch;
  if (event.tag.layer >= 0) arguments["layer"] = event.tag.layer;
  if (event.tag.source >= 0) arguments["source"] = event.tag.source;
  if (event.tag.destination >= 0) arguments["destination"] = event.tag.destination;
  if (!event.direction.empty()) arguments["direction"] = event.direction;
  if (event.bytes > 0) arguments["bytes"] = event.bytes;
  if (event.bytes > 0 && event.is_packet() && event.duration_us() > 0) {
    arguments["mbit_per_s"] = 8 * static_cast<double>(event.bytes) / event.duration_us();
  }
  return {{"name", event.name},         {"ph", "X"},   {"ts", event.begin_us},
          {"dur", event.duration_us()}, {"pid", rank}, {"tid", event.lane},
          {"args", arguments}};
}

// An arrow leaves the slice around its start and ends in the slice around its end, which must lie
// inside.
void add_arrow(const Trace& trace, const MatchedPacket& packet, std::size_t number,
               std::vector<Json>& events) {
  const TraceEvent& send = trace.event(packet.source, packet.send);
  const TraceEvent& received = trace.event(packet.destination, packet.packet);
  const double inside = received.end_us - std::min(0.01, received.duration_us() / 2);
  events.push_back({{"name", "packet"},
                    {"cat", "packet"},
                    {"ph", "s"},
                    {"id", number},
                    {"ts", send.begin_us},
                    {"pid", packet.source},
                    {"tid", kHostLane}});
  events.push_back({{"name", "packet"},
                    {"cat", "packet"},
                    {"ph", "f"},
                    {"bp", "e"},
                    {"id", number},
                    {"ts", inside},
                    {"pid", packet.destination},
                    {"tid", received.lane}});
}

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

}  // namespace

MergedTrace merge_trace(Trace trace) {
  MergedTrace merged;
  merged.packets = match_packets(trace);
  merged.reductions = match_reductions(trace);
  merged.clocks = align_clocks(trace, merged.packets, merged.reductions);
  move_to_common_clock(trace, merged.clocks);
  for (MatchedPacket& packet : merged.packets) {
    TraceEvent& received = trace.event(packet.destination, packet.packet);
    packet.awaited_us = received.begin_us;
    clip(received, trace.event(packet.source, packet.send));
  }
  merged.trace = std::move(trace);
  return merged;
}

std::string chrome_trace(const MergedTrace& merged) {
  const Trace& trace = merged.trace;
  std::vector<Json> events;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const RankTrace& rank = trace.ranks[r];
    const std::string name = fmt::format("rank {} on {}", r, rank.host);
    events.push_back(
        name_event("process_name", r, kHostLane,
                   {{"name", name}, {"host", rank.host}, {"host_key", rank.host_key}}));
    events.push_back(name_event("process_sort_index", r, kHostLane, {{"sort_index", r}}));
    std::set<int> lanes;
    for (const TraceEvent& event : rank.events) lanes.insert(event.lane);
    for (const int lane : lanes) {
      events.push_back(name_event("thread_name", r, lane, {{"name", lane_name(lane)}}));
      events.push_back(name_event("thread_sort_index", r, lane, {{"sort_index", lane}}));
    }
    for (const TraceEvent& event : rank.events) events.push_back(span_event(event, r));
  }
  for (std::size_t i = 0; i < merged.packets.size(); ++i) {
    add_arrow(trace, merged.packets[i], i, events);
  }
  const Json metadata = {{"format", "atoll merged trace"},
                         {"version", 1},
                         {"ranks", trace.ranks.size()},
                         {"hosts", to_json(merged.clocks)}};
  const auto dump = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = fmt::format("{{\"metadata\": {},\n\"traceEvents\": [", dump(metadata));
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "\n" : ",\n") + dump(events[i]);
  return text + "\n]}\n";
}

Json to_json(const ClockAlignment& clocks) {
  Json hosts = Json::array();
  for (const HostClock& host : clocks.hosts) {
    hosts.push_back({{"host", host.name},
                     {"ranks", host.ranks},
                     {"offset_us", host.offset_us()},
                     {"offset_low_us", host.low_us},
                     {"offset_high_us", host.high_us},
                     {"drift_ppm", host.drift * 1e6},
                     {"drift_low_ppm", number_or_null(host.least_drift * 1e6)},
                     {"drift_high_ppm", number_or_null(host.most_drift * 1e6)}});
  }
  return hosts;
}

}  // namespace atl
