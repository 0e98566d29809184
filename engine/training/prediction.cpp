#include "engine/training/prediction.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "engine/models/model_options.hpp"
#include "engine/program/needed_rows.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/gather_rows.hpp"
#include "engine/training/prediction_table.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {

namespace {

// Whose rows are written, and where.
struct PredictionFile {
  const RankData& data;
  Transport& transport;
  const std::filesystem::path& out;
  std::filesystem::path dataset = {};  // whose names a table has, unless they are here:
  const PredictionNames* names = nullptr;
  std::span<const GlobalId> chosen = {};  // their rows, in this order; empty: of all nodes

  std::int64_t rows() const { return chosen.empty() ? data.dataset().nodes : std::ssize(chosen); }
  // The rows that this rank has something to say of.
  RowRange local_rows() const {
    return {0, chosen.empty() ? data.rows() : data.graph().within.front()};
  }

  // The rows of the file, by those of each rank; empty except on rank 0. Collective.
  template <typename T>
  std::vector<T> collect(const std::vector<T>& local, std::int64_t columns) const {
    if (chosen.empty()) {
      return gather_rows(transport, data.host_ids(), std::span<const T>(local), columns, rows(),
                         {"predictions"});
    }
    const auto ids = data.host_ids().first(static_cast<std::size_t>(local_rows().size()));
    std::vector<T> all;
    for (const GlobalId id : chosen) {
      const auto row = local.begin() + (std::ranges::lower_bound(ids, id) - ids.begin()) * columns;
      all.insert(all.end(), row, row + columns);
    }
    return all;
  }
};

template <typename T>
void write_rows(const PredictionFile& to, const std::vector<T>& local, std::int64_t columns,
                bool vector) {
  const std::vector<T> all = to.collect(local, columns);
  const auto write = [&] {
    if (to.transport.rank() != 0) return;
    std::vector<std::int64_t> shape{to.rows()};
    if (!vector) shape.push_back(columns);
    AtomicFile file(to.out);
    write_npy(file.path(), std::span<const T>(all), shape);
    file.commit();
    if (to.chosen.empty()) return;
    AtomicFile ids(file_of_ids(to.out));
    write_npy(ids.path(), to.chosen, {to.rows()});
    ids.commit();
  };
  on_all_ranks(to.transport, write, {"the file of predictions"});
}

void write_table(const PredictionFile& to, const std::vector<float>& local, std::int64_t columns,
                 PredictionKind kind) {
  const std::vector<float> all = to.collect(local, columns);
  const auto write = [&] {
    if (to.transport.rank() != 0) return;
    PredictionNames names;
    if (to.names != nullptr) {
      names = *to.names;
    } else if (!to.dataset.empty()) {
      names = prediction_names(Dataset::open(to.dataset));
    }
    write_prediction_table(to.out, kind, to.data.dataset().task, all, columns, names, to.chosen);
  };
  on_all_ranks(to.transport, write, {"the file of predictions"});
}

// Class with the largest logit of every row, the first one if several are equal.
std::vector<std::int32_t> argmax_rows(const std::vector<float>& logits, std::int64_t columns) {
  std::vector<std::int32_t> labels(logits.size() / static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* row = logits.data() + i * static_cast<std::size_t>(columns);
    labels[i] = static_cast<std::int32_t>(std::max_element(row, row + columns) - row);
  }
  return labels;
}

void write_labels(const PredictionFile& to, const std::vector<float>& logits) {
  const RankData& data = to.data;
  if (data.dataset().task == Task::kMultiLabel) {
    std::vector<std::uint8_t> labels(logits.size());
    std::transform(logits.begin(), logits.end(), labels.begin(),
                   [](float logit) { return static_cast<std::uint8_t>(logit > 0); });
    write_rows(to, labels, data.outputs(), false);
    return;
  }
  std::vector<std::int32_t> labels;
  if (data.dataset().task == Task::kBinary) {
    labels.resize(logits.size());
    std::transform(logits.begin(), logits.end(), labels.begin(),
                   [](float logit) { return static_cast<std::int32_t>(logit > 0); });
  } else {
    labels = argmax_rows(logits, data.outputs());
  }
  write_rows(to, labels, 1, true);
}

// Returns the logits.
ConstMatrixView write_predictions(Trainer& trainer, const PredictionFile& to, PredictionKind kind) {
  const Rank& rank = trainer.rank();
  const ConstMatrixView logits = trainer.queue_evaluation(0);
  rank.reducer.synchronize();
  const bool embeds = kind == PredictionKind::kEmbeddings && to.data.links() == nullptr;
  const ConstMatrixView rows = embeds ? trainer.network().embeddings() : logits;
  const std::vector<float> local =
      download_f32(rank.backend, rank.queue, rows.rows_in(to.local_rows()));
  if (is_table_file(to.out, "--out")) {
    write_table(to, local, rows.cols, kind);
  } else if (kind == PredictionKind::kLabels) {
    write_labels(to, local);
  } else {
    write_rows(to, local, rows.cols, kind == PredictionKind::kNumbers && rows.cols == 1);
  }
  return logits;
}

// [in, out] of a weight.
std::vector<std::int64_t> weight_shape(const SafetensorsFile& file, const std::string& name,
                                       const std::filesystem::path& path) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end() || found->second.shape.size() != 2) {
    fail_input("{}: tensor '{}' of two dimensions is missing", path.string(), name);
  }
  return found->second.shape;
}

