// The options of a training run: plain data, filled from the command line by option_table.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/models/model.hpp"
#include "engine/program/optimizer.hpp"
#include "engine/training/block_options.hpp"
#include "engine/training/first_phase.hpp"
#include "engine/training/group_ranks.hpp"
#include "engine/training/loss_options.hpp"
#include "engine/training/replay_options.hpp"
#include "engine/training/sequence.hpp"
#include "engine/training/stage_options.hpp"
#include "kernels/kernel_choices.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Whether an epoch is recorded once and replayed (a CUDA graph). auto: where nothing but the device
// takes part in it, i.e. on one rank.
enum class GraphReplay { kAuto, kOn, kOff };
// Recording takes about as long as queueing an epoch, so it is done for so many epochs at least.
inline constexpr int kEpochsWorthRecording = 3;

// The state of --run-dir: empty; a folder just made for this run; a run to go on with, or to be
// replaced.
enum class RunStart { kFresh, kNew, kResume, kOverwrite };

// The score of the validation nodes that ends a run before its last epoch: --target.
struct TargetScore {
  std::optional<double> score;  // in the units of --metric; none: the run has all its epochs

  bool operator==(const TargetScore&) const = default;
};
std::string to_string(const TargetScore& target);  // "none", "0.75"
// The reverse; throws Error{kOption} for other texts.
TargetScore parse_target(const std::string& text);

struct TrainOptions {
  // Mathematics: a checkpoint refuses to resume under other values.
  ModelConfig model;          // features and outputs are those of the dataset
  OptimizerConfig optimizer;  // its `epochs` is the length of the run
  LossOptions loss;
  BlockOptions blocks;
  StageOptions stages;
  PhaseEnd local_until;  // up to then no messages travel, as with --exchange none
  SwitchOptions switching;
  std::uint64_t seed = 1;
  std::filesystem::path init;  // weights to begin with, see initial_weights(); empty: by the seed
  // The run whose model it begins with, see warm_start.hpp; empty: none.
  std::filesystem::path warm_start;
  ReplayOptions replay;
  std::int64_t split_index = 0;
  bool tf32 = false;  // products with 10-bit mantissas where the device has them

  // How it is computed: the numbers stay within rounding.
  SumChoice sum_choice = SumChoice::kAuto;
  SumRoute gradient_sum;   // over ranks, where it was chosen
  GroupRanks group_ranks;  // see ranks_of_part()
  bool overlap = true;
  Arrival arrival = Arrival::kAuto;
  std::string exchange = kExactMode;
  BitOptions message_bits;
  SendOptions sending;
  int repartition_every = 0;      // epochs that each cut is trained on; 0: there is one cut
  bool coverage_weights = false;  // nodes count by how many of their neighbours a cut leaves them
  std::string backend = "auto";   // or one per rank, separated by commas
  std::string messages = "auto";  // between devices: see make_device_transport
  GraphReplay cuda_graph = GraphReplay::kAuto;
  SpmmWish spmm = SpmmWish::kAuto;    // on a device, where `calibration` names no kernel
  std::filesystem::path calibration;  // choices made before
  int threads = 0;                    // per rank; 0 = cores / ranks on this host

  // Reports, and what is kept.
  int eval_every = 1;        // 0: only at the end
  std::string sequence;      // see parse_sequence(); empty: nodes are not measured by their ids
  int patience = 0;          // evaluations without a better valid metric before stopping; 0: never
  TargetScore target;        // the valid metric that ends the run
  int checkpoint_every = 0;  // epochs; 0: by time
  double checkpoint_seconds = 600;  // 0: by epochs; neither: no checkpoints
  int snapshot_every = 0;           // epochs, see Snapshots; 0: none
  std::filesystem::path snapshot_dir = "/dev/shm";
  double max_seconds = 0;  // after which training stops as if asked to; 0: never
  RunStart start = RunStart::kFresh;
  bool take_over = false;  // the run folder, from a process that still holds it
  bool resume = false;     // goes on from what is there: see open_run_folder
  bool trace = false;
  std::filesystem::path run_dir;  // empty: nothing is written

  // Whether a checkpoint that time asks for may stand behind this epoch. Stages go on from one
  // without rows of the last epoch, and do so at fixed epochs, checkpoint or not: numbers must not
  // depend on the clock.
  bool may_checkpoint_by_time(int epoch) const {
    constexpr int kEpochsOfStages = 50;
    return checkpoint_seconds > 0 && (!stages.any() || epoch % kEpochsOfStages == 0);
  }
  // How many ranks hold a part together: stages all have the whole graph.
  GroupRanks ranks_of_part() const {
    return stages.any() ? GroupRanks{.by = GroupRanks::By::kAll} : group_ranks;
  }
  // Those of --exchange.
  ExchangeOptions exchange_options() const { return {exchange, message_bits, sending}; }
  // Those of the epochs before the switch, or of all, if there is none.
  ExchangeOptions first_exchange_options() const;
  // The end of the first phase, if there is one. Blocks end with a local phase.
  const PhaseEnd& first_phase_end() const { return local_until.any() ? local_until : blocks.until; }
  // The option that says so, as it was given: "--local-until 20".
  std::string first_phase_option() const;
  // Whether the whole graph is for evaluation alone.
  bool trains_on_blocks_alone() const { return blocks.any() && !first_phase_end().any(); }
};

// Throws Error{kOption} for combinations that make no sense.
void check_options(const TrainOptions& options);

}  // namespace atl
