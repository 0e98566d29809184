// Stands in for engine/comm/nccl where the build has no NCCL.
#include "base/error.hpp"
#include "engine/comm/device_transport.hpp"

namespace atl {

namespace {

[[noreturn]] void fail_absent() { fail(ErrorKind::kCommunication, "{}", nccl_absence()); }

}  // namespace

std::string nccl_absence() { return "this program was built without NCCL"; }

std::string nccl_version() { return {}; }

std::vector<std::byte> nccl_unique_id() { fail_absent(); }

std::unique_ptr<DeviceTransport> make_nccl_transport(Transport& /*transport*/, Backend& /*backend*/,
                                                     std::span<const std::byte> /*id*/) {
  fail_absent();
}

}  // namespace atl
