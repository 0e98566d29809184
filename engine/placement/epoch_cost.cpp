#include "engine/placement/epoch_cost.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/placement/sum_cost.hpp"
#include "engine/program/column_exchange.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// A call of MPI per packet; what it copies is part of Device::progress_s_per_byte.
constexpr double kPostSeconds = 20e-6;

bool on_cpus(const Topology& topology) {
  return std::ranges::all_of(topology.devices,
                             [](const Device& device) { return device.kind == "cpu"; });
}

// Whether messages are those of a cover, but for pairs with computed rows. A cut that counts none
// has the same messages for all pairs.
bool sends_covers(const TrainingPrograms& programs, const PartitionQuality& partition) {
  return programs.covers && partition.counts_covers();
}

// The decisions that a scope's cost depends on. Nothing else of the strategy is read to make it.
// covers: see sends_covers().
LayerPlan decisions_of(const Scope& scope, std::span<const LayerPlan> strategy, bool covers) {
  if (scope.kind != Scope::Kind::kLayer) return {};
  const LayerPlan& own = strategy[static_cast<std::size_t>(scope.layer)];
  // The first layer computes rows that the second one needs.
  const bool has_computed_rows = scope.direction == Direction::kForward && scope.layer < 2;
  return {own.algebra, own.bits,
          covers || has_computed_rows ? recomputation_of(strategy) : nullptr};
}

// The costs of one scope on all ranks.
class ScopeReader {
 public:
  // counts, views: by rank. alike: the pieces of this scope with other bits or another route, whose
  // blocks take the same seconds; empty: none are known.
  ScopeReader(const EpochSetting& setting, std::span<const RankCounts> counts,
              std::span<const std::unique_ptr<Views>> views, const TrainingPrograms& programs,
              const LayerPlan& decisions, std::span<const PieceCost* const> alike)
      : setting_(setting),
        programs_(programs),
        program_(programs.training),
        decisions_(decisions),
        counts_(counts),
        views_(views),
        alike_(alike) {}

