// Predictions of a trained model for every node, collected by global id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/training/trainer.hpp"

namespace atl {

struct PredictionNames;  // prediction_table.hpp

enum class PredictionKind {
  kLabels,      // int32 [N] class, or uint8 [N, classes] for multi-label, int32 0/1 for binary
  kNumbers,     // f32 [N], or [N, outputs] if there are several: of a regression, instead of labels
  kLogits,      // f32 [N, outputs]
  kEmbeddings,  // f32 [N, hidden]: input of the last layer
};
PredictionKind parse_prediction_kind(const std::string& text);  // throws Error{kOption}

// The metadata entry `atoll` of a model, which read_model_options() reads. fingerprint: see
// training_run.hpp.
Json model_metadata(const Trainer& trainer, const Json& fingerprint, int epoch);

// model.safetensors of a run folder. Throws Error{kInput} if there is none.
std::filesystem::path run_model(const std::filesystem::path& run);
// The same, read.
SafetensorsFile read_run_model(const std::filesystem::path& run);

// The model that a run's model.safetensors describes: the options it was trained with, with the
// columns of the features and the logits. Throws Error{kInput} naming `path` if the file is not a
// model of this program.
TrainOptions read_model_options(const SafetensorsFile& file, const std::filesystem::path& path);

// The task that the model says it is for: regression and link-prediction; of classes none is said.
std::optional<Task> task_of_model(const SafetensorsFile& file, const std::filesystem::path& path);

// One forward pass with the trainer's weights; rank 0 writes the array to `out`, atomically; as a
// table if it ends in .csv (prediction_table.hpp), with the names that `dataset` has. Collective.
Metrics predict(Trainer& trainer, const RankData& data, Transport& transport, PredictionKind kind,
                const std::filesystem::path& out, const std::filesystem::path& dataset = {});

// The rows that a prediction of chosen nodes has read and computed.
struct ChosenCosts {
  std::int64_t read = 0;  // of features
  std::int64_t nodes = 0;
  std::int64_t aggregates = 0;  // of the model
  std::int64_t computed = 0;    // rows of all of these
};

// The same of the nodes that the job was made for, on its one rank, without metrics. chosen: these
// in the order of the file's rows, any of them more than once. Beside a .npy file, file_of_ids()
// gets their ids, int64 [rows]. names: of a table; null: numbers.
ChosenCosts predict_chosen(Trainer& trainer, const RankData& data, Transport& transport,
                           PredictionKind kind, std::span<const GlobalId> chosen,
                           const std::filesystem::path& out,
                           const PredictionNames* names = nullptr);
std::filesystem::path file_of_ids(const std::filesystem::path& out);  // labels.ids.npy

// A run's description of its model in the file, whose path is for errors; empty if no run wrote it.
// Throws Error{kInput} if it is no JSON.
std::optional<Json> metadata_of(const SafetensorsFile& file, const std::filesystem::path& path);
// The number of nodes of the dataset that a run was trained on, if its model, or the summary.json
// beside it, says so. Throws Error{kInput} as metadata_of(), and for fields of another type.
std::optional<std::int64_t> nodes_of_model(const SafetensorsFile& file,
                                           const std::filesystem::path& path);

}  // namespace atl
