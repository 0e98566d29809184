#include "engine/training/trainer.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/exchange/group_report.hpp"
#include "engine/training/calibration.hpp"

namespace atl {

namespace {

// Wishes as one number, for the sum that carries the results of an epoch.
constexpr int kSignals = 256;
double as_number(const EpochWishes& wishes) {
  return wishes.signal + (wishes.checkpoint ? kSignals : 0) +
         (wishes.time_is_up ? 2 * kSignals : 0);
}

void add_wishes(double number, EpochWishes& wishes) {
  const int bits = static_cast<int>(number);
  wishes.signal = std::max(wishes.signal, bits % kSignals);
  wishes.checkpoint = wishes.checkpoint || (bits & kSignals) != 0;
  wishes.time_is_up = wishes.time_is_up || (bits & 2 * kSignals) != 0;
}

// Columns of logits; of links, of embeddings.
std::int64_t outputs_of(const TrainOptions& options, const RankData& data) {
  if (data.outputs() > 0) return data.outputs();
  return data.links() != nullptr ? options.model.hidden : 0;
}

ValuesInFile values_in_file(const ModelConfig& model, const RankData& data) {
  ValuesInFile in_file{.features = data.mapped_features()};
  if (model.paged_budget > 0) {
    in_file.folder = model.offload_folder;
    in_file.budget = model.paged_budget;
  }
  return in_file;
}

}  // namespace

DataSizes sizes_of(const DatasetInfo& info, std::int64_t outputs) {
  return {.features = info.features,
          .outputs = outputs,
          .relations = info.relations,
          .edge_features = info.edge_features,
          .node_types = info.node_types,
          .features_by_type = info.features_by_type,
          .nodes = info.nodes};
}

Trainer::Trainer(const TrainOptions& options, const RankData& data, Backend& backend, Queue& queue,
                 Transport& transport, DeviceTransport* device, const PartGroup* group)
    : options_(options),
      data_(data),
      trace_(transport.rank()),
      clock_(backend.make_clock(queue)),
      reducer_(backend, queue, transport, device, trace_, options.gradient_sum),
      rank_{.backend = backend,
            .queue = queue,
            .transport = transport,
            .device = device,
            .trace = trace_,
            .reducer = reducer_,
            .inner_ids = data.inner_ids(),
            .nodes = data.dataset().nodes,
            .seed = options.seed,
            .group = group},
      slice_rank_(rank_.in_slice(data.part_ids())),
      counts_(backend, kMetricCounts),
      overlap_(options.overlap),
      exchange_(make_exchange(options.local_until.any()
                                  ? options.first_exchange_options()
                                  : calibrated_exchange(options, slice_rank_.transport.size()))),
      later_exchange_(options.local_until.any() ? make_exchange(calibrated_exchange(
                                                      options, slice_rank_.transport.size()))
                                                : nullptr),
      eval_exchange_(make_exact_exchange(slice_rank_)),
      model_(options.model.sized(sizes_of(data.dataset(), outputs_of(options, data)),
                                 transport.size())),
      network_(
          model_program(model_, Pass::kTraining), model_program(model_, Pass::kEvaluation),
          {.dtype = model_.dtype,
           .recomputation = model_.recomputation,
           .covers_messages = covers_messages(model_, model_program(model_, Pass::kTraining)),
           .arrival = options.arrival,
           .trains = !data.is_predicted() && data.graph().within.empty() && !options.stages.any() &&
                     (data.dealing() == nullptr || !options.trains_on_blocks_alone()),
           .values_in_file = values_in_file(model_, data)},
          rank_, data.graph(), data.features()),
      metric_(chosen_metric(options.loss, data.dataset().task)),
      loss_(make_loss()),
      optimizer_(options.optimizer, network_.parameters(), backend),
      runner_(rank_, network_, *loss_, optimizer_, options.cuda_graph),
      last_before_switch_(options.first_phase_end().epoch) {
  if (const std::string first = options.first_exchange_options().mode;
      exchange_mode(first).sent == MessagesSent::kNone && model_.recomputation.any()) {
    fail_option("{}: ranks that compute rows of others (--recompute) need messages",
                is_local() ? options.first_phase_option() : "--exchange " + first);
  }
  exchange_->keep_alive(network_.memory());
  eval_exchange_->keep_alive(network_.memory());
  if (data.dealing() != nullptr) {
    blocks_ = std::make_unique<BlockTraining>(options, data, rank_, network_, optimizer_);
  }
  if (options.stages.any() && !data.is_predicted()) {
    stages_ = std::make_unique<StageTraining>(options, model_, data.of_part(), rank_, network_,
                                              optimizer_);
  }
  trace_.use_clock(clock_.get());
}

std::unique_ptr<Loss> Trainer::make_loss() {
  if (data_.links() == nullptr) {
    const double total = data_.loss_total(Split::kTrain);
    if (data_.node_weights().empty()) {
      return std::make_unique<Loss>(rank_.backend, data_.targets(), total);
    }
    return std::make_unique<NodeWeightedLoss>(rank_, data_.targets(), total, data_.node_weights(),
                                              data_.outputs(), model_.dtype);
  }
  auto links = std::make_unique<LinkTask>(rank_, *data_.links(), options_.loss.links, data_.rows(),
                                          metric_, model_, network_.parameters());
  links_ = links.get();
  return links;
}

void Trainer::swap_exchange(std::unique_ptr<HaloExchange>& exchange, bool overlap) {
  std::swap(exchange_, exchange);
  exchange_->keep_alive(network_.memory());
  overlap_ = overlap;
  runner_.set_forward_done(false);
  runner_.forget_recording();
}

void Trainer::enter_epoch(int epoch) {
  if (!has_switched(epoch)) return;
  if (options_.switching.rate_after > 0 && !rate_is_set_) {
    optimizer_.set_learning_rate(options_.switching.rate_after);
  }
  if (!is_local()) return;
  swap_exchange(later_exchange_, overlap_);
  later_exchange_.reset();
}

std::int64_t Trainer::buffer_bytes() const {
  const auto bytes = [&](const HaloExchange& exchange) {
    return network_.buffer_bytes(exchange, *eval_exchange_);
  };
  const std::int64_t of_messages =
      is_local() ? std::max(bytes(*exchange_), bytes(*later_exchange_)) : bytes(*exchange_);
  return of_messages + network_.group_buffer_bytes();
}

Round Trainer::round(int epoch, bool training) {
  return {.epoch = epoch, .training = training, .overlap = overlap_, .state = runner_.state()};
}

EpochResult Trainer::run_whole_graph(int epoch) {
  const Round round = this->round(epoch, /*training=*/true);
  // Who looks at a trace or a profile needs the spans of each epoch.
  const bool may_replay = !options_.trace && !profiling_;
  if (may_replay) runner_.prepare_replay(*exchange_, round);
  trace_.clear();
  const std::int64_t bytes_before = rank_.bytes_sent();
  const std::int64_t step = counts_steps() ? ++steps_ : epoch;
  runner_.run(*exchange_, round, step, may_replay);
  rank_.reducer.synchronize();

  EpochResult result;
  result.epoch = epoch;
  result.replayed = may_replay && replays();
  trace_.resolve();
  result.exchange = exchange_->end_epoch(round);
  if (rank_.group != nullptr && !exchange_->is_exact()) {
    result.exchange = report_of_group(result.exchange, rank_.group->members());
  }
  if (is_local()) result.exchange.reset();  // nothing travels
  if (exchange_->settled_epochs(epoch) == 1) runner_.forget_recording();
  result.bytes_sent = rank_.bytes_sent() - bytes_before;
  result.loss = loss_->local_sum();
  return result;
}

EpochResult Trainer::run_blocks(int epoch) {
  runner_.set_forward_done(false);  // the memory of the whole graph's values is used
  network_.rest();
  trace_.clear();
  EpochResult result;
  result.epoch = epoch;
  const std::int64_t bytes_before = rank_.bytes_sent();
  const bool goes_on = epoch != options_.optimizer.epochs && !has_switched(epoch + 1);
  const BlockEpoch trained = blocks_->run_epoch(epoch, goes_on, overlap_, steps_);
  trace_.resolve();
  result.bytes_sent = rank_.bytes_sent() - bytes_before;
  result.loss = trained.loss;
  result.blocks = BlockRecord{.steps = trained.steps, .edges = trained.edges};
  return result;
}

EpochResult Trainer::run_stages(int epoch) {
  runner_.set_forward_done(false);
  trace_.clear();
  EpochResult result;
  result.epoch = epoch;
  const std::int64_t bytes_before = rank_.bytes_sent();
  result.loss = stages_->run_epoch(epoch, overlap_, counts_steps() ? ++steps_ : epoch);
  if (options_.may_checkpoint_by_time(epoch)) stages_->forget_rows();
  trace_.resolve();
  result.bytes_sent = rank_.bytes_sent() - bytes_before;
  return result;
}

EpochResult Trainer::run_epoch(int epoch, const std::function<EpochWishes()>& wishes) {
  // The first epoch reads mapped files, whose disks may be slower than the timeout allows.
  std::optional<HeartbeatScope> scope;
  if (epochs_run() == 0) scope.emplace(rank_.transport, OperationLabel{"first epoch"});
  const double start_us = trace_.now_us();
  enter_epoch(epoch);
  const bool on_blocks = blocks_ != nullptr && !has_switched(epoch);
  EpochResult result = on_blocks            ? run_blocks(epoch)
                       : stages_ != nullptr ? run_stages(epoch)
                                            : run_whole_graph(epoch);
  result.epoch_ms = (trace_.now_us() - start_us) / 1000;
  record_whole("epoch", epoch, start_us);
  if (wishes) result.wishes = wishes();
  share_result(result);
  return result;
}

EpochResult Trainer::profile_epoch(int epoch, EpochProfile& profile) {
  TraceRecorder recorder(rank_.transport.rank(), trace_.origin());
  recorder.use_clock(clock_.get());
  trace_.use_clock(clock_.get());
  struct Profiling {
    Trainer& trainer;
    Profiling(Trainer& owner, TraceRecorder& into) : trainer(owner) {
      trainer.profiling_ = true;
      trainer.rank_.backend.profile_into(&into, &trainer.rank_.queue);
    }
    ~Profiling() {
      trainer.rank_.backend.profile_into(nullptr, nullptr);
      trainer.profiling_ = false;
    }
  };
  EpochResult result;
  {
    const Profiling profiling(*this, recorder);
    result = run_epoch(epoch);
  }
  recorder.share_clock(trace_);
  recorder.resolve();
  profile.add(result.epoch_ms, recorder.spans(), trace_.spans());
  return result;
}

double Trainer::exposed_ms(const EpochResult& result) const {
  if (rank_.transport.size() > 1 && result.replayed) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double sum = 0;
  for (const char* phase : {"wait", "all-reduce", "to columns", "to rows"}) {
    const auto found = result.phase_ms.find(phase);
    if (found != result.phase_ms.end()) sum += found->second;
  }
  return sum;
}

void Trainer::share_result(EpochResult& result) {
  for (const TraceSpan& span : trace_.spans()) {
    if (span.is_own_time()) result.phase_ms[span.name] += span.duration_us / 1000;
  }
  keep_spans();
  result.exposed_comm_ms = exposed_ms(result);
  // One small sum carries what is summed and, in a slot per rank, what is compared.
  const auto size = static_cast<std::size_t>(rank_.transport.size());
  const auto rank = static_cast<std::size_t>(rank_.transport.rank());
  constexpr std::size_t kSums = 4;
  std::vector<double> shared(kSums + 2 * size, 0.0);
  const std::span<double> times = std::span(shared).subspan(kSums, size);
  const std::span<double> wishes = std::span(shared).subspan(kSums + size, size);
  shared[0] = static_cast<double>(result.bytes_sent);
  shared[1] = result.exposed_comm_ms;
  shared[2] = result.loss;
  shared[3] = result.blocks ? static_cast<double>(result.blocks->edges) : 0;
  times[rank] = result.epoch_ms;
  wishes[rank] = as_number(result.wishes);
  rank_.transport.all_reduce(std::span(shared), {"epoch report", "", -1, result.epoch});
  result.bytes_sent = static_cast<std::int64_t>(shared[0]);
  result.exposed_comm_ms = shared[1] / static_cast<double>(size);
  result.loss = shared[2] / loss_->total();
  if (result.blocks) {
    const std::int64_t all = std::max<std::int64_t>(data_.dataset().edges, 1);
    result.blocks->edges = static_cast<std::int64_t>(shared[3]);
    result.blocks->edges_kept = shared[3] / static_cast<double>(all);
  }
  result.epoch_ms = *std::ranges::max_element(times);
  for (const double wish : wishes) add_wishes(wish, result.wishes);
}

void Trainer::record_whole(const char* name, int epoch, double start_us) {
  TraceSpan span;
  span.name = name;
  span.start_us = start_us;
  span.duration_us = trace_.now_us() - start_us;
  span.tag.epoch = epoch;
  span.lane = kEpochLane;
  trace_.record(span);
}

void Trainer::keep_spans() {
  if (!options_.trace) return;
  kept_spans_.insert(kept_spans_.end(), trace_.spans().begin(), trace_.spans().end());
}

ConstMatrixView Trainer::queue_evaluation(int epoch) {
  if (trains_on_blocks_alone()) blocks_->rest(/*features=*/network_.pages());
  network_.run_forward(*eval_exchange_, round(epoch, /*training=*/false));
  return network_.logits();
}

Metrics Trainer::measure(int epoch, ConstMatrixView logits, MetricExtent extent) {
  if (links_ != nullptr) return links_->evaluate(epoch, logits);
  return compute_metrics(rank_, epoch, data_, logits, counts_, metric_, extent);
}

std::string Trainer::undefined_reason(Split split, Metric metric) const {
  if (links_ == nullptr) return atl::undefined_reason(data_, split, metric);
  const std::int64_t edges = data_.links()->sets[static_cast<std::size_t>(split)].total;
  if (split == Split::kTrain) return "training edges are not ranked";
  return edges > 0 ? "" : "it has no edge";
}

SafetensorsFile Trainer::state(bool optimizer, StateOf whole) {
  if (!optimizer) {
    const AveragedWeights shown = averaged_weights();
    return network_state(network_, rank_, nullptr, whole);
  }
  SafetensorsFile file = network_state(network_, rank_, &optimizer_, whole);
  // A run that goes on from it doesn't have what stages keep: neither does this one, from here on.
  if (stages_ != nullptr) stages_->forget_rows();
  if (counts_steps()) add_steps(file, steps_);
  return file;
}

void Trainer::load_state(const SafetensorsFile& file, bool optimizer, const std::string& place) {
  runner_.set_forward_done(false);
  if (stages_ != nullptr) stages_->forget_rows();
  load_network_state(network_, rank_, file, optimizer ? &optimizer_ : nullptr, place);
  if (counts_steps()) steps_ = optimizer ? steps_of(file, place) : 0;
}

Metrics Trainer::evaluate(int epoch, MetricExtent extent) {
  trace_.clear();
  const double start_us = trace_.now_us();
  const AveragedWeights shown = averaged_weights();
  const ConstMatrixView logits = queue_evaluation(epoch);
  const bool goes_on = network_.trains_as_it_evaluates() && exchange_->is_exact() &&
                       !averages_weights() && extent == MetricExtent::kChosen;
  // Metrics take memory, too, some of them much of it.
  if (!goes_on) network_.rest();
  const bool has_loss = links_ == nullptr && data_.labelled();
  if (has_loss) {
    if (valid_loss_ == nullptr) {
      valid_loss_ = std::make_unique<EvaluationLoss>(rank_, data_, Split::kValid, logits.dtype);
    }
    valid_loss_->queue(logits);  // measure() waits for both
  }
  Metrics metrics = measure(epoch, logits, extent);
  if (has_loss) metrics.valid_loss = valid_loss_->result(epoch);
  runner_.set_forward_done(goes_on);
  trace_.resolve();
  record_whole("evaluation", epoch, start_us);
  keep_spans();
  return metrics;
}

}  // namespace atl
