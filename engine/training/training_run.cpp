#include "engine/training/training_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/elapsed.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "base/memory.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/models/model_options.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/calibration.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/judge.hpp"
#include "engine/training/message_record.hpp"
#include "engine/training/option_table.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/progress.hpp"
#include "engine/training/pyg_tensors.hpp"
#include "engine/training/rank_files.hpp"
#include "engine/training/run_trace.hpp"
#include "engine/training/warm_start.hpp"

namespace atl {

namespace {

using Clock = std::chrono::steady_clock;

// Names may hold bytes that are not UTF-8.
constexpr auto kReplace = Json::error_handler_t::replace;

constexpr const char* kGroupRanks = "group-ranks";
constexpr const char* kMaxTime = "--max-time";
constexpr const char* kDivergence = "divergence";

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The phase after the switch, in words.
std::string later_phase(const TrainOptions& options) {
  std::vector<std::string> parts;
  if (options.blocks.any()) parts.emplace_back("on the whole graph");
  if (options.local_until.any()) parts.push_back("with messages, --exchange " + options.exchange);
  return fmt::format("{}", fmt::join(parts, " "));
}

// The signal in `stopped_by` of a summary; 0 if there is none.
int signal_of(const Json& stopped_by) {
  for (const int signal : kStopSignals) {
    if (stopped_by == signal_name(signal)) return signal;
  }
  return 0;
}

class Run {
 public:
  Run(const TrainOptions& options, const RunDescription& description, RankJob& job,
      Transport& transport, RunFolder& folder)
      : options_(options),
        description_(description),
        job_(job),
        transport_(transport),
        folder_(folder),
        fingerprint_(fingerprint(options, job.data().dataset())),
        judge_(trainer(), /*has_loss=*/job.data().loss_total(Split::kValid) > 0),
        stop_request_(description.asked_to_end) {
    // The contents of a file, wherever it lies: a resumed run has the same loss.
    if (!options.loss.class_weights.empty() && options.loss.class_weights != kBalancedWeights) {
      fingerprint_["class-weights"] = data().host_class_weights();
    }
  }

  Json execute() {
    if (transport_.rank() == 0) warn_of_mixed_columns();
    if (options_.first_phase_end().by_accuracy && !judge_.reason().empty()) {
      fail_option("{}: {}; allowed is the number of an epoch", options_.first_phase_option(),
                  judge_.undefined());
    }
    if (options_.target.score && !judge_.reason().empty()) {
      fail_option("--target {}: {}; allowed is none", to_string(options_.target),
                  judge_.undefined());
    }
    if (options_.target.score && *options_.target.score > 1 && is_at_most_one(trainer().metric())) {
      fail_option(
          "--target {}: {} is at most 1, so no epoch reaches that; allowed are scores up to 1 "
          "(0.75 is 75 percent), and none",
          to_string(options_.target), shown_name(trainer().metric()));
    }
    // `host` and `all` are other numbers on other hosts.
    if (fingerprint_.contains(kGroupRanks)) {
      fingerprint_[kGroupRanks] = to_string(GroupRanks{.number = job_.map().ranks_per_part()});
    }
    if (!options_.warm_start.empty()) {
      fingerprint_[kWarmStart] = warm_start_checksum(options_.warm_start, transport_);
    }
    const int start = resume();
    const Json late_metrics = evaluate_late();
    on_all_ranks(transport_, [&] {
      folder_.begin(description_.config, start, last_line_, late_metrics);
      if (!description_.model_file.empty()) {
        folder_.write(kModelFileName, description_.model_file);
      }
    });
    recall(folder_.earlier_epochs());
    if (!judge_.reason().empty() && transport_.rank() == 0) log::warn("{}", judge_.warning());
    const int last = options_.optimizer.epochs;
    {
      Progress progress(start + 1, last, shown_name(trainer().metric()), transport_.rank() == 0);
      for (int epoch = start + 1; epoch <= last && !stopped_early() && stopped_by_.is_null();
           ++epoch) {
        one_epoch(epoch, progress);
      }
    }
    if (best_.epoch == 0) {  // nothing was evaluated yet
      const Metrics metrics = ended_by_signal() ? Metrics() : trainer().evaluate(done_);
      best_ = {done_, metrics, 0, trainer().state(false, who_has_state())};
    }
    on_all_ranks(transport_, [&] { write_model(); });
    Json summary = make_summary();
    if (has_diverged() && transport_.rank() == 0) {
      log::warn(
          "the run has diverged: the loss is {:.4g} after epoch {}, {:.4g} after the first; lower "
          "--lr, or check the features for huge values (atoll info --validate)",
          loss_, done_, first_loss_);
    }
    const bool complete = !ended_by_signal();
    if (complete) add_all_metrics(summary);
    // The weights are those of the best epoch now.
    if (complete && !options_.sequence.empty()) {
      summary["sequence"] = sequence_json(job_, options_.sequence, best_.epoch);
    }
    on_all_ranks(transport_, [&] {
      if (complete) folder_.write(kSummaryName, readable_json(summary) + "\n");
    });
    if (options_.trace && done_ > start) {
      write_trace(job_, options_, messages_, transport_, folder_);
    }
    // Their contents are on the disk now.
    if (Snapshots* const snapshots = folder_.snapshots(); snapshots != nullptr) snapshots->remove();
    return summary;
  }

