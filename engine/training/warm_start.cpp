#include "engine/training/warm_start.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "engine/models/model_options.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/pyg_tensors.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

Json metadata_of_run(const SafetensorsFile& file, const fs::path& path) {
  const std::optional<Json> metadata = metadata_of(file, path);
  if (metadata) return *metadata;
  fail_input(
      "{}: its metadata has no 'atoll' entry: not the model of a run; --init takes other files of "
      "weights",
      path.string());
}

// Parameters of nodes of a smaller dataset, with the rows of `own` for nodes that it did not have.
void extend_rows(SafetensorsFile& weights, const SafetensorsFile& own, const Trainer& trainer,
                 std::int64_t known) {
  for (const Parameter& p : trainer.network().parameters().list()) {
    if (!p.per_node) continue;
    NamedTensor all = own.tensors.at(p.name);
    const NamedTensor& old = weights.tensors.at(p.name);
    ATOLL_ASSERT(old.shape.front() == known && old.bytes.size() <= all.bytes.size());
    std::memcpy(all.bytes.data(), old.bytes.data(), old.bytes.size());
    weights.tensors[p.name] = std::move(all);
  }
}

// Options of the model that are other than the run's: of equal shapes, they still change what the
// weights mean.
std::vector<std::string> model_differences(const ModelConfig& then, const ModelConfig& now) {
  std::vector<std::string> differences;
  for (const Option<ModelConfig>& row : model_options()) {
    if (std::string_view(row.name).find("dropout") != std::string_view::npos) continue;
    const Json old = option_json(row, then);
    const Json wanted = option_json(row, now);
    if (old != wanted) {
      differences.push_back(fmt::format("{} {}, now {}", row.name, old.dump(), wanted.dump()));
    }
  }
  return differences;
}

}  // namespace

fs::path warm_start_model(const fs::path& run) {
  std::error_code ignored;
  return fs::is_directory(run, ignored) ? run_model(run) : run;
}

std::string warm_start_checksum(const fs::path& run, Transport& transport) {
  std::string checksum;
  on_all_ranks(transport, [&] {
    if (transport.rank() == 0) checksum = to_hex(file_checksum(warm_start_model(run)));
  });
  share_text(transport, checksum, {"the checksum of --warm-start"});
  return checksum;
}

std::int64_t warm_start_nodes(const fs::path& run) {
  const fs::path path = warm_start_model(run);
  if (const auto nodes = nodes_of_model(read_safetensors(path), path)) return *nodes;
  fail_input(
      "{}: does not say how many nodes its dataset had, and there is no summary.json beside it; "
      "give the id of the first new node by --replay-from",
      path.string());
}

void load_warm_start(Trainer& trainer, const fs::path& run, Transport& transport) {
  const bool has_rows = trainer.model().trains_nodes();
  const SafetensorsFile own =
      has_rows ? trainer.state(/*optimizer=*/false, StateOf::kAllRanks) : SafetensorsFile();
  on_all_ranks(transport, [&] {
    const fs::path path = warm_start_model(run);
    const SafetensorsFile file = read_safetensors(path);
    const Json metadata = metadata_of_run(file, path);
    const std::string task = to_string(trainer.data().dataset().task);
    if (const auto was = json_field_or<std::string>(metadata, "dataset_task", path, task);
        was != task) {
      fail_input("{}: the task of its dataset was {}, now it is {}; allowed is the same task",
                 path.string(), was, task);
    }
    ModelConfig model = trainer.model();
    if (has_rows) {
      model.nodes = json_field_or<std::int64_t>(metadata, "nodes", path, model.nodes);
      if (model.nodes > trainer.model().nodes) {
        fail_input(
            "{}: it has trained features of {} nodes, the dataset has {}; allowed is a dataset "
            "that has grown from that of the run",
            path.string(), model.nodes, trainer.model().nodes);
      }
    }
    SafetensorsFile weights = initial_weights(file, model, path.string());
    if (has_rows) extend_rows(weights, own, trainer, model.nodes);
    trainer.load_state(weights, /*optimizer=*/false, path.string());
  });
}

void say_warm_start(const Trainer& trainer, const fs::path& run) {
  const fs::path path = warm_start_model(run);
  const SafetensorsFile file = read_safetensors(path);
  log::info("starting with the model of {}, epoch {}", path.string(),
            json_field<int>(metadata_of_run(file, path), "epoch", path));
  const auto differences = model_differences(read_model_options(file, path).model, trainer.model());
  if (!differences.empty()) {
    log::warn("{}: its model was trained with other options: {}", path.string(),
              fmt::join(differences, "; "));
  }
}

}  // namespace atl
