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
  sweeper_ = std::jthread([this] { sweep(); });
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
  memory_.check();
  const std::lock_guard lock(mutex_);
  plan_ = &plan;
  step_ = -1;
}

// The next pass has another plan, which knows nothing of what this one has left.
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
    const auto last = static_cast<std::size_t>(step_);
    for (const Leaving& part : plan_->leaving[last]) send_away(part);
    for (const PagingPlan::Passing& part : plan_->passing[last]) {
      send_away({part.bytes, part.kept, step_ + 1});
    }
    if (plan_->reads_features[last]) drop_mapped_pages(features_);
  }
  ++step_;
  for (const ByteRange& bytes : plan_->coming[static_cast<std::size_t>(step_)]) {
    coming_.push_back({bytes, step_ + 1});
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return has_error() || has_left(step_); });
  rethrow();
  memory_.check();
}

void ValuePager::send_away(const Leaving& part) {
  // Those that are needed first go first.
  leaving_.insert(std::ranges::upper_bound(leaving_, part.by, {}, &Leaving::by), part);
  waited_for_.insert(part.by);
}

void ValuePager::take_away(const Leaving& part) {
  if (part.kept) {
    memory_.release(part.bytes.begin, part.bytes.end);
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

// Whoever touches a page that was taken away finds it again, mostly in the system's memory of
// files: so all that was touched may go, again and again, wherever the call has come to.
void ValuePager::sweep() {
  // In which some ten megabytes are touched.
  constexpr std::chrono::milliseconds kPause{5};
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const auto step = static_cast<std::size_t>(step_);
    const bool runs = plan_ != nullptr && step_ >= 0;
    const bool reads_features = runs && !features_.empty() && plan_->reads_features[step];
    if (!runs || (!reads_features && plan_->passing[step].empty())) {
      changed_.wait(lock);
      continue;
    }
    const PagingPlan& plan = *plan_;
    lock.unlock();
    for (const PagingPlan::Passing& part : plan.passing[step]) {
      memory_.release_pages(part.bytes.begin, part.bytes.end);
    }
    if (reads_features) drop_mapped_pages(features_);
    lock.lock();
    changed_.wait_for(lock, kPause, [&] { return stops_; });
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
