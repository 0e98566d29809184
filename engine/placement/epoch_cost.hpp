// The cost of an epoch of training on every rank, read from the model's program: seconds of each
// block of its schedule, and the rows that travel around them.
#pragma once

#include <map>
#include <memory>

#include "engine/exchange/expected_messages.hpp"
#include "engine/placement/cost_model.hpp"
#include "engine/placement/rank_counts.hpp"
#include "engine/placement/training_programs.hpp"
#include "engine/program/work.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Everything an epoch's time depends on. All of it must outlive a call that gets it.
struct EpochSetting {
  const Topology& topology;
  const ModelConfig& model;
  // The cut: rows, edges and messages; part p is on rank p, or on as many ranks each as the model
  // has column shares.
  const PartitionQuality& partition;
  const PhaseCorrections& corrections;
  bool overlap = true;
  SumRoute gradient_sum = {};
  // The mode, and which of its epochs; null: exact, or rounded where a layer's plan has few bits.
  const ExchangeOptions* exchange = nullptr;
  EpochKind kind = {};
  Arrival arrival = Arrival::kOff;  // of marginal rows, in a job: see planned_arrival()
  // Where steps are on blocks: `partition` is that of the mean one, and this is the whole graph's,
  // for evaluations. An epoch is a step then, and constants are made anew in it. Null: neither.
  const PartitionQuality* whole = nullptr;

  bool on_blocks() const { return whole != nullptr; }
  const PartitionQuality& of_graph() const { return on_blocks() ? *whole : partition; }
  RankMap map() const { return rank_map(partition, model.column_share.ranks); }
  EpochSetting of_kind(const EpochKind& other) const {
    EpochSetting setting = *this;
    setting.kind = other;
    return setting;
  }
};
// Those of the mode in the mean; `share`: see expected_messages().
ExpectedMessages messages_of(const EpochSetting& setting,
                             std::optional<double> share = std::nullopt);

// The choice as a job over MPI has it that trains this model on these ranks.
Arrival planned_arrival(Arrival asked, const Topology& topology, const ModelConfig& model);

// The messages of one aggregate, or the shift of rows that are kept of it: one row on each link.
struct MessageCost {
  Direction direction = Direction::kForward;
  bool returned = false;  // by those who get them forward
  // Who computes rows of whom; null: nobody. Nothing travels there where `rest` is true.
  std::shared_ptr<const Recomputation> recomputation = nullptr;
  bool rest = false;
  bool covers = false;
  double row_bytes = 0;   // in the mean of those that are sent and those that are not
  bool unpacks = false;   // false: messages are received in place
  bool late = false;      // they are unpacked when those of the next epoch are made
  bool is_shift = false;  // packed with the messages before it
  bool travels = true;
  // Those that a packet travels in if it has kLeastDividedBytes, one for each group of marginal
  // rows; the first group waits for smaller ones as a whole.
  int pieces = 1;
  struct Seconds {
    double pack_s = 0;
    double post_s = 0;
    double unpack_s = 0;
    double deliver_s = 0;  // outside of all spans
    bool operator==(const Seconds&) const = default;
  };
  std::vector<Seconds> ranks = {};  // by rank

  // Between parts. Where several ranks hold a part, each sends slices of them to the one of its
  // role.
  std::int64_t rows(const PartitionQuality& partition, int from, int to) const;
  bool operator==(const MessageCost&) const = default;
};

// A conversion between columns and rows of a matrix that the ranks of a part share: an all-to-all
// among them, which all of them wait for.
struct ConversionCost {
  bool to_columns = true;                // false: to rows
  std::vector<std::int64_t> rows = {};   // by rank: of its share, in the range of the call
  std::vector<double> slice_bytes = {};  // by role: of a row of its slice

  // From one rank to another one of its part, by their roles.
  double bytes(const RankMap& map, int from, int to) const;
  bool operator==(const ConversionCost&) const = default;
};

// A block of a schedule (engine/program/schedule.hpp).
struct BlockCost {
  PhasePlace place;
  std::vector<double> seconds = {};  // by rank
  std::vector<ConversionCost> converts = {};
  std::vector<MessageCost> begins = {};  // that set out after it
  bool finishes = false;                 // what follows needs those under way
  // So many pieces of packets that travel in pieces; kAllPieces where it needs all that is left.
  int finished_pieces = kAllPieces;
  static constexpr int kAllPieces = kMarginalGroups;
  bool operator==(const BlockCost&) const = default;
};

// A piece of an epoch: the blocks of a scope up to a sum over all ranks, which all of them wait
// for, or to its end.
struct PieceCost {
  std::vector<BlockCost> blocks = {};
  double sum_s = -1;  // of the sum that ends it; negative: none does
  PhasePlace sum_place = {};
  bool ends_stage() const { return sum_s >= 0; }
  bool operator==(const PieceCost&) const = default;
};

// Seconds that `device` takes for a call. rank: see counted_views().
double call_seconds(const Device& device, Views& rank, const Call& call);

// Costs of the scopes of a model's training, each read from a program once for every set of
// decisions that it depends on: those about its own layer, of the first two layers forward also
// which halo rows are computed. Topology, programs and corrections must outlive it.
class EpochCosts {
 public:
  EpochCosts(const Topology& topology, ProgramsByOrder& programs,
             const PhaseCorrections& corrections)
      : topology_(topology), programs_(programs), corrections_(corrections) {}

  // The pieces of an epoch in their order, by number: equal numbers, equal costs. Messages and kind
  // of epoch must be those of all other calls. `cut` and
  // `route`: numbers that the caller gives to setting.partition and setting.gradient_sum; equal
  // numbers stand for equal ones. Valid until the next call.
  std::span<const int> pieces(const EpochSetting& setting, int cut,
                              std::span<const LayerPlan> strategy, int route);
  const PieceCost& piece(int number) const { return pieces_[static_cast<std::size_t>(number)]; }
  // By rank. Valid as long as this.
  std::span<const RankCounts> counts(const PartitionQuality& partition, int cut,
                                     const std::shared_ptr<const Recomputation>& recomputation);

 private:
  // All that the cost of a scope depends on.
  struct ScopeKey {
    int cut = 0;
    int route = 0;
    LayerPlan decisions = {};
    auto operator<=>(const ScopeKey&) const = default;
  };
  struct ScopeCosts {
    std::map<ScopeKey, std::vector<int>> known;                         // the numbers of its pieces
    const std::pair<const ScopeKey, std::vector<int>>* last = nullptr;  // asked for, of `known`
  };

  const std::vector<int>& numbers_of(const EpochSetting& setting, int scope, const ScopeKey& key);
  // By rank. counts: an answer of counts().
  std::span<const std::unique_ptr<Views>> views(const TrainingPrograms& programs,
                                                std::span<const RankCounts> counts);

  const Topology& topology_;
  ProgramsByOrder& programs_;
  const PhaseCorrections& corrections_;
  std::map<std::pair<int, std::shared_ptr<const Recomputation>>, std::vector<RankCounts>> counts_;
  std::map<std::pair<const TrainingPrograms*, const RankCounts*>,
           std::vector<std::unique_ptr<Views>>>
      views_;
  std::vector<PieceCost> pieces_;   // by number
  std::vector<ScopeCosts> scopes_;  // by scope
  std::vector<int> numbers_;        // the last answer
};

}  // namespace atl
