#include "engine/placement/epoch_cost.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/placement/sum_cost.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// A call of MPI per packet; what it copies is part of Device::progress_s_per_byte.
constexpr double kPostSeconds = 20e-6;

// The decisions that a scope's cost depends on. Nothing else of the strategy is read to make it.
// covers: messages are those of a cover, but for pairs with computed rows.
LayerPlan decisions_of(const Scope& scope, std::span<const LayerPlan> strategy, bool covers) {
  if (scope.kind != Scope::Kind::kLayer) return {};
  LayerPlan own = strategy[static_cast<std::size_t>(scope.layer)];
  // The first layer computes rows that the second one needs.
  const bool has_computed_rows = scope.direction == Direction::kForward && scope.layer < 2;
  own.recomputation =
      strategy.size() > 1 && (covers || has_computed_rows) ? strategy[1].recomputation : nullptr;
  return own;
}

// The costs of one scope on all ranks.
class ScopeReader {
 public:
  // counts: by rank.
  ScopeReader(const EpochSetting& setting, std::span<const RankCounts> counts,
              const TrainingPrograms& programs, const LayerPlan& decisions)
      : setting_(setting),
        program_(programs.training),
        schedule_(programs.training_schedule),
        covers_(programs.covers),
        decisions_(decisions),
        counts_(counts) {}

  std::vector<PieceCost> read(int scope) {
    const auto of_scope = std::ranges::count(schedule_.blocks, scope, &Block::scope);
    pieces_.emplace_back().blocks.reserve(static_cast<std::size_t>(of_scope) + 1);
    for (const Block& block : schedule_.blocks) {
      if (block.scope == scope) add(block);
    }
    if (scope + 1 == std::ssize(program_.scopes)) add_rest();
    if (pieces_.back().blocks.empty() && !pieces_.back().ends_stage()) pieces_.pop_back();
    return std::move(pieces_);
  }

