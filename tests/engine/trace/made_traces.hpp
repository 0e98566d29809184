// Traces made by hand: ranks on hosts whose clocks differ as a test wants it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/trace/merge.hpp"

namespace atl {

// Adds events to a trace in any order; trace() sorts them as reading a file does.
class MadeTrace {
 public:
  // hosts[r]: the host of rank r.
  explicit MadeTrace(const std::vector<std::string>& hosts) {
    trace_.place = "made.json";
    for (const std::string& host : hosts) trace_.ranks.push_back({host, host + " 1", {}});
  }

  MadeTrace& work(int rank, const std::string& name, double begin, double end, int epoch = 1,
                  int layer = -1, const std::string& direction = "") {
    TraceEvent event = span(name, begin, end, epoch, layer, direction);
    return add(rank, std::move(event));
  }
  MadeTrace& epoch(int rank, double begin, double end, int number = 1,
                   const std::string& name = "epoch") {
    TraceEvent event = span(name, begin, end, number, -1, "");
    event.lane = kEpochLane;
    return add(rank, std::move(event));
  }
  MadeTrace& sum(int rank, double begin, double end, int epoch = 1,
                 const std::string& what = "gradient all-reduce") {
    TraceEvent event = span("all-reduce", begin, end, epoch, -1, "");
    event.what = what;
    event.bytes = 40;
    return add(rank, std::move(event));
  }
  // A packet of layer 0: when its sender posted it and was rid of it, when its receiver posted it
  // and had it, each on its own clock.
  MadeTrace& packet(int source, int destination, double posted, double sent, double awaited,
                    double arrived, int epoch = 1, std::int64_t bytes = 100) {
    TraceEvent send = span("send", posted, sent, epoch, 0, "forward");
    send.tag.source = source;
    send.tag.destination = destination;
    send.bytes = bytes;
    TraceEvent received = send;
    send.lane = send_lane(destination);
    received.name = "packet";
    received.begin_us = awaited;
    received.end_us = arrived;
    received.lane = receive_lane(source);
    add(source, std::move(send));
    return add(destination, std::move(received));
  }

  Trace trace() const {
    Trace sorted = trace_;
    for (RankTrace& rank : sorted.ranks) {
      std::ranges::stable_sort(rank.events, {}, &TraceEvent::begin_us);
    }
    return sorted;
  }
  ClockAlignment align() const {
    const Trace made = trace();
    return align_clocks(made, match_packets(made), match_reductions(made));
  }

 private:
  static TraceEvent span(const std::string& name, double begin, double end, int epoch, int layer,
                         const std::string& direction) {
    TraceEvent event;
    event.name = name;
    event.direction = direction;
    event.begin_us = begin;
    event.end_us = end;
    event.tag.epoch = epoch;
    event.tag.layer = layer;
    return event;
  }
  MadeTrace& add(int rank, TraceEvent event) {
    trace_.ranks[static_cast<std::size_t>(rank)].events.push_back(std::move(event));
    return *this;
  }

  Trace trace_;
};

}  // namespace atl
