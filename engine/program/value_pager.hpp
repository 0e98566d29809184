// Lets the memory of values follow a PagingPlan: threads of its own write and read beside the
// calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "base/file_memory.hpp"
#include "engine/program/paging.hpp"

namespace atl {

class ValuePager {
 public:
  // lasting: bytes from the begin of the memory that outlive passes, a multiple of the plans' unit.
  // features: mapped; in plans they lie behind the memory. What passes through is taken from memory
  // behind the calls that touch it.
  ValuePager(const FileMemory& memory, std::int64_t lasting, std::span<const std::byte> features);
  ValuePager(const ValuePager&) = delete;
  ValuePager& operator=(const ValuePager&) = delete;
  ~ValuePager();

  // Before the first call of a pass. The plan must live until the next one. Throws what writing has
  // thrown.
  void begin(const PagingPlan& plan);
  // Behind a pass: takes out of memory what it has left there. What is needed behind it may still
  // be read. Throws as begin() does.
  void rest();
  // Before each call: waits until there is room for what it touches. Throws what writing has
  // thrown.
  void next_call();

 private:
  // Parts that leave, and that come, by the step that needs them.
  using Leaving = PagingPlan::Leaving;
  struct Coming {
    ByteRange bytes;
    int by = 0;
  };

  void write();  // the work of a thread
  void read();
  void sweep();
  void send_away(const Leaving& part);
  void take_away(const Leaving& part);
  ByteRange values_in(ByteRange bytes) const;
  std::span<const std::byte> features_in(ByteRange bytes) const;
  void leave_pass(bool keeps);
  bool has_left(int by) const;  // all that is to
  bool has_error() const { return error_ != nullptr; }
  void rethrow();

  const FileMemory& memory_;
  std::int64_t lasting_;
  std::span<const std::byte> features_;
  const PagingPlan* plan_ = nullptr;
  int step_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Leaving> leaving_;
  std::deque<Coming> coming_;
  std::multiset<int> waited_for_;  // `by` of parts that have not left yet
  bool is_reading_ = false;
  bool stops_ = false;
  std::exception_ptr error_;
  std::jthread writer_, reader_, sweeper_;
};

}  // namespace atl
