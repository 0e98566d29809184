// Tells the host which of the transfers queued on a device has ended last, so that a wait can see
// that something moves and can name what doesn't.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/transport.hpp"
#include "kernels/backend.hpp"

namespace atl {

// After each transfer its number is copied, on the same queue, into a word of staging memory.
class TransferLog {
 public:
  // Uploads on `queue`, where all transfers will be queued.
  TransferLog(Backend& backend, Queue& queue);
  TransferLog(const TransferLog&) = delete;
  TransferLog& operator=(const TransferLog&) = delete;
  // Every queue and replay that holds transfers has run empty, or abandon() was called.
  ~TransferLog();

  // Call after the transfer was queued. peers: ranks of the job. `recorded`: by Backend::record, so
  // that its number must stay its own for as long as it may be replayed.
  void add(std::shared_ptr<const RankGroup> group, const OperationLabel& label,
           std::vector<int> peers, bool recorded);

  // After an error copies may stay queued for ever: leaves them the word they write to.
  void abandon() { abandoned_ = true; }

  // Number of the transfer that ended last, -1 before the first. Changes when something moves.
  int last_ended() const;
  // False if every transfer has ended for sure; a replayed one may always be under way.
  bool under_way() const;
  // The transfer that is waited for: "layer 1 forward halo exchange of epoch 4 with ranks 1 and 2";
  // where only the transfer before is known (the first of a replay), "what follows" that.
  std::string oldest() const;

 private:
  struct Entry {
    std::shared_ptr<const RankGroup> group;
    OperationLabel label;
    std::vector<int> peers;
  };
  // Numbers below kDirect belong in turn to transfers that run once, those above to recorded ones,
  // of which the last share the last number.
  static constexpr int kDirect = 512;
  static constexpr int kNumbers = 2 * kDirect;

  static std::string describe(const Entry& entry);
  // The transfer queued after the one that ended last; null if there is none.
  const Entry* next() const;

  Backend& backend_;
  Queue& queue_;
  std::int32_t* ended_ = nullptr;    // staging memory
  std::int32_t* numbers_ = nullptr;  // on the device: 0, 1, 2, ...
  std::vector<Entry> entries_;
  int next_direct_ = 0;
  bool any_direct_ = false;
  int next_recorded_ = kDirect;
  bool abandoned_ = false;
};

}  // namespace atl
