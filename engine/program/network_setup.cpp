// How a network is made: its programs, the place of their values in memory, and counts of what it
// will do. network.cpp runs it.
#include <algorithm>

#include "engine/program/needed_rows.hpp"
#include "engine/program/network.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

Network::Network(Program training, Program evaluation, const NetworkOptions& options,
                 const Rank& rank, const LocalGraphView& graph, ConstMatrixView features)
    : options_(options), rank_(rank), state_(training, options, rank, graph, features) {
  training_ = prepare(std::move(training));
  evaluation_ = prepare(std::move(evaluation));
  if (!graph.within.empty()) limit_rows(evaluation_.program, evaluation_.schedule);
  ATOLL_ASSERT(training_.layout.kept_elements == evaluation_.layout.kept_elements);
  // An evaluation is asked for its embeddings when it has run; in training they may be gone then.
  const Value embeddings = training_.program.embeddings;
  shares_forward_ =
      options_.trains && same_forward(training_.program, evaluation_.program) &&
      (training_.layout.places[static_cast<std::size_t>(embeddings)].is_nowhere() ||
       training_.ends[static_cast<std::size_t>(embeddings)] >=
           training_.schedule.instants[static_cast<std::size_t>(training_.program.logits)]);
  if (rank.group != nullptr) {
    group_exchange_ = std::make_unique<ColumnExchange>(rank, state_.graph->shape);
  }
  reserve_values();
}

Network::Network(Program training, Program evaluation, const NetworkOptions& options,
                 const Rank& rank, ParameterStore& parameters, std::int64_t inner,
                 const MostPairs& most)
    : options_(options), rank_(rank), state_(options.dtype, rank, parameters, inner) {
  state_.graph->shape.rows.pairs = most.training;
  training_ = prepare(std::move(training));
  state_.graph->shape.rows.pairs = most.evaluation;
  evaluation_ = prepare(std::move(evaluation));
  reserve_values();
}

Network::Network(Network& whole, const Rank& rank)
    : options_{.dtype = whole.options_.dtype,
               .sharing = whole.options_.sharing,
               .poisons_dead_values = whole.options_.poisons_dead_values},
      rank_(rank),
      state_(whole.state_, rank),
      values_(whole.values_),
      values_begin_(whole.evaluation_.layout.kept_elements),
      owns_values_(whole.options_.values_in_file.any()),
      trains_others_(true) {
  if (owns_values_) {
    values_ = std::make_shared<ValueMemory>(options_.dtype);
    values_begin_ = 0;
  }
  training_.program = whole.training_.program;
  training_.schedule = schedule(training_.program, 1);
  training_.ends = last_instants(training_.program, training_.schedule);
  if (rank.group != nullptr) {
    group_exchange_ = std::make_unique<ColumnExchange>(rank, whole.state_.graph->shape);
  }
}

Network::Network(Network& whole, Program training, Schedule places, MarginalGroups chunks,
                 const Rank& rank)
    : options_{.dtype = whole.options_.dtype,
               .sharing = whole.options_.sharing,
               .row_groups = std::move(chunks)},
      rank_(rank),
      state_(whole.state_, rank),
      values_(std::make_shared<ValueMemory>(options_.dtype)),
      trains_others_(true) {
  training_.program = std::move(training);
  training_.schedule = std::move(places);
  training_.ends = last_instants(training_.program, training_.schedule);
}

void Network::reserve_values() {
  values_ = std::make_shared<ValueMemory>(options_.dtype);
  const std::int64_t training = options_.trains ? training_.layout.elements : 0;
  values_->reserve(std::max(training, evaluation_.layout.elements));
}

void Network::reserve(const RankRows& most) {
  training_.layout = atl::allocate(training_.program, training_.schedule, most, options_.sharing);
  values_->reserve(values_begin_ + training_.layout.elements);
}

void Network::enter(const LocalGraphView& graph, ConstMatrixView features) {
  state_.graph.reset();
  state_.graph = std::make_unique<GraphState>(training_.program, options_, rank_, graph, features);
  if (group_exchange_ != nullptr) group_exchange_->enter(state_.graph->shape);
  training_.layout = atl::allocate(training_.program, training_.schedule, state_.graph->shape.rows,
                                   options_.sharing);
  has_constants_ = false;
  const std::int64_t elements = training_.layout.elements;
  if ((values_begin_ + elements) * bytes_of(options_.dtype) <= values_->bytes()) return;
  // Some room for the next one.
  values_ = std::make_shared<ValueMemory>(options_.dtype);
  values_->reserve(elements + elements / 8);
  values_->allocate(rank_.backend);
  values_begin_ = 0;
  owns_values_ = true;
}

