#include "engine/training/option_table.hpp"

#include <array>

#include "engine/models/model_options.hpp"
#include "engine/program/parameter_groups.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

using TrainRow = Option<TrainOptions>;
using Table = OptionTable<TrainOptions>;

template <typename Inner, typename Member>
void append_inside(Table& table, const OptionTable<Inner>& rows, Member member) {
  for (const Option<Inner>& row : rows) {
    table.push_back(row.template inside<TrainOptions>(member));
  }
}

OptionTable<OptimizerConfig> optimizer_options() {
  using Row = Option<OptimizerConfig>;
  return {
      {.name = "lr",
       .group = "Optimizer",
       .help = "Learning rate of Adam",
       .value = Row::above(ATOLL_FIELD(learning_rate), 0),
       .recorded = kAlwaysRecorded},
      {.name = "weight-decay",
       .group = "Optimizer",
       .help = "L2 penalty added to the gradient",
       .value = Row::at_least(ATOLL_FIELD(weight_decay), 0),
       .recorded = kAlwaysRecorded},
      {.name = "weight-decay-layers",
       .group = "Optimizer",
       .help = "Layers that decay: all or first",
       .value =
           Row::word<bool>(ATOLL_FIELD(decay_first_layer_only), {{"all", false}, {"first", true}}),
       .recorded = kAlwaysRecorded},
      {.name = "lr-schedule",
       .group = "Optimizer",
       .help = "How the rate changes: constant, cosine, step",
       .value = Row::word<LearningRateSchedule>(ATOLL_FIELD(schedule),
                                                {{"constant", LearningRateSchedule::kConstant},
                                                 {"cosine", LearningRateSchedule::kCosine},
                                                 {"step", LearningRateSchedule::kStep}}),
       .recorded = kAlwaysRecorded},
      {.name = "optimizer",
       .group = "Optimizer",
       .help = "adam: weight decay is added to the gradient; adamw: it shrinks the parameters",
       .value = Row::word<OptimizerKind>(
           ATOLL_FIELD(kind), {{"adam", OptimizerKind::kAdam}, {"adamw", OptimizerKind::kAdamW}}),
       .recorded =
           [](const OptimizerConfig& config) { return config.kind != OptimizerKind::kAdam; }},
      {.name = "lr-warmup",
       .group = "Optimizer",
       .help = "Epochs in which the rate rises in equal steps to that of the schedule",
       .value = Row::number(ATOLL_FIELD(warmup_epochs), 0, 10000000),
       .recorded = [](const OptimizerConfig& config) { return config.warmup_epochs > 0; }},
      {.name = "clip-norm",
       .group = "Optimizer",
       .help = "Most L2 norm of all gradients together: larger ones are scaled; 0: any",
       .value = Row::at_least(ATOLL_FIELD(clip_norm), 0),
       .recorded = [](const OptimizerConfig& config) { return config.clip_norm > 0; }},
      {.name = "average-weights",
       .group = "Optimizer",
       .help = "Evaluate and save a running mean of the weights, of which a step keeps this share, "
               "0 to "
               "0.9999; 0: the weights themselves",
       .value = Row::number(ATOLL_FIELD(average_decay), 0.0, 0.9999),
       .recorded = [](const OptimizerConfig& config) { return config.average_decay > 0; }},
      {.name = "parameter-groups",
       .group = "Optimizer",
       .help = "Rates and decay of parameters by name, the first match counts: 'head.*: lr=0.1, "
               "weight-decay=5e-4; layers.0.*: weight-decay=0.01'; --lr-schedule and --lr-warmup "
               "go for all",
       .value = Row::text(ATOLL_FIELD(parameter_groups), parameter_groups_problem),
       .recorded = [](const OptimizerConfig& config) { return !config.parameter_groups.empty(); }},
  };
}

OptionTable<OptimizerConfig> schedule_options() {
  using Row = Option<OptimizerConfig>;
  const auto steps = [](const OptimizerConfig& optimizer) {
    return optimizer.schedule == LearningRateSchedule::kStep;
  };
  return {
      {.name = "epochs",
       .group = "Optimizer",
       .help = "Full-graph epochs",
       .value = Row::number(ATOLL_FIELD(epochs), 1, 10000000),
       .recorded =
           [](const OptimizerConfig& optimizer) {
             return optimizer.schedule == LearningRateSchedule::kCosine;
           }},
      {.name = "lr-step-epochs",
       .group = "Optimizer",
       .help = "Epochs between steps (step)",
       .value = Row::number(ATOLL_FIELD(step_epochs), 1, 10000000),
       .recorded = steps},
      {.name = "lr-step-factor",
       .group = "Optimizer",
       .help = "Factor of each step (step)",
       .value = Row::above(ATOLL_FIELD(step_factor), 0),
       .recorded = steps},
  };
}

