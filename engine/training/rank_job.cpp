#include "engine/training/rank_job.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/elapsed.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "datasets/neighbourhood.hpp"
#include "datasets/partition_folder.hpp"
#include "datasets/whole_graph.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/exchange/rank_map.hpp"
#include "engine/program/needed_rows.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/backend_of_rank.hpp"
#include "engine/training/calibration.hpp"
#include "engine/training/host_share.hpp"
#include "engine/training/memory_limit.hpp"
#include "engine/training/warm_start.hpp"
#include "kernels/registry.hpp"
#include "partition/arrival_choice.hpp"

namespace atl {

namespace {

void check_decoder(const ModelConfig& model, Task task) {
  if (model.decoder == Decoder::kDot || task == Task::kLinkPrediction) return;
  fail_option(
      "--decoder {}: the task is {}; pairs of nodes are scored for task link-prediction only",
      to_string(model.decoder), to_string(task));
}

void check_repartition(const TrainOptions& train, const PartitionOptions& partition, Task task) {
  check_dealing(partition);
  if (!train.coverage_weights || task != Task::kLinkPrediction) return;
  fail_option(
      "--coverage-weights on: the task is {}, whose loss has no nodes that could count more or "
      "less; allowed with the other tasks",
      to_string(task));
}

void check_blocks_of(const TrainOptions& train, Task task) {
  if (!train.blocks.any() || task != Task::kLinkPrediction) return;
  fail_option("{}: the task is {}, whose edges to be predicted {}; allowed with the other tasks",
              train.blocks.option(), to_string(task),
              train.blocks.deals() ? "lie across blocks" : "are split, and not its nodes");
}

void check_stages_of(const TrainOptions& train, int ranks, Task task) {
  const StageOptions& stages = train.stages;
  if (!stages.any()) return;
  if (!stages.count.all && stages.count.number != ranks) {
    fail_option("{}: {} rank{}, each of which is a stage; allowed are {}, all, and 0",
                stages.option(), ranks, ranks == 1 ? "" : "s", ranks);
  }
  if (task == Task::kLinkPrediction) {
    fail_option(
        "{}: the task is {}, whose pairs of nodes have rows on all ranks; allowed with the other "
        "tasks",
        stages.option(), to_string(task));
  }
}

void check_replay_of(const TrainOptions& train, Task task) {
  if (task != Task::kLinkPrediction) return;
  const auto refuse = [&](bool is_given, const std::string& option) {
    if (!is_given) return;
    fail_option("{}: the task is {}, whose labels are edges; allowed with the other tasks", option,
                to_string(task));
  };
  refuse(train.replay.any(), "--replay " + to_string(train.replay.count));
  refuse(!train.sequence.empty(), "--sequence " + train.sequence);
}

// --threads, else OMP_NUM_THREADS, else an even share of the cores that this rank may run on.
int threads_per_rank(Transport& transport, int wanted) {
  const int share = cores_per_rank(transport);  // collective: called in any case
  if (wanted > 0) return wanted;
  const char* variable = std::getenv("OMP_NUM_THREADS");
  const int from_environment = variable != nullptr ? std::atoi(variable) : 0;
  return from_environment > 0 ? from_environment : share;
}

// Features and both directions of the graph with their factors, about.
std::int64_t device_bytes_of(const Shard& shard, DType dtype) {
  const LocalGraphView graph = shard.graph();
  return shard.dataset().features * graph.inner() * bytes_of(dtype) + graph.forward.csr.bytes() +
         (graph.symmetric ? 0 : graph.backward.csr.bytes()) + 32 * graph.inner();
}

}  // namespace

RankJob::RankJob(Transport& transport, const std::filesystem::path& dataset,
                 const PartitionOptions& partition, const TrainOptions& options,
                 std::int64_t model_outputs, const NodeChoice& choose)
    : transport_(transport),
      dataset_(dataset),
      partition_(partition),
      model_(options.model),
      options_(options),
      map_(rank_map(options.ranks_of_part(), transport)),
      shard_(shard_of_rank(model_outputs, choose)),
      threads_(threads_per_rank(transport, options.threads)) {
  const Activity activity("preparing", 0, transport.rank() == 0);
  BackendOptions settings;
  settings.threads = threads_;
  settings.tf32 = options.tf32;
  on_all_ranks(transport, [&] { settings.choices = choices_ = load_calibration(options); });
  backend_ = make_backend_of_rank(transport, options.backend, settings);
  on_all_ranks(transport, [&] {
    if (!backend_->supports(options.model.dtype)) {
      fail_option("--dtype {}: backend {} has no such storage; allowed there are f32, bf16",
                  to_string(options.model.dtype), backend_->name());
    }
    if (options.stages.any() && !backend_->host_accessible()) {
      fail_option("{}: rank {} computes on {}; stages are for CPUs (--backend cpu)",
                  options.stages.option(), transport.rank(), backend_->name());
    }
    bytes_at_start_ = backend_->available_bytes();
    queue_ = backend_->make_queue();
  });
  device_ = make_device_transport(options.messages, transport, *backend_);
  if (map_.ranks_per_part() > 1) {
    group_ = std::make_unique<PartGroup>(transport, map_, device_.transport.get());
  }
  const auto some_device = sum_over_ranks<std::int64_t>(
      transport, backend_->host_accessible() ? 0 : 1, {"device count"});
  if (options_.sum_choice == SumChoice::kAuto && options_.gradient_sum.is_all_reduce()) {
    options_.gradient_sum = sum_route_of_hosts(transport);
  }
  options_.arrival = arrival_in_job(options_.arrival, /*on_cpus=*/some_device == 0,
                                    /*alone=*/group_ == nullptr, transport.divides_packets());
  require_replay(options, transport);
  require_offload(options, transport);
  if (options.replay.any() && model_outputs == 0) choose_replay();
  prepare(model_outputs);
  if (replay_ && options.replay.weights == ReplayWeights::kMatch) weigh_replay();
  if (options.repartition_every > 0) cut_ = CutRecord{0, share_of_edges_inside(), {}};
  if (transport.rank() == 0) {
    const LocalGraphView& graph = data_->graph();
    log::info("{} rank{} ({}), backend {}; rank 0: {} nodes ({} central), {} halo rows, {}",
              transport.size(), transport.size() == 1 ? "" : "s", transport.name(),
              backend_->device(), graph.inner(), graph.central,
              trainer_->network().shape().rows.arriving(Direction::kForward),
              format_bytes(trainer_->bytes_needed()));
    if (const StageCut* cut = trainer_->stages(); cut != nullptr) {
      log::info(
          "stages begin with layers {}; {} chunks of nodes, which read rows of the last epoch "
          "from epoch {} on",
          fmt::join(cut->first_layer, ", "), options_.stages.chunks, options_.stages.stale_from);
    } else if (group_ != nullptr) {
      log::info("groups of {} ranks hold a part together; rank 0 has {} of its rows",
                group_->roles(), data_->rows());
    }
    log_savings(options.model.memory);
    if (some_device) log::info("{}", device_.reason);
  }
}

Shard RankJob::shard_of_rank(std::int64_t model_outputs, const NodeChoice& choose) {
  const bool training = model_outputs == 0;
  std::string folder;
  std::string checksum;
  Shard shard;
  const auto make_or_find = [&] {
    if (transport_.rank() != 0) return;
    const Dataset dataset = Dataset::open(dataset_);
    if (training) {
      dataset.require_trainable(options_.split_index, options_.model.trains_nodes());
      check_loss_options(options_.loss, dataset.info().task);
      check_decoder(options_.model, dataset.info().task);
      check_blocks_of(options_, dataset.info().task);
      check_stages_of(options_, transport_.size(), dataset.info().task);
      check_replay_of(options_, dataset.info().task);
      if (options_.repartition_every > 0)
        check_repartition(options_, partition_, dataset.info().task);
    } else {
      dataset.require_predictable(options_.split_index, options_.model.trains_nodes());
    }
    if (choose) {
      shard = shard_of_chosen(dataset, choose(dataset), model_outputs);
      return;
    }
    // Features of a partition are mapped, so that memory need not hold them.
    if (transport_.size() == 1 && !has_partition(dataset, 1, partition_) &&
        fits_into_memory(dataset) && options_.model.offload_folder.empty()) {
      WholeGraph whole = whole_graph(dataset, partition_);
      shard = std::move(whole.shard);
      partition_quality_ = std::move(whole.quality);
      return;
    }
    const Partition partition = ensure_partition(dataset, map_.parts(), partition_);
    folder = partition.folder.string();
    checksum = partition.checksum();
    partition_quality_ = partition.quality;
  };
  on_all_ranks(transport_, make_or_find, {"the partition"});
  if (transport_.size() == 1 && folder.empty()) return shard;
  share_text(transport_, folder, {"partition folder"});
  share_text(transport_, checksum, {"partition checksum"});
  const int part = map_.part_of(transport_.rank());
  on_all_ranks(transport_, [&] { shard = open_shard(folder, part, checksum); }, {"the shard"});
  return shard;
}

Shard RankJob::shard_of_chosen(const Dataset& dataset, const std::vector<GlobalId>& nodes,
                               std::int64_t model_outputs) const {
  ATOLL_ASSERT(transport_.size() == 1, "{} ranks", transport_.size());
  const DatasetInfo& info = dataset.info();
  const ModelConfig model = model_.sized(sizes_of(info, model_outputs), 1);
  const NeededRows needed = needed_rows(model_program(model, Pass::kEvaluation));
  if (needed.counts_out_edges && info.directed) {
    fail_option(
        "--nodes: attention multiplies rows by roots of degrees (--attention-norm symmetric), and "
        "{} is "
        "directed, so that out-degrees are known of the whole graph alone; predict all nodes",
        dataset.folder().string());
  }
  // The edges of the farthest nodes are those that they send along, in a graph that is symmetric.
  return neighbourhood(dataset, nodes, needed.most + (needed.counts_out_edges ? 1 : 0));
}

void RankJob::prepare(std::int64_t model_outputs) {
  const ParallelThreads threads(threads_);
  // The shard takes memory on a device; on a host it is mapped, not copied.
  const bool copied = !backend_->host_accessible();
  require_memory(transport_, *backend_, copied ? device_bytes_of(shard_, model_.dtype) : 0);
  {
    // The first read of features and labels, which ends with a sum over ranks.
    const HeartbeatScope scope(transport_, {"the data of each rank"});
    const bool on_blocks = options_.blocks.any() && model_outputs == 0;
    const bool in_stages = options_.stages.any() && model_outputs == 0;
    // The ranks of a group divide each block anew: rows may lie outside of their share of the part.
    // Stages have all rows.
    data_ = std::make_unique<RankData>(*backend_, *queue_, transport_, shard_, options_.split_index,
                                       model_.dtype, options_.loss, model_outputs, group_.get(),
                                       /*has_part=*/(on_blocks || in_stages) && group_ != nullptr);
    if (data_->dataset().task == Task::kLinkPrediction) {
      data_->set_links(
          LinkShare::read(transport_, dataset_, data_->host_ids(), data_->dataset().nodes));
    }
    if (on_blocks) {
      data_->set_dealing(BlockDealing(transport_, dataset_, data_->graph(), options_.blocks,
                                      options_.seed, partition_.parts_dir, options_.split_index));
    }
    if (options_.coverage_weights && repartition_ != nullptr) {
      const LocalGraphView& graph = data_->graph();
      std::vector<float> weights = repartition_->coverage(graph);
      if (group_ != nullptr) {
        weights = group_->of_own_rows(std::span<const float>(weights), graph.central, 1);
      }
      data_->set_node_weights(std::move(weights));
    }
    apply_replay();
    transport_.barrier({"the data of each rank"});
  }
  prepare_trainer();
}

void RankJob::prepare_trainer() {
  options_.model = model_;
  if (group_ != nullptr) options_.model.column_share = {group_->role(), group_->roles()};
  const auto make_trainer = [&] {
    on_all_ranks(transport_, [&] {
      trainer_ = std::make_unique<Trainer>(options_, *data_, *backend_, *queue_, transport_,
                                           device_.transport.get(), group_.get());
    });
  };
  make_trainer();
  if (const auto limit = parse_bytes(model_.memory)) {
    // On a host what lies in mapped files is still to come, and the rest of the data is there.
    const std::int64_t mapped = shard_.rest();
    const std::int64_t data = backend_->host_accessible() ? mapped : data_->bytes();
    const Savings savings = savings_within(*limit, data, *trainer_, transport_);
    options_.model.dropping = savings.dropping;
    options_.model.offloading = savings.offloading;
    options_.model.paged_budget = savings.paged_budget;
    if (savings.any()) make_trainer();
  }
  if (learning_rate_) trainer_->set_learning_rate(*learning_rate_);
  require_memory(transport_, *backend_, trainer_->bytes_needed());
  if (trainer_->model().offloading.any()) {
    require_pinned_memory(transport_, trainer_->network().host_bytes());
  }
  if (trainer_->model().paged_budget > 0) {
    on_all_ranks(transport_, [&] { trainer_->network().make_file(); });
  }
  {
    const HeartbeatScope scope(transport_, {"the memory of each rank"});
    trainer_->allocate();
    transport_.barrier({"the memory of each rank"});
  }
}

void RankJob::choose_replay() {
  ReplayBuffer buffer;
  on_all_ranks(transport_,
               [&] {
                 if (transport_.rank() != 0) return;
                 const ReplayOptions& replay = options_.replay;
                 const std::int64_t first_new =
                     replay.from > 0 ? replay.from : warm_start_nodes(options_.warm_start);
                 buffer =
                     atl::choose_replay(Dataset::open(dataset_), replay, first_new,
                                        options_.split_index, options_.seed, layer_count(model_));
                 log::info("replay: training on {} new nodes, and on {} of {} old ones ({})",
                           buffer.new_nodes, buffer.nodes.size(), buffer.old_nodes,
                           to_string(replay.select));
               },
               {"the buffer of old nodes"});
  share_replay(transport_, buffer);
  replay_ = std::move(buffer);
}

void RankJob::apply_replay() {
  if (!replay_) return;
  old_rows_ = data_->labelled_rows(Split::kTrain);
  std::erase_if(old_rows_, [&](LocalId row) {
    return to_index(data_->host_ids()[static_cast<std::size_t>(to_index(row))]) >=
           replay_->first_new;
  });
  data_->set_split(*backend_, *queue_, transport_,
                   split_with(*replay_, data_->host_ids(), data_->host_split()));
  if (const RankData& part = data_->of_part(); &part != data_.get()) {
    data_->set_split_of_part(*backend_, *queue_,
                             split_with(*replay_, part.host_ids(), part.host_split()));
  }
  if (replay_->weights.empty()) return;
  data_->set_node_weights(replay_row_weights(*replay_, *data_, transport_));
}

void RankJob::weigh_replay() {
  const ParallelThreads threads(threads_);
  load_warm_start(*trainer_, options_.warm_start, transport_);
  match_replay(*replay_, *trainer_, old_rows_);
  old_rows_ = {};
  if (transport_.rank() == 0) {
    log::info(
        "replay: the mean row of the buffer is {:.3g} from that of all old nodes, weighted {:.3g}",
        replay_->distance[0], replay_->distance[1]);
  }
  // Its loss is made for the weights.
  trainer_.reset();
  data_->set_node_weights(replay_row_weights(*replay_, *data_, transport_));
  prepare_trainer();
}

RankJob::RangeMetrics RankJob::measure_range(ConstMatrixView logits, int epoch,
                                             const NodeRange& range) {
  const std::vector<std::uint8_t> whole(data_->host_split().begin(), data_->host_split().end());
  std::vector<std::uint8_t> inside = whole;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const std::int64_t id = to_index(data_->host_ids()[i]);
    // Without training nodes, classes might have no weights.
    if (inside[i] == static_cast<std::uint8_t>(Split::kTrain)) continue;
    if (id < range.first || id >= range.end) inside[i] = static_cast<std::uint8_t>(Split::kNone);
  }
  data_->set_split(*backend_, *queue_, transport_, std::move(inside));
  const auto test_nodes = sum_over_ranks<std::int64_t>(
      transport_, std::ssize(data_->labelled_rows(Split::kTest)), {"the test nodes of a step"});
  const RangeMetrics found{trainer_->measure(epoch, logits, MetricExtent::kChosen), test_nodes};
  data_->set_split(*backend_, *queue_, transport_, whole);
  return found;
}

