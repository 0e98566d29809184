// `atoll bench`: epoch throughput and where the time goes, as a table and as JSON.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/models/model_options.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/calibration.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/bench_compare.hpp"
#include "launch/bench_profile.hpp"
#include "launch/bench_samples.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/job_start.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

struct BenchArguments {
  TrainFlags flags;
  std::optional<int> warmup;
  int epochs = 10;
  int profiled = 0;  // epochs
  std::string compare;
  std::string out;
  bool json = false;

  // Adaptive widths measure in their first epochs: what comes after is compared.
  int warmup_epochs(const TrainOptions& options) const {
    const bool adapts =
        !compare.empty() || (exchange_mode(flags.train.exchange).takes_bits() &&
                             flags.train.message_bits.bits.by == BitChoice::By::kAdaptive);
    // Stages work side by side from the epoch on that reads rows of the last one.
    const int first = options.stages.any() ? options.stages.stale_from : 3;
    return warmup.value_or(adapts ? 6 : first);
  }
};

// A report's beginning, before any figure: the job itself.
Json describe_job(RankJob& job, const TrainOptions& options, const Transport& transport) {
  const DatasetInfo& dataset = job.data().dataset();
  Json report = {{"dataset", dataset.name},
                 {"nodes", dataset.nodes},
                 {"edges", dataset.edges},
                 {"features", dataset.features}};
  for (const auto& row : model_options()) report[row.name] = option_json(row, options.model);
  report.update({{"ranks", transport.size()},
                 {"transport", transport.name()},
                 {"threads", job.threads()},
                 {"backend", job.backend().name()},
                 {"device", job.backend().device()},
                 {"dtype", to_string(options.model.dtype)},
                 {"tf32", options.tf32},
                 {"messages", job.device_transport().reason},
                 {"commit", program_commit()}});
  return report;
}

// Bytes that all ranks send in an epoch, by formula: rows between parts, and what the ranks that
// hold a part together send to each other.
struct FormulaBytes {
  std::int64_t halo = 0;
  std::int64_t group = 0;
};

FormulaBytes formula_bytes(RankJob& job, Transport& transport) {
  std::array bytes = {job.trainer().halo_bytes_per_epoch(), job.trainer().group_bytes_per_epoch()};
  transport.all_reduce(std::span<std::int64_t>(bytes), {"byte formula"});
  return {bytes[0], bytes[1]};
}

Json make_report(const Samples& samples, RankJob& job, const TrainOptions& options,
                 Transport& transport, const FormulaBytes& bytes, std::int64_t peak) {
  Json report = describe_job(job, options, transport);
  report.update(
      {{"exchange", options.exchange},
       {"overlap", options.overlap},
       {"replayed", samples.replayed > 0},
       {"replayed_epochs", samples.replayed},
       {"epochs", samples.epoch_ms.size()},
       {"epoch_ms", to_json(spread_of(samples.epoch_ms))},
       {"exposed_comm_ms",
        samples.exposed_ms.empty() ? Json() : to_json(spread_of(samples.exposed_ms))},
       {"bytes_sent_per_epoch", static_cast<std::int64_t>(spread_of(samples.bytes).median)},
       {"halo_bytes_per_epoch_formula", bytes.halo},
       {"group_bytes_per_epoch_formula", bytes.group},
       {"group_ranks", job.map().ranks_per_part()},
       {"peak_rss_mb", static_cast<double>(peak) / 1e6},
       {"allocations", samples.allocations},
       {"device_memory_mb", static_cast<double>(job.device_bytes()) / 1e6},
       {"pinned_values_mb", static_cast<double>(job.trainer().network().host_bytes()) / 1e6},
       {"memory_needed_mb", static_cast<double>(job.trainer().bytes_needed()) / 1e6},
       {"memory_held_mb", static_cast<double>(job.trainer().bytes_held()) / 1e6}});
  std::int64_t floats = 0;
  for (const LayerMessages& layer : job.trainer().network().layer_messages()) {
    floats += layer.forward_columns + layer.backward_columns;
  }
  report["floats_per_halo_row"] = floats;
  if (options.blocks.deals()) {
    report["blocks"] = job.data().dealing()->blocks();
    report["block_kind"] = to_string(options.blocks.kind);
  }
  if (const StageCut* cut = job.trainer().stages(); cut != nullptr) {
    report["first_layers"] = cut->first_layer;
    report["chunks"] = options.stages.chunks;
  }
  if (!samples.steps.empty()) {
    report["steps"] = to_json(spread_of(samples.steps));
    report["edges_kept"] = to_json(spread_of(samples.edges_kept));
  }
  if (!samples.cut_ms.empty()) report["cut_ms"] = to_json(spread_of(samples.cut_ms));
  for (const auto& [phase, ms] : samples.phase_ms) {
    report["phases_ms"][phase] = to_json(spread_of(ms));
  }
  return report;
}

void print_heading(const Json& report) {
  print("{} on {}: {} ranks x {} threads, {}\n", report.at("model").get<std::string>(),
        report.at("dataset").get<std::string>(), report.at("ranks").get<int>(),
        report.at("threads").get<int>(), report.at("device").get<std::string>());
}