Table block_options() {
  const auto any = [](const TrainOptions& options) { return options.blocks.deals(); };
  return {
      {.name = "inductive",
       .group = "Optimizer",
       .help = "Training sees only the training nodes and the edges between them (train, or the "
               "flag alone), or those of training and validation (valid); evaluations see the "
               "whole graph",
       .value = TrainRow::name_of(ATOLL_FIELD(blocks.seen),
                                  {SeenNodes::kAll, SeenNodes::kTrain, SeenNodes::kTrainAndValid}),
       .recorded = [](const TrainOptions& options) { return options.blocks.leaves_out(); },
       .plan = PlanRole::kExcludes,
       .bare = "train"},
      {.name = "blocks",
       .group = "Optimizer",
       .help = "Deal the nodes to so many blocks in each epoch and make a step on each one, on the "
               "edges inside of it; auto: by the size of the graph; 0: one step on the whole graph",
       .value = TrainRow::written(ATOLL_FIELD(blocks.count), parse_block_count),
       .recorded = any,
       .plan = PlanRole::kMadeFor},
      {.name = "block-kind",
       .group = "Optimizer",
       .help = "--blocks: deal communities, which have few edges between them, or nodes one by one "
               "(random)",
       .value = TrainRow::name_of(ATOLL_FIELD(blocks.kind),
                                  {BlockKind::kCommunities, BlockKind::kRandom}),
       .recorded = any,
       .plan = PlanRole::kMadeFor},
      {.name = "blocks-until",
       .group = "Optimizer",
       .help = "--blocks: the last epoch on blocks, after which steps are on the whole graph; "
               "accuracy: the one after which --switch-patience evaluations have brought no better "
               "valid metric; 0: there is none",
       .value = TrainRow::written(ATOLL_FIELD(blocks.until), parse_blocks_until),
       .recorded = any,
       .plan = PlanRole::kExcludes},
      {.name = "switch-patience",
       .group = "Optimizer",
       .help = "--blocks-until accuracy and --local-until accuracy: evaluations without a better "
               "valid metric that end such epochs",
       .value = TrainRow::number(ATOLL_FIELD(switching.patience), 1, 10000000),
       .recorded =
           [](const TrainOptions& options) { return options.first_phase_end().by_accuracy; },
       .plan = PlanRole::kExcludes},
      {.name = "lr-after-switch",
       .group = "Optimizer",
       .help = "--blocks-until and --local-until: learning rate from then on, in place of --lr; "
               "0: --lr",
       .value = TrainRow::at_least(ATOLL_FIELD(switching.rate_after), 0),
       .recorded = [](const TrainOptions& options) { return options.switching.rate_after > 0; },
       .plan = PlanRole::kExcludes},
  };
}

Table stage_options() {
  const auto any = [](const TrainOptions& options) { return options.stages.any(); };
  return {
      {.name = "stages",
       .group = "Optimizer",
       .help =
           "Divide the layers among the ranks, whose number this is, or all; nodes flow through "
           "them in chunks: for deep models on graphs without a good cut and slow networks; 0: "
           "each rank has all layers",
       .value = TrainRow::written(ATOLL_FIELD(stages.count), parse_stage_count),
       .plan = PlanRole::kFixes},
      {.name = "chunks",
       .group = "Optimizer",
       .help = "--stages: chunks of nodes; rows of later ones are read as the last epoch left them",
       .value = TrainRow::number(ATOLL_FIELD(stages.chunks), 1, kMostChunks),
       .recorded = any,
       .plan = PlanRole::kFixes},
      {.name = "stale",
       .group = "Optimizer",
       .help = "--stages, atoll plan, --plan: on, to say that rows of the last epoch are wanted",
       .value = TrainRow::on_or_off(ATOLL_FIELD(stages.stale)),
       .recorded = any},
      {.name = "stale-from",
       .group = "Optimizer",
       .help = "--stages: the first epoch that reads rows of the last one; in those before, stages "
               "take turns",
       .value = TrainRow::number(ATOLL_FIELD(stages.stale_from), kFirstStaleEpoch, 10000000),
       .recorded = any,
       .plan = PlanRole::kFixes},
  };
}

