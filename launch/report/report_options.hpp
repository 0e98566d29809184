// Options of compared runs: those they share, and those in which they differ.
#pragma once

#include <string>
#include <vector>

#include "launch/report/run_records.hpp"

namespace atl {

struct ComparedOption {
  std::string key;
  std::string group;                // its heading in `atoll train --help-all`; "Run" of others
  std::vector<std::string> values;  // per run; empty: unknown, or without effect in this run

  // Options that have an effect in some runs only, by another option, are compared among those; but
  // for `bits`, which is what one compares.
  bool differs() const;
  const std::string& shared_value() const;  // of those that don't differ
};

// Every option and circumstance (ranks, backend, commit) that is known of a run, in the order of
// config.toml. Left out are names of outputs, options that no run uses, and those that its model
// does not read.
std::vector<ComparedOption> compare_options(const std::vector<RunRecord>& runs);

}  // namespace atl
