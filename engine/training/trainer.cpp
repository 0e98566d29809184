#include "engine/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/log.hpp"
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

}  // namespace

Trainer::Trainer(const TrainOptions& options, const RankData& data, Backend& backend, Queue& queue,
                 Transport& transport, DeviceTransport* device)
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
            .seed = options.seed},
      state_(backend, 1),
      host_state_(allocate_staging(backend, sizeof(EpochState))),
      counts_(backend, kMetricCounts),
      overlap_(options.overlap),
      exchange_(make_exchange({options.exchange, calibrated_widths(options, transport.size())})),
      eval_exchange_(make_exchange({})),
      model_(options.model.sized(data.dataset().features, data.outputs(), transport.size())),
      network_(model_program(model_, Pass::kTraining), model_program(model_, Pass::kEvaluation),
               {.dtype = model_.dtype, .recomputation = model_.recomputation}, rank_, data.graph(),
               data.features()),
      loss_(backend, data.targets(), data.training_total()),
      optimizer_(options.optimizer, network_.parameters()) {
  exchange_->keep_alive(network_.memory());
  eval_exchange_->keep_alive(network_.memory());
  trace_.use_clock(clock_.get());
}

void Trainer::swap_exchange(std::unique_ptr<HaloExchange>& exchange, bool overlap) {
  std::swap(exchange_, exchange);
  exchange_->keep_alive(network_.memory());
  overlap_ = overlap;
  forward_is_done_ = false;
  recording_.reset();
}

std::int64_t Trainer::bytes_needed() const {
  std::int64_t total = network_.bytes();
  const auto add = [&](const Program& program, const HaloExchange& exchange) {
    for (const Operation& op : program.operations) {
      if (!op.needs_messages()) continue;
      // A kept aggregate is exchanged once, and its buffer stays.
      if (op.constant && &exchange == eval_exchange_.get()) continue;
      total += exchange.buffer_bytes(network_.operator_of(op), op.columns, model_.dtype);
    }
  };
  add(network_.training(), *exchange_);
  add(network_.evaluation(), *eval_exchange_);
  return total;
}

std::int64_t Trainer::bytes_held() const {
  const LocalGraphView& graph = data_.graph();
  const auto matrix_bytes = [](const LocalMatrixView& matrix) {
    return static_cast<std::int64_t>(matrix.csr.row_ptr.size_bytes() +
                                     matrix.csr.col_idx.size_bytes() +
                                     matrix.csr.values.size_bytes());
  };
  const ConstMatrixView features = data_.features();
  return features.rows * features.cols * bytes_of(features.dtype) + network_.activation_bytes() +
         matrix_bytes(graph.forward) + (graph.symmetric ? 0 : matrix_bytes(graph.backward));
}

void Trainer::allocate() { network_.allocate(); }

Round Trainer::round(int epoch, bool training) {
  return {.epoch = epoch, .training = training, .overlap = overlap_, .state = state_.span().data()};
}

std::int64_t Trainer::bytes_sent() const {
  return rank_.transport.bytes_sent() + (rank_.device != nullptr ? rank_.device->bytes_sent() : 0);
}

void Trainer::queue_epoch(int epoch) {
  const Round round = this->round(epoch, /*training=*/true);
  if (!forward_is_done_) network_.run_forward(*exchange_, round);
  network_.run_backward(*exchange_, round, loss_);
  network_.run_step(round, optimizer_);
}

std::unique_ptr<Recording> Trainer::record_epoch(int epoch) {
  try {
    return rank_.backend.record(rank_.queue, [&] { queue_epoch(epoch); });
  } catch (const Error& error) {
    // A recording is a matter of speed: unless it was asked for, the run goes on without.
    if (options_.cuda_graph == GraphReplay::kOn || error.kind() != ErrorKind::kDevice) throw;
    log::warn("epochs are queued one by one, not replayed: {}", error.what());
    return nullptr;
  }
}

