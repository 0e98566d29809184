#include "engine/plan/plan.hpp"

namespace atl {

namespace {

// How errors call what a plan says of its search.
constexpr const char* kSearchPlace = "field 'search'";

std::string shown_word(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "periodic, every 4, stagger on".
std::string mode_in_words(const Json& exchange) {
  std::string text = shown_word(exchange.at("exchange"));
  for (const auto& [name, value] : exchange.items()) {
    if (name != "exchange") text += fmt::format(", {} {}", name, shown_word(value));
  }
  return text;
}

std::string messages_in_words(const Plan& plan) {
  constexpr const char* kPlace = "field 'messages'";
  if (plan.messages.is_null()) return "";
  const auto number = [&](const Json& object, const char* field) {
    return json_field<double>(object, field, kPlace);
  };
  std::string text =
      fmt::format("{}{:.3f} MB in {:.0f} messages per epoch{}, {:.3g} % of all\n",
                  json_field_or<bool>(plan.messages, "is_bound", kPlace, false) ? "at most " : "",
                  number(plan.messages, "bytes") / 1e6, number(plan.messages, "rows"),
                  plan.exchange.is_null() ? "" : fmt::format(" ({})", mode_in_words(plan.exchange)),
                  100 * number(plan.messages, "share"));
  if (const auto group = json_field_or<double>(plan.messages, "group_bytes", kPlace, 0);
      group > 0) {
    text += fmt::format("{:.3f} MB per epoch inside groups of {} ranks that hold a part together\n",
                        group / 1e6, plan.group_ranks);
  }
  const Json epochs = json_field<Json>(plan.messages, "epochs", kPlace);
  if (epochs.size() < 2) return text;
  for (const Json& kind : epochs) {
    text += fmt::format("  {:.3g} % of the epochs: {:.1f} ms, {:.3f} MB\n",
                        100 * number(kind, "share_of_epochs"), number(kind, "ms"),
                        number(kind, "bytes") / 1e6);
  }
  return text;
}

// An epoch with the best plan for each number of ranks that hold a part together, and in stages.
// chosen: that number, 0 for stages.
std::string groups_in_words(const Json& groups, int chosen) {
  if (groups.empty()) return "";
  std::string text = fmt::format("\n  {:<18}{:>12}{:>20}{:>20}\n", "ranks of a part", "ms",
                                 "MB between hosts", "MB within hosts");
  for (const Json& group : groups) {
    const bool stages = group.contains("stages");
    const int number = stages ? 0 : json_field<int>(group, "group_ranks", kSearchPlace);
    text += fmt::format("  {:<18}", stages ? "in stages" : std::to_string(number));
    if (group.contains("refused")) {
      text += fmt::format("  {}\n", json_field<std::string>(group, "refused", kSearchPlace));
      continue;
    }
    text += fmt::format("{:>12.1f}{:>20.3f}{:>20.3f}{}\n",
                        json_field<double>(group, "ms", kSearchPlace),
                        json_field<double>(group, "bytes_between_hosts", kSearchPlace) / 1e6,
                        json_field<double>(group, "bytes_within_hosts", kSearchPlace) / 1e6,
                        group.contains("missing_bytes") ? "  lacks memory"
                        : number == chosen              ? "  chosen"
                                                        : "");
  }
  return text;
}

}  // namespace

std::string to_text(const Plan& plan) {
  const auto gain = plan.predicted_ms > 0 ? plan.default_ms / plan.predicted_ms : 1;
  const bool lacks_memory =
      !plan.search.is_null() &&
      json_field_or<double>(plan.search, "default_missing_bytes", kSearchPlace, 0) > 0;
  std::string text = fmt::format(
      "{} on {} ranks: {:.1f} ms per epoch expected, {:.1f} ms without the plan ({}); lower bound "
      "{:.1f} ms, gap {:.1f} %\n",
      plan.dataset, plan.ranks, plan.predicted_ms, plan.default_ms,
      lacks_memory ? "which lacks memory" : fmt::format("{:.2f}x", gain), plan.lower_bound_ms,
      plan.lower_bound_ms > 0 ? 100 * (plan.predicted_ms / plan.lower_bound_ms - 1) : 0);
  if (!plan.shape.empty()) text += fmt::format("made from {}, not from a dataset\n", plan.shape);
  text += messages_in_words(plan);
  if (plan.search.is_null()) return text;
  const auto steps = json_field_or<std::int64_t>(plan.search, "steps", kSearchPlace, 1);
  if (steps > 1) text += fmt::format("an epoch is {} steps, each on a block\n", steps);
  const auto word = [](const Json& object, const char* field) {
    return json_field_or<std::string>(object, field, kSearchPlace, "");
  };
  const auto list = [&](const char* field) {
    return json_field_or<Json>(plan.search, field, kSearchPlace, Json::array());
  };
  text += fmt::format("found by {} in {} evaluations{}\n\n", word(plan.search, "strategy"),
                      json_field_or<std::int64_t>(plan.search, "evaluations", kSearchPlace, 0),
                      json_field_or<bool>(plan.search, "optimal", kSearchPlace, false)
                          ? ", the best of all choices"
                          : "");
  for (const Json& decision : list("decisions")) {
    text += fmt::format("  {:<18} {}", word(decision, "decision"), word(decision, "choice"));
    if (decision.contains("instead_of")) {
      text += fmt::format(" instead of {}: saves {:.1f} ms", word(decision, "instead_of"),
                          json_field_or<double>(decision, "saves_ms", kSearchPlace, 0));
    }
    text += "\n";
  }
  text += groups_in_words(list("groups"), plan.stages ? 0 : plan.group_ranks);
  if (plan.search.contains("gradients")) {
    text += fmt::format("\nOf broadcasting factors instead of summing gradients: {}\n",
                        word(plan.search.at("gradients"), "summary"));
  }
  text += "\nWhat the epoch waits for, on its critical path:\n";
  int lines = 0;
  for (const Json& share : list("critical_path")) {
    if (++lines > 12) break;
    text += fmt::format("  {:<32} {:9.2f} ms\n", word(share, "what"),
                        json_field_or<double>(share, "ms", kSearchPlace, 0));
  }
  return text;
}

}  // namespace atl
