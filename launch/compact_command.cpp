// `atoll compact`: what a chain of deltas gives becomes one folder.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/text.hpp"
#include "datasets/append.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"

namespace atl {
namespace {

struct CompactArguments {
  std::filesystem::path dataset;
  std::filesystem::path out;
};

void run_compact(const CompactArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const DatasetInfo info = compact_dataset(arguments.dataset, arguments.out);
  print("{}: {} nodes, {} edges, checksum {}\n", info.name, info.nodes, info.edges, info.checksum);
  fmt::print("written to {}\n", arguments.out.string());
}

}  // namespace

void add_compact_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compact", "Write a dataset that was appended to as one whole folder");
  command->footer(
      "The new folder has the same checksum: partitions and runs of the one are those of the\n"
      "other. It needs no other folder.\n"
      "Examples:\n"
      "  atoll compact data/mine@3 --out data/mine-whole");
  const auto arguments = std::make_shared<CompactArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder that atoll append has made")
      ->required();
  command->add_option("--out", arguments->out, "Dataset folder to make; must not exist")
      ->required();
  command->callback([arguments] { run_compact(*arguments); });
}

}  // namespace atl
