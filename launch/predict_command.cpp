// `atoll predict` and `atoll evaluate`: apply the model of a run to a dataset folder.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "base/progress.hpp"
#include "datasets/node_list.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/prediction_table.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"
#include "engine/training/training_run.hpp"
#include "launch/command.hpp"
#include "launch/job_start.hpp"
#include "launch/scores_text.hpp"
#include "launch/train_flags.hpp"
#include "launch/transport_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

// Which model is applied to what, and how it is computed.
struct ModelArguments {
  std::string run;
  std::string dataset;
  std::string backend = "auto";
  int threads = 0;
  std::int64_t split_index = -1;
  std::uint64_t partition_seed = 1;
  TransportOptions transport;
  PartitionFlags partition;
};

struct PredictArguments : ModelArguments {
  std::string out;
  std::string nodes;  // empty: all
  std::string what = "labels";
};

struct EvaluateArguments : ModelArguments {
  std::string out;
};

// On every rank: check() sees whether the model predicts links, before anything but the model is
// read; use() gets the job with the model's weights.
struct ModelUse {
  std::string doing;  // for the progress line
  std::function<void(bool links, const std::filesystem::path& model)> check;
  // Nodes that alone are wanted, as of RankJob::NodeChoice; null: all are.
  std::function<std::vector<GlobalId>(const Dataset& dataset, const SafetensorsFile& file,
                                      const std::filesystem::path& model)>
      choose;
  std::function<void(RankJob& job, Transport& transport, bool numbers, Activity& activity)> use;
};

void apply_model(const ModelArguments& arguments, const ModelUse& what) {
  require_node_per_rank(arguments.transport, arguments.dataset);
  run_ranks(arguments.transport, [&](Transport& transport) {
    Activity activity(what.doing, 0, transport.rank() == 0);
    const std::filesystem::path path = std::filesystem::path(arguments.run) / "model.safetensors";
    bool numbers = false;
    bool links = false;
    SafetensorsFile file;
    TrainOptions options;
    on_all_ranks(transport, [&] {
      file = read_run_model(arguments.run);
      options = read_model_options(file, path);
      const std::optional<Task> task = task_of_model(file, path);
      numbers = task == Task::kRegression;
      links = task == Task::kLinkPrediction;
      if (what.choose && transport.size() > 1) {
        fail_option("--nodes: {} ranks found; chosen nodes are predicted on one rank",
                    transport.size());
      }
      what.check(links, path);
    });
    options.backend = arguments.backend;
    options.messages = messages_of(arguments.transport.name);
    options.threads = arguments.threads;
    if (arguments.split_index >= 0) options.split_index = arguments.split_index;
    const PartitionOptions partition =
        arguments.partition.resolve(arguments.partition_seed, options.split_index);
    RankJob::NodeChoice choose;
    if (what.choose) {
      choose = [&](const Dataset& dataset) { return what.choose(dataset, file, path); };
      // Nothing of how the run was computed is needed for a part of it.
      options.model.memory.clear();
      options.model.offload = OffloadChoice::kAuto;
      options.model.offload_folder.clear();
    }
    RankJob job(transport, arguments.dataset, partition, options, options.model.outputs, choose);
    on_all_ranks(transport, [&] {
      const DatasetInfo& info = job.data().dataset();
      const ModelConfig& model = options.model;
      if (model.trains_nodes() && model.nodes != info.nodes) {
        fail_input("{}: it has {} nodes, the model in {} has trained features of {}",
                   arguments.dataset, info.nodes, path.string(), model.nodes);
      }
      const auto require = [&](const char* has, std::int64_t found, const char* things,
                               std::int64_t needed) {
        if (found == needed) return;
        fail_input("{}: {} {} {}, the model in {} needs {}", arguments.dataset, has, found, things,
                   path.string(), needed);
      };
      if (!model.trains_nodes()) {
        require("it has", info.features, "feature columns", model.features);
      }
      if (model.relations > 0) {
        require("it has", info.relations, "types of edges", model.relations);
      }
      if (model.edge_features > 0) {
        require("its edges have", info.edge_features, "features", model.edge_features);
      }
      if (model.node_types > 0) {
        require("it has", info.node_types, "types of nodes", model.node_types);
      }
      if (model.node_types > 0 && model.features_by_type != info.features_by_type) {
        const auto words = [](const std::vector<std::int64_t>& by_type) {
          return by_type.empty() ? std::string("equally many")
                                 : fmt::format("{}", fmt::join(by_type, ", "));
        };
        fail_input("{}: its types of nodes have {} features, the model in {} needs {}",
                   arguments.dataset, words(info.features_by_type), path.string(),
                   words(model.features_by_type));
      }
      if (links != (info.task == Task::kLinkPrediction)) {
        fail_input("{}: its task is {}, the model in {} {} links", arguments.dataset,
                   to_string(info.task), path.string(), links ? "predicts" : "does not predict");
      }
      if (job.data().labelled() && numbers != (info.task == Task::kRegression)) {
        fail_input("{}: its task is {}, the model in {} predicts {}", arguments.dataset,
                   to_string(info.task), path.string(), numbers ? "numbers" : "classes");
      }
    });
    on_all_ranks(transport,
                 [&] { job.trainer().load_state(file, /*optimizer=*/false, path.string()); });
    what.use(job, transport, numbers, activity);
  });
}

