#include "base/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "base/checksum.hpp"
#include "base/descriptor.hpp"

namespace atl {

LockResult try_lock(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return LockResult::kHeld;
    if (errno != EINTR) return LockResult::kUnsupported;
  }
  return LockResult::kTaken;
}

bool is_locked(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return opened && try_lock(opened.get()) == LockResult::kHeld;
}

std::string random_token() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
    bits = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
           reinterpret_cast<std::uintptr_t>(&bits);
  }
  return to_hex(bits);
}

}  // namespace atl