 private:
  void warn_of_mixed_columns() const {
    const std::vector<std::int64_t>& widths = data().dataset().features_by_type;
    if (widths.empty() || reads(trainer().model(), GraphData::kNodeTypes)) return;
    log::warn(
        "types of nodes have {} features, but this model has the same weights for all types; see "
        "--input-layer typed",
        fmt::join(widths, ", "));
  }

  // Epochs that are done already. Rank 0 reads the checkpoint for all.
  int resume() {
    if (!options_.resume) {
      if (!options_.warm_start.empty()) {
        load_warm_start(trainer(), options_.warm_start, transport_);
      }
      on_all_ranks(transport_, [&] {
        if (!options_.warm_start.empty() && transport_.rank() == 0) {
          say_warm_start(trainer(), options_.warm_start);
        }
        take_initial_weights();
      });
      return 0;
    }
    std::string place;
    const bool from_snapshot = folder_.resumes_from_snapshot();
    const std::string bytes =
        from_snapshot ? folder_.snapshots()->read_state(place) : read_checkpoint(place);
    Checkpoint checkpoint;
    on_all_ranks(transport_, [&] {
      checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), place, fingerprint_);
    });
    if (checkpoint.last_before_switch > 0) {
      trainer().set_last_before_switch(checkpoint.last_before_switch);
    }
    if (checkpoint.learning_rate) job_.set_learning_rate(*checkpoint.learning_rate);
    // Runs of earlier versions added up all ranks at once.
    if (checkpoint.ranks == 0 || checkpoint.ranks == transport_.size()) {
      job_.keep_gradient_sum(checkpoint.gradient_sum);
    }
    job_.enter_epoch(checkpoint.epoch);
    on_all_ranks(transport_, [&] {
      trainer().load_state(checkpoint.state, /*optimizer=*/true, place);
      if (from_snapshot) {
        load_exchange_snapshot(place);
      } else {
        trainer().load_exchange_state(checkpoint.state, place);
      }
    });
    if (!from_snapshot && !checkpoint.rank_files.empty()) {
      load_rank_files(transport_, trainer().exchange(), options_.run_dir, checkpoint.epoch,
                      checkpoint.rank_files);
    }
    best_ = std::move(checkpoint.best);
    last_line_ = std::move(checkpoint.line);
    evaluation_is_due_ = checkpoint.evaluation_is_due;
    done_ = checkpoint.epoch;
    if (done_ > options_.optimizer.epochs) {
      fail_option("--epochs {}: the run has {} epochs already; allowed are {} or more",
                  options_.optimizer.epochs, done_, done_);
    }
    if (done_ == options_.optimizer.epochs && !is_due_by_number(done_)) evaluation_is_due_ = true;
    if (transport_.rank() == 0) log::info("resuming after epoch {}", done_);
    return done_;
  }

