#include "launch/supervisor/event_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace atl {

void EventFile::write() {
  if (waiting_.empty()) return;
  const Descriptor file(
      opened_ ? -1 : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const int fd = opened_ ? opened_.get() : file.get();
  if ((fd >= 0 && write_to(fd)) || std::exchange(has_failed_, true)) return;
  log::warn("launch: {}: can't be written: {}", path_.string(), std::strerror(errno));
}

bool EventFile::write_to(int fd) {
  while (!waiting_.empty()) {
    const ssize_t count = ::write(fd, waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    waiting_.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace atl
