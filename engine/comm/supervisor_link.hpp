// The messages of a rank to the supervisor that has started its job (`atoll launch`,
// docs/launch.md): that it lives, and which epochs are done.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/descriptor.hpp"

namespace atl {

// Lines of text over TCP, each ended by a line feed:
//   hello KEY RANK SIZE HOST PROCESS   first, before it meets the other ranks
//   beat                               every second, from a thread of its own
//   segment FILE                       shared memory of the MPI library, removed after a kill
//   ready                              once it has met the other ranks
//   epoch K                            when epoch K is done
//   bye                                before an orderly end
// A supervisor that goes away is no reason to stop: then nothing is told.
class SupervisorLink {
 public:
  // Where the environment names the supervisor, "ADDRESS:PORT".
  static constexpr const char* kAddress = "ATOLL_SUPERVISOR";
  // The key by which it knows its own ranks.
  static constexpr const char* kKey = "ATOLL_SUPERVISOR_KEY";

  // Null if the environment names none, or it can't be reached: a warning. rank, size: as the
  // launcher says. A process makes one.
  static std::unique_ptr<SupervisorLink> from_environment(int rank, int size);
  // The one of this process, or null.
  static SupervisorLink* of_process();
  // One line to the supervisor at `address`. Throws Error{kCommunication} if it can't be reached.
  static void send_once(const std::string& address, const std::string& line);
  // Whether a file of this name is memory that Open MPI's ranks of one host share.
  static bool is_segment(const std::filesystem::path& file);
  ~SupervisorLink();
  SupervisorLink(const SupervisorLink&) = delete;
  SupervisorLink& operator=(const SupervisorLink&) = delete;

  void ready();
  void epoch_done(int epoch);
  void say_goodbye();

 private:
  explicit SupervisorLink(Descriptor socket, const std::string& hello);
  void send(const std::string& line);  // under mutex_
  void beat();

  std::mutex mutex_;
  std::condition_variable ended_;
  Descriptor socket_;  // none once the supervisor has gone
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace atl
