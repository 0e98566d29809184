// `atoll trace`: what a run recorded with `atoll train --trace`, put together and explained.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/trace/critical_path.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct MergeArguments {
  std::string run;
  std::string out;
  int epoch = 0;  // 0: the median
  bool json = false;

  std::filesystem::path folder() const { return run; }
  std::filesystem::path merged_file() const {
    return out.empty() ? folder() / "trace-merged.json" : std::filesystem::path(out);
  }
};

void print_hosts(const ClockAlignment& clocks) {
  fmt::print("{:<20} {:>6} {:>14} {:>30} {:>24}\n", "host", "ranks", "offset us", "interval us",
             "drift ppm");
  for (const HostClock& host : clocks.hosts) {
    const bool own = &host == &clocks.hosts.front();
    const std::string drift = own ? ""
                                  : fmt::format("{:.1f} ({:.1f} to {:.1f})", host.drift * 1e6,
                                                host.least_drift * 1e6, host.most_drift * 1e6);
    print("{:<20} {:>6} {:>14.1f} {:>30} {:>24}\n", host.name, host.ranks.size(), host.offset_us(),
          fmt::format("{:.1f} to {:.1f}", host.low_us, host.high_us), drift);
  }
}

void print_sums(const char* title, const std::map<std::string, double>& sums, double whole) {
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [name, us] : sums) lines.emplace_back(us, name);
  std::ranges::sort(lines, std::greater());
  fmt::print("{:<26} {:>12} {:>7}\n", title, "ms", "%");
  for (const auto& [us, name] : lines) {
    print("  {:<24} {:>12.3f} {:>7.1f}\n", name, us / 1000, 100 * us / whole);
  }
}

std::string epochs_in_words(const std::vector<int>& epochs) {
  if (epochs.front() == 1) return fmt::format("{} traced", epochs.size());
  return fmt::format("{} to {}, those since the run was resumed", epochs.front(), epochs.back());
}

Json summary(const MergedTrace& merged, const DataflowGraph& graph, const CriticalPath& path) {
  Json result = {{"hosts", to_json(merged.clocks)},
                 {"packets", merged.packets.size()},
                 {"epoch", graph.epoch},
                 {"epochs", traced_epochs(merged.trace).size()},
                 {"epoch_ms", (graph.end_us() - graph.begin_us()) / 1000}};
  Json critical = to_json(path, graph);
  critical.erase("steps");
  result["critical_path"] = std::move(critical);
  return result;
}

void run_merge(const MergeArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const std::filesystem::path merged_file = arguments.folder() / "trace-merged.json";
  if (!arguments.out.empty() && arguments.out != merged_file) {
    check_result_file(arguments.out, "--out");
  }
  Activity activity("merging the trace of " + arguments.run);
  const MergedTrace merged = merge_trace(read_trace(arguments.folder() / "trace.json"));
  const int epoch = arguments.epoch > 0 ? arguments.epoch : median_epoch(merged.trace);
  const DataflowGraph graph = make_dataflow(merged, epoch);
  const CriticalPath path = critical_path(graph);
  Json dataflow = to_json(graph);
  dataflow["hosts"] = to_json(merged.clocks);
  dataflow["critical_path"] = to_json(path, graph);
  write_atomically(arguments.merged_file(), chrome_trace(merged));
  const std::filesystem::path dataflow_file = arguments.folder() / "dataflow.json";
  write_json(dataflow_file, dataflow);
  activity.end();
  if (arguments.json) {
    fmt::print("{}", json_text(summary(merged, graph, path)));
    return;
  }
  print_hosts(merged.clocks);
  fmt::print("\nepoch {} of {}: {:.3f} ms, of which the critical path is {:.3f} ms\n", graph.epoch,
             epochs_in_words(traced_epochs(merged.trace)),
             (graph.end_us() - graph.begin_us()) / 1000, path.duration_us() / 1000);
  print_sums("phase", path.us_by_name(), path.duration_us());
  print_sums("place", path.us_by_place(), path.duration_us());
  fmt::print("\n{}: {} packets (opens in Perfetto)\n{}: {} nodes, {} edges\n",
             arguments.merged_file().string(), merged.packets.size(), dataflow_file.string(),
             graph.nodes.size(), graph.edges.size());
}

void add_merge(CLI::App& command) {
  const auto arguments = std::make_shared<MergeArguments>();
  CLI::App* merge = command.add_subcommand(
      "merge", "Align the clocks of the hosts; write one trace and the graph of one epoch");
  merge->footer(
      "Writes RUN/trace-merged.json, which opens in Perfetto, and RUN/dataflow.json.\n"
      "Examples:\n"
      "  atoll trace merge runs/gcn\n"
      "  atoll trace merge runs/gcn --epoch 7 --out /tmp/epochs.json --json");
  merge->add_option("run", arguments->run, "Run folder of atoll train --trace")->required();
  merge->add_option("--out", arguments->out, "The merged trace; default: RUN/trace-merged.json");
  merge
      ->add_option("--epoch", arguments->epoch,
                   "The epoch to make the graph of; 0: the one that took the median time")
      ->check(non_negative_number());
  merge->add_flag("--json", arguments->json, "Print JSON instead of tables");
  merge->callback([arguments] { run_merge(*arguments); });
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "trace", "What a run with --trace recorded: merge it, see what it waited for");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  mpirun -n 4 atoll train data/arxiv --epochs 10 --trace --run-dir runs/gcn\n"
      "  atoll trace merge runs/gcn");
  add_merge(*command);
  add_trace_replay_command(*command);
  add_trace_draw_command(*command);
}

}  // namespace atl
