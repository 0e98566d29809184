// Compares what ranks were started with before they do anything together: ranks that differ would
// wait for messages that never come, or compute something that nobody asked for.
#pragma once

#include <span>
#include <string>

#include "engine/comm/transport.hpp"

namespace atl {

// Something that must be equal on all ranks.
struct RankFact {
  std::string name;       // "--seed"
  std::string value;      // "1"
  std::string note = {};  // about this rank's value, for messages only: "data/sbm"
};

// One rank's part in the comparison.
struct RankStart {
  std::string program;  // name and version, at most 100 bytes
  std::vector<RankFact> facts;
  std::string failure = {};  // why this rank can't go on; empty if it can
};

// Collective, the first thing that ranks do: any two versions of this program understand each
// other here. Throws Error{kOption} on all ranks, with the same text: the failure of the lowest
// rank that has one, else the first fact, in the order of rank 0, that differs, with the values of
// rank 0 and the lowest rank that has another one.
void require_same_start(Transport& transport, const RankStart& start);

}  // namespace atl