// In the order of a pass: the first weight is that of the features, the last one gives the logits.
std::vector<std::string> weight_names(const ModelConfig& model) {
  std::vector<std::string> names;
  const Program program =
      model_program(model.sized({.features = 1, .outputs = 1}, 1), Pass::kEvaluation);
  for (const DeclaredParameter& parameter : program.parameters) {
    if (parameter.initialisation == Initialisation::kGlorotUniform) names.push_back(parameter.name);
  }
  return names;
}

// Columns of features and logits. Models of version 0.1 say them by their weights alone.
void read_sizes(const Json& metadata, const SafetensorsFile& file,
                const std::filesystem::path& path, ModelConfig& model) {
  if (!metadata.contains("features")) {
    const std::vector<std::string> weights = weight_names(model);
    model.features = weight_shape(file, weights.front(), path)[0];
    model.outputs = weight_shape(file, weights.back(), path)[1];
    return;
  }
  const auto read = [&](const char* field) {
    const auto columns = json_field<std::int64_t>(metadata, field, path);
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (columns < 1 || columns > kMost) {
      fail_input("{}: metadata entry 'atoll': {} is {}; allowed are 1 to {}", path.string(), field,
                 columns, kMost);
    }
    return columns;
  };
  model.features = read("features");
  model.outputs = read("outputs");
  if (metadata.contains("relations")) model.relations = read("relations");
  if (metadata.contains("edge_features")) model.edge_features = read("edge_features");
  if (metadata.contains("node_types")) model.node_types = read("node_types");
  model.features_by_type =
      json_field_or<std::vector<std::int64_t>>(metadata, "features_by_type", path, {});
  const auto fits = [&](std::int64_t width) { return width >= 0 && width <= model.features; };
  if (!model.features_by_type.empty() && (std::ssize(model.features_by_type) != model.node_types ||
                                          !std::ranges::all_of(model.features_by_type, fits))) {
    fail_input(
        "{}: metadata entry 'atoll': features_by_type is [{}]; allowed are {} numbers from 0 to {}",
        path.string(), fmt::join(model.features_by_type, ", "), model.node_types, model.features);
  }
  if (metadata.contains("nodes")) model.nodes = read("nodes");
}

// Says more than the option's own check: the model may be of another program.
void require_known_model(const Json& options, const std::filesystem::path& path) {
  const auto kind = json_field<std::string>(options, "model", path);
  const std::vector<std::string> known = model_kinds();
  if (std::ranges::count(known, kind) > 0) return;
  fail_input("{}: it is a model '{}', which this program does not have; it has {}", path.string(),
             kind, fmt::join(known, ", "));
}

}  // namespace

Json model_metadata(const Trainer& trainer, const Json& fingerprint, int epoch) {
  Json metadata = {{"dataset", trainer.data().dataset().name},
                   {"options", fingerprint},
                   {"features", trainer.model().features},
                   {"outputs", trainer.model().outputs},
                   {"epoch", epoch},
                   {"dataset_nodes", trainer.data().dataset().nodes},
                   {"dataset_task", to_string(trainer.data().dataset().task)}};
  if (reads(trainer.model(), GraphData::kRelations)) {
    metadata["relations"] = trainer.model().relations;
  }
  if (reads(trainer.model(), GraphData::kEdgeFeatures)) {
    metadata["edge_features"] = trainer.model().edge_features;
  }
  if (trainer.model().trains_nodes()) metadata["nodes"] = trainer.model().nodes;
  if (reads(trainer.model(), GraphData::kNodeTypes)) {
    metadata["node_types"] = trainer.model().node_types;
    if (!trainer.model().features_by_type.empty()) {
      metadata["features_by_type"] = trainer.model().features_by_type;
    }
  }
  // Without a task, the labels are classes: a prediction asks the dataset how many a node has.
  if (const Task task = trainer.data().dataset().task;
      task == Task::kRegression || task == Task::kLinkPrediction) {
    metadata["task"] = to_string(task);
  }
  return metadata;
}