void print_report(const Json& report) {
  const auto line = [](const std::string& name, const Json& spread) {
    fmt::print("  {:<20} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, spread.at("median").get<double>(),
               spread.at("min").get<double>(), spread.at("max").get<double>());
  };
  print_heading(report);
  fmt::print("  exchange {}, overlap {}\n", report.at("exchange").get<std::string>(),
             report.at("overlap").get<bool>() ? "on" : "off");
  fmt::print("  {:<20} {:>10} {:>10} {:>10}\n", "ms", "median", "min", "max");
  line("epoch", report.at("epoch_ms"));
  if (!report.at("exposed_comm_ms").is_null()) {
    line("exposed comm", report.at("exposed_comm_ms"));
  }
  if (report.contains("steps")) {
    fmt::print("  {:.0f} steps per epoch, on {:.1f} % of the edges (median)\n",
               report.at("steps").at("median").get<double>(),
               100 * report.at("edges_kept").at("median").get<double>());
  }
  if (report.contains("cut_ms")) line("new cut", report.at("cut_ms"));
  if (report.contains("phases_ms")) {
    fmt::print("  phases of rank 0\n");
    for (const auto& [phase, spread] : report.at("phases_ms").items()) line(phase, spread);
  } else {
    fmt::print("  epochs were replayed from a recording, which has no phases; see --profile\n");
  }
  fmt::print(
      "  {:.3f} MB sent per epoch by all ranks ({:.3f} MB of halo rows by formula, {} floats "
      "per halo row), {} allocations in these epochs\n"
      "  rank 0: peak {:.0f} MB, {:.2f} times features, graph and activations for backward "
      "({:.0f} MB)\n",
      report.at("bytes_sent_per_epoch").get<double>() / 1e6,
      report.at("halo_bytes_per_epoch_formula").get<double>() / 1e6,
      report.at("floats_per_halo_row").get<std::int64_t>(),
      report.at("allocations").get<std::int64_t>(), report.at("peak_rss_mb").get<double>(),
      report.at("peak_rss_mb").get<double>() / report.at("memory_held_mb").get<double>(),
      report.at("memory_held_mb").get<double>());
  if (report.contains("first_layers")) {
    fmt::print("  stages begin with layers {}; {} chunks\n",
               fmt::join(report.at("first_layers").get<std::vector<int>>(), ", "),
               report.at("chunks").get<int>());
  } else if (const int ranks = report.at("group_ranks").get<int>(); ranks > 1) {
    fmt::print("  {} ranks hold a part together and send each other {:.3f} MB by formula\n", ranks,
               report.at("group_bytes_per_epoch_formula").get<double>() / 1e6);
  }
  if (const double pinned = report.at("pinned_values_mb").get<double>(); pinned > 0) {
    fmt::print("  rank 0: values of {:.0f} MB wait for backward in pinned host memory\n", pinned);
  }
}

void deliver(const Json& report, const BenchArguments& arguments) {
  if (arguments.json) fmt::print("{}", json_text(report));
  if (!arguments.out.empty()) write_json(arguments.out, report);
}

void run_comparison(const BenchArguments& arguments, TrainOptions options,
                    const PartitionOptions& partition) {
  const int warmup = arguments.warmup_epochs(options);
  if (arguments.profiled > 0) {
    fail_option("--profile {}: can't be combined with --compare", arguments.profiled);
  }
  const TrainOptions compared = options;
  options.exchange = kExactMode;
  options.sending = {};
  run_ranks(arguments.flags.transport, [&](Transport& transport) {
    std::vector<ComparedMode> modes;
    on_all_ranks(transport, [&] {
      if (!arguments.out.empty()) check_result_file(arguments.out, "--out");
      modes = compared_modes(arguments.compare, calibrated_exchange(compared, transport.size()));
    });
    RankJob job(transport, arguments.flags.dataset, partition, options);
    Activity activity("measuring epochs", 0, transport.rank() == 0);
    const Json comparison = compare_modes(job, transport, modes, warmup, arguments.epochs);
    activity.end();
    if (transport.rank() != 0) return;
    Json report = describe_job(job, options, transport);
    report["lambda"] = options.message_bits.lambda;
    report["reassign_every"] = options.message_bits.reassign_every;
    report["epochs"] = arguments.epochs;
    report.update(comparison);
    if (!arguments.json) {
      print_heading(report);
      print_comparison(comparison);
    }
    deliver(report, arguments);
  });
}

TrainOptions wanted_run(const BenchArguments& arguments) {
  if (arguments.compare.empty()) return arguments.flags.resolve();
  std::vector<ExchangeOptions> exchanges;
  for (const ComparedMode& mode :
       compared_modes(arguments.compare, arguments.flags.train.exchange_options())) {
    exchanges.push_back(mode.exchange);
  }
  return arguments.flags.resolve_with(exchanges, "--compare " + arguments.compare);
}

