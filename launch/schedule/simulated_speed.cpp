#include "launch/schedule/simulated_speed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "engine/placement/group_plans.hpp"
#include "engine/training/group_ranks.hpp"
#include "launch/planned_graph.hpp"

namespace atl {

namespace {

constexpr int kTypicalBits = 4;  // of widths that only a run knows

// With one width for all messages, as simulated epochs have.
TrainOptions with_one_width(TrainOptions options) {
  BitChoice& bits = options.message_bits.bits;
  if (!exchange_mode(options.exchange).takes_bits() || bits.widths.size() == 1) return options;
  const int width = bits.widths.empty() ? kTypicalBits : std::ranges::max(bits.widths);
  bits = {BitChoice::By::kFixed, {width}};
  return options;
}

class SpeedSimulation {
 public:
  SpeedSimulation(const ScheduledTraining& training, const Topology& machine, CutTable& cuts,
                  const Measured& measured)
      : training_(training), machine_(machine), cuts_(cuts), measured_(measured) {}

  SimulatedSpeed run() {
    ModelConfig model =
        model_for(training_.dataset->info(), training_.options.model, machine_.ranks());
    require_offload(model, machine_);
    const int each = rank_map(training_.options.ranks_of_part(), places_of(machine_, &Device::host))
                         .ranks_per_part();
    const CutCandidate& cut = cuts_.of(training_, machine_.ranks() / each);
    const TrainOptions options = with_one_width(training_.options);
    const AskedMessages messages = asked_messages(options);
    GroupPlans plans(machine_, model, each,
                     {{cut},
                      messages.bits,
                      measured_.corrections,
                      messages.start_bits,
                      planned_messages(messages, measured_)});
    plans.search({.search = "none", .options = {}});
    const PlanCost& cost = plans.found().cost;
    SimulatedSpeed speed;
    if (cost.missing_bytes > 0) {
      speed.refusal =
          fmt::format("it lacks {} of memory",
                      format_bytes(static_cast<std::int64_t>(std::ceil(cost.missing_bytes))));
      return speed;
    }
    model.column_share.ranks = each;
    speed.epoch_s = cost.seconds;
    const auto epochs = plans.space().simulated(plans.found().choice);
    speed.epoch_card_s = card_seconds(epochs, model);
    add_evaluation(model, cut, speed);
    return speed;
  }

 private:
  // Messages of evaluations are exact, whatever those of training are.
  void add_evaluation(const ModelConfig& model, const CutCandidate& cut,
                      SimulatedSpeed& speed) const {
    speed.evaluation_card_s.assign(machine_.hosts.size(), 0);
    if (shares_forward(model)) return;
    const EpochSetting setting{
        .topology = machine_,
        .model = model,
        .partition = cut.quality,
        .corrections = measured_.corrections,
        .arrival = planned_arrival(training_.options.arrival, machine_, model)};
    const TaskGraph tasks =
        evaluation_tasks(epoch_tasks(setting, layers_without_plan(model), TaskDetail::kPhases));
    speed.evaluation_s = Simulator(machine_, /*tolerance=*/0, measured_.corrections.network_speed())
                             .run(tasks)
                             .makespan_s;
    CardLoad cards(machine_);
    for (const SimTask& task : tasks.tasks()) {
      if (task.kind == TaskKind::kTransfer) cards.add(task.rank, task.destination, task.bytes);
    }
    speed.evaluation_card_s = seconds_of(cards);
  }

  // Whether the next epoch goes on from what an evaluation has computed: see Trainer::evaluate().
  bool shares_forward(const ModelConfig& model) const {
    return same_forward(model_program(model, Pass::kTraining),
                        model_program(model, Pass::kEvaluation)) &&
           training_.options.exchange == kExactMode &&
           training_.options.optimizer.average_decay == 0;
  }

  std::vector<double> card_seconds(std::span<const SimulatedEpoch> epochs,
                                   const ModelConfig& model) const {
    CardLoad cards(machine_);
    for (const SimulatedEpoch& epoch : epochs) {
      const TaskGraph& graph = epoch.tasks;
      for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
        const SimTask& task = graph.task(id);
        if (task.kind != TaskKind::kTransfer) continue;
        cards.add(task.rank, task.destination, epoch.kind.share * task.bytes);
      }
    }
    // The sum of gradients, two all-to-alls, is no transfer of these tasks.
    const double values = static_cast<double>(
        parameter_sizes(model_program(model, Pass::kTraining), /*pads_operands=*/false).values());
    machine_.for_each_pair([&](int from, int to) {
      cards.add(from, to, 2 * kFloatBytes * values / machine_.ranks());
    });
    return seconds_of(cards);
  }

  std::vector<double> seconds_of(const CardLoad& cards) const {
    std::vector<double> seconds;
    for (std::size_t host = 0; host < machine_.hosts.size(); ++host) {
      seconds.push_back(std::max(cards.sent_s(host), cards.received_s(host)));
    }
    return seconds;
  }

  const ScheduledTraining& training_;
  const Topology& machine_;
  CutTable& cuts_;
  const Measured& measured_;
};

}  // namespace

SimulatedSpeed simulated_speed(const ScheduledTraining& training, const Topology& machine,
                               CutTable& cuts, const Measured& measured) {
  try {
    return SpeedSimulation(training, machine, cuts, measured).run();
  } catch (const Error& error) {
    // Options that other numbers of ranks may allow.
    if (error.kind() != ErrorKind::kOption) throw;
    SimulatedSpeed speed;
    speed.refusal = error.what();
    return speed;
  }
}

Json to_json(const SimulatedSpeed& speed) {
  if (!speed.refusal.empty()) return {{"refusal", speed.refusal}};
  return {{"epoch_s", speed.epoch_s},
          {"evaluation_s", speed.evaluation_s},
          {"epoch_card_s", speed.epoch_card_s},
          {"evaluation_card_s", speed.evaluation_card_s}};
}

SimulatedSpeed parse_speed(const Json& json, const std::filesystem::path& file) {
  SimulatedSpeed speed;
  speed.refusal = json_field_or<std::string>(json, "refusal", file, "");
  if (!speed.refusal.empty()) return speed;
  speed.epoch_s = json_field<double>(json, "epoch_s", file);
  speed.evaluation_s = json_field<double>(json, "evaluation_s", file);
  speed.epoch_card_s = json_field<std::vector<double>>(json, "epoch_card_s", file);
  speed.evaluation_card_s = json_field<std::vector<double>>(json, "evaluation_card_s", file);
  return speed;
}

}  // namespace atl
