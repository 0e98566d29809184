// Appends to the forward half of a program what training needs: loss, gradients, step.
#pragma once

#include "engine/program/program.hpp"

namespace atl {

// Scopes are gone through in reverse and each gets a backward twin. Inside a scope, values are gone
// through in reverse; the gradient of a value is the sum of what its readers in this scope pass
// down, in forward order, added to what later scopes have left. Gradients of what does not depend
// on parameters are never made.
void differentiate(Program& program);

}  // namespace atl
