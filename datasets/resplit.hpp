// Gives a dataset folder another split: `atoll split`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "datasets/dataset.hpp"

namespace atl {

// Writes split.npy with one split (as parse_split, over the labelled nodes) as DatasetChange does.
// Throws Error{kOption} if there is a split and `replace` is false or there are too few labelled
// nodes, Error{kInput} if there are no labels or the folder is damaged. Returns the dataset as it
// is now.
Dataset resplit(const std::filesystem::path& folder, const std::string& split, std::uint64_t seed,
                bool replace);

}  // namespace atl
