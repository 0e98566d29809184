#include "engine/comm/transfer_log.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/error.hpp"
#include "engine/comm/rank_list.hpp"

namespace atl {

TransferLog::TransferLog(Backend& backend, Queue& queue)
    : backend_(backend), queue_(queue), entries_(kNumbers) {
  constexpr std::int64_t kBytes = std::int64_t{kNumbers} * sizeof(std::int32_t);
  ended_ = static_cast<std::int32_t*>(backend_.allocate_staging(sizeof(std::int32_t)));
  *ended_ = -1;
  std::vector<std::int32_t> numbers(kNumbers);
  std::iota(numbers.begin(), numbers.end(), 0);
  try {
    numbers_ = static_cast<std::int32_t*>(backend_.allocate(kBytes));
    backend_.copy(queue_, numbers_, numbers.data(), kBytes, CopyKind::kHostToDevice);
  } catch (...) {
    if (numbers_ != nullptr) backend_.release(numbers_);
    backend_.release_staging(ended_);
    throw;
  }
}

TransferLog::~TransferLog() {
  backend_.release(numbers_);
  if (!abandoned_) backend_.release_staging(ended_);
}

void TransferLog::add(std::shared_ptr<const RankGroup> group, const OperationLabel& label,
                      std::vector<int> peers, bool recorded) {
  int number = 0;
  if (recorded) {
    number = next_recorded_;
    next_recorded_ = std::min(next_recorded_ + 1, kNumbers - 1);
  } else {
    number = next_direct_;
    next_direct_ = (next_direct_ + 1) % kDirect;
    any_direct_ = true;
  }
  entries_[static_cast<std::size_t>(number)] = {std::move(group), label, std::move(peers)};
  backend_.copy(queue_, ended_, numbers_ + number, sizeof(std::int32_t), CopyKind::kDeviceToHost);
}

int TransferLog::last_ended() const {
  // Written by the device.
  return std::atomic_ref(*ended_).load(std::memory_order_acquire);
}

const TransferLog::Entry* TransferLog::next() const {
  const int last = last_ended();
  if (last >= kDirect) {
    return last + 1 < next_recorded_ ? &entries_[static_cast<std::size_t>(last) + 1] : nullptr;
  }
  const int number = (last + 1) % kDirect;
  return any_direct_ && number != next_direct_ ? &entries_[static_cast<std::size_t>(number)]
                                               : nullptr;
}

bool TransferLog::under_way() const { return next() != nullptr || next_recorded_ > kDirect; }

std::string TransferLog::oldest() const {
  if (const Entry* entry = next(); entry != nullptr) return describe(*entry);
  const int last = last_ended();
  if (last < 0) return "the first transfer";
  return fmt::format("what follows {}", describe(entries_[static_cast<std::size_t>(last)]));
}

std::string TransferLog::describe(const Entry& entry) {
  return fmt::format("{} with {}", entry.group->describe(entry.label), rank_list(entry.peers));
}

}  // namespace atl
