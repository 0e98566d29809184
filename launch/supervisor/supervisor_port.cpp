#include "launch/supervisor/supervisor_port.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "engine/comm/supervisor_link.hpp"

namespace atl {

namespace {

// Longer lines are nobody's that we know.
constexpr std::size_t kLongestLine = 1024;

// More ranks are counted, not named.
constexpr int kMostNamed = 8;

bool take_number(const std::string& text, int& number) {
  const auto parsed = parse_number<int>(text, 0);
  if (parsed) number = *parsed;
  return parsed.has_value();
}

}  // namespace

bool take_line(std::string_view line, RankSigns& signs) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty()) return false;
  RankSigns taken = signs;
  taken.last_sign = RankSigns::Clock::now();
  const std::string& what = words[0];
  bool known = what == "beat" && words.size() == 1;
  if (what == "ready" && words.size() == 1) known = taken.ready = true;
  if (what == "bye" && words.size() == 1) known = taken.said_goodbye = true;
  if (what == "epoch" && words.size() == 2) known = take_number(words[1], taken.epoch);
  if (what == "segment" && words.size() == 2 && SupervisorLink::is_segment(words[1])) {
    taken.segments.push_back(words[1]);
    known = true;
  }
  if (what == "hello" && words.size() == 6) {
    taken.host = words[4];
    known = take_number(words[2], taken.rank) && take_number(words[3], taken.size) &&
            taken.rank < taken.size && take_number(words[5], taken.process);
  }
  if (known) signs = taken;
  return known;
}

std::string awaited_ranks(const std::deque<RankSigns>& signs, int ranks,
                          const std::vector<std::string>& hosts, int ranks_per_host) {
  const auto is_of = [&](int rank, bool ready) {
    return std::ranges::any_of(
        signs, [&](const RankSigns& s) { return s.rank == rank && (s.ready || !ready); });
  };
  const bool all_reported = std::ssize(signs) >= ranks;
  const std::string what = all_reported ? "not met the others" : "not reported";
  if (signs.empty() && ranks > 1) return fmt::format("none of {} ranks has reported", ranks);
  std::vector<std::string> awaited;
  int others = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (is_of(rank, all_reported)) continue;
    if (std::ssize(awaited) == kMostNamed) {
      ++others;
      continue;
    }
    const auto host = static_cast<std::size_t>(rank / std::max(ranks_per_host, 1));
    const std::string place = host < hosts.size() ? " on " + hosts[host] : "";
    awaited.push_back(fmt::format("rank {}{}", rank, place));
  }
  if (others > 0) awaited.push_back(fmt::format("{} other{}", others, others == 1 ? "" : "s"));
  return fmt::format("{} {} {}", fmt::join(awaited, ", "), awaited.size() == 1 ? "has" : "have",
                     what);
}

std::string machine_word() {
  std::string word = host_key();
  std::ranges::replace(word, ' ', '/');
  return word;
}

SupervisorPort::SupervisorPort(bool local) {
  listener_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener_ || ::bind(listener_.get(), any, size) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener_.get(), any, &size) != 0) {
    fail_option("can't listen for the ranks: {}", std::strerror(errno));
  }
  port_ = ntohs(address.sin_port);
}

void SupervisorPort::begin(const std::string& key, const std::string& probe_key) {
  key_ = key;
  probe_key_ = probe_key;
  peers_.clear();
  ranks_.clear();
  probes_.clear();
}

void SupervisorPort::poll(std::chrono::milliseconds most) {
  std::vector<pollfd> sockets = {{listener_.get(), POLLIN, 0}};
  for (const Peer& peer : peers_) sockets.push_back({peer.socket.get(), POLLIN, 0});
  if (::poll(sockets.data(), sockets.size(), static_cast<int>(most.count())) <= 0) return;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (sockets[1 + p].revents != 0) read(peers_[p]);
  }
  std::erase_if(peers_, [](const Peer& peer) { return peer.gone; });
  if (sockets[0].revents != 0) accept_peer();
}

void SupervisorPort::accept_peer() {
  Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  Peer& peer = peers_.emplace_back();
  peer.socket = std::move(socket);
}

void SupervisorPort::read(Peer& peer) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    peer.gone = true;
    if (peer.rank != nullptr) peer.rank->connected = false;
    return;
  }
  peer.text.append(bytes.data(), static_cast<std::size_t>(count));
  std::size_t end = 0;
  while (!peer.gone && (end = peer.text.find('\n')) != std::string::npos) {
    take(peer, std::string_view(peer.text).substr(0, end));
    peer.text.erase(0, end + 1);
  }
  if (peer.text.size() > kLongestLine) peer.gone = true;
}

void SupervisorPort::take(Peer& peer, std::string_view line) {
  if (peer.rank != nullptr) {
    take_line(line, *peer.rank);
    return;
  }
  // Whoever does not know the key has come from elsewhere, or from an attempt before this one.
  const std::vector<std::string> words = words_of(line);
  RankSigns signs;
  const bool is_probe = words.size() == 4 && words[0] == "probe" && words[1] == probe_key_;
  const bool is_rank = words.size() == 6 && words[0] == "hello" && words[1] == key_;
  if (is_probe) {
    probes_.push_back(words[2]);
    machines_[words[2]] = words[3];
  } else if (is_rank && take_line(line, signs)) {
    peer.rank = &ranks_.emplace_back(signs);
  } else {
    peer.gone = true;
  }
}

}  // namespace atl
