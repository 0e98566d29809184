#include "base/status_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>
#include <string>

#include "base/text.hpp"

namespace atl {

namespace {

constexpr std::size_t kUsualWidth = 80;  // of a terminal that does not say

}  // namespace

// A line that wraps could not be wiped: only its last row would go.
std::size_t StatusLine::room() const {
  if (!terminal_) return std::numeric_limits<std::size_t>::max();
  struct winsize size {};
  const bool known = ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUsualWidth) - 1;
}

StatusLine& StatusLine::standard_error() {
  static StatusLine line(stderr, ::isatty(STDERR_FILENO) == 1);
  return line;
}

void StatusLine::show(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (silent_) return;
  wipe();
  std::string line = printable(text);
  if (line.size() > room()) line.resize(room());
  if (!terminal_) line += "\n";
  std::fwrite(line.data(), 1, line.size(), stream_);
  open_ = terminal_;
  std::fflush(stream_);
}

void StatusLine::silence() {
  const std::lock_guard lock(mutex_);
  wipe();
  silent_ = true;
}

void StatusLine::clear() {
  const std::lock_guard lock(mutex_);
  wipe();
  std::fflush(stream_);
}

void StatusLine::keep() {
  const std::lock_guard lock(mutex_);
  if (open_) std::fputc('\n', stream_);
  open_ = false;
  std::fflush(stream_);
}

std::unique_lock<std::mutex> StatusLine::interlude() {
  std::unique_lock lock(mutex_);
  wipe();
  std::fflush(stream_);
  return lock;
}

void StatusLine::wipe() {
  if (open_) std::fputs("\r\033[K", stream_);
  open_ = false;
}

}  // namespace atl