  // The evaluation after the resumed epoch, if the signal that ended the run came before it; what
  // it adds to the epoch's line.
  Json evaluate_late() {
    if (!evaluation_is_due_) return Json::object();
    evaluation_is_due_ = false;
    Json fields = to_json(evaluate(done_));
    if (trainer().last_before_switch() == done_) {
      fields[kLastBeforeSwitch] = true;
      log_switch();
    }
    return fields;
  }

  // The bytes of the newest one, on all ranks.
  std::string read_checkpoint(std::string& place) {
    std::string bytes;
    on_all_ranks(transport_, [&] {
      if (!folder_.active()) return;
      place = folder_.checkpoint().string();
      bytes = read_text(place);
    });
    share_text(transport_, place, {"name of the checkpoint"});
    share_text(transport_, bytes, {"checkpoint"});
    return bytes;
  }

  void load_exchange_snapshot(const std::string& place) {
    if (folder_.snapshots()->found()->exchange) {
      trainer().exchange().load_state(folder_.snapshots()->read_exchange(), place);
    } else if (!trainer().exchange().state().empty() && transport_.rank() == 0) {
      log::warn(
          "{}: not all ranks have kept the state of their messages; the exchange mode starts "
          "anew",
          place);
    }
  }

  void take_initial_weights() {
    if (options_.init.empty()) return;
    const std::string place = options_.init.string();
    const SafetensorsFile file = read_safetensors(options_.init);
    const SafetensorsFile weights = initial_weights(file, trainer().model(), place);
    trainer().load_state(weights, /*optimizer=*/false, place);
    if (transport_.rank() == 0) log::info("starting with the weights of {}", place);
  }

  // The figures of epochs that an interrupted run has left: all of them on the rank that has its
  // folder, and the losses on every rank, which all judge by them.
  void recall(const std::vector<Json>& lines) {
    for (const Json& line : lines) {
      const auto number = [&](const char* field) {
        return optional_number(line, field, "metrics.jsonl").value_or(kUnknown);
      };
      loss_ = number("loss");
      if (!std::isfinite(first_loss_)) first_loss_ = loss_;
      exposed_ms_.push_back(number("exposed_comm_ms"));
      if (const double ms = number("epoch_ms"); std::isfinite(ms)) epoch_ms_.push_back(ms);
      if (const double bytes = number("bytes_sent"); std::isfinite(bytes)) bytes_.push_back(bytes);
      messages_.add(line.value("assignment", Json()));
    }
    double losses[] = {loss_, first_loss_};
    transport_.broadcast(std::as_writable_bytes(std::span(losses)), 0,
                         {"losses of earlier epochs"});
    loss_ = losses[0];
    first_loss_ = losses[1];
  }

  bool ended_by_signal() const { return signal_of(stopped_by_) != 0; }
  bool has_diverged() const {
    constexpr double kRise = 100;  // far above what a loss climbs and comes back from
    return first_loss_ > 0 && loss_ > kRise * first_loss_;
  }

  // Without a better epoch, a first phase by accuracy ends, and only later the run may.
  bool may_switch() const {
    return options_.first_phase_end().by_accuracy && trainer().last_before_switch() == 0;
  }
  // The best score is the first one that reached it: no epoch followed.
  bool target_reached() const {
    return options_.target.score && best_.epoch > 0 &&
           judge_.reaches(best_.metrics, *options_.target.score);
  }
  bool stopped_early() const {
    if (target_reached()) return true;
    return options_.patience > 0 && !may_switch() && best_.evaluations_since >= options_.patience;
  }

  // The wishes of this rank when an epoch is done: everybody's signals count, and the clock of rank
  // 0.
  EpochWishes wishes(int epoch) const {
    EpochWishes wishes;
    wishes.signal = stop_request_.signal();
    if (transport_.rank() != 0) return wishes;
    wishes.checkpoint = options_.may_checkpoint_by_time(epoch) &&
                        seconds_since(last_checkpoint_) >= options_.checkpoint_seconds;
    wishes.time_is_up = options_.max_seconds > 0 && seconds_since(start_) >= options_.max_seconds;
    return wishes;
  }