Table replay_options() {
  return {
      recorded_if_set<TrainOptions>(
          {.name = "replay",
           .group = "Optimizer",
           .help = "Train on the labels of new nodes and of so many old ones, in place of all (0: "
                   "of new nodes alone); --replay-from says which are new",
           .value = TrainRow::written(ATOLL_FIELD(replay.count), parse_replay_count)}),
      recorded_if_set<TrainOptions>(
          {.name = "replay-select",
           .group = "Optimizer",
           .help = "--replay: which old nodes: random, degree (with the most neighbours), or cover "
                   "(of each class, far from each other)",
           .value = TrainRow::name_of(
               ATOLL_FIELD(replay.select),
               {ReplaySelect::kRandom, ReplaySelect::kDegree, ReplaySelect::kCover})}),
      recorded_if_set<TrainOptions>(
          {.name = "replay-weights",
           .group = "Optimizer",
           .help = "--replay: how much old nodes count in the loss: none (all alike), or match (0 "
                   "to 5, so that their mean row in the last layer of the model that atoll train "
                   "--warm-start begins with is that of all old training nodes)",
           .value = TrainRow::name_of(ATOLL_FIELD(replay.weights),
                                      {ReplayWeights::kNone, ReplayWeights::kMatch})}),
      recorded_if_set<TrainOptions>(
          {.name = "replay-from",
           .group = "Optimizer",
           .help = "--replay: id of the first new node; 0: the number of nodes in the dataset of "
                   "atoll train --warm-start",
           .value = TrainRow::at_least(ATOLL_FIELD(replay.from), 0)}),
  };
}

