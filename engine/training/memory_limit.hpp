// What a rank drops of its values so that training stays within --memory.
#pragma once

#include "engine/training/trainer.hpp"

namespace atl {

// The least dropping with which no rank takes more than `limit` bytes for data and training; none
// if nothing must be dropped. `trainer`: one of this model that drops nothing and holds no memory
// yet. Where messages are not exact, no message travels twice. Collective; throws Error{kMemory} on
// all ranks naming the smallest limit that would do.
Dropping dropping_within(std::int64_t limit, const Trainer& trainer, Transport& transport);

}  // namespace atl
