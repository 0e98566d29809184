// Nodes of a dataset as a user lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace atl {

// Nodes in the order in which `text` lists them, each as often as it does:
//   new               all from `first_new` on
//   0,5,10-19         these numbers, and ranges of them
//   FILE.npy          an array of integers
//   FILE (any other)  numbers between spaces, commas or line ends
// `nodes`: of the dataset. `option` is named in errors. Throws Error{kOption} for no nodes and for
// numbers that aren't nodes, Error{kInput} for a file that can't be read.
std::vector<GlobalId> read_node_list(const std::string& text, std::int64_t nodes,
                                     std::optional<std::int64_t> first_new,
                                     const std::string& option);

}  // namespace atl
