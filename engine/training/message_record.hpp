// How the messages of a run travelled, epoch by epoch: what `assignment` in metrics.jsonl says.
#pragma once

#include <optional>
#include <vector>

#include "base/json.hpp"
#include "engine/training/options.hpp"

namespace atl {

class MessageRecord {
 public:
  // One more epoch. assignment: null where it is that of the epoch before, and with exact messages.
  void add(const Json& assignment);

  // Means over the epochs, of all ranks; none with exact messages.
  struct Sent {
    double rows = 0;
    double share = 0;  // of all messages
  };
  std::optional<Sent> mean() const;
  // Bits per value, of those messages that are sent, mean over both directions, in the last epoch.
  double layer_bits(int layer, const TrainOptions& options) const;
  // The last epoch's; null with exact messages.
  const Json& assignment() const { return assignment_; }

 private:
  Json assignment_;
  std::vector<Sent> sent_;
};

}  // namespace atl