PredictionKind parse_prediction_kind(const std::string& text) {
  if (text == "labels") return PredictionKind::kLabels;
  if (text == "logits") return PredictionKind::kLogits;
  if (text == "embeddings") return PredictionKind::kEmbeddings;
  fail_option("--what {}: allowed are labels, logits, embeddings", text);
}

std::filesystem::path run_model(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "model.safetensors";
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) fail_input("{}: {}", path.string(), error.message());
  if (!there) {
    fail_input("{}: holds no model.safetensors; is it the folder of a finished run?", run.string());
  }
  return path;
}

SafetensorsFile read_run_model(const std::filesystem::path& run) {
  return read_safetensors(run_model(run));
}

std::optional<Json> metadata_of(const SafetensorsFile& file, const std::filesystem::path& path) {
  const auto found = file.metadata.find("atoll");
  if (found == file.metadata.end()) return std::nullopt;
  return parse_json(found->second, path.string() + ": metadata entry 'atoll'");
}

std::optional<std::int64_t> nodes_of_model(const SafetensorsFile& file,
                                           const std::filesystem::path& path) {
  const std::optional<Json> metadata = metadata_of(file, path);
  if (!metadata) return std::nullopt;
  if (metadata->contains("dataset_nodes")) {
    return json_field<std::int64_t>(*metadata, "dataset_nodes", path);
  }
  // Older models do not say it; the summary of their run does.
  const std::filesystem::path summary = path.parent_path() / kSummaryName;
  if (!is_there(summary)) return std::nullopt;
  return json_field<std::int64_t>(read_json(summary), "nodes", summary);
}

std::optional<Task> task_of_model(const SafetensorsFile& file, const std::filesystem::path& path) {
  const std::optional<Json> metadata = metadata_of(file, path);
  if (!metadata) return std::nullopt;
  const auto task = json_field_or<std::string>(*metadata, "task", path, "");
  if (task.empty()) return std::nullopt;
  return parse_task(task, path.string());
}

TrainOptions read_model_options(const SafetensorsFile& file, const std::filesystem::path& path) {
  const std::optional<Json> metadata = metadata_of(file, path);
  if (!metadata) {
    fail_input("{}: its metadata has no 'atoll' entry: not a model of this program", path.string());
  }
  const auto options = json_field<Json>(*metadata, "options", path);
  // A run without an option that came later has its default. Models of version 0.1 say nothing of
  // how they were computed.
  TrainOptions result;
  require_known_model(options, path);
  for (const Option<ModelConfig>& row : model_options()) {
    if (!options.contains(row.name) && !row.recorded(ModelConfig())) continue;
    read_option_json(row, options, row.name.c_str(), path, result.model);
  }
  for (const Option<ModelConfig>& row : computation_options()) {
    if (!options.contains(row.name)) continue;
    read_option_json(row, options, row.name.c_str(), path, result.model);
  }
  result.split_index = json_field<std::int64_t>(options, "split-index", path);
  result.loss.metric = json_field_or<std::string>(options, "metric", path, kUsualMetric);
  read_sizes(*metadata, file, path, result.model);
  return result;
}

std::filesystem::path file_of_ids(const std::filesystem::path& out) {
  return std::filesystem::path(out).replace_extension(".ids.npy");
}

Metrics predict(Trainer& trainer, const RankData& data, Transport& transport, PredictionKind kind,
                const std::filesystem::path& out, const std::filesystem::path& dataset) {
  const ConstMatrixView logits = write_predictions(trainer, {data, transport, out, dataset}, kind);
  // Those of chosen nodes, which were in the file before.
  on_all_ranks(transport, [&] {
    if (transport.rank() == 0) std::filesystem::remove(file_of_ids(out));
  });
  return trainer.measure(0, logits, MetricExtent::kAll);
}

ChosenCosts predict_chosen(Trainer& trainer, const RankData& data, Transport& transport,
                           PredictionKind kind, std::span<const GlobalId> chosen,
                           const std::filesystem::path& out, const PredictionNames* names) {
  write_predictions(trainer, {data, transport, out, {}, names, chosen}, kind);
  ChosenCosts costs{.read = data.rows(), .nodes = data.dataset().nodes};
  const Program& program = trainer.network().evaluation();
  const NeededRows needed = needed_rows(program);
  for (std::size_t v = 0; v < needed.hops.size(); ++v) {
    if (!program.operations[v].needs_messages()) continue;
    ++costs.aggregates;
    const int hops = needed.hops[v];
    costs.computed +=
        hops == kAllRows ? costs.read : data.graph().within[static_cast<std::size_t>(hops)];
  }
  return costs;
}

}  // namespace atl