  std::vector<PieceCost> read(int scope) {
    left_ = programs_.blocks_of_scope[static_cast<std::size_t>(scope)];
    const auto sums = std::ranges::count_if(left_, [&](int b) { return has_sum(b); });
    pieces_.reserve(static_cast<std::size_t>(sums) + 1);
    pieces_.emplace_back();
    for (; !left_.empty(); left_ = left_.subspan(1)) add(left_.front());
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
  int ranks() const { return static_cast<int>(counts_.size()); }
  double factor(int rank, const PhasePlace& place) const {
    return setting_.corrections.factor(rank, place, decisions_.algebra);
  }
  // By rank. A call is counted for all ranks before the next one, as all take the same branches.
  std::vector<double> seconds_of(const Block& block) const {
    std::vector<double> seconds(counts_.size(), 0);
    for (const Call& call : block.calls) {
      for (int rank = 0; rank < ranks(); ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        seconds[r] += call_seconds(device(rank), *views_[r], call);
      }
    }
    return seconds;
  }
  // Adds a block without messages to the last piece. seconds(): by rank, as work and rates say.
  template <typename Seconds>
  BlockCost& add_block(const PhasePlace& place, const Seconds& seconds) {
    std::vector<BlockCost>& blocks = pieces_.back().blocks;
    // As many as the piece will have: pieces are kept, and growing costs more than counting.
    if (blocks.empty()) {
      const auto sum = std::ranges::find_if(left_, [&](int b) { return has_sum(b); });
      blocks.reserve(static_cast<std::size_t>(sum - left_.begin()) + 1);
    }
    BlockCost cost{.place = place};
    if (alike_.empty()) {
      cost.seconds = seconds();
      for (int r = 0; r < ranks(); ++r) {
        cost.seconds[static_cast<std::size_t>(r)] *= factor(r, place);
      }
    } else {
      cost.seconds = alike_[pieces_.size() - 1]->blocks[blocks.size()].seconds;
    }
    return blocks.emplace_back(std::move(cost));
  }

  const Block& block_at(int b) const { return programs_.step_blocks[static_cast<std::size_t>(b)]; }
  void add(int b) {
    const Block& block = block_at(b);
    const Phase phase = programs_.phases[static_cast<std::size_t>(b)];
    if (phase == Phase::kRest) {
      for (const Call& call : block.calls) add_sum(block, program_.at(call.value));
      return;
    }
    BlockCost& cost = add_block(place_of(block, phase), [&] { return seconds_of(block); });
    if (setting_.map().parts() > 1) {
      for (const Value aggregate : block.begins) {
        add_messages(block, program_.at(aggregate), cost.begins);
      }
      cost.finishes = !block.finishes.empty();
      if (block.finished_group >= 0) cost.finished_pieces = block.finished_group + 1;
    }
    for (const Call& call : block.calls) {
      if (program_.at(call.value).rule->reach == Reach::kGroup) add_conversion(call, cost);
    }
  }

  void add_conversion(const Call& call, BlockCost& cost) const {
    const Operation& op = program_.at(call.value);
    const int roles = programs_.ranks_per_part;
    const auto columns = ColumnExchange::columns_of(program_, op, DType::kF32);
    ConversionCost& conversion = cost.converts.emplace_back();
    conversion.to_columns = op.is(rules::kToColumns);
    for (const RankCounts& rank : counts_) {
      conversion.rows.push_back(rank.shape.range_of(call.rows).size());
    }
    for (int role = 0; role < roles; ++role) {
      conversion.slice_bytes.push_back(static_cast<double>(columns.slice_bytes(role, roles)));
    }
  }

  // Sums over all ranks end a piece; of one rank there is nothing to wait for.
  bool is_sum(const Operation& op) const {
    return op.rule->reach == Reach::kRanks && counts_.size() > 1;
  }
  bool has_sum(int b) const {
    return programs_.phases[static_cast<std::size_t>(b)] == Phase::kRest &&
           std::ranges::any_of(block_at(b).calls,
                               [&](const Call& call) { return is_sum(program_.at(call.value)); });
  }
  void add_sum(const Block& block, const Operation& op) {
    if (!is_sum(op)) return;
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
    piece.sum_s *= factor(0, place);
    pieces_.emplace_back();
  }

  // Calls without a span of their own, wherever they stand.
  void add_rest() {
    add_block({Phase::kRest, -1, false}, [&] {
      std::vector<double> seconds(counts_.size(), 0);
      for (int b = 0; b < std::ssize(programs_.phases); ++b) {
        if (programs_.phases[static_cast<std::size_t>(b)] != Phase::kRest) continue;
        std::ranges::transform(seconds, seconds_of(block_at(b)), seconds.begin(), std::plus<>());
      }
      return seconds;
    });
  }

  // Constants travel exactly in every mode.
  double bits_of(const Operation& op) const { return op.constant ? 32 : decisions_.bits; }
  MessageWork work_of(const Operation& op) const {
    const double bits = bits_of(op);
    if (setting_.exchange == nullptr || op.constant) {
      return {.pack = {.messages = 1},
              .unpack = {.messages = bits < 32 ? 1.0 : 0.0},
              .deliver = {},
              .exact = bits == 32};
    }
    return message_work(*setting_.exchange, op.messages.direction, bits, op.message_columns(),
                        setting_.kind);
  }
  double pass_seconds(int rank, const MessageWork::Pass& pass, std::int64_t rows,
                      std::int64_t columns, double bits) const {
    const double value_bytes =
        kFloatBytes * static_cast<double>(rows) * static_cast<double>(columns);
    const double each = bits < 32 ? quantize_seconds(device(rank), rows, columns)
                                  : elementwise_seconds(device(rank), 2 * value_bytes);
    return pass.messages * setting_.kind.messages * each +
           elementwise_seconds(device(rank), pass.rows * value_bytes);
  }

  // Rows that ranks keep are waited for as a whole, and so is what others return or compute.
  int pieces_of(const Operation& op) const {
    const bool keeps = setting_.exchange != nullptr && setting_.exchange->keeps_rows();
    const bool whole = keeps || setting_.kind.late || op.returns_rows() || op.decided.fetches_rest;
    return whole || !on_cpus(setting_.topology) ? 1 : programs_.marginal_groups;
  }

  void add_messages(const Block& block, const Operation& op,
                    std::vector<MessageCost>& begins) const {
    const MessageWork work = work_of(op);
    const double bits = bits_of(op);
    const std::int64_t columns = op.message_columns();
    const bool late = setting_.kind.late;
    const bool covers = sends_covers(programs_, setting_.partition);
    MessageCost cost{
        .direction = op.messages.direction,
        .returned = op.returns_rows(),
        .recomputation = op.decided.fetches_rest || covers ? decisions_.recomputation : nullptr,
        .rest = op.decided.fetches_rest,
        .covers = covers,
        .row_bytes = setting_.kind.messages * mean_message_bytes(bits, columns, work.exact),
        .unpacks = work.travels && !work.exact && !late,
        .late = late,
        .travels = work.travels,
        .pieces = pieces_of(op)};
    const PhasePlace rest{Phase::kRest, -1, false};
    const PhasePlace pack = place_of(block, Phase::kPack);
    const PhasePlace post = place_of(block, Phase::kPost);
    const PhasePlace unpack = late ? rest : place_of(block, Phase::kUnpack);
    cost.ranks.resize(counts_.size());
    for (int rank = 0; rank < ranks(); ++rank) {
      const MessageRows& sent = counts(rank).sent_for(op);
      const std::int64_t received = counts(rank).shape.rows.received_for(op);
      MessageCost::Seconds& own = cost.ranks[static_cast<std::size_t>(rank)];
      own.pack_s = pass_seconds(rank, work.pack, sent.rows, columns, bits) * factor(rank, pack);
      if (cost.row_bytes > 0) own.post_s = sent.packets * kPostSeconds * factor(rank, post);
      own.unpack_s =
          pass_seconds(rank, work.unpack, received, columns, bits) * factor(rank, unpack);
      own.deliver_s =
          pass_seconds(rank, work.deliver, received, columns, bits) * factor(rank, rest);
      if (work.shifts) own.post_s += sent.packets * kPostSeconds * factor(rank, post);
    }
    begins.push_back(std::move(cost));
    if (work.shifts) begins.push_back(shift_of(begins.back(), columns));
  }

  static MessageCost shift_of(const MessageCost& messages, std::int64_t columns) {
    MessageCost shift = messages;
    shift.row_bytes = kFloatBytes * static_cast<double>(padded_columns(columns));
    shift.unpacks = shift.late = false;
    shift.is_shift = true;
    shift.ranks.assign(messages.ranks.size(), {});
    return shift;
  }

  const EpochSetting& setting_;
  const TrainingPrograms& programs_;
  const Program& program_;
  const LayerPlan& decisions_;
  std::span<const RankCounts> counts_;
  std::span<const std::unique_ptr<Views>> views_;
  std::span<const PieceCost* const> alike_;
  std::span<const int> left_;  // blocks to read, the one at work first
  std::vector<PieceCost> pieces_;
};

}  // namespace

