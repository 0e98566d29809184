#include "engine/program/needed_rows.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

void require_rows(const Operation& op) {
  const Reach reach = op.rule->reach;
  if (reach == Reach::kRow || reach == Reach::kHalo || reach == Reach::kSmall ||
      op.rule->moves_rows) {
    return;
  }
  fail_option(
      "--nodes: the model's operation '{}' needs the rows of all nodes; predict all of them",
      op.rule->name);
}

}  // namespace

NeededRows needed_rows(const Program& evaluation) {
  NeededRows needed;
  needed.hops.assign(evaluation.operations.size(), 0);
  std::vector<bool> all(evaluation.operations.size(), false);
  for (Value v = evaluation.size(); v-- > 0;) {
    const Operation& op = evaluation.at(v);
    if (op.rule->is_leaf) continue;
    require_rows(op);
    const auto i = static_cast<std::size_t>(v);
    const int hops = needed.hops[i] + (op.needs_messages() ? 1 : 0);
    const bool moves = op.rule->moves_rows || all[i];
    needed.most = std::max(needed.most, hops);
    needed.counts_out_edges |= op.reads(GraphData::kDegrees);
    for_each_read(op, [&](Value read) {
      const auto r = static_cast<std::size_t>(read);
      needed.hops[r] = std::max(needed.hops[r], hops);
      if (moves) all[r] = true;
    });
    if (moves) all[i] = true;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]) needed.hops[i] = kAllRows;
  }
  return needed;
}

void limit_rows(const Program& evaluation, Schedule& schedule) {
  const NeededRows needed = needed_rows(evaluation);
  for (std::vector<Block>* blocks : {&schedule.prologue, &schedule.blocks}) {
    for (Block& block : *blocks) {
      for (Call& call : block.calls) {
        const int hops = needed.hops[static_cast<std::size_t>(call.value)];
        const bool whole = call.rows == Rows::kAll || call.rows == Rows::kCentral;
        if (whole && hops != kAllRows && evaluation.at(call.value).has_rows()) {
          call.rows = Rows::within(hops);
        }
      }
    }
  }
}

}  // namespace atl
