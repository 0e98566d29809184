#include "base/host.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

namespace atl {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string host_key() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return host_name() + ' ' + boot;
}

}  // namespace atl