  void one_epoch(int epoch, Progress& progress) {
    EpochResult result = job_.run_epoch(epoch, [&] { return wishes(epoch); });
    keep_calibration();
    if (!std::isfinite(result.loss)) {
      // On all ranks, whose loss this is.
      end_diverged(divergence(epoch, "the loss is", result.loss));
    }
    if (!std::isfinite(first_loss_)) first_loss_ = result.loss;
    done_ = epoch;
    loss_ = result.loss;
    messages_.add(result.exchange ? to_json(*result.exchange) : Json());
    epoch_ms_.push_back(result.epoch_ms);
    exposed_ms_.push_back(result.exposed_comm_ms);
    bytes_.push_back(static_cast<double>(result.bytes_sent));
    const bool last = epoch == options_.optimizer.epochs;
    if (!last && result.wishes.signal != 0) stopped_by_ = signal_name(result.wishes.signal);
    if (!last && result.wishes.time_is_up && stopped_by_.is_null()) stopped_by_ = kMaxTime;
    const bool due = last || is_due_by_number(epoch);
    // Whoever asked a run to end doesn't want to wait for it.
    evaluation_is_due_ = due && ended_by_signal();
    const bool evaluates = due && !evaluation_is_due_;
    Metrics metrics;
    if (evaluates && !is_due_by_number(epoch)) best_before_last_ = best_;
    if (evaluates) metrics = evaluate(epoch);
    result.last_before_switch = epoch == trainer().last_before_switch();
    if (result.last_before_switch) log_switch();
    const std::string line = metrics_line(result, evaluates ? &metrics : nullptr);
    folder_.append(line);
    progress.report(result, evaluates ? &metrics : nullptr);
    if (description_.after_epoch) {
      const AfterEpoch after = description_.after_epoch(line);
      if (!after.stopped_by.empty() && !last && stopped_by_.is_null()) {
        stopped_by_ = after.stopped_by;
      }
      if (after.learning_rate) job_.set_learning_rate(*after.learning_rate);
    }
    if (checkpoint_is_due(epoch, result.wishes)) keep_checkpoint(epoch);
    if (options_.snapshot_every > 0 && epoch % options_.snapshot_every == 0) {
      keep_snapshot(epoch, line);
    }
    if (description_.epoch_done) description_.epoch_done(epoch);
  }

  // Whether it is evaluated also where it is not the last one.
  bool is_due_by_number(int epoch) const {
    return options_.eval_every > 0 && epoch % options_.eval_every == 0;
  }

  Metrics evaluate(int epoch) {
    // Rows of nodes are on one rank only.
    try {
      on_all_ranks(transport_, [&] { trainer().require_finite_parameters(epoch); });
    } catch (const Error& error) {  // the same on all ranks
      if (error.kind() == ErrorKind::kDiverged) end_diverged(error.what());
      throw;
    }
    Metrics metrics = trainer().evaluate(epoch);
    keep_best(epoch, metrics);
    // Metrics, and with them the count, are those of all ranks.
    if (is_due_by_number(epoch) && may_switch() &&
        best_.evaluations_since >= options_.switching.patience) {
      trainer().set_last_before_switch(epoch);
      best_.evaluations_since = 0;
    }
    return metrics;
  }

  void log_switch() const {
    if (transport_.rank() != 0) return;
    std::string why;
    if (options_.first_phase_end().by_accuracy) {
      const int patience = options_.switching.patience;
      why = fmt::format("{} has not improved in {} evaluation{}: ", judge_.in_words(), patience,
                        patience == 1 ? "" : "s");
    }
    log::info("{}from epoch {} on, training is {}", why, trainer().last_before_switch() + 1,
              later_phase(options_));
  }

  // Another cut has others.
  Trainer& trainer() const { return job_.trainer(); }
  const RankData& data() const { return job_.data(); }

  bool trains_nodes() const { return trainer().model().trains_nodes(); }
  // Snapshots are kept by a rank of each host.
  StateOf who_has_state() const {
    return folder_.snapshots() != nullptr ? StateOf::kAllRanks : StateOf::kFirstRank;
  }