void RankJob::enter_epoch(int epoch) {
  if (cut_) {
    cut_->ms.reset();
    // The partition has fewer messages than dealt parts.
    const bool deals = map_.parts() > 1 && !trainer_->has_switched(epoch);
    const int number = deals ? std::max(epoch - 1, 0) / options_.repartition_every : 0;
    if (number != cut_->number) enter_cut(number);
  }
  trainer_->enter_epoch(epoch);
}

void RankJob::set_learning_rate(double rate) {
  learning_rate_ = rate;
  trainer_->set_learning_rate(rate);
}

void RankJob::keep_gradient_sum(const SumRoute& route) {
  if (options_.sum_choice != SumChoice::kAuto) return;
  options_.gradient_sum = route;
  trainer_->set_gradient_sum(route);
}

void RankJob::enter_cut(int number) {
  const SteadyTime start = steady_now();
  const ParallelThreads threads(threads_);
  if (repartition_ == nullptr) {
    repartition_ = std::make_unique<Repartition>(transport_, map_.parts(), dataset_, partition_,
                                                 data_->dataset());
  }
  // Two cuts at once are more than there may be memory for.
  const SafetensorsFile state = trainer_->state(/*optimizer=*/true, StateOf::kAllRanks);
  const int last_before_switch = trainer_->last_before_switch();
  trainer_.reset();
  data_.reset();
  shard_ = {};
  shard_ = shard_of_cut(number);
  if (number == 0) repartition_.reset();
  prepare(/*model_outputs=*/0);
  trainer_->set_last_before_switch(last_before_switch);
  const std::string place = fmt::format("the state before cut {}", number);
  on_all_ranks(transport_, [&] { trainer_->load_state(state, /*optimizer=*/true, place); });
  cut_ = CutRecord{number, share_of_edges_inside(), 1e3 * seconds_since(start)};
}

