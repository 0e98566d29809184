// From a dataset folder to a rank that can train: partition, shard, backend, data, model, in this
// order, with all ranks agreeing on errors before the next step.
#pragma once

#include <memory>

#include "datasets/shard.hpp"
#include "engine/training/trainer.hpp"
#include "kernels/kernel_choices.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Everything one rank holds. Members are destroyed in reverse order of use.
class RankJob {
 public:
  // Collective. `model_outputs`: see RankData.
  RankJob(Transport& transport, const std::filesystem::path& dataset,
          const PartitionOptions& partition, const TrainOptions& options,
          std::int64_t model_outputs = 0);

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }
  const RankData& data() const { return *data_; }
  Trainer& trainer() { return *trainer_; }
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
  // Says what the trainer saves, and how.
  void log_savings(const std::string& memory) const;

  TrainOptions options_;
  Json partition_quality_;
  Shard shard_;
  int threads_ = 0;
  std::int64_t bytes_at_start_ = 0;  // available to the backend
  std::shared_ptr<KernelChoices> choices_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  DeviceTransportChoice device_;
  std::unique_ptr<RankData> data_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace atl
