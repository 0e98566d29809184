#include "engine/program/value_pager.hpp"

#include <algorithm>
#include <chrono>

#include "base/memory.hpp"

namespace atl {

ValuePager::ValuePager(const FileMemory& memory, std::int64_t lasting,
                       std::span<const std::byte> features)
    : memory_(memory), lasting_(lasting), features_(features) {
  writer_ = std::jthread([this] { write(); });
  reader_ = std::jthread([this] { read(); });
  if (!features_.empty()) dropper_ = std::jthread([this] { drop_features(); });
}

ValuePager::~ValuePager() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
}

void ValuePager::begin(const PagingPlan& plan) {
  take_all_away();
  const std::lock_guard lock(mutex_);
  plan_ = &plan;
  step_ = -1;
}

// What a pass has left is of no use for the next one, which another plan knows nothing of.
void ValuePager::take_all_away() {
  std::unique_lock lock(mutex_);
  coming_.clear();
  changed_.wait(lock, [&] {
    return has_error() || (leaving_.empty() && waited_for_.empty() && !is_reading_);
  });
  rethrow();
  if (plan_ == nullptr) return;
  for (const ByteRange& bytes : plan_->left) {
    const std::int64_t middle = std::clamp(lasting_, bytes.begin, bytes.end);
    if (bytes.begin < middle) take_away({{bytes.begin, middle}, /*kept=*/true, 0});
    if (middle < bytes.end) take_away({{middle, bytes.end}, /*kept=*/false, 0});
  }
}

bool ValuePager::has_left(int by) const { return waited_for_.empty() || *waited_for_.begin() > by; }

void ValuePager::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void ValuePager::next_call() {
  ATOLL_ASSERT(plan_ != nullptr && step_ + 1 < std::ssize(plan_->coming));
  std::unique_lock lock(mutex_);
  if (step_ >= 0) {
    for (const Leaving& part : plan_->leaving[static_cast<std::size_t>(step_)]) {
      // Those that are needed first go first.
      const auto place = std::ranges::upper_bound(leaving_, part.by, {}, &Leaving::by);
      leaving_.insert(place, part);
      waited_for_.insert(part.by);
    }
  }
  ++step_;
  for (const ByteRange& bytes : plan_->coming[static_cast<std::size_t>(step_)]) {
    coming_.push_back({bytes, step_ + 1});
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return has_error() || has_left(step_); });
  rethrow();
}

void ValuePager::take_away(const Leaving& part) {
  if (part.kept) {
    memory_.evict(part.bytes.begin, part.bytes.end);
  } else {
    memory_.drop(part.bytes.begin, part.bytes.end);
  }
}

void ValuePager::write() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || (!leaving_.empty() && !has_error()); });
    if (stops_) return;
    const Leaving part = leaving_.front();
    leaving_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      take_away(part);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) error_ = error;
    waited_for_.erase(waited_for_.find(part.by));
    changed_.notify_all();
  }
}

// Whoever reads a page that was taken away finds it again, mostly in the system's memory of files.
void ValuePager::drop_features() {
  // In which few hundred megabytes are read.
  constexpr std::chrono::milliseconds kPause{20};
  std::unique_lock lock(mutex_);
  bool has_some = false;
  while (!stops_) {
    const bool reads = plan_ != nullptr && step_ >= 0 &&
                       plan_->reads_features[static_cast<std::size_t>(step_)];
    if (!reads && !has_some) {
      changed_.wait(lock);
      continue;
    }
    has_some = reads;
    lock.unlock();
    drop_mapped_pages(features_);
    lock.lock();
    if (reads) changed_.wait_for(lock, kPause, [&] { return stops_; });
  }
}

void ValuePager::read() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [&] { return stops_ || (!coming_.empty() && has_left(coming_.front().by)); });
    if (stops_) return;
    const Coming part = coming_.front();
    coming_.pop_front();
    is_reading_ = true;
    lock.unlock();
    memory_.fetch(part.bytes.begin, part.bytes.end);
    lock.lock();
    is_reading_ = false;
    changed_.notify_all();
  }
}

}  // namespace atl
