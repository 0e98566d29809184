#include "engine/trace/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <map>

namespace atl {

namespace {

constexpr const char* kFormat = "atoll trace";
constexpr int kVersion = 1;

// One event of the file, and how errors name it.
class EventReader {
 public:
  EventReader(const Json& event, std::size_t number, const std::string& place, int ranks)
      : event_(event), place_(fmt::format("{}: event {}", place, number)), ranks_(ranks) {
    if (!event.is_object()) fail_input("{}: found {}, allowed is an object", place_, shown(event));
  }

  const std::string& place() const { return place_; }

  std::string text(const char* field) const {
    return json_field<std::string>(event_, field, place_);
  }

  double time(const char* field, double least) const {
    const auto value = optional_number(event_, field, place_);
    if (!value) fail_input("{}: field '{}' is missing", place_, field);
    if (!std::isfinite(*value) || *value < least) {
      fail_input("{}: field '{}' is {}; allowed are microseconds{}", place_, field, *value,
                 least == 0 ? " of at least 0" : "");
    }
    return *value;
  }

  int whole(const Json& object, const char* field, int most) const {
    const auto value = json_field<std::int64_t>(object, field, place_);
    if (value < 0 || value > most) {
      fail_input("{}: field '{}' is {}; allowed are 0 to {}", place_, field, value, most);
    }
    return static_cast<int>(value);
  }
  int rank() const { return whole(event_, "pid", ranks_ - 1); }
  int lane() const { return whole(event_, "tid", send_lane(ranks_ - 1)); }

  const Json& arguments() const {
    const auto found = event_.find("args");
    if (found == event_.end() || !found->is_object()) {
      fail_input("{}: field 'args' is {}; allowed is an object", place_,
                 found == event_.end() ? "missing" : shown(*found));
    }
    return *found;
  }
  int optional_whole(const char* field, int most) const {
    return arguments().contains(field) ? whole(arguments(), field, most) : -1;
  }
  std::string optional_text(const char* field) const {
    const Json& object = arguments();
    return object.contains(field) ? json_field<std::string>(object, field, place_) : "";
  }
  std::int64_t bytes() const {
    if (!arguments().contains("bytes")) return 0;
    const auto value = json_field<std::int64_t>(arguments(), "bytes", place_);
    if (value < 0) fail_input("{}: field 'bytes' is {}; allowed are 0 or more", place_, value);
    return value;
  }

  TraceEvent span() const {
    constexpr int kMost = std::numeric_limits<int>::max();
    TraceEvent span;
    span.name = text("name");
    span.what = optional_text("what");
    span.direction = optional_text("direction");
    span.begin_us = time("ts", -std::numeric_limits<double>::max());
    span.end_us = span.begin_us + time("dur", 0);
    span.bytes = bytes();
    span.tag = {optional_whole("epoch", kMost), optional_whole("layer", kMost),
                optional_whole("source", ranks_ - 1), optional_whole("destination", ranks_ - 1)};
    span.lane = lane();
    if (span.lane >= kFirstPeerLane) check_ends(span);
    return span;
  }

 private:
  // A packet lies on the lane of its direction and of the other rank.
  void check_ends(const TraceEvent& span) const {
    const int peer = (span.lane - kFirstPeerLane) / 2;
    const bool sent = span.lane == send_lane(peer);
    const char* name = sent ? "send" : "packet";
    if (span.name != name) {
      fail_input("{}: field 'name' is '{}'; allowed on tid {} is '{}'", place_, span.name,
                 span.lane, name);
    }
    const int source = sent ? rank() : peer;
    const int destination = sent ? peer : rank();
    if (span.tag.source != source || span.tag.destination != destination || peer == rank()) {
      fail_input(
          "{}: fields 'source' and 'destination' are {} and {}; pid {} and tid {} mean {} "
          "and {}",
          place_, span.tag.source, span.tag.destination, rank(), span.lane, source, destination);
    }
  }

