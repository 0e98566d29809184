// A topology as text: what `atoll topology show` prints.
#pragma once

#include <string>

#include "engine/placement/topology.hpp"

namespace atl {

// Hosts, ranks with their rates, links by class and, of few ranks, every link. Ends with a newline.
std::string topology_table(const Topology& topology);

}  // namespace atl
