// Stands in for engine/comm/nccl where the build has no NCCL.
#include "base/error.hpp"
#include "engine/comm/device_transport.hpp"

namespace atl {

namespace {

[[noreturn]] void fail_absent() {
  fail(ErrorKind::kCommunication, "this program was built without NCCL");
}

}  // namespace

std::string nccl_version() { return {}; }

std::vector<std::byte> nccl_unique_id() { fail_absent(); }

std::unique_ptr<DeviceTransport> make_nccl_transport(Transport& /*transport*/, Backend& /*backend*/,
                                                     std::span<const std::byte> /*id*/) {
  fail_absent();
}

}  // namespace atl
