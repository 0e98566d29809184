// Joins operations of a program that a backend does in one pass over the rows.
#pragma once

#include "engine/program/program.hpp"

namespace atl {

// An addition becomes part of one of its terms: of an aggregate if there is one, else, and always
// for gradients, of the later one. A bias, a norm by known statistics and an activation become part
// of the product or aggregate before them if that has no other reader, and so does the change of
// type of scores. The gradient of relu becomes part of the sums over its rows. Operations keep
// their order, and in bf16 a result is rounded where the joined operation writes it.
void fuse(Program& program);

}  // namespace atl
