// The run whose model another run begins with (--warm-start, docs/growing.md), and what it says of
// the dataset that it was trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/training/trainer.hpp"

namespace atl {

// The model of a run: that of its best epoch. `run`: its folder, or model.safetensors itself.
// Throws Error{kInput} if a folder has none.
std::filesystem::path warm_start_model(const std::filesystem::path& run);

// The field of fingerprints for it: the contents, wherever they lie, so that a run is only resumed
// with the model that it has begun with.
inline constexpr const char* kWarmStart = "warm-start";
// The value of that field, as rank 0 finds it. Collective.
std::string warm_start_checksum(const std::filesystem::path& run, Transport& transport);

// Nodes of the dataset that it was trained on: of the model's metadata, or of the summary.json
// beside it where the model is of an older version. Throws Error{kInput} if neither says it.
std::int64_t warm_start_nodes(const std::filesystem::path& run);

// Begins with its weights and running statistics; nothing of its optimizer. Where nodes have
// parameters, those of nodes that the run did not have stay as the seed has made them. Throws
// Error{kInput}, naming every tensor that is missing, surplus or of another shape. Collective.
void load_warm_start(Trainer& trainer, const std::filesystem::path& run, Transport& transport);
// Logs which model that is, and warns of options of the model that differ.
void say_warm_start(const Trainer& trainer, const std::filesystem::path& run);

}  // namespace atl
