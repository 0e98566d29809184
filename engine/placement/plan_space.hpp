// The decisions of a plan as a space for strategy search: how the graph is cut, each layer's
// algebra and bits per value, whether halo rows are fetched or recomputed, how gradients are
// summed.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "engine/placement/cut_candidates.hpp"
#include "engine/placement/epoch_tasks.hpp"
#include "engine/placement/memory_model.hpp"
#include "engine/placement/search.hpp"
#include "engine/placement/simulated_epoch.hpp"
#include "engine/placement/sufficient_factors.hpp"

namespace atl {

// How messages travel, whatever is decided.
struct PlannedMessages {
  // Null: exact, or rounded where a layer has few bits.
  const ExchangeOptions* exchange = nullptr;
  std::optional<double> share = std::nullopt;  // see expected_messages()
  Arrival arrival = Arrival::kOff;             // that is asked for
  SumChoice sums = SumChoice::kRanks;          // of gradients, without a plan
  int steps = 1;                               // of an epoch: several on blocks
};

class PlanSpace final : public SearchSpace {
 public:
  // Everything must outlive it. `bits`: what messages may travel at; without an exchange mode 32
  // among them: exact. start() is what training does without a plan: the first cut, the model's own
  // order of each layer and recomputation (of all pairs or none), `start_bits`, one of `bits`, and
  // its own sum of gradients.
  // Each part of a cut is on as many ranks as the model has column shares; where these are several,
  // no halo rows are recomputed.
  PlanSpace(const Topology& topology, const ModelConfig& model,
            const std::vector<CutCandidate>& cuts, std::vector<int> bits,
            PhaseCorrections corrections = {}, int start_bits = 32, PlannedMessages messages = {});

  int decisions() const override { return static_cast<int>(options_.size()); }
  int options(int decision) const override { return options_[static_cast<std::size_t>(decision)]; }
  std::vector<int> start() const override { return start_; }
  int model_of(int decision) const override;
  // The mean of the simulated epochs of all kinds. Where no messages are late, the makespan of one
  // is the sum of those of its stages, each simulated once for equal costs of its pieces. Bit for
  // bit the same whatever was evaluated before.
  PlanCost evaluate(std::span<const int> choice) override;

  const CutCandidate& cut(std::span<const int> choice) const {
    return cuts_[static_cast<std::size_t>(choice[0])];
  }
  std::vector<LayerPlan> layers(std::span<const int> choice) const;
  // The tasks that evaluate() simulates, of the kind of epoch with most messages.
  TaskGraph tasks(std::span<const int> choice, TaskDetail detail) const;
  ExpectedMessages expected() const;
  // The same of all kinds, by phase, and when they run.
  std::vector<SimulatedEpoch> simulated(std::span<const int> choice) const;
  // The bytes that the plan takes by rank: training and shards.
  std::vector<double> memory_bytes(std::span<const int> choice) const;
  // The times of tasks(start(), kMerged): the epoch of evaluate(start()) as a whole, simulated when
  // it is first asked for.
  const TaskTimes& start_times() const;
  const Topology& topology() const { return topology_; }
  int ranks_per_part() const { return model_.column_share.ranks; }
  // So many has an epoch. simulated() and tasks() are of one of them, on the mean block.
  int steps() const { return messages_.steps; }
  // An epoch takes so many times as long.
  double times_of(std::span<const int> choice) const { return steps() * cut(choice).unevenness; }
  double network_speed() const { return corrections_.network_speed(); }
  FactorPlan gradient_sync(std::span<const int> choice) const;
  const SumRoute& gradient_sum(std::span<const int> choice) const;
  // For people: "cut", "layer 0 algebra"; "by speed", "aggregate-first, kept", "8 bits".
  std::string decision_name(int decision) const;
  std::string option_name(int decision, int option) const;

 private:
  // How halo rows of the second layer's input come to a rank.
  enum class HaloRows : std::uint8_t { kFetched, kByCost, kRecomputed };
  struct RecomputationKey {
    int cut = 0;
    HaloRows how = HaloRows::kFetched;
    LayerPlan layer;
    auto operator<=>(const RecomputationKey&) const = default;
  };

  // 0 without that decision.
  static int option_of(std::span<const int> choice, int decision) {
    return decision < 0 ? 0 : choice[static_cast<std::size_t>(decision)];
  }
  bool sends_messages() const;
  // Whether halo rows of the first layer's output can be computed, whatever the layers' orders.
  bool can_recompute() const;
  void add_gradient_sums();
  // Recomputation of the second layer's input; null: none. planned: layers that fetch.
  std::shared_ptr<const Recomputation> recomputation(std::span<const int> choice,
                                                     std::span<const LayerPlan> planned) const;
  // The decisions that memory depends on; `part`: all of it (kWhole), or a layer and its option
  // alone.
  struct MemoryKey {
    int cut = 0;
    std::shared_ptr<const Recomputation> recomputation = nullptr;
    int part = 0;
    int widest = 0;  // bits of any message; 0 without an exchange mode
    std::vector<int> orders = {};
    auto operator<=>(const MemoryKey&) const = default;
  };

  // The epochs of one kind.
  struct Epochs {
    EpochKind kind;
    EpochCosts costs;
    std::map<std::vector<int>, double> known = {};  // seconds of stages, by their pieces
  };

  double epoch_seconds_of(Epochs& epochs, const EpochSetting& setting, std::span<const int> choice,
                          std::span<const LayerPlan> planned);
  // stage: its pieces, or those of the whole epoch where messages are late.
  double stage_seconds(Epochs& epochs, const EpochSetting& setting, std::span<const int> stage);
  // By how much training and shards exceed the memory of ranks.
  double missing_bytes(std::span<const int> choice, std::span<const LayerPlan> planned);
  // True if every rank has room for more than training can need.
  bool fits_surely(std::span<const int> choice, std::span<const LayerPlan> planned);
  EpochSetting setting(std::span<const int> choice) const;

  const Topology& topology_;
  const ModelConfig& model_;
  const std::vector<CutCandidate>& cuts_;
  std::vector<int> bits_;
  PhaseCorrections corrections_;
  Simulator simulator_;
  PlannedMessages messages_;
  Arrival arrival_;  // in a job
  mutable ProgramsByOrder programs_;
  std::deque<Epochs> epochs_;                        // by kind
  std::map<MemoryKey, double> missing_;              // bytes
  std::map<MemoryKey, std::vector<double>> bounds_;  // bytes of a part, by rank
  MemoryKey memory_key_;                             // scratch
  MemoryKey whole_key_;                              // scratch
  std::optional<std::pair<MemoryKey, double>> last_missing_;
  std::vector<double> bound_;  // scratch, by rank
  mutable std::map<RecomputationKey, std::shared_ptr<const Recomputation>> recomputations_;
  std::vector<int> stage_;  // scratch
  TaskWriter writer_;       // scratch
  // Decision 0 is the cut; 1 + l the algebra of layer l; 1 + layers + l its bits, if there are
  // several to choose from.
  std::vector<std::vector<LayerAlgebra>> algebra_;  // by layer: its options
  int halo_decision_ = -1;      // how halo rows come, if they can be recomputed; -1: none
  int gradient_decision_ = -1;  // how gradients are summed, if there are several ranks; -1: none
  std::vector<SumRoute> gradient_sums_;
  std::vector<int> options_;
  std::vector<int> start_;
  mutable std::optional<TaskTimes> start_times_;
};

}  // namespace atl
