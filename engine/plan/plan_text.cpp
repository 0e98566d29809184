#include "engine/plan/plan.hpp"

namespace atl {

namespace {

// How errors call what a plan says of its search.
constexpr const char* kSearchPlace = "field 'search'";

}  // namespace

std::string to_text(const Plan& plan) {
  const auto gain = plan.predicted_ms > 0 ? plan.default_ms / plan.predicted_ms : 1;
  std::string text = fmt::format(
      "{} on {} ranks: {:.1f} ms per epoch expected, {:.1f} ms without the plan ({:.2f}x); lower "
      "bound {:.1f} ms, gap {:.1f} %\n",
      plan.dataset, plan.ranks, plan.predicted_ms, plan.default_ms, gain, plan.lower_bound_ms,
      plan.lower_bound_ms > 0 ? 100 * (plan.predicted_ms / plan.lower_bound_ms - 1) : 0);
  if (!plan.shape.empty()) text += fmt::format("made from {}, not from a dataset\n", plan.shape);
  if (plan.search.is_null()) return text;
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