bool Trainer::replay_epoch(int epoch) {
  // The first epoch caches what is constant and the second sizes what grows on demand: from the
  // third on, epochs are the same but for EpochState. A trace needs the spans of each.
  constexpr int kEpochsBefore = 2;
  const bool wanted = options_.cuda_graph == GraphReplay::kOn ||
                      (options_.cuda_graph == GraphReplay::kAuto && rank_.transport.size() == 1);
  const bool possible =
      rank_.transport.size() == 1 || (rank_.device != nullptr && exchange_->repeats());
  if (!wanted || !possible || recording_refused_ || options_.trace || profiling_) return false;
  if (epochs_run_ < kEpochsBefore) return false;
  if (recording_ == nullptr) {
    const std::int64_t before = bytes_sent();
    trace_.use_clock(nullptr);
    forward_is_done_ = false;  // a recording has whole epochs
    recording_ = record_epoch(epoch);
    trace_.clear();
    if (recording_ == nullptr) {
      trace_.use_clock(clock_.get());
      recording_refused_ = true;
      return false;
    }
    recorded_bytes_ = bytes_sent() - before;
  } else if (rank_.device != nullptr) {
    rank_.device->add_bytes_sent(recorded_bytes_);
  }
  rank_.backend.replay(rank_.queue, *recording_);
  return true;
}

EpochResult Trainer::run_epoch(int epoch, const std::function<EpochWishes()>& wishes) {
  // The first epoch reads mapped files, whose disks may be slower than the timeout allows.
  std::optional<HeartbeatScope> scope;
  if (epochs_run_ == 0) scope.emplace(rank_.transport, OperationLabel{"first epoch"});
  trace_.clear();
  const std::int64_t bytes_before = bytes_sent();
  const double start_us = trace_.now_us();
  *static_cast<EpochState*>(host_state_.get()) = optimizer_.state_of(epoch);
  rank_.backend.copy(rank_.queue, state_.span().data(), host_state_.get(), sizeof(EpochState),
                     CopyKind::kHostToDevice);
  if (!replay_epoch(epoch)) queue_epoch(epoch);
  forward_is_done_ = false;
  rank_.reducer.synchronize();
  ++epochs_run_;

  EpochResult result;
  result.epoch = epoch;
  trace_.resolve();
  result.exchange = exchange_->end_epoch(round(epoch, /*training=*/true));
  result.epoch_ms = (trace_.now_us() - start_us) / 1000;
  record_whole("epoch", epoch, start_us);
  result.bytes_sent = bytes_sent() - bytes_before;
  result.loss = loss_.local_sum();
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
  if (rank_.transport.size() > 1 && replays() && !profiling_) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double sum = 0;
  for (const char* phase : {"wait", "all-reduce"}) {
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
  std::vector<double> shared(3 + 2 * size, 0.0);
  const std::span<double> times = std::span(shared).subspan(3, size);
  const std::span<double> wishes = std::span(shared).subspan(3 + size, size);
  shared[0] = static_cast<double>(result.bytes_sent);
  shared[1] = result.exposed_comm_ms;
  shared[2] = result.loss;
  times[rank] = result.epoch_ms;
  wishes[rank] = as_number(result.wishes);
  rank_.transport.all_reduce(std::span(shared), {"epoch report", "", -1, result.epoch});
  result.bytes_sent = static_cast<std::int64_t>(shared[0]);
  result.exposed_comm_ms = shared[1] / static_cast<double>(size);
  result.loss = shared[2] / loss_.total();
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

void Trainer::require_finite_parameters(int epoch) {
  ParameterStore& parameters = network_.parameters();
  const std::vector<float> values = download_f32(rank_.backend, rank_.queue, parameters.values());
  for (const Parameter& p : parameters.list()) {
    for (std::int64_t i = p.offset; i < p.offset + p.rows * p.cols; ++i) {
      if (std::isfinite(values[static_cast<std::size_t>(i)])) continue;
      fail_input("epoch {}: {} became {}; lower --lr, or check the features for huge values", epoch,
                 p.name, values[static_cast<std::size_t>(i)]);
    }
  }
}

ConstMatrixView Trainer::queue_evaluation(int epoch) {
  network_.run_forward(*eval_exchange_, round(epoch, /*training=*/false));
  return network_.logits();
}

Metrics Trainer::evaluate(int epoch) {
  trace_.clear();
  const double start_us = trace_.now_us();
  const ConstMatrixView logits = queue_evaluation(epoch);
  const Metrics metrics = compute_metrics(rank_, epoch, data_, logits, counts_);
  forward_is_done_ = network_.trains_as_it_evaluates() && exchange_->is_exact();
  trace_.resolve();
  record_whole("evaluation", epoch, start_us);
  keep_spans();
  return metrics;
}

}  // namespace atl
