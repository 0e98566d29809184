// Texts of any length that ranks tell each other.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// Every rank gets the text of `root`; the others need not know its length. Collective.
void share_text(Transport& transport, std::string& text, const OperationLabel& label, int root = 0);

// Rank 0 gets the texts of all ranks, by rank; the others get an empty result. Collective.
std::vector<std::string> gather_texts(Transport& transport, const std::string& text,
                                      const OperationLabel& label);

}  // namespace atl
