#include "engine/program/network.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

constexpr const char* kGradientSum = "gradient all-reduce";  // in traces and time-outs

// The messages of an operation that reads rows of other ranks.
Channel channel_of(const Program& program, Value value) {
  const Operation& op = program.at(value);
  return {.number = op.messages.channel,
          .layer = program.scope_of(value).layer,
          .direction = op.messages.direction,
          .constant = op.constant};
}

}  // namespace

void Network::begin_sums(const Block& block, const Round& round) {
  rank_.reducer.advance_sums();
  if (!round.overlap || begun_sums_ == gradient_sums_.size()) return;
  const GradientSum& next = gradient_sums_[begun_sums_];
  if (&block != &training_.schedule.blocks[next.block]) return;
  rank_.reducer.begin_sum(part_of_gradients(next.begin, next.end), kGradientSum, round.epoch);
  ++begun_sums_;
}

MatrixView Network::part_of_gradients(std::int64_t begin, std::int64_t end) {
  MatrixView part = state_.parameters.shared_gradients();
  part.data = static_cast<std::byte*>(part.data) + begin * bytes_of(part.dtype);
  part.cols = part.stride = end - begin;
  return part;
}

// Runs requests on the rank's queue.
class Network::Runner final : public kernels::TakesEach<Runner, Requests> {
 public:
  Runner(Network& network, const Execution& execution) : network_(network), execution_(execution) {}

  template <typename Kernel>
  void each(const Kernel& kernel) {
    network_.rank_.backend.run(network_.rank_.queue, kernel);
  }
  void take_own(const OwnKernel& kernel, const Views& views) override {
    Backend& backend = network_.rank_.backend;
    Queue& queue = network_.rank_.queue;
    backend.run_own(queue, kernel.name, kernel.work, [&] { kernel.run(views, backend, queue); });
  }

  void take_work(RankWork work, const Views& views) override {
    const Rank& rank = network_.rank_;
    ParameterStore& parameters = network_.state_.parameters;
    switch (work) {
      case RankWork::kLoss:
        return execution_.loss->compute(rank, execution_.round, views.in(0), views.out());
      case RankWork::kSumRanks:
        return sum_norm(views);
      case RankWork::kToColumns:
        return network_.group_exchange_->to_columns(
            columns_of(views), views.whole(views.input(0)), views.whole(views.value()),
            views.call_rows(), label_of(views, "shares of columns"), network_.values_);
      case RankWork::kToRows:
        return network_.group_exchange_->to_rows(
            columns_of(views), views.whole(views.input(0)), views.whole(views.value()),
            views.call_rows(), label_of(views, "shares of rows"), network_.values_);
      case RankWork::kSumGradients:
        return sum_gradients();
      case RankWork::kFetchComputed:
        return fetch_computed(views);
      case RankWork::kZeroGradients:
        return parameters.zero_gradients(rank.backend, rank.queue);
      case RankWork::kComposedGradients:
        return parameters.add_composed_gradients(rank.backend, rank.queue);
      case RankWork::kStep:
        return execution_.optimizer->step(rank.backend, rank.queue, parameters,
                                          execution_.round.state);
    }
  }

 private:
  static ColumnExchange::Columns columns_of(const Views& views) {
    return ColumnExchange::columns_of(views.program(), views.op(), views.dtype());
  }
  OperationLabel label_of(const Views& views, const char* what) const {
    const Scope& scope = views.program().scope_of(views.value());
    return {what, has_directions(scope) ? to_string(scope.direction) : "", scope.layer,
            execution_.round.epoch};
  }

  void sum_norm(const Views& views) {
    const Scope& scope = views.program().scope_of(views.value());
    const bool forward = scope.direction == Direction::kForward;
    network_.rank_.reducer.sum(views.norm(views.op().as<BatchNorm>().number).sums,
                               forward ? "batch norm statistics" : "batch norm gradient",
                               scope.layer, execution_.round.epoch);
  }

  // Gradients of nodes' parameters are on the one rank that has them, but their norm is all ranks'.
  void sum_gradients() {
    const Rank& rank = network_.rank_;
    ParameterStore& parameters = network_.state_.parameters;
    const int epoch = execution_.round.epoch;
    const std::int64_t end = network_.begun_sums_ == 0
                                 ? parameters.shared_size()
                                 : network_.gradient_sums_[network_.begun_sums_ - 1].begin;
    rank.reducer.finish_sums(network_.part_of_gradients(0, end), kGradientSum, epoch);
    network_.begun_sums_ = 0;
    const std::span<double> norm =
        execution_.optimizer->node_norm(rank.backend, rank.queue, parameters);
    if (!norm.empty()) rank.reducer.sum(norm, "norm of gradients", -1, epoch);
  }

  void fetch_computed(const Views& views) {
    const ComputedHalo& halo = *network_.state_.graph->computed_halo;
    MatrixView aggregated = views.whole(views.input(0));
    aggregated.rows += halo.rows();
    execution_.exchange
        ->begin(halo.inputs(), aggregated, channel_of(views.program(), views.value()),
                execution_.round)
        ->finish();
  }