void run_bench(const BenchArguments& arguments) {
  const TrainOptions wanted = wanted_run(arguments);
  require_node_per_rank(arguments.flags.transport, arguments.flags.dataset, wanted.ranks_of_part());
  if (wanted.first_phase_end().any()) {
    fail_option("{}: found in bench, which measures epochs of one kind; leave it out",
                wanted.first_phase_option());
  }
  if (!arguments.compare.empty()) {
    if (wanted.repartition_every > 0) {
      fail_option("--compare: its modes share one cut; leave out --repartition-every");
    }
    if (wanted.blocks.any()) {
      fail_option("--compare: its modes share one graph; leave out {}", wanted.blocks.option());
    }
    if (wanted.stages.any()) {
      fail_option("--compare: its modes send rows between parts; leave out {}",
                  wanted.stages.option());
    }
    if (!arguments.flags.plan.empty()) {
      fail_option("--compare: its modes replace what a plan says of bits; leave out --plan");
    }
    if (wanted.cuda_graph == GraphReplay::kOn) {
      fail_option("--compare: a replayed epoch has no spans; leave out --cuda-graph on");
    }
    TrainOptions queued = wanted;
    queued.cuda_graph = GraphReplay::kOff;
    return run_comparison(arguments, queued, arguments.flags.resolve_partition());
  }
  run_ranks(arguments.flags.transport, [&](Transport& transport) {
    on_all_ranks(transport, [&] {
      if (!arguments.out.empty()) check_result_file(arguments.out, "--out");
    });
    const auto [options, partition] = job_of(arguments.flags, transport);
    const int warmup = arguments.warmup_epochs(options);
    RankJob job(transport, arguments.flags.dataset, partition, options);
    Samples samples;
    const int all = warmup + arguments.epochs;
    Activity activity("measuring epochs", all, transport.rank() == 0);
    for (int epoch = 1; epoch <= all; ++epoch) {
      activity.advance_to(epoch - 1);
      const std::int64_t allocations = job.backend().allocations();
      const EpochResult result = job.run_epoch(epoch);
      if (epoch <= warmup) continue;
      samples.add(result);
      samples.allocations += job.backend().allocations() - allocations;
    }
    const std::int64_t peak = peak_resident_bytes();
    EpochProfile profile;
    if (arguments.profiled > 0) {
      // All ranks at the same time, as they compute.
      transport.barrier({"machine ceilings"});
      profile.ceilings =
          measure_ceilings(job.backend(), job.queue(), job.threads(), options.model.dtype);
    }
    for (int k = 1; k <= arguments.profiled; ++k) {
      const ParallelThreads threads(job.threads());
      job.trainer().profile_epoch(warmup + arguments.epochs + k, profile);
    }
    const FormulaBytes bytes = formula_bytes(job, transport);
    if (options.spmm != SpmmWish::kOwn && !arguments.out.empty()) {
      save_calibration(transport, job.choices(), nullptr,
                       std::filesystem::absolute(arguments.out).parent_path());
    }
    activity.end();
    if (transport.rank() != 0) return;
    Json report = make_report(samples, job, options, transport, bytes, peak);
    if (profile.epochs > 0) report["profile"] = to_json(profile);
    if (!arguments.json) {
      print_report(report);
      if (profile.epochs > 0) print_profile(report.at("profile"));
    }
    deliver(report, arguments);
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure epochs: throughput, phases, bytes, memory");
  command->footer(
      "Examples:\n"
      "  atoll bench data/arxiv --model sage\n"
      "  mpirun -n 4 atoll bench data/arxiv --norm batch --epochs 20 --out bench.json\n"
      "  atoll bench data/arxiv --backend cuda --dtype bf16 --profile 5\n"
      "  mpirun -n 2 atoll bench data/arxiv --compare vanilla,exact,4,adaptive");
  const auto arguments = std::make_shared<BenchArguments>();
  add_train_flags(*command, arguments->flags);
  CLI::Option* epochs = command->get_option("--epochs");
  command->remove_option(epochs);
  const HelpGroup results(*command, "Results");
  results
      .add_option("--warmup", arguments->warmup,
                  "Epochs before measuring; 3, or 6 with --compare or adaptive bits")
      ->check(non_negative_number());
  results.add_option("--epochs", arguments->epochs, "Epochs measured")
      ->check(CLI::Range(1, 1000000));
  results
      .add_option(
          "--profile", arguments->profiled,
          "Then time every operation of so many more epochs, beside what the machine could do")
      ->check(CLI::Range(0, 1000000));
  results.add_option(
      "--compare", arguments->compare,
      "Exchange modes to measure side by side, one epoch of each in turn: all, or a "
      "list of vanilla (exact without overlap), modes of --exchange, modes with --bits as "
      "in compensated:1, and values of --bits alone");
  results.add_flag("--json", arguments->json, "Print JSON instead of tables");
  results.add_option("--out", arguments->out, "Also write the figures to this file, as JSON");
  command->callback([arguments] { run_bench(*arguments); });
}

}  // namespace atl
