// `atoll bench --compare`: exchange modes side by side in one job, epoch by epoch in turn.
#pragma once

#include <string>
#include <vector>

#include "engine/training/rank_job.hpp"

namespace atl {

// One way for messages to travel, as the table names it.
struct ComparedMode {
  std::string name;
  ExchangeOptions exchange;
  bool overlap = true;
};

// Names that --compare takes, `all` first: vanilla (exact, --overlap off), exchange modes, and what
// --bits takes. A mode may have its bits behind a colon.
std::vector<std::string> compared_mode_names();
// The modes of a list of such names, separated by commas. options: lambda, rate and so on of those
// that take it. Throws Error{kOption} for an unknown name or one given twice.
std::vector<ComparedMode> compared_modes(const std::string& list, const ExchangeOptions& options);

// Trains each mode for warmup + epochs epochs from the same start, one epoch of each in turn, and
// measures the last `epochs`. Collective; the figures are on every rank:
// {"modes": [{mode, overlap, mean_bits, epoch_ms: {median, min, max}, exposed_comm_ms,
// bytes_sent_per_epoch, speedup, bound_ms, loss, loss_difference}]}. speedup is over `vanilla`,
// loss_difference, relative, to the first exact mode; null where that was not compared. bound_ms:
// what perfect overlap would take (docs/exchange.md), null where it isn't known.
Json compare_modes(RankJob& job, Transport& transport, const std::vector<ComparedMode>& modes,
                   int warmup, int epochs);
void print_comparison(const Json& comparison);

}  // namespace atl