void run_predict(const PredictArguments& arguments) {
  const PredictionKind kind = parse_prediction_kind(arguments.what);
  const auto check = [&](bool links, const std::filesystem::path& model) {
    check_result_file(arguments.out, "--out");
    is_table_file(arguments.out, "--out");  // or it is refused
    if (arguments.nodes == file_of_ids(arguments.out)) {
      fail_option("--out {}: the ids of its rows would replace --nodes {}; allowed is another name",
                  arguments.out, arguments.nodes);
    }
    if (!arguments.nodes.empty() && links) {
      fail_option("--nodes {}: the model in {} predicts links; predict all nodes", arguments.nodes,
                  model.string());
    }
    if (links && kind == PredictionKind::kLabels) {
      fail_option("--what labels: the model in {} predicts links; allowed are embeddings, logits",
                  model.string());
    }
  };
  std::vector<GlobalId> chosen;
  PredictionNames names;
  const auto choose = [&](const Dataset& dataset, const SafetensorsFile& file,
                          const std::filesystem::path& model) {
    if (is_table_file(arguments.out, "--out")) names = prediction_names(dataset);
    chosen = read_nodes_or_new(arguments.nodes, dataset.info().nodes, nodes_of_model(file, model),
                               "--nodes");
    std::vector<GlobalId> distinct = chosen;
    std::ranges::sort(distinct);
    const auto repeated = std::ranges::unique(distinct);
    distinct.erase(repeated.begin(), repeated.end());
    return distinct;
  };
  const auto use = [&](RankJob& job, Transport& transport, bool numbers, Activity& activity) {
    const bool as_numbers = numbers && kind == PredictionKind::kLabels;
    const PredictionKind written = as_numbers ? PredictionKind::kNumbers : kind;
    const char* const name = as_numbers ? "numbers" : arguments.what.c_str();
    const std::int64_t nodes = job.data().dataset().nodes;
    if (!arguments.nodes.empty()) {
      const ChosenCosts costs = predict_chosen(job.trainer(), job.data(), transport, written,
                                               chosen, arguments.out, &names);
      activity.end();
      fmt::print("{} of {} of {} nodes in {}\n", name, chosen.size(), nodes, arguments.out);
      fmt::print(
          "read: {} of {} rows of features; computed: {} of {} rows of {}\n", costs.read, nodes,
          costs.computed, costs.aggregates * nodes,
          costs.aggregates == 1 ? "one aggregate" : fmt::format("{} aggregates", costs.aggregates));
      return;
    }
    const Metrics metrics =
        predict(job.trainer(), job.data(), transport, written, arguments.out, arguments.dataset);
    activity.end();
    if (transport.rank() != 0) return;
    fmt::print("{} of {} nodes in {}\n", name, nodes, arguments.out);
    fmt::print("{}", scores_text(result_json(job.trainer(), metrics)));
  };
  ModelUse what{"predicting " + arguments.what, check, {}, use};
  if (!arguments.nodes.empty()) what.choose = choose;
  apply_model(arguments, what);
}

// A line per class, of the nodes of a split.
void print_classes(const ClassCounts& counts, const char* split) {
  fmt::print("classes of the {} nodes:\n", split);
  fmt::print("  class  precision  recall      F1  support\n");
  for (std::int64_t c = 0; c < counts.classes(); ++c) {
    fmt::print("  {:>5}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>7}\n", c, counts.precision(c),
               counts.recall(c), counts.f1(c), counts.support(c));
  }
}

