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
  leave_pass(/*keeps=*/false);
  memory_.check();
  // Others may have read some of it since the last pass.
  memory_.release_pages(0, memory_.bytes());
  drop_mapped_pages(features_);
  const std::lock_guard lock(mutex_);
  plan_ = &plan;
  step_ = -1;
}

void ValuePager::rest() {
  leave_pass(/*keeps=*/true);
  memory_.release_pages(0, memory_.bytes());
  drop_mapped_pages(features_);
}

// The next pass has another plan, which knows nothing of what this one has left. keeps: what is
// needed behind the pass stays in the file until then; where the pass has not ended, as one of
// training behind its forward half, all of it.
void ValuePager::leave_pass(bool keeps) {
  std::unique_lock lock(mutex_);
  coming_.clear();
  changed_.wait(lock, [&] {
    return has_error() || (leaving_.empty() && waited_for_.empty() && !is_reading_);
  });
  rethrow();
  if (plan_ == nullptr) return;
  const bool has_ended = step_ + 1 == std::ssize(plan_->coming);
  for (const auto& [bytes, needed] : plan_->left) {
    const std::int64_t middle = std::clamp(lasting_, bytes.begin, bytes.end);
    if (bytes.begin < middle) take_away({{bytes.begin, middle}, /*kept=*/true, 0});
    if (middle < bytes.end) take_away({{middle, bytes.end}, keeps && (needed || !has_ended), 0});
  }
  plan_ = nullptr;
}

ByteRange ValuePager::values_in(ByteRange bytes) const {
  return {std::min(bytes.begin, memory_.bytes()), std::min(bytes.end, memory_.bytes())};
}

std::span<const std::byte> ValuePager::features_in(ByteRange bytes) const {
  const auto place_of = [&](std::int64_t byte) {
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(byte - memory_.bytes(), 0, std::ssize(features_)));
  };
  const std::size_t begin = place_of(bytes.begin);
  return features_.subspan(begin, place_of(bytes.end) - begin);
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
    for (const PagingPlan::Part& part : plan_->passing[last]) {
      send_away({part.bytes, part.kept, step_ + 1});
    }
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
  drop_mapped_pages(features_in(part.bytes));
  const ByteRange values = values_in(part.bytes);
  if (values.size() == 0) return;
  if (part.kept) {
    memory_.release(values.begin, values.end);
  } else {
    memory_.drop(values.begin, values.end);
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
    if (plan_ == nullptr || step_ < 0 || plan_->passing[step].empty()) {
      changed_.wait(lock);
      continue;
    }
    const PagingPlan& plan = *plan_;
    lock.unlock();
    for (const PagingPlan::Part& part : plan.passing[step]) {
      const ByteRange values = values_in(part.bytes);
      memory_.release_pages(values.begin, values.end);
      drop_mapped_pages(features_in(part.bytes));
    }
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
    const ByteRange values = values_in(part.bytes);
    memory_.fetch(values.begin, values.end);
    fetch_mapped_pages(features_in(part.bytes));
    lock.lock();
    is_reading_ = false;
    changed_.notify_all();
  }
}

}  // namespace atl
