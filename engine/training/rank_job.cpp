#include "engine/training/rank_job.hpp"

#include <algorithm>
#include <thread>

#include "base/log.hpp"
#include "base/memory.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/host_memory.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

// Rank 0 makes the partition if it is not there; then every rank opens its own shard.
Shard open_shard(Transport& transport, const std::filesystem::path& dataset_folder,
                 const PartitionOptions& options) {
  // Cutting a large graph takes as long as it takes: silence is no sign of trouble here.
  const double timeout = transport.timeout_seconds();
  transport.set_timeout_seconds(0);
  std::string folder;
  on_all_ranks(transport, [&] {
    if (transport.rank() != 0) return;
    const Dataset dataset = Dataset::open(dataset_folder);
    folder = ensure_partition(dataset, transport.size(), options).string();
  });
  transport.set_timeout_seconds(timeout);
  auto length = static_cast<std::int64_t>(folder.size());
  transport.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0, {"partition folder"});
  folder.resize(static_cast<std::size_t>(length));
  transport.broadcast(std::as_writable_bytes(std::span(folder)), 0, {"partition folder"});
  Shard shard;
  on_all_ranks(transport, [&] { shard = Shard::open(shard_folder(folder, transport.rank())); });
  return shard;
}

int threads_per_rank(Transport& transport, int wanted) {
  const int ranks = ranks_on_this_host(transport);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return wanted > 0 ? wanted : std::max(1, cores / ranks);
}

}  // namespace

RankJob::RankJob(Transport& transport, const std::filesystem::path& dataset,
                 const PartitionOptions& partition, const TrainOptions& options)
    : shard_(open_shard(transport, dataset, partition)),
      threads_(threads_per_rank(transport, options.threads)) {
  on_all_ranks(transport, [&] {
    backend_ = make_backend(options.backend, {threads_, -1});
    queue_ = backend_->make_queue();
  });
  data_ = std::make_unique<RankData>(*backend_, *queue_, transport, shard_, options.split_index);
  trainer_ = std::make_unique<Trainer>(options, *data_, *backend_, *queue_, transport);
  require_host_memory(transport, trainer_->bytes_needed());
  trainer_->allocate();
  if (transport.rank() == 0) {
    const LocalGraphView& graph = data_->graph();
    log::info("{} ranks ({}), backend {}; rank 0: {} nodes ({} central), {} halo rows, {}",
              transport.size(), transport.name(), backend_->device(), graph.inner(), graph.central,
              graph.forward.plan.halo_rows(), format_bytes(trainer_->bytes_needed()));
  }
}

}  // namespace atl
