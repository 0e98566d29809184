#include "engine/training/options.hpp"

#include <cmath>

#include "base/numbers.hpp"
#include "engine/models/model_options.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

constexpr const char* kNoMessages = "none";  // the exchange mode of a local phase
constexpr const char* kNoTarget = "none";

void check_first_phase(const TrainOptions& options) {
  const PhaseEnd& end = options.first_phase_end();
  const std::string found = options.first_phase_option();
  if (options.local_until.any() && options.blocks.until.any()) {
    fail_option("--blocks-until {}: {} found, with which blocks end, too; leave one of them out",
                to_string(options.blocks.until), found);
  }
  if (end.by_accuracy && options.eval_every == 0) {
    fail_option("{}: needs evaluations; --eval-every must be at least 1", found);
  }
  if (!end.by_accuracy && options.switching.patience != SwitchOptions().patience) {
    fail_option(
        "--switch-patience {}: {} found, which counts no evaluations; allowed with --blocks-until "
        "accuracy and --local-until accuracy",
        options.switching.patience, found);
  }
  if (!end.any() && options.switching.rate_after > 0) {
    fail_option(
        "--lr-after-switch {}: {} found, so there is no switch; allowed where one of them is the "
        "number of an epoch or accuracy",
        options.switching.rate_after, found);
  }
}

std::vector<std::string> modes_with_messages() {
  std::vector<std::string> names = exchange_modes();
  std::erase_if(names, [](const std::string& name) {
    return exchange_mode(name).sent == MessagesSent::kNone;
  });
  return names;
}

void check_local_phase(const TrainOptions& options) {
  if (!options.local_until.any()) return;
  const std::string found = options.first_phase_option();
  if (exchange_mode(options.exchange).sent == MessagesSent::kNone) {
    fail_option("{}: --exchange {} found, with which no epoch has messages; allowed are {}", found,
                options.exchange, fmt::join(modes_with_messages(), ", "));
  }
  if (options.trace) {
    fail_option("--trace: a trace shows epochs of one kind; allowed without --local-until");
  }
}

// Refuses what can't go together with `found`.
struct Refusal {
  std::string found;

  void operator()(bool is_given, const std::string& option, const char* why,
                  const char* allowed = "allowed without it") const {
    if (is_given) fail_option("{}: {} found, {}; {}", found, option, why, allowed);
  }
};

void check_inductive(const TrainOptions& options) {
  const BlockOptions& blocks = options.blocks;
  if (!blocks.leaves_out()) return;
  const Refusal refuse{std::string("--inductive ") + to_string(blocks.seen)};
  refuse(options.first_phase_end().any(), options.first_phase_option(),
         "after which training sees the whole graph");
  refuse(blocks.deals() && blocks.kind == BlockKind::kCommunities, "--block-kind communities",
         "which are those of the whole graph", "allowed is random");
  refuse(options.model.trains_nodes(), "--features " + options.model.node_features,
         "whose rows of other nodes would never be trained");
}

// Refuses modes that leave messages out, or choose widths that the other end doesn't know.
void require_plain_messages(const std::string& found, const ExchangeOptions& exchange,
                            bool allows_none, const char* why_fixed) {
  const ExchangeMode& mode = exchange_mode(exchange.mode);
  if (mode.sent != MessagesSent::kNone && !exchange.is_plain()) {
    fail_option(
        "{}: --exchange {}{} found, which keeps rows from one epoch to the next or leaves some "
        "out; allowed are exact, {}quantized and one-bit with the same --bits for all messages of "
        "a layer",
        found, mode.name, exchange.pipelined() ? ", pipelined," : "", allows_none ? "none, " : "");
  }
  const BitChoice& bits = exchange.message_bits.bits;
  if (mode.takes_bits() && bits.by != BitChoice::By::kFixed) {
    fail_option(
        "{}: --exchange {} with --bits {} found, which gives each message a width of its own, and "
        "{}; allowed are 1, 2, 4, 8, 16, 32, or a width per layer as in 8,4,32",
        found, mode.name, to_string(bits), why_fixed);
  }
}

