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

// Tells when work ran that was queued for a device. mark() notes "now" in the queue; once the queue
// has run that far, microseconds() gives when that was, since the last reset().
class SpanClock {
 public:
  virtual ~SpanClock() = default;
  virtual void reset() = 0;
  virtual int mark() noexcept = 0;  // -1 if that fails: the queue has an error then
  virtual double microseconds(int mark) = 0;
  // Names the work queued between the two calls for a profiler.
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;
};

struct TraceSpan {
  const char* name = "";       // string literal
  const char* direction = "";  // "forward", "backward" or ""
  double start_us = 0;         // since the recorder's epoch (steady clock)
  double duration_us = 0;
  std::int64_t bytes = 0;
  TraceTag tag;
  int begin_mark = -1;  // of the recorder's clock, until resolve()
  int end_mark = -1;
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
  void clear();
  // From now on spans of queued work are timed by this clock (null: by the host's). Their times are
  // known after resolve(), which the owner calls when the queue has run.
  void use_clock(SpanClock* clock) { clock_ = clock; }
  SpanClock* clock() const { return clock_; }
  void resolve();
  // Events of Chrome trace format (opens in Perfetto) as JSON objects separated by commas, one
  // process per rank; times count from the start of the host's steady clock.
  std::string chrome_events(const std::vector<TraceSpan>& spans) const;
  int rank() const { return rank_; }

 private:
  using Clock = std::chrono::steady_clock;
  int rank_;
  Clock::time_point origin_;
  std::vector<TraceSpan> spans_;
  SpanClock* clock_ = nullptr;
  double clock_origin_us_ = 0;  // host time of the clock's last reset
};

// What a span times: the host, which waits or computes in it, or the work it queues for a device.
enum class SpanOf : std::uint8_t { kQueue, kHost };

// Records the time from construction to destruction.
class ScopedSpan {
 public:
  ScopedSpan(TraceRecorder& recorder, const char* name, TraceTag tag = {},
             const char* direction = "", SpanOf of = SpanOf::kQueue);
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  ~ScopedSpan();
  void set_bytes(std::int64_t bytes) { span_.bytes = bytes; }

 private:
  TraceRecorder& recorder_;
  SpanClock* clock_;
  TraceSpan span_;
};

}  // namespace atl
