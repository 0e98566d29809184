// The policy as a prior of the tree search, and its weights as a file.
#pragma once

#include <filesystem>
#include <string>

#include "engine/placement/policy/policy_network.hpp"

namespace atl {

// A network as a safetensors file's bytes.
std::string policy_weights(PolicyNetwork& network);
// Throws Error{kInput} naming the file, the tensor, its shape and the one expected.
PolicyNetwork read_policy(const std::filesystem::path& path);
// The weights that are part of the program.
PolicyNetwork shipped_policy();

// The network's prior for decisions of `space`. Both must outlive it.
Prior policy_prior(PlanSpace& space, PolicyNetwork& network);

}  // namespace atl
