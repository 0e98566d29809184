#include "launch/report/report_options.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "engine/models/model.hpp"
#include "engine/models/model_options.hpp"
#include "engine/training/option_table.hpp"
#include "launch/report/svg_chart.hpp"

namespace atl {
namespace {

// They say where results go and how the run was started, not what it computes.
constexpr std::array<std::string_view, 3> kOutputs = {"run-dir", "resume", "overwrite"};

// Fields of summary.json beside the options. `resolved`: the run knows better than its options,
// which may say "auto".
struct Circumstance {
  const char* name;
  bool resolved;
};
constexpr Circumstance kCircumstances[] = {
    {"dataset", false},  {"model", false},  {"ranks", true},
    {"transport", true}, {"backend", true}, {"dtype", false},
    {"exchange", false}, {"bits", false},   {"commit", true},
};

bool takes_bits(std::string_view mode) {
  const ExchangeMode* found = find_exchange_mode(mode);
  return found == nullptr || found->takes_bits();
}
template <MessagesSent... Sent>
bool sends(std::string_view mode) {
  const ExchangeMode* found = find_exchange_mode(mode);
  return found == nullptr || ((found->sent == Sent) || ...);
}
bool is_on(std::string_view word) { return word == "on"; }
bool is_adaptive(std::string_view bits) { return bits == "adaptive"; }
bool has_steps(std::string_view schedule) { return schedule == "step"; }
bool is_above_zero(std::string_view number) { return number != "0"; }

// Options that have an effect only where another one has certain values.
struct Condition {
  std::string_view option;
  std::string_view other;
  bool (*holds)(std::string_view value);
};
constexpr Condition kConditions[] = {
    {"bits", "exchange", takes_bits},
    {"lambda", "exchange", takes_bits},
    {"lambda", "bits", is_adaptive},
    {"reassign-every", "exchange", takes_bits},
    {"reassign-every", "bits", is_adaptive},
    {"sensitivity", "exchange", takes_bits},
    {"sensitivity", "bits", is_adaptive},
    {"rate", "exchange", sends<MessagesSent::kSampled>},
    {"every", "exchange", sends<MessagesSent::kPeriodic>},
    {"stagger", "exchange", sends<MessagesSent::kPeriodic>},
    {"bound", "exchange", sends<MessagesSent::kDrifted>},
    {"oldest", "exchange", sends<MessagesSent::kDrifted, MessagesSent::kByCost>},
    {"drift-limit", "exchange", sends<MessagesSent::kByCost>},
    {"staleness-weight", "exchange", sends<MessagesSent::kByCost>},
    {"shift", "shift", is_on},
    {"synchronous-every", "synchronous-every", is_above_zero},
    {"lr-step-epochs", "lr-schedule", has_steps},
    {"lr-step-factor", "lr-schedule", has_steps},
    {"weight-decay-layers", "weight-decay", is_above_zero},
};

using Values = std::vector<ConfigValue>;

const std::string* find(const Values& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &ConfigValue::key);
  return found == values.end() ? nullptr : &found->value;
}

bool has_effect(const Values& values, std::string_view option) {
  return std::ranges::all_of(kConditions, [&](const Condition& condition) {
    if (condition.option != option) return true;
    const std::string* other = find(values, condition.other);
    return other == nullptr || condition.holds(*other);
  });
}

// An option's entry in the tables of options.
struct Described {
  std::string group = "Run";
  std::string help;
};

Described describe(std::string_view key) {
  Described found;
  const auto search = [&](const auto& table) {
    for (const auto& row : table) {
      if (row.name == key && !row.group.empty()) found = {row.group, row.help};
    }
  };
  search(train_options());
  search(computation_options());
  search(model_options());
  return found;
}

// Help of an option that only some models read begins with them: "gat, gatv2: ...".
bool reads(const std::string& model, const std::string& help) {
  const std::vector<std::string> kinds = model_kinds();
  bool names_kinds = false;
  bool found = false;
  std::string_view rest = std::string_view(help).substr(0, help.find(':'));
  if (rest.size() == help.size()) return true;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    const std::string_view part = rest.substr(0, end);
    const std::string_view kind = part.substr(0, part.find(' '));
    names_kinds = names_kinds || std::ranges::find(kinds, kind) != kinds.end();
    found = found || kind == model;
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return found || !names_kinds;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? format_number(value.get<double>()) : shown(value);
}

// The run's options with its circumstances.
Values known_of(const RunRecord& run) {
  Values values = run.options;
  for (const Circumstance& circumstance : kCircumstances) {
    const auto found = run.summary.find(circumstance.name);
    if (found == run.summary.end() || found->is_null()) continue;
    const auto option = std::ranges::find(values, circumstance.name, &ConfigValue::key);
    if (option == values.end()) {
      values.push_back({circumstance.name, text_of(*found)});
    } else if (circumstance.resolved) {
      option->value = text_of(*found);
    }
  }
  const std::string* model = find(values, "model");
  Values used;
  for (ConfigValue& value : values) {
    const bool output = std::ranges::find(kOutputs, value.key) != kOutputs.end();
    const bool read = model == nullptr || reads(*model, describe(value.key).help);
    if (!output && read && has_effect(values, value.key)) used.push_back(value);
  }
  return used;
}

}  // namespace

bool ComparedOption::differs() const {
  const bool conditional =
      std::ranges::find(kConditions, key, &Condition::option) != std::end(kConditions);
  const bool of_some_models = !reads("", describe(key).help);
  const bool follows = key != "bits" && (conditional || of_some_models);
  return std::ranges::any_of(values, [&](const std::string& value) {
    return value != shared_value() && !(follows && value.empty());
  });
}

const std::string& ComparedOption::shared_value() const {
  const auto known = std::ranges::find_if_not(values, &std::string::empty);
  return known == values.end() ? values.front() : *known;
}

std::vector<ComparedOption> compare_options(const std::vector<RunRecord>& runs) {
  std::vector<ComparedOption> options;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const ConfigValue& known : known_of(runs[i])) {
      auto option = std::ranges::find(options, known.key, &ComparedOption::key);
      if (option == options.end()) {
        option = options.insert(options.end(), {known.key, describe(known.key).group,
                                                std::vector<std::string>(runs.size())});
      }
      option->values[i] = known.value;
    }
  }
  return options;
}

}  // namespace atl
