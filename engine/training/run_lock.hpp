// Who works on a run folder: RUN/lock, locked as long as its process lives, names it to others.
// Before every rename a process checks that the file is still the one that it has locked: one that
// was stopped, and comes back after its folder was taken over, finds another.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.hpp"

namespace atl {

class RunLock {
 public:
  static constexpr const char* kFileName = "lock";

  // Throws Error{kOption} naming the process that works on `run`, or may do so. What a process has
  // left that is gone is taken over with a line in the log, and so is, with `take_over`, what
  // another process still holds: that one finds out before it writes anything more. (Locks hold
  // between hosts where the file system says so: NFS does, Lustre when mounted with flock.)
  RunLock(const std::filesystem::path& run, bool take_over);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  // Throws Error{kInput} if another process has taken the folder over, or it was removed.
  void require_held() const;

 private:
  bool is_held() const;
  // False if the file was replaced meanwhile: try again.
  bool try_take(bool take_over);
  void write_holder() const;

  std::filesystem::path run_;
  std::filesystem::path file_;
  Descriptor fd_;
};

}  // namespace atl