 private:
  PhasePlace place_of(const Block& block, Phase phase) const {
    const Scope& scope = program_.scopes[static_cast<std::size_t>(block.scope)];
    return {phase, scope.layer, has_directions(scope) && scope.direction == Direction::kBackward};
  }
  const Device& device(int rank) const { return setting_.topology.device(rank); }
  const RankCounts& counts(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  // seconds(rank) times the corrections of that place, by rank.
  template <typename Seconds>
  std::vector<double> by_rank(const PhasePlace& place, const Seconds& seconds) const {
    std::vector<double> all(counts_.size());
    for (std::size_t r = 0; r < all.size(); ++r) {
      const auto rank = static_cast<int>(r);
      all[r] = seconds(rank) * setting_.corrections.factor(rank, place);
    }
    return all;
  }
  double seconds_of(const Block& block, int rank) const {
    double seconds = 0;
    for (const Call& call : block.calls) {
      seconds += call_seconds(device(rank), program_, call, counts(rank).shape);
    }
    return seconds;
  }

  void add(const Block& block) {
    if (block.name == nullptr) {
      for (const Call& call : block.calls) add_sum(block, program_.at(call.value));
      return;
    }
    const std::optional<Phase> phase = phase_named(block.name);
    ATOLL_ASSERT(phase.has_value(), "{}", block.name);
    BlockCost cost{.place = place_of(block, *phase)};
    cost.seconds = by_rank(cost.place, [&](int rank) { return seconds_of(block, rank); });
    for (const Value aggregate : block.begins) {
      cost.begins.push_back(messages_of(block, program_.at(aggregate)));
    }
    cost.finishes = !block.finishes.empty();
    pieces_.back().blocks.push_back(std::move(cost));
  }

  // Sums over all ranks end a piece; of one rank there is nothing to wait for.
  void add_sum(const Block& block, const Operation& op) {
    if (op.rule->reach != Reach::kRanks || counts_.size() == 1) return;
    const PhasePlace place = place_of(block, Phase::kAllReduce);
    PieceCost& piece = pieces_.back();
    piece.sum_place = place;
    if (op.is(rules::kSumGradients)) {
      const double values =
          static_cast<double>(parameter_sizes(program_, /*pads_operands=*/false).values());
      piece.sum_s = sum_seconds(setting_.topology, kFloatBytes * values, setting_.gradient_sum);
    } else {
      // Two doubles per column.
      piece.sum_s = sum_seconds(setting_.topology, 16 * static_cast<double>(op.columns), {});
    }
    piece.sum_s *= setting_.corrections.factor(0, place);
    pieces_.emplace_back();
  }

  // Calls without a span of their own, wherever they stand.
  void add_rest() {
    BlockCost rest{.place = {Phase::kRest, -1, false}};
    rest.seconds = by_rank(rest.place, [&](int rank) {
      double seconds = 0;
      for (const Block& block : schedule_.blocks) {
        if (block.name == nullptr) seconds += seconds_of(block, rank);
      }
      return seconds;
    });
    pieces_.back().blocks.push_back(std::move(rest));
  }

  MessageCost messages_of(const Block& block, const Operation& op) const {
    const bool quantized = decisions_.bits < 32;
    MessageCost cost{
        .direction = op.messages.direction,
        .returned = op.returns_rows(),
        .recomputation = op.decided.fetches_rest || covers_ ? decisions_.recomputation : nullptr,
        .rest = op.decided.fetches_rest,
        .covers = covers_,
        .row_bytes = mean_message_bytes(decisions_.bits, op.message_columns())};
    const auto moved = [&](int rank, std::int64_t rows) {
      return quantized
                 ? quantize_seconds(device(rank), rows, op.message_columns())
                 : elementwise_seconds(device(rank), kFloatBytes * static_cast<double>(2 * rows) *
                                                         static_cast<double>(op.message_columns()));
    };
    cost.pack_s = by_rank(place_of(block, Phase::kPack),
                          [&](int rank) { return moved(rank, counts(rank).sent_for(op).rows); });
    cost.post_s = by_rank(place_of(block, Phase::kPost), [&](int rank) {
      return counts(rank).sent_for(op).packets * kPostSeconds;
    });
    if (!quantized) return cost;
    cost.unpack_s = by_rank(place_of(block, Phase::kUnpack), [&](int rank) {
      return moved(rank, counts(rank).shape.rows.received_for(op));
    });
    return cost;
  }

  const EpochSetting& setting_;
  const Program& program_;
  const Schedule& schedule_;
  bool covers_;
  const LayerPlan& decisions_;
  std::span<const RankCounts> counts_;
  std::vector<PieceCost> pieces_;
};

}  // namespace

std::int64_t MessageCost::rows(const PartitionQuality& partition, int from, int to) const {
  if (rest && recomputation != nullptr && recomputation->computes(to, from)) return 0;
  if (returned) std::swap(from, to);
  const bool backward = direction == Direction::kBackward && !returned;
  return partition
      .messages(backward ? Direction::kBackward : Direction::kForward, from, to,
                covers && !keeps_rows(recomputation.get(), from, to))
      .count;
}

namespace {

// Seconds of kernels by the rates of a device, which were measured with f32.
class KernelSeconds final : public kernels::TakesEach<KernelSeconds, Requests> {
 public:
  explicit KernelSeconds(const Device& device) : device_(device) {}

