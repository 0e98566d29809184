// `atoll trace draw`: epochs of Chrome traces as one picture.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/json.hpp"
#include "base/trace.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/report/timeline_chart.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct DrawArguments {
  std::vector<std::string> traces;
  std::vector<std::string> titles;
  std::string out = "timeline.svg";
  int epoch = 0;  // 0: the median
};

struct DrawnEvent {
  int rank = 0;
  TimelineSpan span;  // in ms of the trace's clock
};

// A span of a rank's main thread or device, or a packet; false for everything else.
bool is_drawn(const Json& event, const std::string& name, const std::string& place) {
  if (json_field_or<std::string>(event, "ph", place, "") != "X" || name == "send" ||
      name == "epoch" || name == "evaluation") {
    return false;
  }
  return name == "packet" || json_field_or<int>(event, "tid", place, 0) < kEpochLane;
}

// By epoch; a predicted trace has one, of number 0.
std::map<int, std::vector<DrawnEvent>> read_events(const std::filesystem::path& path) {
  const Json json = read_json(path, kMostTraceBytes);
  std::map<int, std::vector<DrawnEvent>> epochs;
  const Json events = json_field<Json>(json, "traceEvents", path);
  if (!events.is_array()) fail_input("{}: field 'traceEvents' is no array", path.string());
  for (std::size_t e = 0; e < events.size(); ++e) {
    const Json& event = events[e];
    const std::string place = fmt::format("{}: event {}", path.string(), e);
    const auto name = json_field<std::string>(event, "name", place);
    if (!is_drawn(event, name, place)) continue;
    const Json arguments = json_field_or<Json>(event, "args", place, Json::object());
    DrawnEvent drawn;
    drawn.rank = json_field<int>(event, "pid", place);
    if (drawn.rank < 0) fail_input("{}: field 'pid' is {}; it is a rank", place, drawn.rank);
    drawn.span.name = name;
    drawn.span.begin_ms = json_field<double>(event, "ts", place) / 1000;
    drawn.span.end_ms = drawn.span.begin_ms + json_field<double>(event, "dur", place) / 1000;
    if (name == "packet") drawn.span.source = json_field<int>(arguments, "source", place);
    epochs[json_field_or<int>(arguments, "epoch", place, 0)].push_back(std::move(drawn));
  }
  if (epochs.empty()) fail_input("{}: no spans of a rank's work in it", path.string());
  return epochs;
}

double begin_ms(const std::vector<DrawnEvent>& events) {
  return std::ranges::min_element(events, {}, [](const DrawnEvent& e) { return e.span.begin_ms; })
      ->span.begin_ms;
}

double duration_ms(const std::vector<DrawnEvent>& events) {
  const auto last =
      std::ranges::max_element(events, {}, [](const DrawnEvent& e) { return e.span.end_ms; });
  return last->span.end_ms - begin_ms(events);
}

int median_epoch(const std::map<int, std::vector<DrawnEvent>>& epochs) {
  std::vector<std::pair<double, int>> lengths;
  for (const auto& [epoch, events] : epochs) lengths.emplace_back(duration_ms(events), epoch);
  std::ranges::sort(lengths);
  return lengths[(lengths.size() - 1) / 2].second;
}

TimelinePanel make_panel(const std::filesystem::path& path, const std::string& title, int epoch) {
  const auto epochs = read_events(path);
  // A predicted trace has but one.
  if (epoch == 0 || epochs.size() == 1) epoch = median_epoch(epochs);
  const auto found = epochs.find(epoch);
  if (found == epochs.end()) {
    fail_option("--epoch {}: {} has epochs {} to {}", epoch, path.string(), epochs.begin()->first,
                epochs.rbegin()->first);
  }
  TimelinePanel panel;
  panel.title = title;
  const double begin = begin_ms(found->second);
  for (DrawnEvent event : found->second) {
    const auto rank = static_cast<std::size_t>(event.rank);
    if (panel.ranks.size() <= rank) panel.ranks.resize(rank + 1);
    event.span.begin_ms -= begin;
    event.span.end_ms -= begin;
    panel.ranks[rank].push_back(std::move(event.span));
  }
  return panel;
}

void run_draw(const DrawArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  check_result_file(arguments.out, "--out");
  if (!arguments.titles.empty() && arguments.titles.size() != arguments.traces.size()) {
    fail_option("--title: {} titles for {} traces; give one per trace, or none",
                arguments.titles.size(), arguments.traces.size());
  }
  std::vector<TimelinePanel> panels;
  for (std::size_t t = 0; t < arguments.traces.size(); ++t) {
    const std::string& trace = arguments.traces[t];
    panels.push_back(
        make_panel(trace, arguments.titles.empty() ? trace : arguments.titles[t], arguments.epoch));
  }
  write_atomically(arguments.out, draw_timelines(panels));
  fmt::print("written to {}\n", arguments.out);
}

}  // namespace

void add_trace_draw_command(CLI::App& trace) {
  const auto arguments = std::make_shared<DrawArguments>();
  CLI::App* command = trace.add_subcommand(
      "draw", "Draw an epoch of each trace, one below the other, as an SVG picture");
  command->footer(
      "Takes trace-merged.json of atoll trace merge (or trace.json of a single host) and what\n"
      "--predicted-trace of atoll plan and atoll trace replay writes.\n"
      "Examples:\n"
      "  atoll trace draw predicted.json runs/planned/trace-merged.json --out timeline.svg\n"
      "  atoll trace draw runs/gcn/trace-merged.json --epoch 5 --title 'GCN on two hosts'");
  command->add_option("traces", arguments->traces, "Chrome traces")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--out", arguments->out, "The picture");
  command->add_option("--title", arguments->titles, "Of each trace; default: its file");
  command->add_option("--epoch", arguments->epoch, "Which; 0: the one that took the median time")
      ->check(non_negative_number());
  command->callback([arguments] { run_draw(*arguments); });
}

}  // namespace atl
