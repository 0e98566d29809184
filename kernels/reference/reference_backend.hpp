// The oracle: every operation of the contract as a plain serial loop with sums in double, rounded
// once on store, for all storage types. Written to be read and trusted, never tuned.
#pragma once

#include "kernels/host_backend.hpp"

namespace atl {

class ReferenceBackend final
    : public Implements<ReferenceBackend, HostBackend, kernels::DeviceOperations> {
 public:
  std::string name() const override { return "reference"; }
  std::string device() const override { return "host, serial, sums in double"; }
  bool supports(DType) const override { return true; }
};

}  // namespace atl
