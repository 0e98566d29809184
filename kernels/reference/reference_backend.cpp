#include "kernels/reference/reference_backend.hpp"

#include "kernels/registry.hpp"

namespace atl {

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace atl