// Blocks are made anew all the time, and their messages with them.
void check_blocks(const TrainOptions& options) {
  const BlockOptions& blocks = options.blocks;
  if (!blocks.deals()) {
    const auto require_blocks = [](bool is_given, const std::string& option) {
      if (!is_given) return;
      fail_option("{}: found without --blocks; allowed with --blocks 2 or more", option);
    };
    require_blocks(blocks.until.any(), "--blocks-until " + to_string(blocks.until));
    require_blocks(blocks.kind != BlockOptions().kind,
                   fmt::format("--block-kind {}", to_string(blocks.kind)));
  }
  if (!blocks.any()) return;
  const std::string found = blocks.option();
  if (blocks.count.number == 1) {
    fail_option("{}: one block is {}; allowed are 2 to {}, or 0", found,
                blocks.leaves_out() ? "all that training sees" : "the whole graph", kMostBlocks);
  }
  require_plain_messages(found, options.first_exchange_options(), /*allows_none=*/true,
                         blocks.deals() ? "messages are others in every step"
                                        : "those of training are not those of the whole graph");
  const Refusal refuse{found};
  const auto why = [&](const char* blocks_do, const char* unseen_nodes_do) {
    return blocks.deals() ? blocks_do : unseen_nodes_do;
  };
  refuse(options.repartition_every > 0, "--repartition-every",
         why("whose cuts are made of parts, and blocks of all of the graph",
             "whose cuts are of all nodes, and training sees some of them"));
  refuse(options.model.recompute_all || options.model.recomputation.any(), "--recompute all",
         why("which sends rows once that are others in every block",
             "which sends rows once, and evaluations have other rows than training"),
         "allowed is none");
  refuse(!options.model.memory.empty() && !(blocks.deals() && options.trains_on_blocks_alone()),
         "--memory",
         why("where epochs on the whole graph follow, which keep more than a block does",
             "which says what training on the whole graph may keep"),
         blocks.deals() ? "allowed where all epochs are on blocks" : "allowed without it");
  refuse(options.model.offload == OffloadChoice::kOn && options.model.offload_folder.empty(),
         "--offload on", "and values of a step on another graph don't wait in the host's memory",
         "allowed are auto and off");
  refuse(options.model.trains_nodes(), "--features trained",
         "whose trained rows would take steps while they are in other blocks");
  refuse(options.trace, "--trace", "and a trace shows one graph");
  refuse(options.cuda_graph == GraphReplay::kOn, "--cuda-graph on",
         why("and no step is like the one before", "and evaluations are of another graph"),
         "allowed are auto and off");
}