Table message_options() {
  const auto takes_bits = [](const TrainOptions& options) {
    return exchange_mode(options.exchange).takes_bits();
  };
  const auto chosen = [=](BitChoice::By by) {
    return [=](const TrainOptions& options) {
      return takes_bits(options) && options.message_bits.bits.by == by;
    };
  };
  const auto sends = [](MessagesSent sent, std::optional<MessagesSent> or_sent = {}) {
    return [=](const TrainOptions& options) {
      const MessagesSent mine = exchange_mode(options.exchange).sent;
      return mine == sent || mine == or_sent;
    };
  };
  const auto keeps_rows = [](const TrainOptions& options) {
    return options.exchange_options().keeps_rows();
  };
  const auto adaptive = chosen(BitChoice::By::kAdaptive);
  const auto random = chosen(BitChoice::By::kRandom);
  return {
      {.name = "exchange",
       .group = "Messages",
       .help = "How messages travel: exact; quantized with --bits per value; one-bit; stale (used "
               "in the epoch after); sampled (--rate of them); periodic (every --every epochs); "
               "skip (rows that moved by --bound); compensated (differences to rows of before); "
               "unified (the same, with a width and a period for each message by its cost); "
               "or none: each part trains as if nothing lay behind the cut",
       .value = TrainRow::text_of(ATOLL_FIELD(exchange), exchange_modes()),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kFixes},
      {.name = "bits",
       .group = "Messages",
       .help = "Bits per value of messages that are not exact: 1, 2, 4, 8, 16, 32 (as stored), one "
               "per layer (8,4,32), random (2, 4 or 8 each), or adaptive; without --exchange it "
               "means quantized, whose default is adaptive; that of one-bit is 1, of compensated "
               "2, of unified always adaptive, of the others 32",
       .value = TrainRow::written(ATOLL_FIELD(message_bits.bits), parse_bits),
       .recorded = takes_bits,
       .plan = PlanRole::kFixes},
      {.name = "rate",
       .group = "Messages",
       .help = "sampled: share of the messages that is sent in an epoch, above 0, at most 1",
       .value = TrainRow::number(ATOLL_FIELD(sending.rate), 1e-6, 1),
       .recorded = sends(MessagesSent::kSampled),
       .plan = PlanRole::kFixes},
      {.name = "every",
       .group = "Messages",
       .help = "periodic: a message is sent every K epochs",
       .value = TrainRow::number(ATOLL_FIELD(sending.every), 1, 10000000),
       .recorded = sends(MessagesSent::kPeriodic),
       .plan = PlanRole::kFixes},
      {.name = "stagger",
       .group = "Messages",
       .help = "periodic: send 1 / K of the messages in each epoch, not all in one of K",
       .value = TrainRow::on_or_off(ATOLL_FIELD(sending.stagger)),
       .recorded = sends(MessagesSent::kPeriodic),
       .plan = PlanRole::kFixes},
      {.name = "bound",
       .group = "Messages",
       .help = "skip: a row is sent when it has moved by more than this share of its length since "
               "it was sent last; 0: all rows that move at all",
       .value = TrainRow::number(ATOLL_FIELD(sending.bound), 0, 1000),
       .recorded = sends(MessagesSent::kDrifted),
       .plan = PlanRole::kFixes},
      {.name = "oldest",
       .group = "Messages",
       .help = "skip and unified: epochs after which a row is sent all the same",
       .value = TrainRow::number(ATOLL_FIELD(sending.oldest), 1, kOldestMessage),
       .recorded = sends(MessagesSent::kDrifted, MessagesSent::kByCost),
       .plan = PlanRole::kFixes},
      {.name = "drift-limit",
       .group = "Messages",
       .help =
           "unified: messages are left out of epochs only in layers whose rows move by less than "
           "this share of their square in an epoch",
       .value = TrainRow::number(ATOLL_FIELD(sending.drift_limit), 0, 1000),
       .recorded = sends(MessagesSent::kByCost),
       .plan = PlanRole::kFixes},
      {.name = "staleness-weight",
       .group = "Messages",
       .help =
           "unified: how much worse the square of a lag is than that of noise, and noise than what "
           "of a gradient comes in later epochs",
       .value = TrainRow::number(ATOLL_FIELD(sending.staleness_weight), 0, 1e6),
       .recorded = sends(MessagesSent::kByCost),
       .plan = PlanRole::kFixes},
      {.name = "shift",
       .group = "Messages",
       .help =
           "Modes that keep rows of earlier epochs: move those of a link by the mean of how far "
           "they fell behind, at the price of one row per link",
       .value = TrainRow::on_or_off(ATOLL_FIELD(sending.shift)),
       .recorded = keeps_rows,
       .plan = PlanRole::kFixes},
      {.name = "schedule",
       .group = "Messages",
       .help = "Use messages in the epoch that sends them (synchronous) or in the one after "
               "(pipelined); auto: pipelined for --exchange stale",
       .value = TrainRow::name_of(
           ATOLL_FIELD(sending.schedule),
           {MessageSchedule::kAuto, MessageSchedule::kSynchronous, MessageSchedule::kPipelined}),
       .recorded =
           [](const TrainOptions& options) {
             return options.sending.schedule != MessageSchedule::kAuto;
           },
       .plan = PlanRole::kFixes},
      {.name = "synchronous-every",
       .group = "Messages",
       .help = "pipelined: in every K-th epoch messages are waited for; 0: in the first one alone",
       .value = TrainRow::number(ATOLL_FIELD(sending.synchronous_every), 0, 10000000),
       .recorded =
           [](const TrainOptions& options) { return options.exchange_options().pipelined(); },
       .plan = PlanRole::kFixes},
      {.name = "local-until",
       .group = "Messages",
       .help = "The last epoch without any messages, as with none, after which they travel as "
               "--exchange says; accuracy: the one after which --switch-patience evaluations have "
               "brought no better valid metric; 0: there is none",
       .value = TrainRow::written(ATOLL_FIELD(local_until), parse_local_until),
       .recorded = [](const TrainOptions& options) { return options.local_until.any(); },
       .plan = PlanRole::kExcludes},
      {.name = "repartition-every",
       .group = "Messages",
       .help = "none, and epochs of --local-until: cut the graph anew every K epochs, so that in "
               "time all edges take part; 0: never",
       .value = TrainRow::number(ATOLL_FIELD(repartition_every), 0, 10000000),
       .recorded = [](const TrainOptions& options) { return options.repartition_every > 0; },
       .plan = PlanRole::kExcludes},
      {.name = "coverage-weights",
       .group = "Messages",
       .help = "--repartition-every: nodes count in the loss by how many of their neighbours the "
               "cut leaves them, against the mean over all cuts",
       .value = TrainRow::on_or_off(ATOLL_FIELD(coverage_weights)),
       .recorded = [](const TrainOptions& options) { return options.coverage_weights; },
       .plan = PlanRole::kExcludes},
      {.name = "reassign-every",
       .group = "Messages",
       .help = "Adaptive and random bits: epochs between assignments",
       .value = TrainRow::number(ATOLL_FIELD(message_bits.reassign_every), 1, 10000000),
       .recorded =
           [=](const TrainOptions& options) { return adaptive(options) || random(options); }},
      {.name = "lambda",
       .group = "Messages",
       .help = "Adaptive bits: weight of variance against time, 0 (only time) to 1",
       .value = TrainRow::number(ATOLL_FIELD(message_bits.lambda), 0, 1),
       .recorded = adaptive},
      {.name = "sensitivity",
       .group = "Messages",
       .help = "Adaptive bits: what noise of a message costs its receiver: variance, or "
               "upper-bound (AdaQP's)",
       .value = TrainRow::name_of(ATOLL_FIELD(message_bits.sensitivity),
                                  {Sensitivity::kVariance, Sensitivity::kUpperBound}),
       .recorded = adaptive},
  };
}

