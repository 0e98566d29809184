// atoll info: what a dataset folder holds, whether it is intact, and what training would take.
#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/statistics.hpp"
#include "launch/command.hpp"
#include "launch/memory_table.hpp"
#include "launch/train_flags.hpp"

namespace atl {

namespace {

constexpr const char* kInfoGroup = "Dataset";

struct InfoArguments {
  TrainFlags flags;
  int ranks = 1;
  bool json = false;
  bool validate = false;
};

// Whether the command line asks about training: it names a number of ranks, or anything of a model
// or a cut.
bool asks_for_memory(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return !option->empty() && !option->get_positional() && option->get_group() != kInfoGroup &&
           option->get_configurable();
  });
}

// Throws what is wrong with the dataset, but only after everything that can be said was printed.
void run_info(const InfoArguments& arguments, bool with_memory) {
  const std::filesystem::path folder = arguments.flags.dataset;
  Activity activity("reading " + folder.string());
  const Dataset dataset = Dataset::open(folder);
  std::string checksums = "ok";
  try {
    dataset.validate_checksums();
  } catch (const Error& error) {
    checksums = error.what();
  }
  if (arguments.validate) dataset.validate();
  DatasetStatistics statistics;
  try {
    statistics = describe_dataset(dataset);
  } catch (const Error&) {
    if (checksums == "ok") throw;
    throw Error(ErrorKind::kInput, checksums);  // the damage itself, not where it was met
  }
  std::optional<MemoryEstimate> memory;
  if (with_memory && checksums == "ok") {
    memory = estimate_memory(dataset, arguments.flags.unplanned_job(), arguments.ranks);
  }
  activity.end();
  if (arguments.json) {
    Json document = statistics_json(dataset, statistics, checksums);
    if (memory) document["memory"] = to_json(*memory);
    fmt::print("{}", json_text(document));
  } else {
    fmt::print("{}", statistics_text(dataset, statistics, checksums));
    if (arguments.validate) fmt::print("{:<12} ok\n", "validation");
    if (memory) fmt::print("{}", to_text(*memory));
  }
  if (checksums != "ok") throw Error(ErrorKind::kInput, checksums);
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* command = app.add_subcommand(
      "info", "Sizes, degrees, splits, checksums of a dataset; memory that training takes");
  add_model_flags(*command, arguments->flags);
  add_cut_flags(*command, arguments->flags);
  add_message_flags(*command, arguments->flags);
  command
      ->add_option("--ranks", arguments->ranks,
                   "Also print what training takes on each of so many ranks; nothing is cut or "
                   "trained for that")
      ->check(CLI::Range(1, kMaxParts))
      ->group("Memory");
  command->add_flag("--json", arguments->json, "Print one JSON object")->group(kInfoGroup);
  command->add_flag("--validate", arguments->validate, "Check every value, not only the checksums")
      ->group(kInfoGroup);
  command->footer(
      "Any option of a model, or --ranks, asks for the memory of training that model.\n"
      "Examples:\n"
      "  atoll info data/cora\n"
      "  atoll info data/arxiv --validate --json\n"
      "  atoll info data/arxiv --model sage --layers 3 --hidden 256 --ranks 8 --exchange stale");
  command->callback([arguments, command] { run_info(*arguments, asks_for_memory(*command)); });
}

}  // namespace atl