Shard RankJob::shard_of_cut(int number) {
  Shard shard;
  if (number == 0) {
    shard = shard_of_rank(/*model_outputs=*/0);
  }
  on_all_ranks(
      transport_,
      [&] {
        if (number == 0) {
          require_same_dataset(shard.dataset(), repartition_->dataset().info().checksum, dataset_);
          return;
        }
        shard =
            Shard::copy(repartition_->dataset(),
                        repartition_->part(map_.part_of(transport_.rank()), options_.seed, number));
      },
      {"the cut"});
  return shard;
}

double RankJob::share_of_edges_inside() const {
  const LocalMatrixView& matrix = data_->graph().forward;
  std::int64_t inside = 0;
  for (std::size_t i = 0; i < matrix.split.size(); ++i) {
    inside += matrix.split[i] - matrix.csr.row_ptr[i];
  }
  if (map_.role_of(transport_.rank()) != 0) inside = 0;  // another rank of the part counts them
  inside = sum_over_ranks(transport_, inside, {"edges inside of parts"});
  const std::int64_t edges = data_->dataset().edges;
  return edges == 0 ? 1 : static_cast<double>(inside) / static_cast<double>(edges);
}

void RankJob::log_savings(const std::string& memory) const {
  const ModelConfig& model = trainer_->model();
  const std::string why = memory.empty() ? "--offload on" : "--memory " + memory;
  if (model.dropping.any()) {
    const std::vector<int> runs = runs_of(model.dropping, layer_count(model));
    log::info("{}: values of {} of {} layers are computed again for backward{}", why,
              std::ranges::count_if(runs, [](int run) { return run > 0; }), runs.size(),
              model.dropping.keeps_aggregates ? ", but for aggregates" : "");
  }
  if (model.offloading.any()) {
    log::info("{}: values wait for backward in {} of pinned host memory on rank 0", why,
              format_bytes(trainer_->network().host_bytes()));
  }
  if (model.paged_budget > 0) {
    const Network& network = trainer_->network();
    const DiskTraffic traffic = network.disk_traffic(model.paged_budget);
    const bool evaluates = trainer_->trains_on_blocks_alone();
    log::info(
        "{}: on rank 0, {} of {} of values{}{} are in memory at a time, the others in a file in "
        "{}; an {} writes {} and reads {}",
        why, format_bytes(model.paged_budget), format_bytes(network.pageable_bytes()),
        evaluates ? " of evaluations" : "", data_->mapped_features().empty() ? "" : " and features",
        model.offload_folder, evaluates ? "evaluation" : "epoch", format_bytes(traffic.written),
        format_bytes(traffic.read));
  }
}

