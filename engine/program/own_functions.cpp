#include "engine/program/own_functions.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/own_names.hpp"

namespace atl {

namespace {

OwnFunctions& functions_of_program() {
  static OwnFunctions functions;
  return functions;
}

template <typename Own>
void check_own(const std::string& what, const std::vector<Own>& own,
               std::vector<std::string> taken) {
  for (const Own& one : own) {
    check_own_name(what, one.name, taken);
    if (!one.compute) {
      fail_option("{} '{}' of this program has no function that computes it", what, one.name);
    }
    taken.push_back(one.name);
  }
}

}  // namespace

void set_own_functions(const OwnFunctions& functions, const std::vector<std::string>& losses,
                       const std::vector<std::string>& metrics) {
  check_own("loss", functions.losses, losses);
  check_own("metric", functions.metrics, metrics);
  for (const OwnMetric& metric : functions.metrics) {
    if (metric.name.find('-') != std::string::npos) continue;
    fail_option(
        "a metric of this program is named '{}'; allowed are names with a '-', which no other "
        "field of summary.json and metrics.jsonl has",
        metric.name);
  }
  functions_of_program() = functions;
}

const OwnFunctions& own_functions() { return functions_of_program(); }

const OwnLoss* own_loss(const std::string& name) {
  const auto found = std::ranges::find(own_functions().losses, name, &OwnLoss::name);
  return found == own_functions().losses.end() ? nullptr : &*found;
}

std::optional<std::size_t> own_metric(const std::string& name) {
  const std::vector<OwnMetric>& all = own_functions().metrics;
  const auto found = std::ranges::find(all, name, &OwnMetric::name);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace atl
