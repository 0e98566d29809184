// Checkpoints of a run: RUN/checkpoint/epoch-K.safetensors. One file holds all that a resumed run
// needs, under one checksum, and appears whole; the newest counts. Rows that ranks keep for their
// messages are too many for one: each rank has a file of its own for them, which is there before
// the checkpoint that names its checksum.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/tensor/safetensors.hpp"
#include "engine/training/metrics.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// The best evaluation so far and what it needs to be reported.
struct BestEpoch {
  int epoch = 0;  // 0: none yet
  Metrics metrics;
  int evaluations_since = 0;  // or since the first phase, where it ended by accuracy
  SafetensorsFile weights;    // as Trainer::state(false)
};

struct Checkpoint {
  int epoch = 0;          // epochs completed
  Json fingerprint;       // what must not change: dataset checksum and mathematical options
  SafetensorsFile state;  // as Trainer::state(true)
  BestEpoch best;
  std::string line = {};  // of `epoch` in metrics.jsonl; only in snapshots
  // A signal has ended the run before the evaluation that was due after `epoch`; whoever goes on
  // makes up for it.
  bool evaluation_is_due = false;
  // Checksums of the ranks' files (rank_files.hpp), by rank; empty: they have none.
  std::vector<std::string> rank_files = {};
  int last_before_switch = 0;  // where accuracy decides, once it is known: see Trainer
  std::optional<double> learning_rate = {};  // none: as options say; see RankJob
  // The ranks of the run, and how it added up gradients over them; 0: it does not say.
  int ranks = 0;
  SumRoute gradient_sum = {};
};

// The bytes of its file.
std::string to_bytes(Checkpoint checkpoint);

// `run` is the run folder. Writes the checkpoint, then removes older ones of ours; other files stay
// as they are. `may_write` is asked at the last moment and refuses by throwing. Throws
// Error{kInput} if a newer checkpoint is there. Rank 0 only.
void write_checkpoint(const std::filesystem::path& run, const Checkpoint& checkpoint,
                      const std::function<void()>& may_write = {});

// Its epoch; 0: none.
int newest_checkpoint_epoch(const std::filesystem::path& run);
// The file of the newest checkpoint, judged by its name and that we wrote it.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);
// Removes what we wrote of epochs before `epoch`, files of ranks included.
void remove_checkpoints_before(const std::filesystem::path& run, int epoch);

// Reads the bytes of `file`, a checkpoint or a snapshot. Throws Error{kInput} if it is damaged
// (checksum) or malformed, or its fingerprint differs from `fingerprint` (naming the first field,
// both values).
Checkpoint parse_checkpoint(std::span<const std::byte> bytes, const std::filesystem::path& file,
                            const Json& fingerprint);

// JSON of metrics, without classes: NaN becomes null and back.
Json to_json(const Metrics& metrics);
// The classes of train, valid and test: per class precision, recall, f1 and support, and confusion,
// [label][what it was taken for]; {} where they are not known.
Json classes_json(const Metrics& metrics);

}  // namespace atl
