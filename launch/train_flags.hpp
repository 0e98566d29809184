// The options of a training run, for every subcommand that trains.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "engine/comm/transport.hpp"
#include "engine/plan/planned_job.hpp"
#include "launch/partition_flags.hpp"

namespace atl {

// The value of --run-dir where nothing is to be kept.
inline constexpr const char* kNoRunDir = "none";

struct TrainFlags {
  std::string dataset;
  TrainOptions train;
  PartitionFlags partition;
  std::uint64_t partition_seed = 1;
  TransportOptions transport;
  std::string plan;                   // file that fixes partition, algebra and bits
  const CLI::App* command = nullptr;  // whose options of messages were given; null: it has none

  // Throws Error{kOption} for combinations that make no sense.
  TrainOptions resolve() const;
  // The same without the exchange mode, instead of which a command trains others: `modes`, chosen
  // by the option `choice`.
  TrainOptions resolve_with(std::span<const ExchangeOptions> modes,
                            const std::string& choice) const;
  // A seed of its own: runs with other weights share one partition on disk.
  PartitionOptions resolve_partition() const {
    return partition.resolve(partition_seed, train.split_index);
  }
  // Without the plan and what only that needs.
  TrainJob unplanned_job() const;
  PlanChoice plan_choice() const { return {plan, dataset, partition.options.parts_file.string()}; }
};

// By the plan if there is one, see planned_job(). Collective.
TrainJob job_of(const TrainFlags& flags, Transport& transport, int trial_epochs = 0);

// How messages between devices travel under --transport: see make_device_transport.
std::string messages_of(const std::string& transport);

// Declares parts of what add_train_flags does, for subcommands that train nothing: DIR and what a
// program of the model depends on; how the graph is cut; how messages travel.
void add_model_flags(CLI::App& command, TrainFlags& flags);
void add_cut_flags(CLI::App& command, TrainFlags& flags);
// The exchange mode, and of its options those that say what is sent and kept.
void add_message_flags(CLI::App& command, TrainFlags& flags);
// Declares --plan, which excludes what it fixes; after the options of both.
void add_plan_flag(CLI::App& command, TrainFlags& flags);

// Declares DIR, the partition options and train_options() without their group Results. `flags` must
// live until the command's callback has run.
void add_train_flags(CLI::App& command, TrainFlags& flags);

// Adds `atoll train` that does nothing but say what is wrong with its options. The flags live as
// long as the command, and hold the options once these are read.
const TrainFlags& add_train_check(CLI::App& app);

}  // namespace atl
