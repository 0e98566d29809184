#include "engine/training/checkpoint.hpp"

#include "base/checksum.hpp"
#include "base/files.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr const char* kBestPrefix = "best.";

fs::path folder_of(const fs::path& run) { return run / "checkpoint"; }
fs::path index_of(const fs::path& run) { return folder_of(run) / "checkpoint.json"; }

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

double number(const Json& object, const char* field, const fs::path& place) {
  if (object.is_object() && object.contains(field) && object.at(field).is_null()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return json_field<double>(object, field, place);
}

void require_same(const Json& found, const Json& wanted, const fs::path& place) {
  for (const auto& [field, value] : wanted.items()) {
    Json old = found.is_object() && found.contains(field) ? found.at(field) : Json(nullptr);
    // Version 0.1 knew one storage type and did not name it.
    if (old.is_null() && field == "dtype") old = "f32";
    if (old.is_null() && field == "tf32") old = false;
    if (old != value) {
      fail_input(
          "{}: the checkpoint was made with {} = {}, this run has {}; resume with the same "
          "value, or start a new run folder",
          place.string(), field, old.dump(), value.dump());
    }
  }
}

}  // namespace

Json to_json(const Metrics& metrics) {
  return {{"train", number_or_null(metrics.train)},
          {"valid", number_or_null(metrics.valid)},
          {"test", number_or_null(metrics.test)}};
}

bool has_checkpoint(const fs::path& run) {
  std::error_code error;
  return fs::exists(index_of(run), error);
}

void write_checkpoint(const fs::path& run, const Checkpoint& checkpoint) {
  std::error_code error;
  fs::create_directories(folder_of(run), error);
  if (error) fail_input("{}: can't create: {}", folder_of(run).string(), error.message());
  SafetensorsFile file = checkpoint.state;
  for (const auto& [name, tensor] : checkpoint.best.weights.tensors) {
    file.tensors[kBestPrefix + name] = tensor;
  }
  const std::string bytes = to_safetensors(file);
  const std::string name = "epoch-" + std::to_string(checkpoint.epoch) + ".safetensors";
  write_atomically(folder_of(run) / name, bytes);
  write_json(index_of(run), {{"epoch", checkpoint.epoch},
                             {"file", name},
                             {"checksum", to_hex(checksum(bytes))},
                             {"best_epoch", checkpoint.best.epoch},
                             {"best_metrics", to_json(checkpoint.best.metrics)},
                             {"evaluations_since_best", checkpoint.best.evaluations_since},
                             {"fingerprint", checkpoint.fingerprint}});
  // Only now may the older ones go.
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(run), error)) {
    if (entry.path().extension() == ".safetensors" && entry.path().filename() != name) {
      fs::remove(entry.path(), error);
    }
  }
}

Checkpoint read_checkpoint(const fs::path& run, const Json& fingerprint) {
  const fs::path index = index_of(run);
  if (!has_checkpoint(run)) {
    fail_input(
        "{}: there is no checkpoint to resume from; was the run started with "
        "--checkpoint-every?",
        index.string());
  }
  const Json json = read_json(index);
  Checkpoint checkpoint;
  checkpoint.epoch = json_field<int>(json, "epoch", index);
  checkpoint.fingerprint = json_field<Json>(json, "fingerprint", index);
  require_same(checkpoint.fingerprint, fingerprint, index);
  const fs::path path = folder_of(run) / json_field<std::string>(json, "file", index);
  const std::string found = to_hex(file_checksum(path));
  const auto expected = json_field<std::string>(json, "checksum", index);
  if (found != expected) {
    fail_input("{}: checksum {} found, {} expected from checkpoint.json: the file is damaged",
               path.string(), found, expected);
  }
  SafetensorsFile file = read_safetensors(path);
  const std::string prefix = kBestPrefix;
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(prefix)) {
      checkpoint.best.weights.tensors[name.substr(prefix.size())] = std::move(tensor);
    } else {
      checkpoint.state.tensors[name] = std::move(tensor);
    }
  }
  checkpoint.best.epoch = json_field<int>(json, "best_epoch", index);
  const Json metrics = json_field<Json>(json, "best_metrics", index);
  checkpoint.best.metrics = {number(metrics, "train", index), number(metrics, "valid", index),
                             number(metrics, "test", index)};
  checkpoint.best.evaluations_since = json_field<int>(json, "evaluations_since_best", index);
  return checkpoint;
}

}  // namespace atl