void RankJob::require_offload(const TrainOptions& options, Transport& transport) const {
  const std::string& folder = options.model.offload_folder;
  on_all_ranks(transport, [&] {
    if (!folder.empty() && !backend_->host_accessible()) {
      fail_option(
          "--offload-folder {}: rank {} computes on {}; values in files are for CPUs, those of a "
          "GPU may wait in its host's memory (--offload)",
          folder, transport.rank(), backend_->name());
    }
    std::error_code unreadable;
    if (!folder.empty() && !std::filesystem::is_directory(folder, unreadable)) {
      fail_option("--offload-folder {}: no such folder on the host of rank {}", folder,
                  transport.rank());
    }
    if (options.model.offload != OffloadChoice::kOn || !folder.empty()) return;
    if (!backend_->host_accessible()) return;
    fail_option(
        "--offload on: rank {} computes on {}, whose memory is the host's; only a GPU has another, "
        "--backend cuda; use auto, or give --offload-folder",
        transport.rank(), backend_->name());
  });
}

void RankJob::require_replay(const TrainOptions& options, Transport& transport) const {
  if (options.cuda_graph != GraphReplay::kOn) return;
  if (shard_.dataset().task == Task::kLinkPrediction) {
    fail_option("--cuda-graph on: other pairs are drawn for links in every epoch; use auto");
  }
  const bool recorded =
      !backend_->host_accessible() && (transport.size() == 1 || device_.transport != nullptr);
  on_all_ranks(transport, [&] {
    if (recorded) return;
    fail_option(
        "--cuda-graph on: rank {} computes on {} and {}; an epoch is recorded on one rank, or "
        "with NCCL between all; use auto",
        transport.rank(), backend_->name(), device_.reason);
  });
}

}  // namespace atl
