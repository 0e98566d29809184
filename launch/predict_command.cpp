// `atoll predict`: applies the model of a run to a dataset folder.
#include <memory>
#include <optional>

#include "base/files.hpp"
#include "base/progress.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/rank_job.hpp"
#include "launch/command.hpp"
#include "launch/job_start.hpp"
#include "launch/train_flags.hpp"
#include "launch/transport_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct PredictArguments {
  std::string run;
  std::string dataset;
  std::string out;
  std::string what = "labels";
  std::string backend = "auto";
  int threads = 0;
  std::int64_t split_index = -1;
  std::uint64_t partition_seed = 1;
  TransportOptions transport;
  PartitionFlags partition;
};

void run_predict(const PredictArguments& arguments) {
  const PredictionKind kind = parse_prediction_kind(arguments.what);
  require_node_per_rank(arguments.transport, arguments.dataset);
  run_ranks(arguments.transport, [&](Transport& transport) {
    Activity activity("predicting " + arguments.what, 0, transport.rank() == 0);
    const std::filesystem::path path = std::filesystem::path(arguments.run) / "model.safetensors";
    bool numbers = false;
    bool links = false;
    SafetensorsFile file;
    TrainOptions options;
    on_all_ranks(transport, [&] {
      check_output_file(arguments.out, "--out");
      file = read_run_model(arguments.run);
      options = read_model_options(file, path);
      const std::optional<Task> task = task_of_model(file, path);
      numbers = task == Task::kRegression;
      links = task == Task::kLinkPrediction;
      if (links && kind == PredictionKind::kLabels) {
        fail_option("--what labels: the model in {} predicts links; allowed are embeddings, logits",
                    path.string());
      }
    });
    options.backend = arguments.backend;
    options.messages = messages_of(arguments.transport.name);
    options.threads = arguments.threads;
    if (arguments.split_index >= 0) options.split_index = arguments.split_index;
    const PartitionOptions partition =
        arguments.partition.resolve(arguments.partition_seed, options.split_index);
    RankJob job(transport, arguments.dataset, partition, options, options.model.outputs);
    on_all_ranks(transport, [&] {
      if (options.model.features != job.data().dataset().features) {
        fail_input("{}: it has {} feature columns, the model in {} needs {}", arguments.dataset,
                   job.data().dataset().features, path.string(), options.model.features);
      }
      const std::int64_t relations = job.data().dataset().relations;
      if (options.model.relations > 0 && options.model.relations != relations) {
        fail_input("{}: it has {} types of edges, the model in {} needs {}", arguments.dataset,
                   relations, path.string(), options.model.relations);
      }
      const std::int64_t edge_features = job.data().dataset().edge_features;
      if (options.model.edge_features > 0 && options.model.edge_features != edge_features) {
        fail_input("{}: its edges have {} features, the model in {} needs {}", arguments.dataset,
                   edge_features, path.string(), options.model.edge_features);
      }
      const std::int64_t node_types = job.data().dataset().node_types;
      if (options.model.node_types > 0 && options.model.node_types != node_types) {
        fail_input("{}: it has {} types of nodes, the model in {} needs {}", arguments.dataset,
                   node_types, path.string(), options.model.node_types);
      }
      const Task task = job.data().dataset().task;
      if (links != (task == Task::kLinkPrediction)) {
        fail_input("{}: its task is {}, the model in {} {} links", arguments.dataset,
                   to_string(task), path.string(), links ? "predicts" : "does not predict");
      }
      if (job.data().labelled() && numbers != (task == Task::kRegression)) {
        fail_input("{}: its task is {}, the model in {} predicts {}", arguments.dataset,
                   to_string(task), path.string(), numbers ? "numbers" : "classes");
      }
    });
    on_all_ranks(transport,
                 [&] { job.trainer().load_state(file, /*optimizer=*/false, path.string()); });
    const bool as_numbers = numbers && kind == PredictionKind::kLabels;
    const Metrics metrics = predict(job.trainer(), job.data(), transport,
                                    as_numbers ? PredictionKind::kNumbers : kind, arguments.out);
    activity.end();
    if (transport.rank() != 0) return;
    fmt::print("{} of {} nodes in {}\n", as_numbers ? "numbers" : arguments.what,
               job.data().dataset().nodes, arguments.out);
    fmt::print("  {}: {}\n", job.trainer().metric_name(), to_text(metrics));
    fmt::print("{}", further_text(metrics));
  });
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("predict", "Write labels, logits or embeddings of every node");
  command->footer(
      "The model is that of the run's best epoch.\n"
      "Examples:\n"
      "  atoll predict runs/arxiv data/arxiv --out labels.npy\n"
      "  mpirun -n 4 atoll predict runs/arxiv data/arxiv --what embeddings --out rows.npy");
  const auto arguments = std::make_shared<PredictArguments>();
  command->add_option("run", arguments->run, "Run folder of `atoll train`")->required();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  command->add_option("--out", arguments->out, "The .npy file to write")->required();
  command->add_option("--what", arguments->what, "labels, logits or embeddings")
      ->check(one_of({"labels", "logits", "embeddings"}));
  command
      ->add_option("--backend", arguments->backend,
                   "auto, reference, cpu or cuda; or one per rank: cuda,cpu")
      ->check(backend_list());
  command
      ->add_option("--threads", arguments->threads,
                   "Threads per rank; 0: cores / ranks on this host")
      ->check(CLI::Range(0, 4096));
  command
      ->add_option("--split-index", arguments->split_index,
                   "Split that the metrics are for; -1: that of the run")
      ->check(CLI::Range(-1, 1000000));
  add_transport_flags(*command, arguments->transport, "Options");
  add_partition_flags(*command, arguments->partition);
  command->add_option("--partition-seed", arguments->partition_seed, "Seed of the cut")
      ->check(seed_number());
  command->callback([arguments] { run_predict(*arguments); });
}

}  // namespace atl
