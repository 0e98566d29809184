// Locks that end with the process that holds them, however it ends (flock), and names that no other
// process has chosen.
#pragma once

#include <filesystem>
#include <string>

namespace atl {

enum class LockResult {
  kTaken,
  kHeld,         // by another open file, of this process or another one
  kUnsupported,  // the file system has no locks
};
// Locks an open file for as long as its descriptor stays open. Never waits.
LockResult try_lock(int fd);
// Whether somebody has locked this file.
bool is_locked(const std::filesystem::path& file);

// 16 hex digits of the kernel's random numbers: no two processes get the same, on any host.
std::string random_token();

}  // namespace atl