void check_stages(const TrainOptions& options) {
  const StageOptions& stages = options.stages;
  if (!stages.any()) {
    if (stages.by_plan && stages.stale) return;
    if (stages.stale) {
      fail_option(
          "--stale on: found without --stages; allowed with --stages 1 or more, with --plan, and "
          "in "
          "atoll plan");
    }
    if (stages.chunks != StageOptions().chunks) {
      fail_option(
          "--chunks {}: found without --stages; allowed with --stages 1 or more, and in atoll "
          "plan with --stale on",
          stages.chunks);
    }
    if (stages.stale_from != StageOptions().stale_from) {
      fail_option(
          "--stale-from {}: found without --stages; allowed with --stages 1 or more, and in "
          "atoll plan with --stale on",
          stages.stale_from);
    }
    return;
  }
  const std::string found = stages.option();
  if (!stages.stale) {
    fail_option(
        "{}: neighbours in chunks that come later are read as the last epoch left them, so losses "
        "are others than without stages; add --stale on if that is wanted",
        found);
  }
  const Refusal refuse{found};
  require_plain_messages(found, options.exchange_options(), /*allows_none=*/false,
                         "no message between stages is measured");
  refuse(exchange_mode(options.exchange).sent == MessagesSent::kNone, "--exchange none",
         "and a stage computes nothing without the rows of the one before", "allowed is exact");
  refuse(options.group_ranks.any() && options.group_ranks.by != GroupRanks::By::kAll,
         "--group-ranks " + to_string(options.group_ranks), "and each stage has the whole graph",
         "leave it out");
  refuse(options.blocks.any(), options.blocks.any() ? options.blocks.option() : "",
         "whose steps are on other graphs");
  refuse(options.local_until.any(), "--local-until", "and there are no parts to train alone");
  refuse(options.repartition_every > 0, "--repartition-every", "and there are no parts to cut");
  refuse(options.model.recompute_all || options.model.recomputation.any(), "--recompute all",
         "and there are no rows of other parts", "allowed is none");
  refuse(!options.model.memory.empty(), "--memory",
         "and values must keep what they hold from epoch to epoch");
  refuse(options.model.offload == OffloadChoice::kOn, "--offload on",
         "and values must keep what they hold from epoch to epoch", "allowed are auto and off");
  refuse(options.model.trains_nodes(), "--features " + options.model.node_features,
         "whose trained rows are divided among the ranks");
  refuse(options.replay.weights != ReplayOptions().weights,
         fmt::format("--replay-weights {}", to_string(options.replay.weights)),
         "in whose loss all nodes count alike");
  refuse(options.cuda_graph == GraphReplay::kOn, "--cuda-graph on", "and epochs are not recorded",
         "allowed are auto and off");
  refuse(options.trace, "--trace", "and traces are of ranks that have all layers");
  refuse(options.snapshot_every > 0, fmt::format("--snapshot-every {}", options.snapshot_every),
         "and the epoch after a snapshot would read no rows of the last one",
         "allowed are 0 and --checkpoint-every");
}

// Options under which rows of other ranks are read as if each rank held a part alone.
void check_groups(const TrainOptions& options) {
  if (!options.group_ranks.any()) return;
  const std::string found = "--group-ranks " + to_string(options.group_ranks);
  const Refusal refuse{found};
  const ModelConfig& model = options.model;
  refuse(options.arrival == Arrival::kOn, "--arrival on",
         "and shares of marginal rows are not divided into groups", "allowed are auto and off");
  refuse(model.recompute_all || model.recomputation.any(), "--recompute all",
         "which computes whole rows of other parts", "allowed is none");
}

void check_replay(const TrainOptions& options) {
  const ReplayOptions& replay = options.replay;
  const ReplayOptions usual;
  if (!options.init.empty() && !options.warm_start.empty()) {
    fail_option("--warm-start {}: --init {} found, and a run begins with one model; leave one out",
                options.warm_start.string(), options.init.string());
  }
  if (!replay.any()) {
    const auto require_replay = [](bool is_given, const std::string& option) {
      if (!is_given) return;
      fail_option("{}: found without --replay; allowed with --replay 0 or more", option);
    };
    require_replay(replay.select != usual.select,
                   fmt::format("--replay-select {}", to_string(replay.select)));
    require_replay(replay.weights != usual.weights,
                   fmt::format("--replay-weights {}", to_string(replay.weights)));
    require_replay(replay.from != usual.from, fmt::format("--replay-from {}", replay.from));
    return;
  }
  const std::string found = "--replay " + to_string(replay.count);
  if (replay.from == 0 && options.warm_start.empty()) {
    fail_option(
        "{}: which nodes are new is not known; give --warm-start RUN, whose dataset had the old "
        "ones, or --replay-from with the id of the first new node",
        found);
  }
  if (replay.weights == usual.weights) return;
  const std::string weights = fmt::format("--replay-weights {}", to_string(replay.weights));
  if (options.warm_start.empty()) {
    fail_option("{}: rows are compared as a model gives them; give it by --warm-start RUN",
                weights);
  }
  const Refusal refuse{weights};
  refuse(replay.count.nodes == 0, found, "so there is no node to be weighted",
         "allowed with --replay 1 or more");
  refuse(options.blocks.any(), options.blocks.option(), "in whose steps all nodes count alike");
  refuse(options.coverage_weights, "--coverage-weights on", "which weights nodes, too");
}

}  // namespace