  Checkpoint checkpoint_of(int epoch, SafetensorsFile state, const std::string& line = "") const {
    const bool found = options_.first_phase_end().by_accuracy;
    return {.epoch = epoch,
            .fingerprint = fingerprint_,
            .state = std::move(state),
            .best = best_before_last_.value_or(best_),
            .line = line,
            .evaluation_is_due = evaluation_is_due_,
            .last_before_switch = found ? trainer().last_before_switch() : 0,
            .learning_rate = job_.learning_rate(),
            .ranks = transport_.size(),
            .gradient_sum = job_.trainer().gradient_sum()};
  }

  void keep_snapshot(int epoch, const std::string& line) {
    Snapshots* const snapshots = folder_.snapshots();
    if (snapshots == nullptr) return;
    const SteadyTime begin = steady_now();
    std::string state;
    SafetensorsFile own;
    if (snapshots->keeps_state() || trains_nodes()) {
      own = trainer().state(/*optimizer=*/true, who_has_state());
    }
    if (snapshots->keeps_state()) {
      state = to_bytes(checkpoint_of(epoch, std::move(own), line));
    }
    std::optional<std::string> exchange = trainer().exchange().state();
    // In a local phase it is empty, but kept: the job may go on from here while only some ranks
    // have their first state.
    if (exchange->empty() && !trainer().is_local()) exchange.reset();
    snapshots->keep(epoch, state, exchange);
    snapshot_ms_.push_back(1e3 * seconds_since(begin));
  }

  // With checkpoints at all, one also stands at the end, from where more epochs may follow.
  bool checkpoint_is_due(int epoch, const EpochWishes& wishes) const {
    const bool wanted = options_.checkpoint_every > 0 || options_.checkpoint_seconds > 0;
    const bool counted = options_.checkpoint_every > 0 && epoch % options_.checkpoint_every == 0;
    const bool ends = epoch == options_.optimizer.epochs || stopped_early();
    return !stopped_by_.is_null() || wishes.checkpoint || counted || (wanted && ends);
  }

  void keep_checkpoint(int epoch) {
    Checkpoint checkpoint = checkpoint_of(epoch, {});
    keep_changed_kernels();
    if (folder_.active() || trains_nodes()) checkpoint.state = trainer().state(/*optimizer=*/true);
    const bool by_rank =
        trainer().keeps_rows() && transport_.size() > 1 && !options_.run_dir.empty();
    if (by_rank) {
      on_all_ranks(transport_, [&] { folder_.require_held(); });
      checkpoint.rank_files =
          write_rank_files(transport_, trainer().exchange(), options_.run_dir, epoch);
    } else {
      trainer().add_exchange_state(checkpoint.state);
    }
    on_all_ranks(transport_, [&] { folder_.keep_checkpoint(checkpoint); });
    // Rank 0 has done so in its view of the folder.
    on_all_ranks(transport_, [&] {
      if (by_rank && transport_.rank() != 0) remove_checkpoints_before(options_.run_dir, epoch);
    });
    last_checkpoint_ = steady_now();
  }

  // A kernel that failed later was replaced. Whoever goes on from a checkpoint takes the new one.
  void keep_changed_kernels() {
    if (job_.choices() == nullptr || options_.run_dir.empty()) return;
    const bool changed = job_.choices()->changes() != kept_changes_;
    if (sum_over_ranks<std::int64_t>(transport_, changed ? 1 : 0, {"choices of kernels"}) == 0) {
      return;
    }
    calibration_saved_ = false;
    keep_calibration();
  }

  // The first epoch has met every shape of the kernels, and the exchange says when it has measured:
  // from then on a resumed run finds it all.
  void keep_calibration() {
    if (options_.run_dir.empty()) return;
    const Json exchange = trainer().exchange().calibration();
    const bool kernels_due = !calibration_saved_ && job_.choices() != nullptr;
    bool exchange_due = !exchange_saved_ && !exchange.is_null();
    // Slices measure for themselves, and those without columns never do: the first one decides.
    if (!exchange_saved_ && job_.map().ranks_per_part() > 1 && !trainer().exchange().is_exact()) {
      const std::int64_t due = transport_.rank() == 0 && exchange_due ? 1 : 0;
      exchange_due = sum_over_ranks(transport_, due, {"measured times"}) > 0;
    }
    if (!kernels_due && !exchange_due) return;
    on_all_ranks(transport_, [&] { folder_.require_held(); });
    save_calibration(transport_, job_.choices(), exchange, options_.run_dir);
    calibration_saved_ = true;
    if (job_.choices() != nullptr) kept_changes_ = job_.choices()->changes();
    exchange_saved_ |= exchange_due;
  }

