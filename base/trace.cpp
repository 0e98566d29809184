#include "base/trace.hpp"

#include <string_view>

#include "base/files.hpp"
#include "base/json.hpp"

namespace atl {

double TraceRecorder::total_ms(std::string_view name) const {
  double total = 0;
  for (const TraceSpan& span : spans_) {
    if (name == span.name) total += span.duration_us;
  }
  return total / 1000;
}

void TraceRecorder::write_chrome_trace(const std::filesystem::path& path, int rank,
                                       const std::vector<TraceSpan>& spans) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", rank},
                    {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (const TraceSpan& span : spans) {
    Json arguments = Json::object();
    if (span.tag.epoch >= 0) arguments["epoch"] = span.tag.epoch;
    if (span.tag.layer >= 0) arguments["layer"] = span.tag.layer;
    if (span.tag.source >= 0) arguments["source"] = span.tag.source;
    if (span.tag.destination >= 0) arguments["destination"] = span.tag.destination;
    if (span.direction[0] != '\0') arguments["direction"] = span.direction;
    if (span.bytes > 0) arguments["bytes"] = span.bytes;
    events.push_back({{"name", span.name},
                      {"ph", "X"},
                      {"ts", span.start_us},
                      {"dur", span.duration_us},
                      {"pid", rank},
                      {"tid", 0},
                      {"args", arguments}});
  }
  write_atomically(path, Json{{"traceEvents", events}}.dump() + "\n");
}

}  // namespace atl
