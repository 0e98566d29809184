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
                     {"dur", span.duration_us}, {"pid", rank_}, {"tid", 0},
                     {"args", arguments}}
                    .dump();
  }
  return text;
}

}  // namespace atl
