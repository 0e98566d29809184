// `atoll topology`: measures the machine of a job, or shows and checks a file that describes one.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/placement/topology_probe.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/backend_of_rank.hpp"
#include "engine/training/host_share.hpp"
#include "engine/training/options.hpp"
#include "engine/training/run_folder.hpp"
#include "kernels/registry.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/topology_table.hpp"
#include "launch/train_flags.hpp"
#include "launch/transport_flags.hpp"
#include "launch/validators.hpp"
#include "partition/partitioner.hpp"

namespace atl {
namespace {

struct TopologyArguments {
  std::string action;
  std::string file;
  std::string out = "topology.json";
  std::string backend = "auto";
  int threads = 0;
  TransportOptions transport;
  TopologyProbeOptions probe;
};

// As many as a training run takes: --threads, else OMP_NUM_THREADS (which a backend reads), else a
// share of the cores.
int threads_of_rank(Transport& transport, int wanted) {
  const int share = cores_per_rank(transport);  // collective: called in any case
  if (wanted > 0) return wanted;
  return std::getenv("OMP_NUM_THREADS") != nullptr ? 0 : share;
}

void probe(const TopologyArguments& arguments) {
  run_ranks(arguments.transport, [&](Transport& transport) {
    on_all_ranks(transport, [&] { check_result_file(arguments.out, "--out"); });
    BackendOptions settings;
    settings.threads = threads_of_rank(transport, arguments.threads);
    const std::unique_ptr<Backend> backend =
        make_backend_of_rank(transport, arguments.backend, settings);
    std::unique_ptr<Queue> queue;
    on_all_ranks(transport, [&] { queue = backend->make_queue(); });
    const DeviceTransportChoice messages =
        make_device_transport(messages_of(arguments.transport.name), transport, *backend);
    Activity activity("measuring the machine", 0, transport.rank() == 0);
    const Topology topology =
        probe_topology(*backend, *queue, transport, messages.transport.get(), arguments.probe);
    activity.end();
    on_all_ranks(transport, [&] {
      if (transport.rank() != 0) return;
      write_json(arguments.out, to_json(topology));
      print_lines(topology_table(topology));
      print("\nwritten to {}\n", arguments.out);
    });
  });
}

void run_topology(const TopologyArguments& arguments) {
  const bool show = arguments.action == "show";
  if (show == arguments.file.empty()) {
    fail_option(
        "atoll topology {}: {}", arguments.action,
        show ? "names no file; use 'atoll topology show FILE'"
             : fmt::format("takes no file ('{}' found); it writes to --out", arguments.file));
  }
  if (!show) return probe(arguments);
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  print_lines(fmt::format("{}: {}", arguments.file, topology_table(read_topology(arguments.file))));
}

void add_probe_options(CLI::App& command, TopologyArguments& arguments) {
  const HelpGroup probing(command, "Probe");
  probing.add_option("--out", arguments.out, "File that probe writes");
  probing
      .add_option("--backend", arguments.backend,
                  "auto, reference, cpu or cuda; or one per rank: cuda,cpu")
      ->check(backend_list());
  probing
      .add_option("--threads", arguments.threads, "Threads per rank; 0: cores / ranks on this host")
      ->check(CLI::Range(0, 4096));
  add_transport_flags(command, arguments.transport, "Probe");
  probing
      .add_option("--kernel-time", arguments.probe.kernels.seconds,
                  "Time for each kernel and number of columns; shorter is less exact under quotas")
      ->transform(seconds({.least = 0, .above = true}));
  probing
      .add_option("--rows", arguments.probe.kernels.rows,
                  "Nodes of the graph that kernels are measured on")
      ->check(CLI::Range(std::int64_t{64}, std::int64_t{1} << 30));
  probing
      .add_option("--pairs-time", arguments.probe.network.pairs_seconds,
                  "Most time for pairs of ranks alone; the pairs left are taken from their likes")
      ->transform(seconds({.least = 0, .above = true}));
  probing
      .add_option("--progress-time", arguments.probe.network.progress_seconds,
                  "Time for what messages take from computing")
      ->transform(seconds({.least = 0, .above = true}));
}

}  // namespace

void add_topology_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "topology", "Measure the machine of a job, or show a file that describes one");
  command->footer(
      "probe measures on all ranks of the job; show checks a file, measured or written by hand.\n"
      "Examples:\n"
      "  mpirun -n 4 atoll topology probe --out cluster.json\n"
      "  atoll topology probe --transport local --ranks 2\n"
      "  atoll topology show cluster.json");
  const auto arguments = std::make_shared<TopologyArguments>();
  command->add_option("action", arguments->action, "probe | show")
      ->required()
      ->check(one_of({"probe", "show"}));
  command->add_option("file", arguments->file, "Topology file to show");
  add_probe_options(*command, *arguments);
  command->callback([arguments] { run_topology(*arguments); });
}

}  // namespace atl