MatrixView Network::values() const {
  MatrixView values = values_->view();
  values.data = static_cast<std::byte*>(values.data) + values_begin_ * bytes_of(options_.dtype);
  return values;
}

Network::~Network() = default;

Network::Pass Network::prepare(Program program) const {
  Pass pass;
  pass.schedule = schedule(program, std::max(1, static_cast<int>(state_.graph->groups.size())));
  pass.layout = atl::allocate(program, pass.schedule, state_.graph->shape.rows, options_.sharing);
  pass.ends = last_instants(program, pass.schedule);
  pass.program = std::move(program);
  return pass;
}

std::int64_t Network::value_bytes(const Program& training) const {
  return std::max(prepare(training).layout.elements, evaluation_.layout.elements) *
         bytes_of(options_.dtype);
}

PagingProblem Network::paged(const Pass& pass, std::span<const Block> blocks) const {
  return paging_problem(pass.program, blocks, pass.schedule, pass.layout, bytes_of(options_.dtype),
                        values_->unit(), values_->place_of_features(options_.values_in_file));
}

std::vector<const Network::Pass*> Network::passes() const {
  if (!options_.trains) return {&evaluation_};
  return {&training_, &evaluation_};
}

std::int64_t Network::least_budget() const {
  std::int64_t least = 0;
  for (const Pass* pass : passes()) {
    for (const auto* blocks : {&pass->schedule.prologue, &pass->schedule.blocks}) {
      least = std::max(least, least_paged_bytes(paged(*pass, *blocks)));
    }
  }
  return least;
}

DiskTraffic Network::disk_traffic(std::int64_t budget) const {
  const Pass& pass = *passes().front();
  const PagingPlan plan = plan_paging(paged(pass, pass.schedule.blocks), budget);
  return {plan.written_bytes, plan.read_bytes};
}

void Network::make_file() {
  const ValuesInFile& in_file = options_.values_in_file;
  values_->allocate(in_file);
  paging_ = std::make_unique<Paging>();
  const auto plan = [&](const Pass& pass, const std::vector<Block>& blocks) {
    return plan_paging(paged(pass, blocks), in_file.budget);
  };
  const Pass& first = *passes().front();
  paging_->prologue = plan(first, first.schedule.prologue);
  if (options_.trains) paging_->training = plan(training_, training_.schedule.blocks);
  paging_->evaluation = plan(evaluation_, evaluation_.schedule.blocks);
  paging_->pager =
      values_->make_pager(in_file, training_.layout.kept_elements * bytes_of(options_.dtype));
}

void Network::rest() {
  if (paging_) paging_->pager->rest();
  if (!trains_others_ || !owns_values_ || !rank_.backend.host_accessible()) return;
  values_->rest();
  forget_constants();
}

std::int64_t Network::buffer_bytes(const HaloExchange& training,
                                   const HaloExchange& evaluation) const {
  std::int64_t total = 0;
  const Program& program = training_.program;
  for (Value v = 0; v < program.size(); ++v) {
    const Operation& op = program.at(v);
    if (!op.needs_messages() || is_made_again(program, v)) continue;
    total +=
        training.buffer_bytes(state_.graph->operator_of(op), op.message_columns(), options_.dtype);
  }
  for (const Operation& op : evaluation_.program.operations) {
    // A kept aggregate is exchanged once, and its buffer stays: training's.
    if (!op.needs_messages() || op.constant) continue;
    total += evaluation.buffer_bytes(state_.graph->operator_of(op), op.message_columns(),
                                     options_.dtype);
  }
  return total;
}

std::int64_t Network::activation_bytes() const {
  std::int64_t elements = 0;
  const Program& program = training_.program;
  const int loss = program.forward_end();
  const auto readers = readers_of(program);
  for (Value v = 0; v < loss; ++v) {
    const auto& by = readers[static_cast<std::size_t>(v)];
    const Place& place = training_.layout.places[static_cast<std::size_t>(v)];
    if (by.empty() || by.back() < loss || place.is_nowhere()) continue;
    elements += place.inner * program.row_elements(program.at(v));
  }
  return elements * bytes_of(options_.dtype);
}

