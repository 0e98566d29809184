#include "engine/placement/plan_space.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "engine/exchange/gradient_steps.hpp"
#include "engine/placement/group_plans.hpp"
#include "engine/placement/halo_recomputation.hpp"
#include "engine/placement/sum_cost.hpp"

namespace atl {

namespace {

// How much of a transfer may be left out where simulation is approximate, see Simulator.
double tolerance_of(const Topology& topology) {
  return topology.ranks() > kMostExactRanks ? 0.005 : 0;
}

constexpr int kWholeModel = -2;  // of MemoryKey::part

// The algebra that a layer may have; the first is its own without a plan.
std::vector<LayerAlgebra> options_of(const ProgramLayer& layer) {
  std::vector<LayerAlgebra> orders = {layer.algebra};
  for (const MultiplyOrder order :
       {MultiplyOrder::kMultiplyFirst, MultiplyOrder::kAggregateFirst}) {
    if (!layer.order_is_free && order != layer.algebra.order) continue;
    const bool aggregates_first = !layer.order_is_free || order == MultiplyOrder::kAggregateFirst;
    for (const bool cache : {false, true}) {
      if (cache && !(aggregates_first && layer.input_is_constant)) continue;
      const LayerAlgebra other{order, cache};
      if (std::ranges::find(orders, other) == orders.end()) orders.push_back(other);
    }
  }
  return orders;
}

}  // namespace

PlanSpace::PlanSpace(const Topology& topology, const ModelConfig& model,
                     const std::vector<CutCandidate>& cuts, std::vector<int> bits,
                     PhaseCorrections corrections, int start_bits, PlannedMessages messages)
    : topology_(topology),
      model_(model),
      cuts_(cuts),
      bits_(std::move(bits)),
      corrections_(std::move(corrections)),
      simulator_(topology, tolerance_of(topology), corrections_.network_speed()),
      messages_(messages),
      arrival_(planned_arrival(messages.arrival, topology, model)),
      programs_(model, topology.ranks(), arrival_,
                /*remakes_constants=*/cuts.front().block.has_value()),
      writer_(topology, TaskDetail::kMerged) {
  ATOLL_ASSERT(!cuts_.empty() && std::ranges::count(bits_, start_bits) == 1);
  ATOLL_ASSERT(messages_.exchange != nullptr || std::ranges::count(bits_, 32) == 1);
  const EpochSetting any{topology_, model_, cuts_.front().of_step(), corrections_,
                         true,      {},     messages_.exchange};
  for (const EpochKind& kind : messages_of(any, messages_.share).kinds) {
    epochs_.push_back({kind, EpochCosts(topology, programs_, corrections_)});
  }
  std::sort(bits_.begin(), bits_.end(), std::greater<>());
  options_.push_back(static_cast<int>(cuts_.size()));
  for (const ProgramLayer& layer : model_program(model, Pass::kEvaluation).layers) {
    algebra_.push_back(options_of(layer));
    for (const LayerAlgebra& algebra : algebra_.back()) programs_.of(algebra, false);
    options_.push_back(static_cast<int>(algebra_.back().size()));
  }
  start_.assign(options_.size(), 0);
  if (bits_.size() > 1) {
    options_.insert(options_.end(), algebra_.size(), static_cast<int>(bits_.size()));
    const auto first = std::ranges::find(bits_, start_bits) - bits_.begin();
    start_.resize(options_.size(), static_cast<int>(first));
  }
  const bool keeps = std::ranges::any_of(algebra_[0], &LayerAlgebra::cache_aggregate);
  // Each rank holds a part, whose halo rows are the same in each step.
  const bool alone = !model.column_share.any() && !cuts_.front().block;
  if (topology.ranks() > 1 && alone && keeps && sends_messages() && can_recompute()) {
    halo_decision_ = decisions();
    for (const auto& orders : algebra_) {
      for (const LayerAlgebra& algebra : orders) programs_.of(algebra, true);
    }
    options_.push_back(3);
    start_.push_back(
        static_cast<int>(model.recomputation.any() ? HaloRows::kRecomputed : HaloRows::kFetched));
  }
  add_gradient_sums();
  start_.resize(options_.size(), 0);
}

bool PlanSpace::sends_messages() const {
  return messages_.exchange == nullptr ||
         exchange_mode(messages_.exchange->mode).sent != MessagesSent::kNone;
}

bool PlanSpace::can_recompute() const {
  std::vector<LayerAlgebra> seen;
  for (const auto& orders : algebra_) {
    for (const LayerAlgebra& algebra : orders) {
      if (std::ranges::find(seen, algebra) != seen.end()) continue;
      if (!programs_.can_recompute(algebra)) return false;
      seen.push_back(algebra);
    }
  }
  return true;
}

void PlanSpace::add_gradient_sums() {
  gradient_sums_ = {messages_.sums == SumChoice::kRanks
                        ? SumRoute()
                        : route_by_places(places_of(topology_, &Device::host))};
  if (topology_.ranks() == 1) return;
  const ParameterSizes sizes = parameter_sizes(programs_.any().training, /*pads_operands=*/false);
  std::vector<SumRoute> others =
      other_sum_routes(topology_, kFloatBytes * static_cast<double>(sizes.values()));
  others.insert(others.begin(), SumRoute());
  std::erase(others, gradient_sums_.front());
  gradient_sums_.insert(gradient_sums_.end(), others.begin(), others.end());
  gradient_decision_ = decisions();
  options_.push_back(static_cast<int>(gradient_sums_.size()));
}

const SumRoute& PlanSpace::gradient_sum(std::span<const int> choice) const {
  return gradient_sums_[static_cast<std::size_t>(option_of(choice, gradient_decision_))];
}

int PlanSpace::model_of(int decision) const {
  const int layers = static_cast<int>(algebra_.size());
  if (decision == halo_decision_ || decision == gradient_decision_) return -1;
  const int first = decision <= layers ? 2 : 1 + layers;
  // The first layer's algebra has options of its own; the others are alike.
  return decision > first ? first : -1;
}

std::vector<LayerPlan> PlanSpace::layers(std::span<const int> choice) const {
  std::vector<LayerPlan> layers;
  layers.reserve(algebra_.size());
  for (std::size_t l = 0; l < algebra_.size(); ++l) {
    const LayerAlgebra& algebra = algebra_[l][static_cast<std::size_t>(choice[1 + l])];
    const double bits = bits_.size() > 1
                            ? bits_[static_cast<std::size_t>(choice[1 + algebra_.size() + l])]
                            : bits_.front();
    layers.push_back({algebra, bits});
  }
  if (layers.size() > 1) layers[1].recomputation = recomputation(choice, layers);
  return layers;
}

std::shared_ptr<const Recomputation> PlanSpace::recomputation(
    std::span<const int> choice, std::span<const LayerPlan> planned) const {
  const auto how = static_cast<HaloRows>(option_of(choice, halo_decision_));
  if (how == HaloRows::kFetched || !planned[0].algebra.cache_aggregate) return nullptr;
  const auto [place, is_new] =
      recomputations_.try_emplace({.cut = choice[0], .how = how, .layer = planned[1]});
  if (is_new) {
    Recomputation made = how == HaloRows::kRecomputed
                             ? Recomputation::of_all_pairs(topology_.ranks())
                             : recomputation_by_cost(setting(choice), programs_, planned);
    if (made.any()) place->second = std::make_shared<const Recomputation>(std::move(made));
  }
  return place->second;
}

EpochSetting PlanSpace::setting(std::span<const int> choice) const {
  return {.topology = topology_,
          .model = model_,
          .partition = cut(choice).of_step(),
          .corrections = corrections_,
          .gradient_sum = gradient_sum(choice),
          .exchange = messages_.exchange,
          .kind = epochs_.front().kind,
          .arrival = arrival_,
          .whole = cut(choice).whole_beside_blocks()};
}

TaskGraph PlanSpace::tasks(std::span<const int> choice, TaskDetail detail) const {
  return epoch_tasks(setting(choice), layers(choice), detail);
}

ExpectedMessages PlanSpace::expected() const {
  return messages_of(setting(start_), messages_.share);
}

std::vector<SimulatedEpoch> PlanSpace::simulated(std::span<const int> choice) const {
  return simulate_epochs(setting(choice), layers(choice), TaskDetail::kPhases, messages_.share);
}

FactorPlan PlanSpace::gradient_sync(std::span<const int> choice) const {
  return plan_sufficient_factors(factor_problem(setting(choice), layers(choice)), topology_);
}

PlanCost PlanSpace::evaluate(std::span<const int> choice) {
  const std::vector<LayerPlan> planned = layers(choice);
  EpochSetting epoch = setting(choice);
  PlanCost cost;
  for (Epochs& epochs : epochs_) {
    epoch.kind = epochs.kind;
    cost.seconds += epochs.kind.share * epoch_seconds_of(epochs, epoch, choice, planned);
  }
  cost.seconds *= times_of(choice);
  cost.missing_bytes = missing_bytes(choice, planned);
  return cost;
}

double PlanSpace::epoch_seconds_of(Epochs& epochs, const EpochSetting& setting,
                                   std::span<const int> choice,
                                   std::span<const LayerPlan> planned) {
  const std::span<const int> pieces =
      epochs.costs.pieces(setting, choice[0], planned, option_of(choice, gradient_decision_));
  // Late messages travel from one stage into others.
  if (epochs.kind.late) return stage_seconds(epochs, setting, pieces);
  double seconds = 0;
  for_each_stage(epochs.costs, pieces, [&](std::span<const int> stage) {
    seconds += stage_seconds(epochs, setting, stage);
  });
  return seconds;
}

const TaskTimes& PlanSpace::start_times() const {
  if (!start_times_) {
    Simulator simulator(topology_, tolerance_of(topology_), corrections_.network_speed());
    start_times_ = simulator.run(tasks(start_, TaskDetail::kMerged));
  }
  return *start_times_;
}

double PlanSpace::stage_seconds(Epochs& epochs, const EpochSetting& setting,
                                std::span<const int> stage) {
  stage_.assign(stage.begin(), stage.end());
  const auto place = epochs.known.lower_bound(stage_);
  if (place != epochs.known.end() && place->first == stage_) return place->second;
  const TaskGraph& graph = write_tasks(setting, epochs.costs, stage, writer_);
  const double seconds = epoch_seconds(graph, simulator_.run(graph));
  epochs.known.emplace_hint(place, stage_, seconds);
  return seconds;
}

double PlanSpace::missing_bytes(std::span<const int> choice, std::span<const LayerPlan> planned) {
  MemoryKey& key = whole_key_;
  key.part = kWholeModel;
  key.cut = choice[0];
  key.recomputation = recomputation_of(planned);
  key.orders.assign(choice.begin() + 1,
                    choice.begin() + 1 + static_cast<std::ptrdiff_t>(algebra_.size()));
  if (messages_.exchange != nullptr) {
    key.widest = static_cast<int>(std::ranges::max(planned, {}, &LayerPlan::bits).bits);
  }
  // A search changes little at a time.
  if (last_missing_ && last_missing_->first == key) return last_missing_->second;
  last_missing_.emplace(key, 0);
  if (fits_surely(choice, planned)) return 0;
  const auto [place, is_new] = missing_.try_emplace(key);
  if (is_new) place->second = atl::missing_bytes(topology_, memory_bytes(choice));
  last_missing_->second = place->second;
  return place->second;
}

bool PlanSpace::fits_surely(std::span<const int> choice, std::span<const LayerPlan> planned) {
  if (cut(choice).block) return false;  // bounds are of one graph for steps and evaluations
  memory_key_.cut = choice[0];
  memory_key_.recomputation = recomputation_of(planned);
  memory_key_.widest = whole_key_.widest;
  bound_.assign(static_cast<std::size_t>(topology_.ranks()), 0);
  for (int layer = -1; layer < static_cast<int>(algebra_.size()); ++layer) {
    memory_key_.part = layer;
    memory_key_.orders.assign(1, layer < 0 ? 0 : choice[static_cast<std::size_t>(1 + layer)]);
    const auto [place, is_new] = bounds_.try_emplace(memory_key_);
    std::vector<double>& bytes = place->second;
    if (is_new) {
      const TrainingPrograms& programs =
          layer < 0 ? programs_.any()
                    : programs_.of(algebra_[static_cast<std::size_t>(layer)]
                                           [static_cast<std::size_t>(memory_key_.orders[0])],
                                   memory_key_.recomputation != nullptr);
      const std::span<const RankCounts> counts =
          epochs_.front().costs.counts(cut(choice).of_step(), choice[0], memory_key_.recomputation);
      bytes =
          bytes_bounds(programs, layer, counts, topology_, exchange_of(setting(choice), planned));
      for (std::size_t r = 0; layer < 0 && r < bytes.size(); ++r) {
        bytes[r] += shard_bytes(setting(choice), counts[r]);
      }
    }
    for (std::size_t rank = 0; rank < bound_.size(); ++rank) bound_[rank] += bytes[rank];
  }
  for (std::size_t rank = 0; rank < bound_.size(); ++rank) {
    if (bound_[rank] > topology_.devices[rank].memory_bytes) return false;
  }
  return true;
}

std::vector<double> PlanSpace::memory_bytes(std::span<const int> choice) const {
  const EpochSetting epoch = setting(choice);
  const std::vector<LayerPlan> planned = layers(choice);
  const bool covers = programs_.any().covers;
  std::vector<double> bytes = training_bytes(epoch, planned);
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    bytes[r] +=
        shard_bytes(epoch, rank_counts(epoch.of_graph(), static_cast<int>(r), covers,
                                       recomputation_of(planned).get(), model_.column_share.ranks));
  }
  return bytes;
}