  const Json& event_;
  std::string place_;
  int ranks_;
};

int read_metadata(const Json& json, const std::string& place) {
  const auto found = json.is_object() ? json.find("metadata") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object() ||
      found->value("format", Json()) != kFormat) {
    fail_input("{}: no trace of atoll train --trace: metadata.format is not \"{}\"", place,
               kFormat);
  }
  const std::string metadata = place + ": metadata";
  if (const int version = json_field<int>(*found, "version", metadata); version != kVersion) {
    fail_input("{}: field 'version' is {}; this program reads {}", metadata, version, kVersion);
  }
  constexpr int kMostRanks = 1 << 16;
  const auto ranks = json_field<std::int64_t>(*found, "ranks", metadata);
  if (ranks < 1 || ranks > kMostRanks) {
    fail_input("{}: field 'ranks' is {}; allowed are 1 to {}", metadata, ranks, kMostRanks);
  }
  return static_cast<int>(ranks);
}

void read_metadata_event(const EventReader& event, RankTrace& rank) {
  if (event.text("name") != "process_name") return;  // names of lanes
  if (!rank.host_key.empty()) {
    fail_input("{}: rank {} is named a second time", event.place(), event.rank());
  }
  rank.host = json_field<std::string>(event.arguments(), "host", event.place());
  rank.host_key = json_field<std::string>(event.arguments(), "host_key", event.place());
  if (rank.host_key.empty()) fail_input("{}: field 'host_key' is empty", event.place());
}

// The common part of spans that belong together on several ranks, in the order of their begin.
struct PacketKey {
  int epoch, layer, source, destination;
  std::string direction;
  auto operator<=>(const PacketKey&) const = default;
};
struct ReductionKey {
  int epoch, layer;
  std::string what, direction;
  auto operator<=>(const ReductionKey&) const = default;
};

PacketKey packet_key(const TraceEvent& event) {
  return {event.tag.epoch, event.tag.layer, event.tag.source, event.tag.destination,
          event.direction};
}

}  // namespace

Trace parse_trace(const Json& json, const std::string& place) {
  const int ranks = read_metadata(json, place);
  Trace trace{place, std::vector<RankTrace>(static_cast<std::size_t>(ranks))};
  const auto events = json.find("traceEvents");
  if (events == json.end() || !events->is_array()) {
    fail_input("{}: field 'traceEvents' is missing or no array", place);
  }
  for (std::size_t i = 0; i < events->size(); ++i) {
    const EventReader event((*events)[i], i, place, ranks);
    const std::string kind = event.text("ph");
    RankTrace& rank = trace.ranks[static_cast<std::size_t>(event.rank())];
    if (kind == "M") {
      read_metadata_event(event, rank);
    } else if (kind == "X") {
      rank.events.push_back(event.span());
    } else {
      fail_input("{}: field 'ph' is '{}'; allowed are X and M", event.place(), kind);
    }
  }
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    if (trace.ranks[r].host_key.empty()) {
      fail_input("{}: has no event 'process_name' with a host of rank {}, of {}", place, r, ranks);
    }
    std::ranges::stable_sort(trace.ranks[r].events, {}, &TraceEvent::begin_us);
  }
  return trace;
}

Trace read_trace(const std::filesystem::path& path) {
  return parse_trace(read_json(path, kMostTraceBytes), path.string());
}

std::vector<MatchedPacket> match_packets(const Trace& trace) {
  struct Ends {
    std::vector<int> sends, packets;
  };
  std::map<PacketKey, Ends> ends;
  for (const RankTrace& rank : trace.ranks) {
    for (std::size_t i = 0; i < rank.events.size(); ++i) {
      const TraceEvent& event = rank.events[i];
      if (event.is_send()) ends[packet_key(event)].sends.push_back(static_cast<int>(i));
      if (event.is_packet()) ends[packet_key(event)].packets.push_back(static_cast<int>(i));
    }
  }
  std::vector<MatchedPacket> matched;
  for (const auto& [key, found] : ends) {
    if (found.sends.size() != found.packets.size()) {
      fail_input(
          "{}: epoch {}, layer {}, {}: rank {} has sent {} packets to rank {}, which received {}: "
          "the file is damaged",
          trace.place, key.epoch, key.layer, key.direction, key.source, found.sends.size(),
          key.destination, found.packets.size());
    }
    for (std::size_t i = 0; i < found.sends.size(); ++i) {
      matched.push_back({key.source, key.destination, found.sends[i], found.packets[i]});
    }
  }
  return matched;
}

std::vector<MatchedReduction> match_reductions(const Trace& trace) {
  if (trace.ranks.size() == 1) return {};
  std::map<ReductionKey, std::vector<std::vector<int>>> spans;  // by rank
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    for (std::size_t i = 0; i < trace.ranks[r].events.size(); ++i) {
      const TraceEvent& event = trace.ranks[r].events[i];
      if (!event.is_reduction()) continue;
      auto& of_rank = spans[{event.tag.epoch, event.tag.layer, event.what, event.direction}];
      of_rank.resize(trace.ranks.size());
      of_rank[r].push_back(static_cast<int>(i));
    }
  }
  std::vector<MatchedReduction> matched;
  for (const auto& [key, of_rank] : spans) {
    for (std::size_t r = 1; r < of_rank.size(); ++r) {
      if (of_rank[r].size() != of_rank[0].size()) {
        fail_input(
            "{}: epoch {}, {}: rank 0 has {} spans 'all-reduce', rank {} has {}: the file is "
            "damaged",
            trace.place, key.epoch, key.what, of_rank[0].size(), r, of_rank[r].size());
      }
    }
    for (std::size_t i = 0; i < of_rank[0].size(); ++i) {
      MatchedReduction reduction;
      for (const auto& found : of_rank) reduction.push_back(found[i]);
      matched.push_back(std::move(reduction));
    }
  }
  return matched;
}

}  // namespace atl
