#include "engine/training/epoch_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atl {

namespace {

double milliseconds(const Ceilings& ceilings, double flops, double bytes) {
  if (ceilings.bytes_per_s <= 0 || ceilings.flop_per_s <= 0) return 0;
  return 1000 * std::max(flops / ceilings.flop_per_s, bytes / ceilings.bytes_per_s);
}

}  // namespace

void EpochProfile::add(double ms, const std::vector<TraceSpan>& operation_spans,
                       const std::vector<TraceSpan>& phase_spans) {
  ++epochs;
  epoch_ms += ms;
  std::vector<const TraceSpan*> own;
  for (const TraceSpan& span : phase_spans) {
    if (!span.is_own_time()) continue;
    own.push_back(&span);
    ProfiledCost& cost = phases[span.name];
    cost.ms += span.duration_us / 1000;
    ++cost.calls;
  }
  std::ranges::sort(own, {}, &TraceSpan::start_us);
  for (const TraceSpan& span : operation_spans) {
    const double bound = milliseconds(ceilings, span.work.flops, span.work.bytes);
    const double no_reuse = milliseconds(ceilings, span.work.flops, span.work.no_reuse_bytes);
    const auto count = [&](ProfiledCost& cost) {
      cost.bound_ms += bound;
      cost.no_reuse_bound_ms += no_reuse;
    };
    const auto add_whole = [&](ProfiledCost& cost) {
      cost.ms += span.duration_us / 1000;
      ++cost.calls;
      count(cost);
    };
    add_whole(operations[span.name]);
    if (*span.request != '\0') {
      add_whole(requests[fmt::format("{}: {}", span.request, span.name)]);
    }
    if (*span.what != '\0') add_whole(kernels[fmt::format("{} {}", span.name, span.what)]);
    // The phase that it lies in is the last one that began before.
    const double middle = span.start_us + span.duration_us / 2;
    const auto after =
        std::ranges::upper_bound(own, middle, {}, [](const TraceSpan* s) { return s->start_us; });
    if (after == own.begin()) continue;
    const TraceSpan& phase = **std::prev(after);
    if (middle <= phase.start_us + phase.duration_us) count(phases[phase.name]);
  }
}

}  // namespace atl