// Options that change no number beyond rounding.
Table machine_options() {
  return {
      {.name = "overlap",
       .group = "Messages",
       .help = "Hide messages behind central work",
       .value = TrainRow::on_or_off(ATOLL_FIELD(overlap))},
      {.name = "gradient-sum",
       .group = "Machine",
       .help = "How gradients are added up: auto (on each host first, so that a sum leaves a host "
               "once, "
               "if all hosts have the same number of ranks) or ranks (over all ranks at once)",
       .value = TrainRow::name_of(ATOLL_FIELD(sum_choice), {SumChoice::kAuto, SumChoice::kRanks}),
       .plan = PlanRole::kFixes},
      {.name = "group-ranks",
       .group = "Messages",
       .help =
           "Ranks that hold a part of the graph together: a number, host (those of each host) "
           "or all; they share rows, and columns of what reads neighbours. auto, of atoll plan: "
           "what takes least time",
       .value = TrainRow::written(ATOLL_FIELD(group_ranks), parse_group_ranks),
       // Rounded rows, and those that are kept, are of slices.
       .recorded =
           [](const TrainOptions& options) {
             return options.group_ranks.any() && options.exchange != kExactMode;
           },
       .plan = PlanRole::kFixes},
      {.name = "arrival",
       .group = "Messages",
       .help =
           "Compute marginal rows whose messages have come while others are under way: auto (on "
           "CPUs under MPI, if messages are those of cover), on or off",
       .value =
           TrainRow::name_of(ATOLL_FIELD(arrival), {Arrival::kAuto, Arrival::kOn, Arrival::kOff})},
      {.name = "backend",
       .group = "Machine",
       .help = "auto, reference, cpu or cuda; or one per rank: cuda,cpu",
       .value = TrainRow::text(ATOLL_FIELD(backend), backend_list_problem)},
      {.name = "threads",
       .group = "Machine",
       .help = "Threads per rank; 0: cores / ranks on this host",
       .value = TrainRow::number(ATOLL_FIELD(threads), 0, 4096)},
      {.name = "cuda-graph",
       .group = "Machine",
       .help = "Record an epoch and replay it: auto (where possible), on or off",
       .value = TrainRow::word<GraphReplay>(
           ATOLL_FIELD(cuda_graph),
           {{"auto", GraphReplay::kAuto}, {"on", GraphReplay::kOn}, {"off", GraphReplay::kOff}})},
      {.name = "spmm",
       .group = "Machine",
       .help = "Sparse products on a device: own kernel, cusparse (the faster of two "
               "algorithms), or auto: above a million edges the fastest kernel that promises the "
               "same bits in every run or gave them when measured; choices are kept in "
               "calibration.json of the run folder",
       .value = TrainRow::name_of(ATOLL_FIELD(spmm),
                                  {SpmmWish::kOwn, SpmmWish::kCusparse, SpmmWish::kAuto})},
      {.name = "calibration",
       .group = "Machine",
       .help = "File of choices that an earlier run has made",
       .value = TrainRow::file(ATOLL_FIELD(calibration))},
      {.name = "eval-every",
       .group = "Results",
       .help = "Evaluate every K epochs; 0: only at the end",
       .value = TrainRow::at_least(ATOLL_FIELD(eval_every), 0)},
      {.name = "sequence",
       .group = "Results",
       .help = "Numbers of nodes that a growing dataset has had, as 41125,53160: the metric of "
               "the test nodes that came with each of them is in summary.json, for atoll report "
               "--sequence",
       .value = TrainRow::text(ATOLL_FIELD(sequence), sequence_problem)},
      {.name = "patience",
       .group = "Results",
       .help = "Stop after K evaluations without a better valid metric; 0: never",
       .value = TrainRow::at_least(ATOLL_FIELD(patience), 0)},
      {.name = "target",
       .group = "Results",
       .help = "Stop after the first evaluation whose valid metric is so good, e.g. 0.75; none: "
               "never",
       .value = TrainRow::written(ATOLL_FIELD(target), parse_target)},
  };
}

