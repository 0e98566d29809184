// The trace recorder: named, tagged spans of one rank, cheap enough to stay on in every epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace atl {

// Where a span belongs; -1 = not applicable.
struct TraceTag {
  int epoch = -1;
  int layer = -1;
  int source = -1;       // rank that sends
  int destination = -1;  // rank that receives
};

struct TraceSpan {
  const char* name;            // string literal
  const char* direction = "";  // "forward", "backward" or ""
  double start_us;             // since the recorder's epoch (steady clock)
  double duration_us;
  std::int64_t bytes = 0;
  TraceTag tag;
};

// Collects the spans of one rank. Not thread-safe: spans are recorded by the rank's main thread.
class TraceRecorder {
 public:
  explicit TraceRecorder(int rank = 0) : rank_(rank), origin_(Clock::now()) {}

  double now_us() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - origin_).count();
  }
  void record(const TraceSpan& span) { spans_.push_back(span); }
  const std::vector<TraceSpan>& spans() const { return spans_; }
  void clear() { spans_.clear(); }
  // Events of Chrome trace format (opens in Perfetto) as JSON objects separated by commas, one
  // process per rank; times count from the start of the host's steady clock.
  std::string chrome_events(const std::vector<TraceSpan>& spans) const;
  int rank() const { return rank_; }

 private:
  using Clock = std::chrono::steady_clock;
  int rank_;
  Clock::time_point origin_;
  std::vector<TraceSpan> spans_;
};

// Records the time from construction to destruction.
class ScopedSpan {
 public:
  ScopedSpan(TraceRecorder& recorder, const char* name, TraceTag tag = {},
             const char* direction = "")
      : recorder_(recorder), span_{name, direction, recorder.now_us(), 0, 0, tag} {}
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  ~ScopedSpan() {
    span_.duration_us = recorder_.now_us() - span_.start_us;
    recorder_.record(span_);
  }
  void set_bytes(std::int64_t bytes) { span_.bytes = bytes; }

 private:
  TraceRecorder& recorder_;
  TraceSpan span_;
};

}  // namespace atl
