// Where ranks tell the supervisor that they live: the other end of engine/comm/supervisor_link.hpp.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"

namespace atl {

// Knowledge of one rank of the job.
struct RankSigns {
  using Clock = std::chrono::steady_clock;

  int rank = -1;
  int size = 0;
  std::string host;
  int process = 0;
  std::vector<std::string> segments;  // SupervisorLink::is_segment()
  int epoch = 0;                      // the last one that it has done in this attempt; 0: none
  bool connected = true;
  bool ready = false;  // it has met the other ranks
  bool said_goodbye = false;
  Clock::time_point last_sign = Clock::now();
};

// Takes in what one line says; false: it is none that a rank sends.
bool take_line(std::string_view line, RankSigns& signs);

// The ranks that a start still waits for, in words: "rank 3 on b has not reported". signs: of those
// that have connected. hosts: in the order in which the launcher fills them, with so many ranks
// each; empty: it is not known who is where.
std::string awaited_ranks(const std::deque<RankSigns>& signs, int ranks,
                          const std::vector<std::string>& hosts, int ranks_per_host);

// The machine of this process, in one word: equal in two processes if and only if they share it.
std::string machine_word();

class SupervisorPort {
 public:
  // Listens on a free port: of this machine alone, or of all its networks.
  explicit SupervisorPort(bool local);

  int port() const { return port_; }
  // Forgets what was said; only ranks that know `key` and probes that know `probe_key` are heard
  // from now on.
  void begin(const std::string& key, const std::string& probe_key);
  // Waits for at most so long, and takes in what has come.
  void poll(std::chrono::milliseconds most);

  // Signs of this attempt's ranks, in the order in which they came.
  const std::deque<RankSigns>& ranks() const { return ranks_; }
  // The hosts whose probes have come ("probe KEY LABEL MACHINE").
  const std::vector<std::string>& probes() const { return probes_; }
  void forget_probes() { probes_.clear(); }
  // The machine_word() of each host whose probe has ever come.
  const std::map<std::string, std::string>& machines() const { return machines_; }

 private:
  struct Peer {
    Descriptor socket;
    std::string text;           // of a line that has not ended yet
    RankSigns* rank = nullptr;  // once it has said hello
    bool gone = false;
  };

  void accept_peer();
  void read(Peer& peer);
  void take(Peer& peer, std::string_view line);

  Descriptor listener_;
  int port_ = 0;
  std::string key_;
  std::string probe_key_;
  std::deque<Peer> peers_;
  std::deque<RankSigns> ranks_;
  std::vector<std::string> probes_;
  std::map<std::string, std::string> machines_;
};

}  // namespace atl
