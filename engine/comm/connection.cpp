#include "engine/comm/connection.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/unique_handle.hpp"

namespace atl {

namespace {

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

}  // namespace

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

}  // namespace atl
