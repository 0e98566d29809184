// Machines, models and cuts drawn at random: what the policy plays with while it learns, and what
// it is measured on. Cuts are drawn as measured ones look: rows between parts fall with distance,
// shares by speed follow the devices, cuts by islands move rows from slow links to fast ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/placement/plan_space.hpp"

namespace atl {

struct Range {
  double low = 0;
  double high = 0;
};

// Where an instance is drawn from; quantities with a * by their logarithm. The defaults are what
// the shipped policy learnt from.
struct InstanceRanges {
  Range hosts = {2, 4};
  Range ranks_per_host = {1, 4};
  Range card_bytes_per_s = {6.25e6, 12.5e9};  // * 50 Mbit/s to 100 Gbit/s
  Range device_gb_per_s = {2, 1500};          // * SpMM of the machine's usual device
  Range slowdown = {1, 4};                    // * of slow devices
  Range layers = {2, 4};
  Range features = {16, 1024};  // *
  Range hidden = {16, 512};     // *
  Range nodes = {2e4, 5e6};     // * of the graph
  Range degree = {4, 100};      // *
  Range halo = {0.02, 1.0};     // * rows that a part receives, by its own rows
};

// A space with everything it refers to.
struct PolicyInstance {
  Topology topology;
  ModelConfig model;
  std::vector<CutCandidate> cuts;
  std::vector<int> bits;
  std::unique_ptr<PlanSpace> space;
};

// Equal arguments give the same instance on every machine.
std::unique_ptr<PolicyInstance> random_instance(const InstanceRanges& ranges, std::uint64_t seed);

}  // namespace atl
