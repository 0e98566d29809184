// The trace recorder: named, tagged spans of one rank, cheap enough to stay on in every epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/span_work.hpp"

namespace atl {

// Where a span belongs; -1 = not applicable.
struct TraceTag {
  int epoch = -1;
  int layer = -1;
  int source = -1;       // rank that sends
  int destination = -1;  // rank that receives
  int channel = -1;      // of an exchange of rows: its number, see Channel
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

// Spans of one lane follow one another; packets are under way beside everything else. The numbers
// are the `tid` of trace.json, where from kFirstPeerLane on each peer has two: what it sends to
// this rank, what this rank sends to it.
enum TraceLane : int {
  kHostLane = 0,   // the rank's main thread
  kQueueLane = 1,  // work queued for a device
  kEpochLane = 2,  // whole epochs and evaluations
  kFirstPeerLane = 3,
};
constexpr int receive_lane(int peer) { return kFirstPeerLane + 2 * peer; }
constexpr int send_lane(int peer) { return receive_lane(peer) + 1; }
std::string lane_name(int lane);  // "main thread", "from rank 2"

struct TraceSpan {
  const char* name = "";       // string literal
  const char* direction = "";  // "forward", "backward" or ""
  const char* what = "";       // of several things with this name, or ""; string literal
  double start_us = 0;         // since the recorder's epoch (steady clock)
  double duration_us = 0;
  std::int64_t bytes = 0;
  TraceTag tag;
  int begin_mark = -1;  // of the recorder's clock, until resolve()
  int end_mark = -1;
  int lane = kHostLane;  // kQueueLane follows from the marks
  SpanWork work;         // of backend operations in a profile
  // In a profile: the operation of a program that asked for it, or ""; string literal.
  const char* request = "";

  // True if it is time of the rank itself: of its thread, or of the queue it waits for.
  bool is_own_time() const { return lane <= kQueueLane; }
};

// Collects the spans of one rank. Not thread-safe: spans are recorded by the rank's main thread.
class TraceRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  // origin: what its times count from.
  explicit TraceRecorder(int rank = 0, Clock::time_point origin = Clock::now())
      : rank_(rank), origin_(origin) {}

  double now_us() const { return us_of(Clock::now()); }
  double us_of(Clock::time_point when) const {
    return std::chrono::duration<double, std::micro>(when - origin_).count();
  }
  void record(const TraceSpan& span) { spans_.push_back(span); }
  const std::vector<TraceSpan>& spans() const { return spans_; }
  void clear();
  // From now on spans of queued work are timed by this clock (null: by the host's). Their times are
  // known after resolve(), which the owner calls when the queue has run.
  void use_clock(SpanClock* clock) { clock_ = clock; }
  SpanClock* clock() const { return clock_; }
  // Its spans were marked while `other` had the clock, whose times count from when that was
  // cleared.
  void share_clock(const TraceRecorder& other) {
    clock_ = other.clock_;
    clock_origin_us_ = other.clock_origin_us_;
  }
  void resolve();
  // Events of Chrome trace format (opens in Perfetto) as JSON objects separated by commas, one
  // process per rank, which says its host; times count from the start of the host's steady clock.
  std::string chrome_events(const std::vector<TraceSpan>& spans) const;
  int rank() const { return rank_; }
  Clock::time_point origin() const { return origin_; }

 private:
  int rank_;
  Clock::time_point origin_;
  std::vector<TraceSpan> spans_;
  SpanClock* clock_ = nullptr;
  double clock_origin_us_ = 0;  // host time of the clock's last reset
};

// The side that a span times: the host, which waits or computes in it, or the work it queues for a
// device.
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
  void set_what(const char* what) { span_.what = what; }
  void set_work(const SpanWork& work) { span_.work = work; }
  void set_request(const char* request) { span_.request = request; }

 private:
  TraceRecorder& recorder_;
  SpanClock* clock_;
  TraceSpan span_;
};

}  // namespace atl
