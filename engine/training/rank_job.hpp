// From a dataset folder to a rank that can train: partition, shard, backend, data, model, in this
// order, with all ranks agreeing on errors before the next step.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/parallel.hpp"
#include "datasets/shard.hpp"
#include "engine/exchange/part_group.hpp"
#include "engine/training/repartition.hpp"
#include "engine/training/replay.hpp"
#include "engine/training/trainer.hpp"
#include "kernels/kernel_choices.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Everything one rank holds. Members are destroyed in reverse order of use.
class RankJob {
 public:
  // Nodes of the dataset, at least one, ascending, each once.
  using NodeChoice = std::function<std::vector<GlobalId>(const Dataset&)>;

  // Collective. `model_outputs`: see RankData. `choose`: only the neighbourhood that evaluations
  // need for these nodes is read, and they are its first rows. Then the job has one rank, and does
  // nothing but evaluate. Null: all.
  RankJob(Transport& transport, const std::filesystem::path& dataset,
          const PartitionOptions& partition, const TrainOptions& options,
          std::int64_t model_outputs = 0, const NodeChoice& choose = nullptr);

  // With --repartition-every: makes the cut that this epoch (from 1) is trained on, unless the job
  // has it, with a trainer in the state of the one before. That ends references to trainer() and
  // data(). Then Trainer::enter_epoch(). Collective.
  void enter_epoch(int epoch);
  // Enters the epoch and runs it: see Trainer. Collective.
  EpochResult run_epoch(int epoch, const std::function<EpochWishes()>& wishes = {}) {
    enter_epoch(epoch);
    const ParallelThreads threads(threads_);
    EpochResult result = trainer_->run_epoch(epoch, wishes);
    result.cut = cut_;
    result.learning_rate = learning_rate_;
    return result;
  }

  // From the next epoch on, in place of all rates that options say. Schedule and parameter groups
  // go by it.
  void set_learning_rate(double rate);
  std::optional<double> learning_rate() const { return learning_rate_; }  // none: by options

  // The route of a run that goes on here: its sums keep their bits, wherever ranks are now.
  void keep_gradient_sum(const SumRoute& route);

  // The metric of `logits` of the last pass for the nodes of a range of ids. Nothing is trained
  // afterwards. Collective.
  struct RangeMetrics {
    Metrics metrics;  // of valid and test nodes
    std::int64_t test_nodes = 0;
  };
  RangeMetrics measure_range(ConstMatrixView logits, int epoch, const NodeRange& range);

  // The old nodes that are trained on; null: all.
  const ReplayBuffer* replay() const { return replay_ ? &*replay_ : nullptr; }

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }
  const RankData& data() const { return *data_; }
  Trainer& trainer() { return *trainer_; }
  const RankMap& map() const { return map_; }
  int threads() const { return threads_; }
  // quality.json of the partition; rank 0 only.
  const Json& partition_quality() const { return partition_quality_; }
  // Choices of kernels, read or being measured; null: none.
  const KernelChoices* choices() const { return choices_.get(); }
  // Bytes of the backend's memory taken since this job began (of a device; 0 on a host).
  std::int64_t device_bytes() {
    return backend_->host_accessible() ? 0 : bytes_at_start_ - backend_->available_bytes();
  }
  // Which way messages between devices travel and why.
  const DeviceTransportChoice& device_transport() const { return device_; }

 private:
  // Throws Error{kOption} on all ranks if --cuda-graph on asks for what can't be.
  void require_replay(const TrainOptions& options, Transport& transport) const;
  // The same of --offload on.
  void require_offload(const TrainOptions& options, Transport& transport) const;
  // From one cut to another, in the state that the trainer is in. Collective.
  void enter_cut(int number);
  // Rank 0 makes the partition if it is not there; then every rank opens the shard of its part. One
  // rank alone needs none on disk. Collective.
  Shard shard_of_rank(std::int64_t model_outputs, const NodeChoice& choose = nullptr);
  // See the constructor.
  Shard shard_of_chosen(const Dataset& dataset, const std::vector<GlobalId>& nodes,
                        std::int64_t model_outputs) const;
  // Collective.
  Shard shard_of_cut(int number);
  // From shard_ to a trainer that can run. Collective.
  void prepare(std::int64_t model_outputs);
  // A trainer of data_, with its memory. Collective.
  void prepare_trainer();
  // Which old nodes are trained on, and how much they count. Collective.
  void choose_replay();
  void weigh_replay();
  // Lets data_ know. Collective.
  void apply_replay();
  // The share of all edges that lie inside of a part. Collective.
  double share_of_edges_inside() const;
  // Says what the trainer saves, and how.
  void log_savings(const std::string& memory) const;

  Transport& transport_;
  std::filesystem::path dataset_;
  PartitionOptions partition_;
  const ModelConfig model_;  // before anything is saved
  TrainOptions options_;
  RankMap map_;
  std::optional<CutRecord> cut_;              // with --repartition-every: that of the epoch
  std::unique_ptr<Repartition> repartition_;  // in cuts other than the partition
  Json partition_quality_;
  std::optional<ReplayBuffer> replay_;
  std::vector<LocalId> old_rows_;  // of this rank, while the buffer is weighted
  Shard shard_;
  int threads_ = 0;
  std::int64_t bytes_at_start_ = 0;  // available to the backend
  std::shared_ptr<KernelChoices> choices_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  DeviceTransportChoice device_;
  std::unique_ptr<PartGroup> group_;  // null: each rank holds a part alone
  std::unique_ptr<RankData> data_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<double> learning_rate_;
};

}  // namespace atl
