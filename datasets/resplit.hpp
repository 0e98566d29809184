// Gives a dataset folder another split: `atoll split`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "datasets/dataset.hpp"

namespace atl {

// Writes split.npy with one split (as parse_split, over the labelled nodes) and then dataset.json,
// each atomically; interrupted between the two, the folder is refused until it is split again.
// Changes the dataset's checksum, so that partitions of it are made anew. Throws Error{kOption} if
// there is a split and `replace` is false or there are too few labelled nodes, Error{kInput} if
// there are no labels or the folder is damaged. Returns the dataset as it is now.
Dataset resplit(const std::filesystem::path& folder, const std::string& split, std::uint64_t seed,
                bool replace);

}  // namespace atl