  template <typename Kernel>
  void each(const Kernel& kernel) {
    if constexpr (requires { kernel.pass(false); }) {
      // Rows of neighbours are gathered as by a sparse product, with more work on each.
      const EdgePass pass = kernel.pass(/*host_readable=*/false);
      const auto rows = static_cast<std::int64_t>(pass.rows.rows);
      const auto edges = static_cast<std::int64_t>(pass.rows.edges);
      seconds_ += pass.products * spmm_seconds(device_, edges + rows, rows, pass.x.cols);
    } else {
      stream(kernel.work(/*host_readable=*/false));
    }
  }
  void each(const kernels::Gemm& gemm) {
    seconds_ += gemm_seconds(device_, gemm.a.rows, gemm.a.cols, gemm.c.cols);
  }
  void each(const kernels::Spmm& spmm) {
    const std::int64_t rows = spmm.rows.size();
    const std::int64_t own = spmm.op.self_weight.empty() ? 0 : rows;
    seconds_ += spmm_seconds(device_, spmm.op.counted_edges + own, rows, spmm.x.cols);
  }
  void take_work(RankWork work, const Views& views) override { stream(work_of(work, views)); }
  void take_own(const OwnKernel& kernel, const Views& /*views*/) override { stream(kernel.work); }
  double seconds() const { return seconds_; }

 private:
  void stream(const SpanWork& work) { seconds_ += elementwise_seconds(device_, work.bytes); }

  const Device& device_;
  double seconds_ = 0;
};

}  // namespace

double call_seconds(const Device& device, const Program& program, const Call& call,
                    const RankShape& shape) {
  KernelSeconds kernels(device);
  lower_counted(program, call, shape, DType::kF32, kernels);
  return kernels.seconds();
}

std::span<const int> EpochCosts::pieces(const EpochSetting& setting, int cut,
                                        std::span<const LayerPlan> strategy, int route) {
  ATOLL_ASSERT(std::ssize(setting.partition.parts) == topology_.ranks());
  const std::vector<Scope>& scopes = programs_.any().training.scopes;
  scopes_.resize(scopes.size());
  numbers_.clear();
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    const Scope& is = scopes[static_cast<std::size_t>(scope)];
    const std::vector<int>& numbers =
        numbers_of(setting, scope,
                   {cut, is.kind == Scope::Kind::kStep ? route : 0,
                    decisions_of(is, strategy, programs_.any().covers)});
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }
  return numbers_;
}

const std::vector<int>& EpochCosts::numbers_of(const EpochSetting& setting, int scope,
                                               const ScopeKey& key) {
  ScopeCosts& costs = scopes_[static_cast<std::size_t>(scope)];
  // A search changes little at a time.
  if (costs.last != nullptr && costs.last->first == key) return costs.last->second;
  const auto [place, is_new] = costs.known.try_emplace(key);
  costs.last = &*place;
  if (!is_new) return place->second;
  const bool in_layer =
      programs_.any().training.scopes[static_cast<std::size_t>(scope)].kind == Scope::Kind::kLayer;
  const TrainingPrograms& programs = in_layer ? programs_.of(key.decisions) : programs_.any();
  std::vector<PieceCost> pieces =
      ScopeReader(setting, counts(setting.partition, key.cut, key.decisions.recomputation),
                  programs, key.decisions)
          .read(scope);
  std::vector<int>& numbers = place->second;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    std::vector<int> known;
    for (const auto& [other, theirs] : costs.known) {
      if (other.cut == key.cut && p < theirs.size()) known.push_back(theirs[p]);
    }
    numbers.push_back(number_of(std::move(pieces[p]), known));
  }
  return numbers;
}

std::span<const RankCounts> EpochCosts::counts(
    const PartitionQuality& partition, int cut,
    const std::shared_ptr<const Recomputation>& recomputation) {
  std::vector<RankCounts>& counts = counts_[{cut, recomputation}];
  for (int rank = static_cast<int>(counts.size()); rank < topology_.ranks(); ++rank) {
    counts.push_back(rank_counts(partition, rank, programs_.any().covers, recomputation.get()));
  }
  return counts;
}

int EpochCosts::number_of(PieceCost&& piece, std::span<const int> known) {
  for (const int number : known) {
    if (this->piece(number) == piece) return number;
  }
  pieces_.push_back(std::move(piece));
  return static_cast<int>(pieces_.size()) - 1;
}

}  // namespace atl