  Network& network_;
  const Execution& execution_;
};

// An error abandons what is under way as it unwinds: its owners must not wait for it then.
struct Network::Abandoned {
  std::vector<UnderWay>& under_way;
  std::size_t& begun_sums;
  Reducer& reducer;
  int errors = std::uncaught_exceptions();
  ~Abandoned() {
    if (std::uncaught_exceptions() <= errors) return;
    under_way.clear();
    reducer.abandon_sums();
    begun_sums = 0;
  }
};

RankViews Network::views_of(const Pass& pass, const Round& round) const {
  return {pass.program, pass.layout, state_, values(), round};
}

void Network::run_blocks(const Execution& execution, std::span<const Block> blocks) {
  const Pass& pass = execution.pass;
  const Round& round = execution.round;
  RankViews views = views_of(pass, round);
  Runner runner(*this, execution);
  const Abandoned abandoned{under_way_, begun_sums_, rank_.reducer};
  for (const Block& block : blocks) {
    if (options_.poisons_dead_values) poison_dead(pass, block);
    const Scope& scope = pass.program.scopes[static_cast<std::size_t>(block.scope)];
    {
      std::optional<ScopedSpan> span;
      // Conversions tell copying from waiting themselves.
      const bool converts = !block.calls.empty() &&
                            pass.program.at(block.calls.front().value).rule->reach == Reach::kGroup;
      if (block.name != nullptr && execution.inside == nullptr && !converts) {
        span.emplace(rank_.trace, block.name, TraceTag{round.epoch, scope.layer, -1, -1},
                     has_directions(scope) ? to_string(scope.direction) : "");
      }
      for (const Call& call : block.calls) {
        if (paging_) paging_->pager->next_call();
        run_call(execution, views, runner, call);
      }
    }
    for (const Value value : block.begins) begin(execution, value, views);
    for (const Value value : block.finishes) finish(pass, value, block.finished_group);
    if (execution.is_backward) begin_sums(block, round);
  }
}

void Network::begin(const Execution& execution, Value value, const RankViews& views) {
  const Program& program = execution.pass.program;
  const Operation& op = program.at(value);
  // Whoever has none of the columns has nobody in its slice who has some.
  std::unique_ptr<PendingExchange> messages =
      op.columns == 0
          ? std::make_unique<NothingPending>()
          : execution.exchange->begin(state_.graph->operator_of(op), views.whole(op.inputs[0]),
                                      channel_of(program, value), execution.round);
  under_way_.push_back({&execution.pass, value, std::move(messages)});
  if (!execution.round.overlap) under_way_.back().messages->finish();
}

void Network::finish(const Pass& pass, Value value, int group) {
  const auto is_it = [&](const UnderWay& messages) {
    return messages.pass == &pass && messages.value == value;
  };
  const auto found = std::ranges::find_if(under_way_, is_it);
  ATOLL_ASSERT(found != under_way_.end(), "no messages for {}", to_string(pass.program, value));
  if (group >= 0) return found->messages->finish_groups(group);
  found->messages->finish();
  under_way_.erase(found);
}

void Network::run_call(const Execution& execution, RankViews& views, Runner& runner,
                       const Call& call) {
  views.set_call(call);
  const Operation& op = views.op();
  if (op.rule->reach == Reach::kBeside) return run_copy(views);
  // An empty slice leaves nothing to compute, but others wait for conversions.
  const bool has_columns = op.rule->has_rows || op.rule->part != Part::kNone;
  const bool is_empty = op.columns == 0 && has_columns && op.rule->reach != Reach::kGroup;
  if (is_empty && rank_.group != nullptr) return;
  rank_.backend.set_request(op.rule->name);
  lower(views, runner);
  rank_.backend.set_request(execution.inside == nullptr ? "" : execution.inside);
}

// Copies begin when what was queued before has run, and what is queued after the operation that
// finishes them waits for them: queues are ordered by events alone, so that a recording holds them.
void Network::run_copy(const RankViews& views) {
  const Operation& op = views.op();
  if (op.is(rules::kFinishStore) || op.is(rules::kFinishFetch)) {
    rank_.backend.wait_for(rank_.queue, *copies_);
    return;
  }
  const bool stores = op.is(rules::kStore);
  MatrixView matrix = views.whole(stores ? op.inputs[0] : views.value());
  matrix.rows = views.rows().copied_by(op);
  const Value stored = stores ? views.value() : op.inputs[0];
  void* const host =
      static_cast<std::byte*>(host_values_.get()) +
      views.layout().host_offsets[static_cast<std::size_t>(stored)] * bytes_of(options_.dtype);
  const std::int64_t bytes = matrix.rows * matrix.stride * bytes_of(matrix.dtype);
  rank_.backend.wait_for(*copies_, rank_.queue);
  rank_.backend.copy(*copies_, stores ? host : matrix.data, stores ? matrix.data : host, bytes,
                     stores ? CopyKind::kDeviceToHost : CopyKind::kHostToDevice);
}

