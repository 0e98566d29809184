#include "engine/training/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "base/memory.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/calibration.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/progress.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

namespace {

// Selection by the valid metric; a set without valid nodes is judged by train.
double score(const Metrics& metrics) {
  return std::isnan(metrics.valid) ? metrics.train : metrics.valid;
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

class Run {
 public:
  Run(const TrainOptions& options, const RunDescription& description, RankJob& job,
      Transport& transport)
      : options_(options),
        description_(description),
        job_(job),
        data_(job.data()),
        trainer_(job.trainer()),
        transport_(transport),
        fingerprint_(fingerprint(options, job.data().dataset())) {}

  Json execute() {
    const int start = resume();
    std::unique_ptr<RunFolder> folder;
    on_all_ranks(transport_, [&] {
      const bool writes = transport_.rank() == 0;
      folder = std::make_unique<RunFolder>(writes ? options_.run_dir : std::filesystem::path(),
                                           description_.config_toml, options_.resume ? start : -1);
      recall(folder->earlier_epochs());
    });
    const int last = options_.optimizer.epochs;
    {
      Progress progress(start + 1, last, metric_name(data_.dataset().task), transport_.rank() == 0);
      for (int epoch = start + 1; epoch <= last && !stopped_early(); ++epoch) {
        one_epoch(epoch, *folder, progress);
      }
    }
    finish(*folder);
    const Json summary = make_summary();
    on_all_ranks(transport_, [&] { folder->write_summary(summary); });
    if (options_.trace && done_ > start) write_trace(*folder);
    return summary;
  }

 private:
  // Epochs that are done already.
  int resume() {
    if (!options_.resume) return 0;
    Checkpoint checkpoint;
    on_all_ranks(transport_, [&] {
      checkpoint = read_checkpoint(options_.run_dir, fingerprint_);
      trainer_.load_state(checkpoint.state, /*optimizer=*/true, options_.run_dir.string());
      trainer_.load_exchange_state(checkpoint.state, options_.run_dir.string());
    });
    best_ = std::move(checkpoint.best);
    done_ = checkpoint.epoch;
    if (done_ > options_.optimizer.epochs) {
      fail_option("--epochs {}: the run has {} epochs already; allowed are {} or more",
                  options_.optimizer.epochs, done_, done_);
    }
    if (transport_.rank() == 0) log::info("resuming after epoch {}", done_);
    return done_;
  }

  // The figures of epochs that an interrupted run has left.
  void recall(const std::vector<Json>& lines) {
    for (const Json& line : lines) {
      loss_ = line.value("loss", 0.0);
      epoch_ms_.push_back(line.value("epoch_ms", 0.0));
      const auto exposed = line.find("exposed_comm_ms");
      const bool known = exposed != line.end() && exposed->is_number();
      exposed_ms_.push_back(known ? exposed->get<double>() : kUnknown);
      bytes_.push_back(line.value("bytes_sent", 0.0));
      if (line.contains("assignment")) assignment_ = line.at("assignment");
    }
  }

  bool stopped_early() const {
    return options_.patience > 0 && best_.evaluations_since >= options_.patience;
  }

  void one_epoch(int epoch, RunFolder& folder, Progress& progress) {
    const EpochResult result = trainer_.run_epoch(epoch);
    keep_calibration();
    if (!std::isfinite(result.loss)) {
      fail_input(
          "epoch {}: the loss is {}; lower --lr, or check the features for huge values "
          "(atoll info --validate)",
          epoch, result.loss);
    }
    done_ = epoch;
    loss_ = result.loss;
    if (!result.assignment.is_null()) assignment_ = result.assignment;
    epoch_ms_.push_back(result.epoch_ms);
    exposed_ms_.push_back(result.exposed_comm_ms);
    bytes_.push_back(static_cast<double>(result.bytes_sent));
    const bool last = epoch == options_.optimizer.epochs;
    const bool due = options_.eval_every > 0 && epoch % options_.eval_every == 0;
    Metrics metrics;
    if (due || last) {
      trainer_.require_finite_parameters(epoch);
      metrics = trainer_.evaluate(epoch);
      keep_best(epoch, metrics);
    }
    folder.append(result, due || last ? &metrics : nullptr);
    progress.report(result, due || last ? &metrics : nullptr);
    if (options_.checkpoint_every > 0 && (epoch % options_.checkpoint_every == 0 || last)) {
      keep_checkpoint(epoch, folder);
    }
  }

  void keep_checkpoint(int epoch, const RunFolder& folder) {
    Checkpoint checkpoint{epoch, fingerprint_, {}, best_};
    if (folder.active()) checkpoint.state = trainer_.state(/*optimizer=*/true);
    trainer_.add_exchange_state(checkpoint.state);
    if (folder.active()) write_checkpoint(folder.path(), checkpoint);
  }

  // The first epoch has met every shape of the kernels, and the exchange says when it has measured:
  // from then on a resumed run finds it all.
  void keep_calibration() {
    if (options_.run_dir.empty()) return;
    const Json exchange = trainer_.exchange().calibration();
    const bool kernels_due = !calibration_saved_ && job_.choices() != nullptr;
    const bool exchange_due = !exchange_saved_ && !exchange.is_null();
    if (!kernels_due && !exchange_due) return;
    save_calibration(transport_, job_.choices(), exchange, options_.run_dir);
    calibration_saved_ = true;
    exchange_saved_ = !exchange.is_null();
  }

  void keep_best(int epoch, const Metrics& metrics) {
    if (best_.epoch == 0 || score(metrics) > score(best_.metrics)) {
      best_ = {epoch, metrics, 0, trainer_.state(false)};
    } else {
      ++best_.evaluations_since;
    }
  }

  // The weights of the best epoch become the run's model.
  void finish(const RunFolder& folder) {
    if (best_.epoch == 0) {  // nothing was trained or evaluated: --epochs 0, or all resumed
      best_ = {done_, trainer_.evaluate(done_), 0, trainer_.state(false)};
    }
    if (!folder.active()) return;
    SafetensorsFile weights = best_.weights;
    weights.metadata["atoll"] = Json{
        {"dataset", data_.dataset().name},
        {"options", fingerprint_},
        {"epoch", best_.epoch}}.dump();
    folder.write_model(weights);
  }

  Json make_summary() const {
    std::vector<std::int64_t> peaks(static_cast<std::size_t>(transport_.size()), 0);
    peaks[static_cast<std::size_t>(transport_.rank())] = peak_resident_bytes();
    transport_.all_reduce(std::span(peaks), {"memory report"});
    Json summary = {{"dataset", data_.dataset().name},
                    {"dataset_folder", description_.dataset_folder},
                    {"nodes", data_.dataset().nodes},
                    {"edges", data_.dataset().edges},
                    {"ranks", transport_.size()},
                    {"transport", transport_.name()},
                    {"backend", job_.backend().name()},
                    {"dtype", to_string(options_.dtype)},
                    {"tf32", options_.tf32},
                    {"messages", job_.device_transport().reason},
                    {"exchange", options_.exchange},
                    {"overlap", options_.overlap},
                    {"model", options_.model},
                    {"metric", metric_name(data_.dataset().task)},
                    {"epochs", done_},
                    {"loss", loss_},
                    {"best_epoch", best_.epoch}};
    summary.update(to_json(best_.metrics));
    Json floats = Json::array();
    for (const LayerAlgebra& layer : trainer_.model().algebra()) {
      floats.push_back({{"order", to_string(layer.order)},
                        {"cached_aggregate", layer.cached},
                        {"forward_floats_per_halo_row", layer.forward_floats},
                        {"backward_floats_per_halo_row", layer.backward_floats}});
    }
    summary["epoch_ms_median"] = epoch_ms_.empty() ? 0 : median(epoch_ms_);
    summary["bytes_sent_per_epoch"] =
        bytes_.empty() ? 0 : static_cast<std::int64_t>(median(bytes_));
    summary["exposed_comm_ms_median"] = median(exposed_ms_);
    summary["layers"] = floats;
    if (options_.exchange == "quantized") summary["bits"] = options_.widths.bits;
    if (!assignment_.is_null()) summary["mean_bits"] = assignment_.at("mean_bits");
    summary["peak_rss_mb"] =
        static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / 1e6;
    summary["commit"] = description_.commit;
    return summary;
  }

  // What a simulation of this run must know beside its spans: see docs/formats.md.
  Json trace_metadata() const {
    const ModelConfig& model = trainer_.model().config();
    Json layers = Json::array();
    for (const LayerAlgebra& layer : trainer_.model().algebra()) {
      layers.push_back({{"order", to_string(layer.order)},
                        {"cached_aggregate", layer.cached},
                        {"bits", layer_bits(static_cast<int>(layers.size()))}});
    }
    return {{"format", "atoll trace"},
            {"version", 1},
            {"ranks", transport_.size()},
            {"model",
             {{"kind", model.kind},
              {"layers", model.layers},
              {"hidden", model.hidden},
              {"features", model.features},
              {"outputs", model.outputs},
              {"input_dropout", model.input_dropout},
              {"norm", to_string(model.norm)}}},
            {"layers", layers},
            {"overlap", options_.overlap},
            {"recomputation", to_json(options_.recomputation)},
            {"gradient_sum", to_json(options_.gradient_sum)},
            {"partition", read_json(job_.partition_folder() / "quality.json")}};
  }

  // Bits per value of the messages of a layer, mean over both directions.
  double layer_bits(int layer) const {
    if (assignment_.is_null()) return 32;
    double rows = 0;
    double bits = 0;
    for (const Json& channel : assignment_.at("channels")) {
      if (channel.at("layer") != layer) continue;
      for (const auto& [width, count] : channel.at("bits").items()) {
        rows += count.get<double>();
        bits += count.get<double>() * std::stod(width);
      }
    }
    return rows > 0 ? bits / rows : 32;
  }

  // All ranks' spans in one file. Ranks on one host share a clock; between hosts the clocks are as
  // far apart as the hosts set them (engine/trace aligns them).
  void write_trace(const RunFolder& folder) {
    const std::string mine = trainer_.trace().chrome_events(trainer_.all_spans());
    const auto all =
        transport_.gather(std::as_bytes(std::span(mine.data(), mine.size())), 0, {"trace"});
    on_all_ranks(transport_, [&] {
      if (!folder.active()) return;
      const Json metadata = trace_metadata();
      std::string text = fmt::format("{{\"metadata\": {},\n\"traceEvents\": [", metadata.dump());
      for (std::size_t r = 0; r < all.size(); ++r) {
        text += r == 0 ? "\n" : ",\n";
        text.append(reinterpret_cast<const char*>(all[r].data()), all[r].size());
      }
      write_atomically(folder.path() / "trace.json", text + "\n]}\n");
    });
  }

  const TrainOptions& options_;
  const RunDescription& description_;
  RankJob& job_;
  const RankData& data_;
  Trainer& trainer_;
  Transport& transport_;
  Json fingerprint_;
  BestEpoch best_;
  bool calibration_saved_ = false;
  bool exchange_saved_ = false;
  int done_ = 0;
  double loss_ = 0;
  Json assignment_;  // how messages travel now; null with exact messages
  std::vector<double> epoch_ms_, exposed_ms_, bytes_;
};

}  // namespace

Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset) {
  const OptimizerConfig& optimizer = options.optimizer;
  Json result = {{"dataset_checksum", dataset.checksum},
                 {"model", options.model},
                 {"layers", options.layers},
                 {"hidden", options.hidden},
                 {"dropout", options.dropout},
                 {"input-dropout", options.input_dropout},
                 {"norm", to_string(options.norm)},
                 {"lr", optimizer.learning_rate},
                 {"weight-decay", optimizer.weight_decay},
                 {"weight-decay-layers", optimizer.decay_first_layer_only ? "first" : "all"},
                 {"lr-schedule", to_string(optimizer.schedule)},
                 {"seed", options.seed},
                 {"split-index", options.split_index},
                 {"dtype", to_string(options.dtype)},
                 {"tf32", options.tf32},
                 {"exchange", options.exchange}};
  if (options.exchange == "quantized") {
    result["bits"] = options.widths.bits;
    const bool adaptive = options.widths.bits == "adaptive";
    if (adaptive || options.widths.bits == "random") {
      result["reassign-every"] = options.widths.reassign_every;
    }
    if (adaptive) {
      result["lambda"] = options.widths.lambda;
      result["sensitivity"] = to_string(options.widths.sensitivity);
    }
  }
  if (optimizer.schedule == LearningRateSchedule::kCosine) result["epochs"] = optimizer.epochs;
  if (optimizer.schedule == LearningRateSchedule::kStep) {
    result["lr-step-epochs"] = optimizer.step_epochs;
    result["lr-step-factor"] = optimizer.step_factor;
  }
  return result;
}

Json train(const TrainOptions& options, const RunDescription& description, RankJob& job,
           Transport& transport) {
  return Run(options, description, job, transport).execute();
}

}  // namespace atl