void run_evaluate(const EvaluateArguments& arguments) {
  const auto check = [&](bool, const std::filesystem::path&) {
    if (!arguments.out.empty()) check_result_file(arguments.out, "--out");
  };
  const auto use = [&](RankJob& job, Transport& transport, bool /*numbers*/, Activity& activity) {
    Trainer& trainer = job.trainer();
    if (!job.data().labelled() && job.data().links() == nullptr) {
      fail_input(
          "{}: it has no labels or no splits; nothing can be compared with what the model "
          "says",
          arguments.dataset);
    }
    const Metrics metrics = trainer.measure(0, trainer.queue_evaluation(0), MetricExtent::kAll);
    activity.end();
    on_all_ranks(transport, [&] {
      if (transport.rank() != 0 || arguments.out.empty()) return;
      write_atomically(arguments.out, readable_json(result_json(trainer, metrics)) + "\n");
    });
    if (transport.rank() != 0) return;
    fmt::print("{}", scores_text(result_json(trainer, metrics)));
    if (!metrics.classes.empty() && metrics.classes[2].classes() <= kMostConfusedClasses) {
      print_classes(metrics.classes[2], "test");
    }
  };
  apply_model(arguments, {"evaluating", check, {}, use});
}

void add_model_flags(CLI::App& command, ModelArguments& arguments) {
  command.add_option("run", arguments.run, "Run folder of `atoll train`")->required();
  command.add_option("dataset", arguments.dataset, "Dataset folder")->required();
  command
      .add_option("--backend", arguments.backend,
                  "auto, reference, cpu or cuda; or one per rank: cuda,cpu")
      ->check(backend_list());
  command
      .add_option("--threads", arguments.threads, "Threads per rank; 0: cores / ranks on this host")
      ->check(CLI::Range(0, 4096));
  command
      .add_option("--split-index", arguments.split_index,
                  "Split that the metrics are for; -1: that of the run")
      ->check(CLI::Range(-1, 1000000));
  add_transport_flags(command, arguments.transport, "Options");
  add_partition_flags(command, arguments.partition);
  command.add_option("--partition-seed", arguments.partition_seed, "Seed of the cut")
      ->check(seed_number());
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("predict", "Write labels, logits or embeddings of every node");
  command->footer(
      "The model is that of the run's best epoch.\n"
      "Examples:\n"
      "  atoll predict runs/arxiv data/arxiv --out labels.npy\n"
      "  atoll predict runs/arxiv data/arxiv --out labels.csv\n"
      "  atoll predict runs/arxiv data/arxiv --nodes 0,5,10-19 --out labels.csv\n"
      "  atoll predict runs/arxiv data/grown --nodes new --out new.npy\n"
      "  mpirun -n 4 atoll predict runs/arxiv data/arxiv --what embeddings --out rows.npy");
  const auto arguments = std::make_shared<PredictArguments>();
  add_model_flags(*command, *arguments);
  command
      ->add_option("--out", arguments->out,
                   "The file to write: .npy, or .csv with the nodes' ids, class and probabilities")
      ->required();
  command
      ->add_option(
          "--nodes", arguments->nodes,
          "Only these, by what they need of the graph: new (those that the run's dataset did not "
          "have), numbers and ranges (0,5,10-19), or a .npy or text file of numbers; they count "
          "rows from 0, whatever the ids of the source; default: all")
      ->check([](const std::string& text) {
        return std::string(text.empty() ? "it lists no node; allowed is leaving it out for all"
                                        : "");
      });
  command->add_option("--what", arguments->what, "labels, logits or embeddings")
      ->check(one_of({"labels", "logits", "embeddings"}));
  command->callback([arguments] { run_predict(*arguments); });
}

void add_evaluate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "evaluate", "All metrics of a model, and precision and recall of every class");
  command->footer(
      "The model is that of the run's best epoch.\n"
      "Examples:\n"
      "  atoll evaluate runs/arxiv data/arxiv\n"
      "  atoll evaluate runs/arxiv data/arxiv --out evaluation.json");
  const auto arguments = std::make_shared<EvaluateArguments>();
  add_model_flags(*command, *arguments);
  command->add_option("--out", arguments->out,
                      "A JSON file to write, as summary.json with confusion matrices");
  command->callback([arguments] { run_evaluate(*arguments); });
}

}  // namespace atl
