// Appends to the forward half of a program what training needs: loss, gradients, step.
#pragma once

#include "engine/program/program.hpp"

namespace atl {

// The part of an epoch that a program of training is: all of it, or, run as often as is necessary
// inside the loss of another program, no more than adding to gradients, which that zeroes, sums
// over ranks and steps by.
enum class PartOfEpoch : std::uint8_t { kWhole, kLoss };

// Scopes are gone through in reverse and each gets a backward twin. Inside a scope, values are gone
// through in reverse; the gradient of a value is the sum of what its readers in this scope pass
// down, in forward order, added to what later scopes have left. Gradients of what does not depend
// on parameters are never made.
void differentiate(Program& program, PartOfEpoch part = PartOfEpoch::kWhole);

}  // namespace atl