Table make_table() {
  Table table;
  append_inside(table, model_options(), ATOLL_FIELD(model));
  append_inside(table, optimizer_options(), ATOLL_FIELD(optimizer));
  append_inside(table, loss_options(), ATOLL_FIELD(loss));
  for (TrainRow& row : block_options()) table.push_back(std::move(row));
  for (TrainRow& row : stage_options()) table.push_back(std::move(row));
  for (TrainRow& row : replay_options()) table.push_back(std::move(row));
  table.push_back({.name = "seed",
                   .group = "Optimizer",
                   .help = "Seed of weights and dropout",
                   .value = TrainRow::at_least(ATOLL_FIELD(seed), 0),
                   .recorded = kAlwaysRecorded});
  table.push_back({.name = "split-index",
                   .group = "Options",
                   .help = "Which split, for sets with several",
                   .value = TrainRow::at_least(ATOLL_FIELD(split_index), 0),
                   .recorded = kAlwaysRecorded});
  append_inside(table, computation_options(), ATOLL_FIELD(model));
  table.push_back({.name = "tf32",
                   .group = "Machine",
                   .help = "Products in TF32, faster with 10 bits of mantissa (cuda)",
                   .value = TrainRow::on_or_off(ATOLL_FIELD(tf32)),
                   .recorded = kAlwaysRecorded});
  for (TrainRow& row : message_options()) table.push_back(std::move(row));
  append_inside(table, schedule_options(), ATOLL_FIELD(optimizer));
  for (TrainRow& row : machine_options()) table.push_back(std::move(row));
  return table;
}

// Options that change nothing but in some exchange modes, or with some --bits.
constexpr std::array<std::string_view, 10> kOfModes = {"bits",        "rate",
                                                       "every",       "stagger",
                                                       "bound",       "oldest",
                                                       "drift-limit", "staleness-weight",
                                                       "shift",       "synchronous-every"};
constexpr std::array<std::string_view, 3> kOfBits = {"reassign-every", "lambda", "sensitivity"};

// Options that change nothing unless another one has certain values.
struct Dependence {
  std::string_view option;
  std::string_view other;
  const char* values;
  bool (*counts)(const OptimizerConfig& optimizer);
};
bool has_steps(const OptimizerConfig& optimizer) {
  return optimizer.schedule == LearningRateSchedule::kStep;
}
// Parameter groups say which layers they are of by themselves.
bool has_layers_that_decay(const OptimizerConfig& optimizer) {
  return optimizer.weight_decay > 0 || !optimizer.decay_first_layer_only;
}
constexpr std::array kDependences = {
    Dependence{"lr-step-epochs", "lr-schedule", "step", has_steps},
    Dependence{"lr-step-factor", "lr-schedule", "step", has_steps},
    Dependence{"weight-decay-layers", "weight-decay", "numbers above 0", has_layers_that_decay}};

// 32 bits are those that exact messages have.
bool is_as_stored(const GivenOption& option) {
  if (option.name != "bits") return false;
  const std::vector<int> widths = parse_bits(option.value).widths;
  return !widths.empty() && std::ranges::all_of(widths, [](int width) { return width == 32; });
}