std::string to_string(const TargetScore& target) {
  return target.score ? fmt::format("{}", *target.score) : kNoTarget;
}

TargetScore parse_target(const std::string& text) {
  if (text == kNoTarget) return {};
  const auto score = parse_number<double>(text);
  if (!score || !std::isfinite(*score)) {
    fail_option("--target {}: allowed are a score of --metric, such as 0.75, and {}", text,
                kNoTarget);
  }
  return {*score};
}

ExchangeOptions TrainOptions::first_exchange_options() const {
  return local_until.any() ? ExchangeOptions{.mode = kNoMessages} : exchange_options();
}

std::string TrainOptions::first_phase_option() const {
  if (local_until.any()) return "--local-until " + to_string(local_until);
  if (blocks.until.any()) return "--blocks-until " + to_string(blocks.until);
  return "--blocks-until 0 and --local-until 0";
}

void check_options(const TrainOptions& options) {
  check_model_options(options.model);
  const BitChoice& bits = options.message_bits.bits;
  const std::size_t widths = bits.widths.size();
  if (widths > 1 && widths != static_cast<std::size_t>(layer_count(options.model))) {
    fail_option("--bits {}: {} widths for {} layers; give one, or one per layer", to_string(bits),
                widths, layer_count(options.model));
  }
  const ExchangeOptions exchange = options.exchange_options();
  check_exchange(exchange);
  check_first_phase(options);
  check_local_phase(options);
  check_inductive(options);
  check_blocks(options);
  check_stages(options);
  check_groups(options);
  check_replay(options);
  const bool takes_bits = exchange_mode(exchange.mode).takes_bits();
  if (const std::string first = options.first_exchange_options().mode;
      options.repartition_every > 0 && exchange_mode(first).sent != MessagesSent::kNone) {
    fail_option(
        "--repartition-every {}: --exchange {} found, whose parts send messages; allowed with "
        "--exchange none, and in the epochs of --local-until",
        options.repartition_every, first);
  }
  if (options.coverage_weights && options.repartition_every == 0) {
    fail_option(
        "--coverage-weights on: what the only cut leaves of a neighbourhood is always the same; "
        "allowed with --repartition-every 1 or more");
  }
  if (options.trace && options.repartition_every > 0) {
    fail_option("--trace: a trace shows one cut; allowed without --repartition-every");
  }
  if (options.cuda_graph == GraphReplay::kOn && takes_bits &&
      (exchange.pipelined() || !exchange_mode(exchange.mode).sends_all())) {
    fail_option(
        "--cuda-graph on: with --exchange {} the messages of one epoch are not those of "
        "the next, so no recording holds; leave it out",
        exchange.mode);
  }
  if (takes_bits && bits.by != BitChoice::By::kFixed && options.cuda_graph == GraphReplay::kOn &&
      options.message_bits.reassign_every < kEpochsWorthRecording) {
    fail_option(
        "--cuda-graph on: packets of --bits {} change their size every --reassign-every {} epochs, "
        "and a recording holds until then; allowed are {} epochs or more",
        to_string(bits), options.message_bits.reassign_every, kEpochsWorthRecording);
  }
  if (options.trace && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--trace: a replayed epoch has no spans; leave out --cuda-graph on");
  }
  if (options.patience > 0 && options.eval_every == 0) {
    fail_option("--patience {}: needs evaluations; --eval-every must be at least 1",
                options.patience);
  }
  if (options.target.score && options.eval_every == 0) {
    fail_option("--target {}: needs evaluations; --eval-every must be at least 1",
                to_string(options.target));
  }
}

}  // namespace atl
