// atoll generate: synthetic dataset folders of any size.
#include <chrono>
#include <memory>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "datasets/generate.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {

namespace {

struct GenerateArguments {
  std::string kind;
  GenerateOptions options;
  std::string split;
};

void run_generate(GenerateArguments arguments) {
  GenerateOptions& options = arguments.options;
  if (!arguments.split.empty()) options.split = parse_split(arguments.split);
  const auto start = std::chrono::steady_clock::now();
  const DatasetInfo info = generate_dataset(arguments.kind, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print("{}: {} nodes, {} edges, {} features, {} classes\n", info.name, info.nodes, info.edges,
        info.features, info.classes);
  fmt::print("written to {} in {:.1f} s, peak memory {}\n", options.out.string(), seconds.count(),
             format_bytes(peak_resident_bytes()));
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Make a synthetic dataset folder");
  GenerateOptions& options = arguments->options;
  command->add_option("kind", arguments->kind, "What graph to make")
      ->required()
      ->type_name(fmt::format("{{{}}}", fmt::join(generator_kinds(), ",")));
  command->add_option("--out", options.out, "Dataset folder to make; must not exist")->required();
  command->add_option("--name", options.name, "Name of the set; default: its kind");
  command->add_option("--seed", options.seed, "Same seed, same files")->check(seed_number());
  command->add_flag("--directed", options.directed,
                    "Make a directed graph, as relational always does");
  command->add_option(
      "--split", arguments->split,
      "0.6,0.2,0.2 or per-class:20,500,1000; default: 0.6,0.2,0.2 or the published");
  command->add_option("--nodes", options.nodes, "sbm, rmat, relational: nodes");
  command->add_option("--classes", options.classes, "sbm, rmat, relational: classes");
  command->add_option("--features", options.features, "sbm, rmat, relational: feature columns");
  command->add_option("--degree", options.degree,
                      "sbm, rmat, relational: mean number of neighbours");
  command->add_option("--relations", options.relations,
                      "relational: relations of edges, a multiple of the classes");
  command->add_option("--homophily", options.homophily,
                      "sbm: share of edges inside a class; relational: of those that agree on one");
  command->add_option("--signal", options.signal,
                      "sbm, relational: how clearly features show the class");
  command->add_option("--a", options.rmat_a, "rmat: chance of the upper left quarter");
  command->add_option("--b", options.rmat_b, "rmat: of the upper right");
  command->add_option("--c", options.rmat_c, "rmat: of the lower left");
  command->add_option("--scale", options.scale, "like: factor on nodes and edges");
  command->add_flag("--degree-tail", options.degree_tail,
                    "like:ogbn-arxiv: with hubs of as many neighbours as the published graph has, "
                    "up to 13161");
  command->footer(
      "Examples:\n"
      "  atoll generate sbm --nodes 10000 --classes 8 --degree 10 --out data/sbm\n"
      "  atoll generate relational --classes 4 --relations 4 --signal 4 --out data/relational\n"
      "  atoll generate like:ogbn-products --scale 0.1 --out data/products-tenth");
  command->callback([arguments] {
    if (launcher_info().rank == 0) run_generate(*arguments);  // under mpirun one process is enough
  });
}

}  // namespace atl