  void keep_best(int epoch, const Metrics& metrics) {
    if (best_.epoch == 0 || judge_.prefers(metrics, best_.metrics)) {
      best_ = {epoch, metrics, 0, trainer().state(false, who_has_state())};
    } else {
      ++best_.evaluations_since;
    }
  }

  // The weights of the best epoch become the run's model.
  void write_model() {
    SafetensorsFile weights = best_.weights;
    weights.metadata["atoll"] =
        model_metadata(trainer(), fingerprint_, best_.epoch).dump(-1, ' ', false, kReplace);
    folder_.write("model.safetensors", to_safetensors(weights));
  }

  // Ends a run that can't go on, and leaves its result: the epochs before are as good as they were.
  [[noreturn]] void end_diverged(std::string why) {
    if (best_.epoch > 0) {  // something was evaluated
      leave_best_epoch();
      if (!options_.run_dir.empty()) {
        why += fmt::format("; {} holds the model of epoch {}, the best one before",
                           (options_.run_dir / "model.safetensors").string(), best_.epoch);
      }
    }
    fail(ErrorKind::kDiverged, "{}", why);
  }

  void leave_best_epoch() {
    stopped_by_ = kDivergence;
    on_all_ranks(transport_, [&] { write_model(); });
    Json summary = make_summary();
    summary["diverged"] = true;
    on_all_ranks(transport_, [&] { folder_.write(kSummaryName, readable_json(summary) + "\n"); });
  }

  Json make_summary() const {
    const std::vector<std::int64_t> peaks =
        values_of_ranks<std::int64_t>(transport_, peak_resident_bytes(), {"memory report"});
    Json summary = {{"dataset", data().dataset().name},
                    {"dataset_folder", description_.dataset_folder},
                    {"nodes", data().dataset().nodes},
                    {"edges", data().dataset().edges},
                    {"ranks", transport_.size()},
                    {"group_ranks", job_.map().ranks_per_part()},
                    {"transport", transport_.name()},
                    {"backend", job_.backend().name()},
                    {"dtype", to_string(options_.model.dtype)},
                    {"tf32", options_.tf32},
                    {"messages", job_.device_transport().reason},
                    {"exchange", options_.exchange},
                    {"overlap", options_.overlap},
                    {"model", model_name(options_.model)},
                    {"epochs", done_},
                    {"stopped_by", stopped_by_},
                    {"loss", loss_},
                    {"diverged", has_diverged()},
                    {"best_epoch", best_.epoch},
                    {"chosen_by", judge_.in_words()}};
    if (options_.target.score) {
      summary["target_reached"] = target_reached() ? Json(best_.epoch) : Json();
    }
    summary.update(result_json(trainer(), best_.metrics));
    Json floats = Json::array();
    for (const LayerMessages& messages : trainer().network().layer_messages()) {
      const LayerAlgebra& algebra = trainer().network().training().layers[floats.size()].algebra;
      floats.push_back({{"order", to_string(algebra.order)},
                        {"cached_aggregate", algebra.cache_aggregate},
                        {"forward_floats_per_halo_row", messages.forward_columns},
                        {"backward_floats_per_halo_row", messages.backward_columns}});
    }
    if (options_.blocks.leaves_out()) summary["inductive"] = to_string(options_.blocks.seen);
    summary["epoch_ms_median"] = epoch_ms_.empty() ? 0 : median(epoch_ms_);
    summary["bytes_sent_per_epoch"] =
        bytes_.empty() ? 0 : static_cast<std::int64_t>(median(bytes_));
    summary["exposed_comm_ms_median"] = median(exposed_ms_);
    summary["wall_seconds"] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    summary["layers"] = floats;
    if (!options_.warm_start.empty()) {
      summary["warm_start"] = {{"model", warm_start_model(options_.warm_start).string()},
                               {"checksum", fingerprint_.at(kWarmStart)}};
    }
    if (job_.replay() != nullptr) summary["replay"] = to_json(*job_.replay());
    if (!snapshot_ms_.empty()) summary["snapshot_ms_median"] = median(snapshot_ms_);
    if (exchange_mode(options_.exchange).takes_bits())
      summary["bits"] = to_string(options_.message_bits.bits);
    // Widths of the last epoch say nothing about others where messages take turns.
    if (!messages_.assignment().is_null() && exchange_mode(options_.exchange).sends_all())
      summary["mean_bits"] = messages_.assignment().at("mean_bits");
    if (const auto sent = messages_.mean()) {
      summary["rows_sent_per_epoch"] = sent->rows;
      summary["share_sent"] = sent->share;
    }
    summary["peak_rss_mb"] = static_cast<double>(std::ranges::max(peaks)) / 1e6;
    summary["commit"] = description_.commit;
    return summary;
  }

