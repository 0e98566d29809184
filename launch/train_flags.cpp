#include "launch/train_flags.hpp"

#include "engine/exchange/halo_exchange.hpp"
#include "kernels/registry.hpp"
#include "launch/validators.hpp"

namespace atl {

void add_model_flags(CLI::App& command, TrainFlags& flags) {
  command.add_option("dataset", flags.dataset, "Dataset folder")->required();
  TrainOptions& train = flags.train;
  command.add_option("--model", train.model, "Layer type: gcn or sage (mean aggregator)")
      ->check(CLI::IsMember(model_kinds()))
      ->group("Model");
  command.add_option("--layers", train.layers, "Number of layers")
      ->check(CLI::Range(1, 200))
      ->group("Model");
  command.add_option("--hidden", train.hidden, "Columns of every hidden layer")
      ->check(CLI::Range(1, 65536))
      ->group("Model");
  command.add_option("--norm", flags.norm, "Normalisation after each hidden layer")
      ->check(CLI::IsMember({"none", "layer", "batch"}))
      ->group("Model");
  command.add_option("--dropout", train.dropout, "Dropout after each hidden layer, in [0, 1)")
      ->check(CLI::Range(0.0, 0.999))
      ->group("Model");
  command.add_option("--input-dropout", train.input_dropout, "Dropout of the features, in [0, 1)")
      ->check(CLI::Range(0.0, 0.999))
      ->group("Model");
  command
      .add_option("--dtype", flags.dtype,
                  "Storage of activations and messages: f32, or bf16 with sums in f32")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group("Machine");
  command
      .add_option("--order", flags.order,
                  "Multiply by the weight before or after aggregating: auto, multiply-first, "
                  "aggregate-first")
      ->check(CLI::IsMember({"auto", "multiply-first", "aggregate-first"}))
      ->group("Machine");
  command
      .add_option("--cache-aggregate", flags.cache,
                  "Keep the first aggregate of constant features: on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Machine");
  command
      .add_option(
          "--recompute", flags.recompute,
          "Compute the first layer's output for other ranks' nodes instead of receiving it: "
          "none or all")
      ->check(CLI::IsMember({"none", "all"}))
      ->group("Machine");
}

void add_cut_flags(CLI::App& command, TrainFlags& flags) {
  add_partition_flags(command, flags.partition);
  command.add_option("--partition-seed", flags.partition_seed, "Seed of the cut")
      ->check(seed_number());
  command
      .add_option("--split-index", flags.train.split_index, "Which split, for sets with several")
      ->check(non_negative_number());
}

namespace {

void add_optimizer_flags(CLI::App& command, TrainFlags& flags) {
  OptimizerConfig& optimizer = flags.train.optimizer;
  command.add_option("--epochs", optimizer.epochs, "Full-graph epochs")
      ->check(CLI::Range(1, 10000000))
      ->group("Optimizer");
  command.add_option("--lr", optimizer.learning_rate, "Learning rate of Adam")
      ->check(positive_number())
      ->group("Optimizer");
  command
      .add_option("--lr-schedule", flags.schedule, "How the rate changes: constant, cosine, step")
      ->check(CLI::IsMember({"constant", "cosine", "step"}))
      ->group("Optimizer");
  command.add_option("--lr-step-epochs", optimizer.step_epochs, "Epochs between steps (step)")
      ->check(CLI::Range(1, 10000000))
      ->group("Optimizer");
  command.add_option("--lr-step-factor", optimizer.step_factor, "Factor of each step (step)")
      ->check(positive_number())
      ->group("Optimizer");
  command.add_option("--weight-decay", optimizer.weight_decay, "L2 penalty added to the gradient")
      ->check(non_negative_number())
      ->group("Optimizer");
  command
      .add_option("--weight-decay-layers", flags.decay_layers, "Layers that decay: all or first")
      ->check(CLI::IsMember({"all", "first"}))
      ->group("Optimizer");
  command.add_option("--seed", flags.train.seed, "Seed of weights and dropout")
      ->check(seed_number())
      ->group("Optimizer");
}

void add_machine_flags(CLI::App& command, TrainFlags& flags) {
  TrainOptions& train = flags.train;
  command
      .add_option("--backend", train.backend,
                  "auto, reference, cpu or cuda; or one per rank: cuda,cpu")
      ->check(backend_list())
      ->group("Machine");
  command.add_option("--threads", train.threads, "Threads per rank; 0: cores / ranks on this host")
      ->check(CLI::Range(0, 4096))
      ->group("Machine");
  command
      .add_option("--transport", flags.transport.name,
                  "auto, mpi, local (ranks as threads of one process), or nccl (between GPUs; "
                  "auto takes it where it can serve)")
      ->check(CLI::IsMember(transport_names()))
      ->group("Machine");
  command.add_option("--ranks", flags.transport.ranks, "Number of ranks with --transport local")
      ->check(CLI::Range(0, kMaxParts))
      ->group("Machine");
  command
      .add_option("--timeout", flags.transport.timeout_seconds,
                  "Seconds without a sign of life from a peer before all ranks end; 0: never")
      ->check(non_negative_number())
      ->group("Machine");
  command
      .add_option("--cuda-graph", flags.cuda_graph,
                  "Record an epoch once and replay it: auto (on one rank), on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->group("Machine");
  command
      .add_option("--tf32", flags.tf32,
                  "Products in TF32, faster with 10 bits of mantissa: on or off (cuda)")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Machine");
  command
      .add_option("--spmm", flags.spmm,
                  "Sparse products on a device: own kernel, cusparse (the faster of two "
                  "algorithms), or auto: measured, the fastest that gives the same bits in every "
                  "run; choices are kept in calibration.json of the run folder")
      ->check(CLI::IsMember(spmm_wishes()))
      ->group("Machine");
  command
      .add_option("--calibration", train.calibration,
                  "File of choices that an earlier run has made")
      ->check(CLI::ExistingFile)
      ->group("Machine");
  command
      .add_option("--exchange", train.exchange,
                  "How messages travel: exact, or quantized with --bits per value")
      ->check(CLI::IsMember(exchange_modes()))
      ->group("Messages");
  command
      .add_option("--bits", train.widths.bits,
                  "Bits per value of quantized messages: 1, 2, 4, 8, 16, 32 (as stored), one per "
                  "layer (8,4,32), random (2, 4 or 8 each), or adaptive")
      ->group("Messages");
  command
      .add_option("--lambda", train.widths.lambda,
                  "Adaptive bits: weight of variance against time, 0 (only time) to 1")
      ->check(share_number())
      ->group("Messages");
  command
      .add_option("--reassign-every", train.widths.reassign_every,
                  "Adaptive and random bits: epochs between assignments")
      ->check(CLI::Range(1, 10000000))
      ->group("Messages");
  command
      .add_option("--sensitivity", flags.sensitivity,
                  "Adaptive bits: what noise of a message costs its receiver: variance, or "
                  "upper-bound (AdaQP's)")
      ->check(CLI::IsMember({"variance", "upper-bound"}))
      ->group("Messages");
  command.add_option("--overlap", flags.overlap, "Hide messages behind central work: on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Messages");
}

}  // namespace

std::string messages_of(const std::string& transport) {
  return transport == "auto" || transport == "nccl" ? transport : "staging";
}

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  add_model_flags(command, flags);
  add_optimizer_flags(command, flags);
  add_machine_flags(command, flags);
  add_cut_flags(command, flags);
  CLI::Option* plan = command
                          .add_option("--plan", flags.plan,
                                      "plan.json of atoll plan: how the graph is cut, each layer's "
                                      "algebra and bits")
                          ->check(CLI::ExistingFile)
                          ->group("Machine");
  // What a plan fixes.
  for (const char* name :
       {"--method", "--refine", "--objective", "--balance", "--weights", "--cuts", "--imbalance",
        "--partition-seed", "--exchange", "--bits", "--order", "--cache-aggregate", "--recompute",
        "--islands", "--part-order", "--marginal-cost", "--node-order"}) {
    if (CLI::Option* fixed = command.get_option_no_throw(name)) plan->excludes(fixed);
  }
}

TrainOptions TrainFlags::resolve() const {
  TrainOptions options = train;
  options.norm = norm_named(norm).value();
  options.order = order == "multiply-first"    ? OrderChoice::kMultiplyFirst
                  : order == "aggregate-first" ? OrderChoice::kAggregateFirst
                                               : OrderChoice::kAuto;
  options.optimizer.schedule = schedule == "cosine" ? LearningRateSchedule::kCosine
                               : schedule == "step" ? LearningRateSchedule::kStep
                                                    : LearningRateSchedule::kConstant;
  options.optimizer.decay_first_layer_only = decay_layers == "first";
  options.messages = messages_of(transport.name);
  options.dtype = dtype_named(dtype).value();
  options.cuda_graph = cuda_graph == "on"    ? GraphReplay::kOn
                       : cuda_graph == "off" ? GraphReplay::kOff
                                             : GraphReplay::kAuto;
  options.tf32 = tf32 == "on";
  options.spmm = spmm_wish_named(spmm).value();
  options.cache_aggregate = cache == "on";
  options.overlap = overlap == "on";
  options.widths.sensitivity =
      sensitivity == "variance" ? Sensitivity::kVariance : Sensitivity::kUpperBound;
  const std::size_t widths = fixed_widths(options.widths.bits).size();
  if (widths > 1 && widths != static_cast<std::size_t>(options.layers)) {
    fail_option("--bits {}: {} widths for {} layers; give one, or one per layer",
                options.widths.bits, widths, options.layers);
  }
  const bool widths_change = options.widths.bits == "adaptive" || options.widths.bits == "random";
  if (options.exchange == "quantized" && widths_change && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--cuda-graph on: packets of --bits {} change their size; use auto",
                options.widths.bits);
  }
  if (options.trace && options.cuda_graph == GraphReplay::kOn) {
    fail_option("--trace: a replayed epoch has no spans; leave out --cuda-graph on");
  }
  if (options.patience > 0 && options.eval_every == 0) {
    fail_option("--patience {}: needs evaluations; --eval-every must be at least 1",
                options.patience);
  }
  return options;
}

}  // namespace atl