std::string PlanSpace::decision_name(int decision) const {
  const int layers = static_cast<int>(algebra_.size());
  if (decision == 0) return "cut";
  if (decision == halo_decision_) return "layer 1 halo rows";
  if (decision == gradient_decision_) return "sum of gradients";
  return decision <= layers ? fmt::format("layer {} algebra", decision - 1)
                            : fmt::format("layer {} bits", decision - 1 - layers);
}

std::string PlanSpace::option_name(int decision, int option) const {
  const auto layers = static_cast<int>(algebra_.size());
  const auto o = static_cast<std::size_t>(option);
  if (decision == 0) return cuts_[o].name;
  if (decision == gradient_decision_) {
    const SumRoute& route = gradient_sums_[o];
    if (!route.groups.empty())
      return fmt::format("hierarchical, groups of {}", route.groups[0].size());
    return route.server < 0 ? name_of(route)
                            : fmt::format("parameter server on rank {}", route.server);
  }
  if (decision == halo_decision_) {
    constexpr std::array<const char*, 3> kNames = {"fetched", "recomputed where that costs less",
                                                   "recomputed"};
    return kNames[o];
  }
  if (decision > layers) return fmt::format("{} bits", bits_[o]);
  const LayerAlgebra& algebra = algebra_[static_cast<std::size_t>(decision - 1)][o];
  return fmt::format("{}{}", to_string(algebra.order), algebra.cache_aggregate ? ", kept" : "");
}

}  // namespace atl