void Network::allocate() {
  if (owns_values_ && !paging_) values_->allocate(rank_.backend);
  if (host_bytes() > 0) {
    copies_ = rank_.backend.make_copy_queue();
    host_values_ = allocate_staging(rank_.backend, host_bytes());
  }
  if (options_.poisons_dead_values && !rank_.backend.host_accessible()) {
    poison_ = allocate_staging(rank_.backend, values_->bytes());
    std::memset(poison_.get(), 0xFF, static_cast<std::size_t>(values_->bytes()));
  }
  if (!trains_others_) state_.allocate();
  gradient_sums_ = gradient_sums();
  const DType dtype = state_.parameters.shared_gradients().dtype;
  if (!rank_.reducer.prepare_sums(gradient_sums_.size(), dtype)) gradient_sums_.clear();
}

std::vector<LayerMessages> Network::layer_messages() const {
  std::vector<LayerMessages> layers(training_.program.layers.size());
  for (const Operation& op : training_.program.operations) {
    if (!op.needs_messages()) continue;
    const Scope& scope = training_.program.scopes[static_cast<std::size_t>(op.scope)];
    LayerMessages& layer = layers[static_cast<std::size_t>(scope.layer)];
    const std::int64_t rows = state_.graph->operator_of(op).halo.sent_rows();
    const bool forward = op.messages.direction == Direction::kForward;
    (forward ? layer.forward_rows : layer.backward_rows) = rows;
    if (!op.constant || trains_others_)
      (forward ? layer.forward_columns : layer.backward_columns) += op.message_columns();
  }
  return layers;
}

std::int64_t Network::halo_bytes_per_epoch() const {
  std::int64_t elements = 0;
  for (const LayerMessages& layer : layer_messages()) elements += layer.sent_elements();
  return elements * bytes_of(options_.dtype);
}

std::int64_t Network::group_bytes_per_epoch() const {
  std::int64_t bytes = 0;
  const Program& program = training_.program;
  for (const Operation& op : program.operations) {
    if (op.rule->reach != Reach::kGroup || (op.constant && !trains_others_)) continue;
    const auto columns = ColumnExchange::columns_of(program, op, options_.dtype);
    bytes += op.is(rules::kToRows) ? group_exchange_->bytes_to_rows(columns)
                                   : group_exchange_->bytes_to_columns(columns);
  }
  return bytes;
}

std::int64_t Network::group_buffer_bytes() const {
  std::int64_t most = 0;
  for (const Pass* pass : {&training_, &evaluation_}) {
    for (const Operation& op : pass->program.operations) {
      if (op.rule->reach != Reach::kGroup) continue;
      most = std::max(most, group_exchange_->buffer_bytes(
                                ColumnExchange::columns_of(pass->program, op, options_.dtype)));
    }
  }
  return most;
}

std::vector<Network::GradientSum> Network::gradient_sums() const {
  // Smaller ones would cost more than they hide.
  constexpr std::int64_t kLeastBytes = 16 << 10;
  const Program& program = training_.program;
  const std::vector<Block>& blocks = training_.schedule.blocks;
  const auto loss = std::ranges::find_if(blocks, [&](const Block& block) {
    return std::ranges::any_of(
        block.calls, [&](const Call& call) { return program.at(call.value).is(rules::kLoss); });
  });
  // By parameter: the last block with an operation that may add to its gradient. The loss may have
  // parameters of its own.
  const auto first = static_cast<std::size_t>(loss - blocks.begin());
  std::vector<std::size_t> last(program.parameters.size(), first);
  for (std::size_t b = first; b < blocks.size(); ++b) {
    for (const Call& call : blocks[b].calls) {
      const Operation& op = program.at(call.value);
      for (const int parameter : {op.parameter, op.second_parameter}) {
        if (parameter >= 0) last[static_cast<std::size_t>(parameter)] = b;
      }
    }
  }
  for (const DeclaredParameter& parameter : program.parameters) {
    if (!parameter.composition.present()) continue;
    // These get theirs from that of the weight that they make, when all else is done.
    last[static_cast<std::size_t>(parameter.composition.bases)] = blocks.size();
    last[static_cast<std::size_t>(parameter.composition.coefficients)] = blocks.size();
  }
  std::vector<GradientSum> sums;
  std::int64_t end = state_.parameters.shared_size();
  for (std::size_t b = first; b < blocks.size(); ++b) {
    std::int64_t begin = end;
    for (std::size_t p = last.size(); p-- > 0 && last[p] <= b;) {
      const DeclaredParameter& declared = program.parameters[p];
      if (declared.composition.present() || declared.per_node) continue;
      begin = std::min(begin, state_.parameters.offset(static_cast<int>(p)));
    }
    // The gradients that are final last are summed then.
    const bool is_last = begin == 0;
    if (is_last || (end - begin) * bytes_of(DType::kF32) < kLeastBytes) continue;
    sums.push_back({b, begin, end});
    end = begin;
  }
  return sums;
}

}  // namespace atl
