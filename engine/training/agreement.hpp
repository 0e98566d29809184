// Work that may fail on one rank only, ended the same way on all: no rank is left waiting for one
// that has gone.
#pragma once

#include <functional>
#include <string>

#include "engine/comm/rank_texts.hpp"

namespace atl {

// Runs `work` on every rank, then lets all know how it went: if some rank threw, every rank throws
// the Error of the lowest such rank (an exception that is no Error becomes one that says so).
// Meanwhile the ranks are in a HeartbeatScope: work may take longer than the timeout as long as the
// processes live. `label` names it where it is waited for. Collective.
void on_all_ranks(Transport& transport, const std::function<void()>& work,
                  const OperationLabel& label = {"agreement of all ranks"});

}  // namespace atl
