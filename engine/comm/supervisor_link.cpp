#include "engine/comm/supervisor_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/log.hpp"

namespace atl {

namespace {

constexpr auto kPause = std::chrono::seconds(1);
constexpr int kConnectMilliseconds = 5000;

struct AddressListTraits {
  using Value = addrinfo*;
  static Value null() { return nullptr; }
  static void release(Value list) noexcept { ::freeaddrinfo(list); }
};

// Waits no longer than kConnectMilliseconds: a host whose network is gone answers never.
Descriptor connected(const addrinfo& address) {
  Descriptor socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                             address.ai_protocol));
  if (!socket) return socket;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Descriptor();
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, kConnectMilliseconds) != 1) {
      errno = ETIMEDOUT;
      return Descriptor();
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      errno = error;
      return Descriptor();
    }
  }
  return socket;
}

// Null, with the reason in `why`, if nobody answers there.
Descriptor connected_to(const std::string& place, std::string& why) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) {
    why = "allowed is ADDRESS:PORT";
    return Descriptor();
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(place.substr(0, colon).c_str(), place.substr(colon + 1).c_str(),
                                   &hints, &found);
  if (failed != 0) {
    why = ::gai_strerror(failed);
    return Descriptor();
  }
  const UniqueHandle<AddressListTraits> list(found);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (Descriptor socket = connected(*address)) return socket;
    why = std::strerror(errno);
  }
  return Descriptor();
}

// The segments that this process has mapped.
std::vector<std::string> mapped_segments() {
  std::vector<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || !SupervisorLink::is_segment(line.substr(path))) continue;
    if (std::ranges::count(files, line.substr(path)) == 0) files.push_back(line.substr(path));
  }
  return files;
}

}  // namespace

bool SupervisorLink::is_segment(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return file.is_absolute() && name.starts_with("vader_segment.") &&
         name.find(' ') == std::string::npos;
}

std::unique_ptr<SupervisorLink> SupervisorLink::from_environment(int rank, int size) {
  const char* const address = std::getenv(kAddress);
  if (address == nullptr) return nullptr;
  std::string why;
  Descriptor socket = connected_to(address, why);
  if (!socket) {
    log::warn("rank {}: can't reach the supervisor at {}: {}", rank, address, why);
    return nullptr;
  }
  const char* const key = std::getenv(kKey);
  return std::unique_ptr<SupervisorLink>(new SupervisorLink(
      std::move(socket), fmt::format("hello {} {} {} {} {}", key == nullptr ? "-" : key, rank, size,
                                     host_name(), ::getpid())));
}

void SupervisorLink::send_once(const std::string& address, const std::string& line) {
  std::string why;
  const Descriptor socket = connected_to(address, why);
  const std::string bytes = line + "\n";
  if (socket && ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    why = std::strerror(errno);
  }
  if (!why.empty()) fail(ErrorKind::kCommunication, "{}: can't be reached: {}", address, why);
}

SupervisorLink::SupervisorLink(Descriptor socket, const std::string& hello)
    : socket_(std::move(socket)) {
  send(hello);
  for (const std::string& file : mapped_segments()) send("segment " + file);
  thread_ = std::thread([this] { beat(); });
}

SupervisorLink::~SupervisorLink() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void SupervisorLink::epoch_done(int epoch) {
  const std::lock_guard lock(mutex_);
  send(fmt::format("epoch {}", epoch));
}

void SupervisorLink::say_goodbye() {
  const std::lock_guard lock(mutex_);
  send("bye");
}

// Never waits: a supervisor that reads nothing for long is none.
void SupervisorLink::send(const std::string& line) {
  if (!socket_) return;
  const std::string bytes = line + "\n";
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  socket_.reset();
  log::warn("the supervisor can't be reached any more; the run goes on without it");
}

void SupervisorLink::beat() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kPause, [this] { return ends_; })) send("beat");
}

}  // namespace atl
