// The backend that each rank of a job computes on.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/transport.hpp"
#include "kernels/registry.hpp"

namespace atl {

// list: one name of make_backend() for all ranks or one per rank. The ranks of a host that may use
// its devices take them in turn. Where `auto` is not what a device would be, each rank decides for
// itself and rank 0 logs the reasons: as a warning if there is a device, or another rank uses one,
// for which this one is slow. Throws make_backend's error, and Error{kOption} if the list has
// another length. Collective.
std::unique_ptr<Backend> make_backend_of_rank(Transport& transport, const std::string& list,
                                              BackendOptions options);

}  // namespace atl
