// The work of a program on one rank, from the shape of the rank's part alone: what its backend
// would count while it runs.
#pragma once

#include <memory>
#include <vector>

#include "engine/program/views.hpp"

namespace atl {

// Views of null data, of a rank of this shape. Program and shape must outlive them.
std::unique_ptr<Views> counted_views(const Program& program, const RankShape& shape, DType dtype);
// Work that is no kernel.
SpanWork work_of(RankWork work, const Views& views);

// A call, all of it.
SpanWork work_of(const Program& program, const Call& call, const RankShape& shape, DType dtype);
// By operation: one epoch by `schedule`, prologue included.
std::vector<SpanWork> work_of_operations(const Program& program, const Schedule& schedule,
                                         const RankShape& shape, DType dtype);

}  // namespace atl