void Network::run_forward(HaloExchange& exchange, const Round& round) {
  const Pass& pass = round.training || shares_forward_ ? training_ : evaluation_;
  const Execution execution{.pass = pass, .round = round, .exchange = &exchange};
  ran_ = &pass;
  if (!has_constants_) {
    if (paging_) paging_->pager->begin(paging_->prologue);
    run_blocks(execution, pass.schedule.prologue);
  }
  has_constants_ = true;
  if (paging_) {
    paging_->pager->begin(&pass == &training_ ? paging_->training : paging_->evaluation);
  }
  run_blocks(execution, std::span(pass.schedule.blocks).first(pass.schedule.forward_blocks));
}

void Network::run_pairs(const PairViews& pairs, const Round& round, Loss* loss) {
  const Pass& pass = loss != nullptr ? training_ : evaluation_;
  const char* const inside = loss != nullptr ? rules::kLoss.name : "";
  state_.pairs = pairs;
  state_.graph->shape.rows.pairs = kernels::length(pairs.first);
  ran_ = &pass;
  run_blocks({.pass = pass, .round = round, .loss = loss, .inside = inside}, pass.schedule.blocks);
}

std::span<const Block> Network::step_blocks() const {
  const std::span<const Block> all = training_.schedule.blocks;
  const auto step = std::ranges::find_if(all, [&](const Block& block) {
    return training_.program.scopes[static_cast<std::size_t>(block.scope)].kind ==
           Scope::Kind::kStep;
  });
  return all.subspan(static_cast<std::size_t>(step - all.begin()));
}

std::span<const Block> Network::backward_blocks() const {
  const std::span<const Block> all = training_.schedule.blocks;
  const std::size_t forward = training_.schedule.forward_blocks;
  return all.subspan(forward, all.size() - forward - step_blocks().size());
}

void Network::run_backward(HaloExchange& exchange, const Round& round, Loss& loss) {
  // Should nobody have asked for the sums of the last time.
  if (begun_sums_ > 0)
    rank_.reducer.finish_sums(part_of_gradients(0, 0), kGradientSum, round.epoch);
  begun_sums_ = 0;
  run_blocks({.pass = training_,
              .round = round,
              .exchange = &exchange,
              .loss = &loss,
              .is_backward = true},
             backward_blocks());
}

void Network::run_step(const Round& round, Optimizer& optimizer) {
  run_blocks({.pass = training_, .round = round, .optimizer = &optimizer}, step_blocks());
}

void Network::run_stage(std::span<const Block> blocks, const Round& round, Loss* loss,
                        Optimizer* optimizer) {
  const Execution execution{
      .pass = training_, .round = round, .loss = loss, .optimizer = optimizer};
  ran_ = &training_;
  if (!has_constants_) run_blocks(execution, training_.schedule.prologue);
  has_constants_ = true;
  run_blocks(execution, blocks);
}

MatrixView Network::rows_of(Value value, RowRange range) const {
  return views_of(training_, Round{}).whole(value).rows_in(range);
}

// All bits set is not a number in every type.
void Network::poison(std::int64_t from_byte, std::int64_t bytes) {
  void* const to = static_cast<std::byte*>(values().data) + from_byte;
  if (rank_.backend.host_accessible()) {
    std::memset(to, 0xFF, static_cast<std::size_t>(bytes));
  } else {
    rank_.backend.copy(rank_.queue, to, poison_.get(), bytes, CopyKind::kHostToDevice);
  }
}

void Network::poison_dead(const Pass& pass, const Block& block) {
  if (block.calls.empty()) return;
  const std::vector<int>& begins = pass.schedule.instants;
  const Call& first = block.calls.front();
  const int now = (first.rows == Rows::kComputed ? pass.schedule.computed_instants
                                                 : begins)[static_cast<std::size_t>(first.value)];
  const auto bytes_of_place = [&](Value v) {
    const Place& place = pass.layout.places[static_cast<std::size_t>(v)];
    const std::int64_t elements = place.elements(pass.program, v);
    return std::pair(place.offset * bytes_of(options_.dtype),
                     (place.offset + elements) * bytes_of(options_.dtype));
  };
  const auto has_place = [&](Value v) {
    return !pass.layout.places[static_cast<std::size_t>(v)].is_nowhere();
  };
  for (Value dead = 0; dead < pass.program.size(); ++dead) {
    if (!has_place(dead) || pass.ends[static_cast<std::size_t>(dead)] >= now) continue;
    const auto [from, to] = bytes_of_place(dead);
    bool overlaps = false;
    for (Value v = 0; v < pass.program.size() && !overlaps; ++v) {
      const bool lives = has_place(v) && begins[static_cast<std::size_t>(v)] <= now &&
                         pass.ends[static_cast<std::size_t>(v)] >= now;
      if (!lives) continue;
      const auto [begin, end] = bytes_of_place(v);
      overlaps = begin < to && from < end;
    }
    if (!overlaps) poison(from, to - from);
  }
}

ConstMatrixView Network::inner_rows_of(Value value) const {
  return views_of(*ran_, Round{}).inner(value);
}

}  // namespace atl