void require_other(const Dependence& dependence, const GivenOption& option,
                   std::span<const GivenOption> given, std::span<const TrainOptions> runs) {
  const auto counts = [&](const TrainOptions& run) { return dependence.counts(run.optimizer); };
  if (std::ranges::any_of(runs, counts)) return;
  // The file's option goes with the value of the other one that the file had.
  const bool is_overruled =
      !option.typed && std::ranges::count(given, dependence.other, &GivenOption::name) > 0;
  if (is_overruled) return;
  const Json other =
      option_json(option_named(train_options(), std::string(dependence.other)), runs.front());
  fail_option("--{} {}: has no effect with --{} {}; it is for --{} {}", option.name, option.value,
              dependence.other, other.is_string() ? other.get<std::string>() : other.dump(),
              dependence.other, dependence.values);
}

// The modes, each as it usually is, or the choices of bits with which the option counts.
std::vector<std::string> where_it_counts(const TrainRow& row, bool of_modes) {
  std::vector<std::string> names;
  const auto try_it = [&](const std::string& name, const std::string& mode, const char* bits) {
    TrainOptions options;
    options.exchange = mode;
    if (bits != nullptr) options.message_bits.bits = parse_bits(bits);
    if (row.recorded(options)) names.push_back(name);
  };
  if (of_modes) {
    for (const std::string& mode : exchange_modes()) {
      try_it(mode, mode, exchange_mode(mode).usual_bits);
    }
  } else {
    for (const std::string& bits : bit_names()) try_it(bits, kModeOfBits, bits.c_str());
  }
  return names;
}

}  // namespace

const OptionTable<TrainOptions>& train_options() {
  static const Table table = make_table();
  return table;
}

Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset) {
  Json result = {{"dataset_checksum", dataset.checksum}};
  for (const TrainRow& row : train_options()) {
    if (row.recorded && row.recorded(options)) result[row.name] = option_json(row, options);
  }
  return result;
}

Json planned_options(const TrainOptions& options) {
  Json result = Json::object();
  for (const TrainRow& row : train_options()) {
    if (is_made_for(row, options)) result[row.name] = option_json(row, options);
  }
  return result;
}

std::vector<std::string> options_beside_plans(const TrainOptions& options) {
  std::vector<std::string> found;
  for (const TrainRow& row : train_options()) {
    if (row.plan != PlanRole::kExcludes) continue;
    const Json value = option_json(row, options);
    if (value == option_json(row, TrainOptions())) continue;
    found.push_back(fmt::format("--{} {}", row.name,
                                value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return found;
}

bool is_of_exchange(const Option<TrainOptions>& option) {
  return option.group == "Messages" && option.plan == PlanRole::kFixes;
}

Json exchange_json(const TrainOptions& options) {
  Json result = Json::object();
  for (const TrainRow& row : train_options()) {
    if (is_of_exchange(row) && row.recorded(options)) result[row.name] = option_json(row, options);
  }
  return result;
}

void read_exchange_json(const Json& json, const std::filesystem::path& place,
                        TrainOptions& options) {
  if (!json.is_object()) fail_input("{}: is {}; it must be an object", place.string(), shown(json));
  for (const auto& [name, value] : json.items()) {
    const auto row = std::ranges::find(train_options(), name, &TrainRow::name);
    if (row == train_options().end() || !is_of_exchange(*row)) {
      std::vector<std::string> names;
      for (const TrainRow& other : train_options()) {
        if (is_of_exchange(other)) names.push_back(other.name);
      }
      fail_input("{}: '{}' is no option of messages; allowed are {}", place.string(), name,
                 fmt::join(names, ", "));
    }
    read_option_json(*row, json, name.c_str(), place, options);
  }
}

void require_effect(std::span<const GivenOption> given, std::span<const TrainOptions> runs,
                    const std::string& choice) {
  for (const GivenOption& option : given) {
    const auto dependence = std::ranges::find(kDependences, option.name, &Dependence::option);
    if (dependence != kDependences.end()) require_other(*dependence, option, given, runs);
    if (is_as_stored(option)) continue;
    const bool of_modes = std::ranges::count(kOfModes, option.name) > 0;
    if (!of_modes && std::ranges::count(kOfBits, option.name) == 0) continue;
    const TrainRow& row = option_named(train_options(), option.name);
    if (std::ranges::any_of(runs, row.recorded)) continue;
    fail_option("--{} {}: has no effect with {}; it is for --{} {}", option.name, option.value,
                choice, of_modes ? "exchange" : "bits",
                fmt::join(where_it_counts(row, of_modes), ", "));
  }
}

}  // namespace atl
