// `atoll trace replay`: simulates a recorded run again, on the machine it ran on or on a changed
// one.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/placement/critical_path.hpp"
#include "engine/placement/traced_run.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"

namespace atl {
namespace {

struct ReplayArguments {
  std::string run;
  std::string topology;
  std::vector<std::string> changes;
  std::string trace;
  bool json = false;
};

void run_replay(const ReplayArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  if (!arguments.trace.empty()) check_result_file(arguments.trace, "--predicted-trace");
  const TracedRun run = read_traced_run(arguments.run);
  const Topology measured = read_topology(arguments.topology);
  const PhaseCorrections corrections = corrections_of(run, measured);
  const auto simulate = [&](const Topology& topology) {
    return simulate_epochs(run.setting(topology, corrections), run.layers, TaskDetail::kPhases,
                           run.share_sent);
  };
  const double replayed_s = mean_seconds(simulate(measured));
  Topology changed = measured;
  for (const std::string& change : arguments.changes) change_topology(changed, change);
  const std::vector<SimulatedEpoch> epochs = simulate(changed);
  const double predicted_s = mean_seconds(epochs);
  if (!arguments.trace.empty()) {
    write_atomically(arguments.trace, chrome_trace(epochs.front().tasks, epochs.front().times));
  }
  const double error = replayed_s / run.epoch_s - 1;
  if (arguments.json) {
    const Json result = {{"epochs", run.epochs},
                         {"measured_ms", 1000 * run.epoch_s},
                         {"replayed_ms", 1000 * replayed_s},
                         {"error", error},
                         {"network_speed", corrections.network_speed()},
                         {"changes", arguments.changes},
                         {"predicted_ms", 1000 * predicted_s}};
    fmt::print("{}", json_text(result));
    return;
  }
  fmt::print("measured {:.1f} ms per epoch ({} of {}), replayed {:.1f} ms ({:+.1f} %)\n",
             1000 * run.epoch_s, epochs.size() > 1 ? "mean" : "median", run.epochs,
             1000 * replayed_s, 100 * error);
  if (corrections.network_speed() != 1) {
    print("packets between hosts travelled at {:.2f} times the rates of the topology\n",
          corrections.network_speed());
  }
  if (!arguments.changes.empty()) {
    fmt::print("with {}: {:.1f} ms expected, {:.2f} times as fast\n",
               fmt::join(arguments.changes, ", "), 1000 * predicted_s, replayed_s / predicted_s);
  }
  fmt::print("\nWhat the epoch waits for, on its critical path:\n");
  constexpr std::size_t kLines = 12;
  const std::vector<PathShare> shares = path_shares(epochs);
  for (std::size_t i = 0; i < std::min(kLines, shares.size()); ++i) {
    print("  {:<32} {:9.2f} ms\n", shares[i].what, 1000 * shares[i].seconds);
  }
}

}  // namespace

void add_trace_replay_command(CLI::App& trace) {
  const auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* replay =
      trace.add_subcommand("replay", "Simulate a recorded run, on its machine or on a changed one");
  replay->footer(
      "Examples:\n"
      "  atoll trace replay runs/gcn --topology topology.json\n"
      "  atoll trace replay runs/gcn --topology topology.json --set cards=2x\n"
      "  atoll trace replay runs/gcn --topology topology.json --set 'bw(0,1)=2x' "
      "--set 'speed(2)=0.5x'");
  replay->add_option("run", arguments->run, "Run folder of atoll train --trace")->required();
  replay
      ->add_option("--topology", arguments->topology, "The machine it ran on: atoll topology probe")
      ->required()
      ->check(CLI::ExistingFile);
  replay
      ->add_option("--set", arguments->changes,
                   "What if: cards=0.5x (all network cards), card(HOST)=2x, bw(FROM,TO)=2x (the "
                   "link of two ranks), speed(RANK)=0.5x; may be given several times")
      ->take_all();
  replay->add_option("--predicted-trace", arguments->trace,
                     "Write the simulated epoch as a Chrome trace (opens in Perfetto)");
  replay->add_flag("--json", arguments->json, "Print JSON instead of text");
  replay->callback([arguments] { run_replay(*arguments); });
}

}  // namespace atl
