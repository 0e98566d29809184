#include "launch/bench_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atl {

namespace {

Json costs_json(const std::map<std::string, ProfiledCost>& costs, const EpochProfile& profile,
                ProfiledCost& sum) {
  Json result = Json::object();
  for (const auto& [name, cost] : costs) {
    result[name] = {{"ms", cost.ms / profile.epochs},
                    {"share", cost.ms / profile.epoch_ms},
                    {"calls", static_cast<double>(cost.calls) / profile.epochs},
                    {"bound_ms", cost.bound_ms / profile.epochs},
                    {"no_reuse_bound_ms", cost.no_reuse_bound_ms / profile.epochs}};
    sum.ms += cost.ms;
    sum.bound_ms += cost.bound_ms;
    sum.no_reuse_bound_ms += cost.no_reuse_bound_ms;
  }
  return result;
}

void print_costs(const char* title, const Json& costs) {
  std::size_t width = 26;
  for (const auto& [name, cost] : costs.items()) width = std::max(width, name.size());
  fmt::print("  {:<{}} {:>10} {:>9} {:>8} {:>10} {:>12} {:>9}\n", title, width, "ms", "share",
             "calls", "bound ms", "no-reuse ms", "ms/bound");
  for (const auto& [name, cost] : costs.items()) {
    const double ms = cost.at("ms").get<double>();
    const double bound = cost.at("no_reuse_bound_ms").get<double>();
    fmt::print("  {:<{}} {:>10.3f} {:>7.1f} % {:>8.1f} {:>10.3f} {:>12.3f}", name, width, ms,
               100 * cost.at("share").get<double>(), cost.at("calls").get<double>(),
               cost.at("bound_ms").get<double>(), bound);
    if (bound > 0) fmt::print(" {:>9.2f}", ms / bound);
    fmt::print("\n");
  }
}

}  // namespace

Json to_json(const EpochProfile& profile) {
  ProfiledCost busy;
  ProfiledCost in_phases;
  Json result = {{"epochs", profile.epochs},
                 {"epoch_ms", profile.epoch_ms / profile.epochs},
                 {"memory_gb_per_s", profile.ceilings.bytes_per_s / 1e9},
                 {"product_gflop_per_s", profile.ceilings.flop_per_s / 1e9}};
  result["operations"] = costs_json(profile.operations, profile, busy);
  ProfiledCost of_kernels;  // operations once more
  if (!profile.kernels.empty())
    result["kernels"] = costs_json(profile.kernels, profile, of_kernels);
  ProfiledCost of_requests;  // and again
  result["requests"] = costs_json(profile.requests, profile, of_requests);
  result["phases"] = costs_json(profile.phases, profile, in_phases);
  // Gaps between operations, waiting for messages, and the timing itself.
  result["rest"] = {{"ms", (profile.epoch_ms - busy.ms) / profile.epochs},
                    {"share", 1 - busy.ms / profile.epoch_ms}};
  result["bound_ms"] = busy.bound_ms / profile.epochs;
  result["no_reuse_bound_ms"] = busy.no_reuse_bound_ms / profile.epochs;
  return result;
}

void print_profile(const Json& profile) {
  const double epoch_ms = profile.at("epoch_ms").get<double>();
  const double bound = profile.at("bound_ms").get<double>();
  const double no_reuse = profile.at("no_reuse_bound_ms").get<double>();
  fmt::print("  rank 0 at its ceilings, memory {:.1f} GB/s and products {:.1f} GFLOP/s:\n",
             profile.at("memory_gb_per_s").get<double>(),
             profile.at("product_gflop_per_s").get<double>());
  print_costs("operations", profile.at("operations"));
  const Json& rest = profile.at("rest");
  fmt::print("  {:<26} {:>10.3f} {:>7.1f} %\n", "(between operations)", rest.at("ms").get<double>(),
             100 * rest.at("share").get<double>());
  if (profile.contains("kernels")) print_costs("kernels", profile.at("kernels"));
  print_costs("requests", profile.at("requests"));
  print_costs("phases", profile.at("phases"));
  fmt::print(
      "  epoch {:.2f} ms = {:.2f} x its bound of {:.2f} ms, in which every edge of an SpMM reads "
      "memory; {:.2f} ms if each row were read once\n",
      epoch_ms, epoch_ms / no_reuse, no_reuse, bound);
}

}  // namespace atl
