// Duties of every transport, written once: each case runs on every rank of a world.
#pragma once

#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

struct TransportCase {
  const char* name;
  void (*run)(Transport& transport);  // reports failures through EXPECT
};

const std::vector<TransportCase>& transport_cases();
// Cases about groups of the world's ranks; for worlds of any size.
const std::vector<TransportCase>& group_cases();

}  // namespace atl