  // Those that are too dear for every epoch, of the best one.
  void add_all_metrics(Json& summary) {
    trainer().load_state(trainer().with_rows_of_nodes(best_.weights), /*optimizer=*/false,
                         "the best epoch");
    const Metrics metrics = trainer().evaluate(best_.epoch, MetricExtent::kAll);
    const Json all = result_json(trainer(), metrics);
    for (const auto& [name, values] : all.items()) {
      if (!summary.contains(name)) summary[name] = values;
    }
  }

  const TrainOptions& options_;
  const RunDescription& description_;
  RankJob& job_;
  Transport& transport_;
  RunFolder& folder_;
  Json fingerprint_;
  const Judge judge_;
  const StopRequest stop_request_;
  Json stopped_by_;  // null: by nothing
  const SteadyTime start_ = steady_now();
  SteadyTime last_checkpoint_ = start_;
  BestEpoch best_;
  // The best one before the last epoch, which was evaluated only because it was the last one.
  // Checkpoints have this: a run that gets more epochs goes on as if it had had them from the
  // beginning, and one that doesn't evaluates its last epoch again.
  std::optional<BestEpoch> best_before_last_;
  std::string last_line_;           // of metrics.jsonl, where a snapshot has it
  bool evaluation_is_due_ = false;  // see Checkpoint
  bool calibration_saved_ = false;
  std::int64_t kept_changes_ = 0;  // of the choices of kernels that were saved
  bool exchange_saved_ = false;
  int done_ = 0;
  double loss_ = 0;
  double first_loss_ = kUnknown;
  MessageRecord messages_;
  std::vector<double> epoch_ms_, exposed_ms_, bytes_, snapshot_ms_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace

Json result_json(const Trainer& trainer, const Metrics& metrics) {
  Json json = {{"metric", shown_name(trainer.metric())}};
  json.update(to_json(metrics));
  for (const auto& [name, split] :
       {std::pair{"train", Split::kTrain}, {"valid", Split::kValid}, {"test", Split::kTest}}) {
    const std::string reason = trainer.undefined_reason(split, trainer.metric());
    if (!reason.empty()) json["undefined"][name] = reason;
  }
  if (!metrics.classes.empty()) json["classes"] = classes_json(metrics);
  return json;
}

std::string readable_json(const Json& json, const std::string& indent) {
  const bool rows = json.is_array() && !json.empty() && json.front().is_structured();
  if ((!json.is_object() || json.empty()) && !rows) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string text;
  for (const auto& [key, value] : json.items()) {
    text += text.empty() ? "\n" : ",\n";
    text +=
        indent + "  " + (rows ? "" : Json(key).dump() + ": ") + readable_json(value, indent + "  ");
  }
  return (rows ? "[" : "{") + text + "\n" + indent + (rows ? "]" : "}");
}

int stopping_signal(const Json& summary) { return signal_of(summary.at("stopped_by")); }

Json train(const TrainOptions& options, const RunDescription& description, RankJob& job,
           Transport& transport, RunFolder& folder) {
  return Run(options, description, job, transport, folder).execute();
}

}  // namespace atl