double ConversionCost::bytes(const RankMap& map, int from, int to) const {
  // Slices of the sender's rows, or the sender's slice of the rows of the receiver.
  const auto rank = static_cast<std::size_t>(to_columns ? from : to);
  const auto role = static_cast<std::size_t>(map.role_of(to_columns ? to : from));
  return static_cast<double>(rows[rank]) * slice_bytes[role];
}

std::int64_t MessageCost::rows(const PartitionQuality& partition, int from, int to) const {
  if (rest && recomputation != nullptr && recomputation->computes(to, from)) return 0;
  if (returned) std::swap(from, to);
  const bool backward = direction == Direction::kBackward && !returned;
  const std::int64_t count =
      partition
          .messages(backward ? Direction::kBackward : Direction::kForward, from, to,
                    covers && !keeps_rows(recomputation.get(), from, to))
          .count;
  return is_shift ? std::min<std::int64_t>(count, 1) : count;
}

Arrival planned_arrival(Arrival asked, const Topology& topology, const ModelConfig& model) {
  return arrival_in_job(asked, on_cpus(topology), /*alone=*/!model.column_share.any(),
                        /*divides_packets=*/true);
}

ExpectedMessages messages_of(const EpochSetting& setting, std::optional<double> share) {
  if (setting.exchange == nullptr) return {{EpochKind{}}};
  return expected_messages(*setting.exchange, share);
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

double call_seconds(const Device& device, Views& rank, const Call& call) {
  KernelSeconds kernels(device);
  lower(rank, call, kernels);
  return kernels.seconds();
}

std::span<const int> EpochCosts::pieces(const EpochSetting& setting, int cut,
                                        std::span<const LayerPlan> strategy, int route) {
  ATOLL_ASSERT(setting.map().ranks() == topology_.ranks());
  const std::vector<Scope>& scopes = programs_.any().training.scopes;
  const bool covers = sends_covers(programs_.any(), setting.partition);
  scopes_.resize(scopes.size());
  if (pieces_.empty()) pieces_.reserve(2 * scopes.size());
  numbers_.clear();
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    const Scope& is = scopes[static_cast<std::size_t>(scope)];
    const std::vector<int>& numbers = numbers_of(
        setting, scope,
        {cut, is.kind == Scope::Kind::kStep ? route : 0, decisions_of(is, strategy, covers)});
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
  const auto read = std::ranges::find_if(costs.known, [&](const auto& other) {
    const LayerPlan& decisions = other.first.decisions;
    return &other != &*place && other.first.cut == key.cut &&
           decisions.algebra == key.decisions.algebra &&
           decisions.recomputation == key.decisions.recomputation;
  });
  std::vector<const PieceCost*> alike;
  if (read != costs.known.end()) {
    for (const int number : read->second) alike.push_back(&piece(number));
  }
  const std::span<const RankCounts> counted =
      counts(setting.partition, key.cut, key.decisions.recomputation);
  std::vector<PieceCost> pieces =
      ScopeReader(setting, counted, views(programs, counted), programs, key.decisions, alike)
          .read(scope);
  std::vector<int>& numbers = place->second;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const auto equal = std::ranges::find_if(costs.known, [&](const auto& other) {
      return other.first.cut == key.cut && p < other.second.size() &&
             piece(other.second[p]) == pieces[p];
    });
    if (equal != costs.known.end()) {
      numbers.push_back(equal->second[p]);
    } else {
      numbers.push_back(static_cast<int>(pieces_.size()));
      pieces_.push_back(std::move(pieces[p]));
    }
  }
  return numbers;
}

std::span<const std::unique_ptr<Views>> EpochCosts::views(const TrainingPrograms& programs,
                                                          std::span<const RankCounts> counts) {
  const auto [place, is_new] = views_.try_emplace({&programs, counts.data()});
  if (is_new) {
    place->second.reserve(counts.size());
    for (const RankCounts& rank : counts) {
      place->second.push_back(counted_views(programs.training, rank.shape, DType::kF32));
    }
  }
  return place->second;
}

std::span<const RankCounts> EpochCosts::counts(
    const PartitionQuality& partition, int cut,
    const std::shared_ptr<const Recomputation>& recomputation) {
  std::vector<RankCounts>& counts = counts_[{cut, recomputation}];
  for (int rank = static_cast<int>(counts.size()); rank < topology_.ranks(); ++rank) {
    counts.push_back(rank_counts(partition, rank, programs_.any().covers, recomputation.get(),
                                 programs_.any().ranks_per_part));
    if (programs_.any().marginal_groups > 1) divide_marginal_rows(counts.back().shape);
  }
  return counts;
}

}  // namespace atl
