// atoll info: what a dataset folder holds, and whether it is intact.
#include <memory>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/statistics.hpp"
#include "launch/command.hpp"

namespace atl {

namespace {

struct InfoArguments {
  std::filesystem::path folder;
  bool json = false;
  bool validate = false;
};

// Throws what is wrong with the dataset, but only after everything that can be said was printed.
void run_info(const InfoArguments& arguments) {
  Activity activity("reading " + arguments.folder.string());
  const Dataset dataset = Dataset::open(arguments.folder);
  std::string checksums = "ok";
  try {
    dataset.validate_checksums();
  } catch (const Error& error) {
    checksums = error.what();
  }
  if (arguments.validate) dataset.validate();
  const DatasetStatistics statistics = describe_dataset(dataset);
  activity.end();
  if (arguments.json) {
    fmt::print("{}", json_text(statistics_json(dataset, statistics, checksums)));
  } else {
    fmt::print("{}", statistics_text(dataset, statistics, checksums));
    if (arguments.validate) fmt::print("{:<12} ok\n", "validation");
  }
  if (checksums != "ok") throw Error(ErrorKind::kInput, checksums);
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* command = app.add_subcommand("info", "Sizes, degrees, splits, checksums of a dataset");
  command->add_option("dataset", arguments->folder, "Dataset folder")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("--validate", arguments->validate, "Check every value, not only the checksums");
  command->footer(
      "Examples:\n"
      "  atoll info data/cora\n"
      "  atoll info data/arxiv --validate --json");
  command->callback([arguments] { run_info(*arguments); });
}

}  // namespace atl
