// Nodes of a dataset as a user lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace atl {

// Nodes in the order in which `text` lists them, each as often as it does:
//   0,5,10-19         these numbers, and ranges of them
//   FILE.npy          an array of integers
//   FILE (any other)  plain or gzip: numbers and ranges between blanks, commas or line ends, below
//                     the name of the column if the first line is one
// `nodes`: of the dataset. `option` is named in errors. Throws Error{kOption} for numbers that
// aren't nodes, Error{kInput} for a file that can't be read.
std::vector<GlobalId> read_node_list(const std::string& text, std::int64_t nodes,
                                     const std::string& option);

// The same, and for the word "new" all nodes from `first_new` on, which may be unknown. Throws
// Error{kOption} for no nodes, too.
std::vector<GlobalId> read_nodes_or_new(const std::string& text, std::int64_t nodes,
                                        std::optional<std::int64_t> first_new,
                                        const std::string& option);

}  // namespace atl
