// In which order the nodes of a part lie in memory: neighbours that lie near each other are in
// cache when a sparse product needs them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/csr.hpp"

namespace atl {

enum class NodeOrder : std::uint8_t {
  kNatural,       // by id
  kDegree,        // highest degree first
  kBreadthFirst,  // from nodes of low degree
  kRcm,           // reverse Cuthill-McKee
  kMetis,         // METIS parts of about 1,024 nodes, one after another
  kCommunities,   // nested communities
};

// "natural", "degree", "breadth-first", "rcm", "metis", "communities".
std::vector<std::string> node_order_names();
const char* to_string(NodeOrder order);
// Throws Error{kOption} listing the valid names.
NodeOrder parse_node_order(const std::string& name);

// The nodes in their new order. graph: undirected structure, row i lists the neighbours of node i
// (itself and duplicates allowed, values not read). Deterministic.
//
// kBreadthFirst starts again from the node of lowest degree left whenever a component ends; kRcm
// also sorts every neighbourhood by degree and reverses the result (Cuthill and McKee, ACM'69;
// George, 1971). kCommunities merges nodes, lowest degree first, into the neighbour with the
// greatest gain of modularity, and lists each tree of merged nodes depth first (Arai et al.,
// "Rabbit Order", IPDPS'16, section III, without its parallel aggregation).
std::vector<std::int32_t> node_order(NodeOrder order, const CsrView& graph);

}  // namespace atl
