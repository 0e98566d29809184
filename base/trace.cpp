#include "base/trace.hpp"

#include <set>

#include "base/host.hpp"
#include "base/json.hpp"

namespace atl {

namespace {

Json metadata_event(const char* name, int rank, int lane, const Json& arguments) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", arguments}};
}

int lane_of(const TraceSpan& span) {
  return span.lane == kHostLane && span.end_mark >= 0 ? kQueueLane : span.lane;
}

Json arguments_of(const TraceSpan& span) {
  Json arguments = Json::object();
  if (span.what[0] != '\0') arguments["what"] = span.what;
  if (span.tag.epoch >= 0) arguments["epoch"] = span.tag.epoch;
  if (span.tag.layer >= 0) arguments["layer"] = span.tag.layer;
  if (span.tag.source >= 0) arguments["source"] = span.tag.source;
  if (span.tag.destination >= 0) arguments["destination"] = span.tag.destination;
  if (span.direction[0] != '\0') arguments["direction"] = span.direction;
  if (span.bytes > 0) arguments["bytes"] = span.bytes;
  return arguments;
}

// A host's name may hold any byte.
std::string dump(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string lane_name(int lane) {
  switch (lane) {
    case kHostLane:
      return "main thread";
    case kQueueLane:
      return "device queue";
    case kEpochLane:
      return "epochs";
    default:
      break;
  }
  const int peer = (lane - kFirstPeerLane) / 2;
  return (lane == send_lane(peer) ? "to rank " : "from rank ") + std::to_string(peer);
}

std::string TraceRecorder::chrome_events(const std::vector<TraceSpan>& spans) const {
  const double origin_us =
      std::chrono::duration<double, std::micro>(origin_.time_since_epoch()).count();
  std::string text = dump(metadata_event("process_name", rank_, kHostLane,
                                         {{"name", "rank " + std::to_string(rank_)},
                                          {"host", host_name()},
                                          {"host_key", host_key()}}));
  std::set<int> lanes;
  for (const TraceSpan& span : spans) lanes.insert(lane_of(span));
  for (const int lane : lanes) {
    text += ",\n" + dump(metadata_event("thread_name", rank_, lane, {{"name", lane_name(lane)}}));
    text += ",\n" + dump(metadata_event("thread_sort_index", rank_, lane, {{"sort_index", lane}}));
  }
  for (const TraceSpan& span : spans) {
    text += ",\n" + dump({{"name", span.name},
                          {"ph", "X"},
                          {"ts", origin_us + span.start_us},
                          {"dur", span.duration_us},
                          {"pid", rank_},
                          {"tid", lane_of(span)},
                          {"args", arguments_of(span)}});
  }
  return text;
}

void TraceRecorder::clear() {
  spans_.clear();
  if (clock_ == nullptr) return;
  clock_->reset();
  clock_origin_us_ = now_us();
}

void TraceRecorder::resolve() {
  if (clock_ == nullptr) return;
  for (TraceSpan& span : spans_) {
    if (span.begin_mark < 0 || span.end_mark < 0) continue;
    const double begin = clock_->microseconds(span.begin_mark);
    span.start_us = clock_origin_us_ + begin;
    span.duration_us = clock_->microseconds(span.end_mark) - begin;
  }
}

ScopedSpan::ScopedSpan(TraceRecorder& recorder, const char* name, TraceTag tag,
                       const char* direction, SpanOf of)
    : recorder_(recorder), clock_(of == SpanOf::kQueue ? recorder.clock() : nullptr) {
  span_.name = name;
  span_.direction = direction;
  span_.tag = tag;
  span_.start_us = recorder.now_us();
  if (clock_ == nullptr) return;
  clock_->push_range(name);
  span_.begin_mark = clock_->mark();
}

ScopedSpan::~ScopedSpan() {
  span_.duration_us = recorder_.now_us() - span_.start_us;
  if (clock_ != nullptr) {
    span_.end_mark = clock_->mark();
    clock_->pop_range();
  }
  recorder_.record(span_);
}

}  // namespace atl
