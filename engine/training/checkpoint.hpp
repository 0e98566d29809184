// Checkpoints of a run: RUN/checkpoint/epoch-K.safetensors and checkpoint.json, which names it. The
// json is replaced atomically after the tensors are on disk, so a kill at any moment leaves a whole
// checkpoint.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.hpp"
#include "engine/tensor/safetensors.hpp"
#include "engine/training/metrics.hpp"

namespace atl {

// The best evaluation so far (by the valid metric, else by train) and what it needs to be reported.
struct BestEpoch {
  int epoch = 0;  // 0: none yet
  Metrics metrics;
  int evaluations_since = 0;
  SafetensorsFile weights;  // as Trainer::state(false)
};

struct Checkpoint {
  int epoch = 0;          // epochs completed
  Json fingerprint;       // what must not change: dataset checksum and mathematical options
  SafetensorsFile state;  // as Trainer::state(true)
  BestEpoch best;
};

// `run` is the run folder. Rank 0 only.
void write_checkpoint(const std::filesystem::path& run, const Checkpoint& checkpoint);
// Throws Error{kInput} if there is no checkpoint, it is damaged (checksum) or malformed, or its
// fingerprint differs from `fingerprint` (naming the first field, both values).
Checkpoint read_checkpoint(const std::filesystem::path& run, const Json& fingerprint);
bool has_checkpoint(const std::filesystem::path& run);

// JSON of metrics: NaN becomes null and back.
Json to_json(const Metrics& metrics);

}  // namespace atl
