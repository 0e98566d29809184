// Snapshots: the state of a run in the memory of its hosts, where it outlives the job's processes,
// but not the host. Checkpoints (checkpoint.hpp) outlive both and are rarer. After Zhong et al.,
// "Swift: Expedited Failure Recovery for Large-scale DNN Training" (2023): every rank holds the
// replicated state, so whoever is left has it.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// A new name for the snapshots of a run that nobody can guess: 32 hex digits.
std::string make_snapshot_id();
bool is_snapshot_id(std::string_view id);

// Where a host keeps the snapshots of a run in `dir`: DIR/atoll-ID.
std::filesystem::path snapshot_folder(const std::filesystem::path& dir, const std::string& id);
// Removes such a folder of this user, with all that is in it; does nothing for any other path.
void remove_snapshot_folder(const std::filesystem::path& folder);

// The epochs whose snapshots a rank can read; 0: none.
struct HeldEpochs {
  std::array<int, 2> state = {};     // of its host, told by the first rank there only
  std::array<int, 2> exchange = {};  // its own state of the exchange

  bool has_state(int epoch) const { return state[0] == epoch || state[1] == epoch; }
  bool has_exchange(int epoch) const { return exchange[0] == epoch || exchange[1] == epoch; }
};

// Where to go on from.
struct SnapshotChoice {
  int epoch = 0;
  int holder = 0;         // the lowest rank that has the state
  bool exchange = false;  // all ranks have their state of the exchange, too
  bool operator==(const SnapshotChoice&) const = default;
};

// The newest epoch; where exchanges have a state, the one before it if only of that one all ranks
// have theirs. `held`: by rank.
std::optional<SnapshotChoice> choose_snapshot(const std::vector<HeldEpochs>& held);

// FOLDER/atoll-ID/, which only its owner may enter: HOST.state.0 and .1, the bytes of a checkpoint
// by the first rank of each host, and HOST.rank-R-of-P.0 and .1 with the state of a rank's
// exchange. The two take turns, so that a whole one is there whenever a process ends.
class Snapshots {
 public:
  // Collective. Nothing is written yet. `id`: as make_snapshot_id() makes it; `set_backs`: see
  // set_back(), from before. Both are the same on all ranks.
  Snapshots(Transport& transport, const std::filesystem::path& folder, const std::string& id,
            std::vector<int> set_backs = {});

  const std::string& id() const { return id_; }
  // The run goes on from `epoch` though later ones were done, which were lost. If they turn up on a
  // host that comes back, they don't count: their metrics are gone. Same on all ranks.
  void set_back(int epoch) { set_backs_.push_back(epoch); }
  const std::vector<int>& set_backs() const { return set_backs_; }
  // Whether this rank keeps the state for its host.
  bool keeps_state() const { return first_on_host_; }

  // Looks for what is there; collective. What can't be read as a whole does not count.
  void find();
  // The choice of find().
  const std::optional<SnapshotChoice>& found() const { return found_; }
  // The state of found(), on all ranks; `place` becomes its file's name. Throws Error{kInput} on
  // all of them if it is there no more. Collective.
  std::string read_state(std::string& place) const;
  // This rank's state of the exchange, empty if it is there no more; only where found()->exchange.
  std::string read_exchange() const;

  // Keeps an epoch. `state`: of keeps_state() alone; `exchange`: none where modes have none. What
  // can't be written is a warning, once: the run goes on.
  void keep(int epoch, const std::string& state, const std::optional<std::string>& exchange);
  // Removes what this rank's host keeps of the run; no rank may keep anything at the same time.
  void remove();

 private:
  struct Slot {
    std::filesystem::path path;
    int epoch = 0;  // 0: nothing that can be read
  };
  using Slots = std::array<Slot, 2>;

  Slots slots(const std::string& name) const;
  // The slot to write next: never the newest one.
  static Slot& oldest(Slots& slots) { return slots[slots[0].epoch <= slots[1].epoch ? 0 : 1]; }
  // The epoch in a slot, written when the run had been set back so many times; 0: it doesn't count.
  int epoch_in(const Slot& slot) const;
  bool make_folder();
  void write(Slots& slots, int epoch, const std::string& content);
  void warn(int epoch, const std::string& reason);

  Transport& transport_;
  std::string id_;
  std::vector<int> set_backs_;
  std::filesystem::path folder_;
  bool first_on_host_;
  Slots state_;
  Slots exchange_;
  std::optional<SnapshotChoice> found_;
  bool folder_made_ = false;
  bool warned_ = false;
};

}  // namespace atl
