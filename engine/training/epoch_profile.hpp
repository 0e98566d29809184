// Where the time of profiled epochs went, and what it would be at the machine's ceilings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/trace.hpp"
#include "kernels/ceilings.hpp"

namespace atl {

// The cost of one kind of operation, or of one phase, on this rank, summed over epochs.
struct ProfiledCost {
  double ms = 0;
  std::int64_t calls = 0;
  // If every operation ran at the ceiling that limits it more, products or memory: with every byte
  // moved once, and with nothing cached between the edges of an SpMM.
  double bound_ms = 0;
  double no_reuse_bound_ms = 0;
};

// Zero ceilings: no bounds.
struct EpochProfile {
  Ceilings ceilings;
  int epochs = 0;
  double epoch_ms = 0;  // sum over epochs; timing each operation makes them slower
  std::map<std::string, ProfiledCost> operations{};
  std::map<std::string, ProfiledCost> kernels{};  // of operations that have several, by shape
  // By operation of the program and of the backend, as "linear: gemm".
  std::map<std::string, ProfiledCost> requests{};
  std::map<std::string, ProfiledCost> phases{};  // by span name; what they hold are operations

  // Adds an epoch. Both lists have times from the same origin and are resolved.
  void add(double ms, const std::vector<TraceSpan>& operation_spans,
           const std::vector<TraceSpan>& phase_spans);
};

}  // namespace atl
