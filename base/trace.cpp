#include "base/trace.hpp"

#include "base/json.hpp"

namespace atl {

std::string TraceRecorder::chrome_events(const std::vector<TraceSpan>& spans) const {
  const double origin_us =
      std::chrono::duration<double, std::micro>(origin_.time_since_epoch()).count();
  std::string text = Json{{"name", "process_name"},
                          {"ph", "M"},
                          {"pid", rank_},
                          {"args", {{"name", "rank " + std::to_string(rank_)}}}}
                         .dump();
  for (const TraceSpan& span : spans) {
    Json arguments = Json::object();
    if (span.tag.epoch >= 0) arguments["epoch"] = span.tag.epoch;
    if (span.tag.layer >= 0) arguments["layer"] = span.tag.layer;
    if (span.tag.source >= 0) arguments["source"] = span.tag.source;
    if (span.tag.destination >= 0) arguments["destination"] = span.tag.destination;
    if (span.direction[0] != '\0') arguments["direction"] = span.direction;
    if (span.bytes > 0) arguments["bytes"] = span.bytes;
    text +=
        ",\n" + Json{{"name", span.name},       {"ph", "X"},    {"ts", origin_us + span.start_us},
                     {"dur", span.duration_us}, {"pid", rank_}, {"tid", span.end_mark >= 0 ? 1 : 0},
                     {"args", arguments}}
                    .dump();
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
