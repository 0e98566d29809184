// Halo rows that are computed where they are needed instead of being fetched (boundary
// recomputation; docs/placement.md).
#pragma once

#include "engine/program/program.hpp"

namespace atl {

// Between the kept aggregate of the first layer and the aggregate of the second, operations on rows
// also run for the computed rows of ComputedHalo: their aggregates are fetched once, and what the
// first layer makes of them is placed among the halo rows. Products behind that run on the placed
// rows. Returns false, and changes nothing, if no second layer needs them, or if rows of the first
// layer follow from more than one kept aggregate and the features. Comes after fuse().
bool compute_halo_rows(Program& program);

}  // namespace atl
