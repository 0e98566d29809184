// Measurements of `atoll bench`, epoch by epoch, and how they are summed up.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/training/trainer.hpp"

namespace atl {

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};
// values: at least one.
Spread spread_of(std::vector<double> values);
Json to_json(const Spread& spread);

// Everything measured on this rank.
struct Samples {
  std::vector<double> epoch_ms;
  std::vector<double> exposed_ms;
  std::vector<double> bytes;
  std::map<std::string, std::vector<double>> phase_ms;
  std::vector<double> edges_kept;  // of epochs on blocks
  std::vector<double> steps;       // the same
  std::vector<double> cut_ms;      // of cuts that these epochs began with
  std::int64_t replayed = 0;       // of these epochs
  std::int64_t allocations = 0;    // of the backend, in all of these epochs

  void add(const EpochResult& result);
};

}  // namespace atl
