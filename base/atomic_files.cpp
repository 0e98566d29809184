// Files and folders that appear whole: AtomicFile, AtomicFolder.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/interrupt.hpp"
#include "base/paths.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr const char* kInfix = ".tmp-";
constexpr const char* kLockSuffix = ".lock";
constexpr std::size_t kTokenLength = 16;  // of random_token()

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// A new file beside `final_path`, open and locked, with what its name ends in; its path in `path`,
// which a signal removes.
Descriptor make_locked_file(const fs::path& final_path, const char* suffix, fs::path& path) {
  for (;;) {
    path = final_path.string() + kInfix + random_token() + suffix;
    Descriptor fd;
    int reason = 0;
    const bool made = remove_on_signal(path, [&] {
      fd = Descriptor(
          ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
      reason = errno;
      return static_cast<bool>(fd);
    });
    if (!made) {
      if (reason == EEXIST) continue;
      fail_input("{}: can't create: {}", final_path.string(), std::strerror(reason));
    }
    // Somebody who looks for stale files may have locked it first: it is removed then.
    const bool held = try_lock(fd.get()) == LockResult::kHeld;
    struct stat status {};
    if (!held && ::fstat(fd.get(), &status) == 0 && status.st_nlink > 0) return fd;
    keep_on_signal(path);
  }
}

// Whether `name` ends as make_locked_file ends names.
bool is_temporary(std::string_view name) {
  const std::size_t at = name.rfind(kInfix);
  if (at == std::string_view::npos) return false;
  std::string_view token = name.substr(at + std::strlen(kInfix));
  if (token.ends_with(kLockSuffix)) token.remove_suffix(std::strlen(kLockSuffix));
  return token.size() == kTokenLength &&
         token.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Removes stale files whose names are `wanted`, and counts them.
template <typename Wanted>
int remove_stale(const fs::path& folder, const Wanted& wanted) {
  int removed = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!wanted(name) || !entry.is_regular_file(error)) continue;
    const Descriptor fd(::open(entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd || try_lock(fd.get()) != LockResult::kTaken) continue;
    if (name.ends_with(kLockSuffix)) {
      const std::string path = entry.path().string();
      fs::remove_all(path.substr(0, path.size() - std::strlen(kLockSuffix)), error);
    }
    if (fs::remove(entry.path(), error)) ++removed;
  }
  return removed;
}

void flush(const fs::path& path, int flags) {
  const Descriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  // Some file systems have nothing to flush of a folder (EINVAL).
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    fail_input("{}: can't flush to disk: {}", path.string(), std::strerror(errno));
  }
}

void flush_folder(const fs::path& path) { flush(path, O_RDONLY | O_DIRECTORY); }

void flush_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      flush_tree(entry.path());
    } else if (entry.is_regular_file()) {
      flush(entry.path(), O_RDONLY | O_NOFOLLOW);
    }
  }
  flush_folder(folder);
}

[[noreturn]] void fail_rename(const fs::path& path, int error) {
  fail_input("{}: can't rename into place: {}", path.string(), std::strerror(error));
}

}  // namespace

int remove_stale_temporaries(const fs::path& final_path) {
  const std::string prefix = final_path.filename().string() + kInfix;
  return remove_stale(parent_of(final_path),
                      [&](const std::string& name) { return name.starts_with(prefix); });
}

int remove_all_stale_temporaries(const fs::path& folder) {
  return remove_stale(folder, is_temporary);
}

AtomicFile::AtomicFile(fs::path final_path) : final_(std::move(final_path)) {
  std::error_code error;
  if (fs::is_other(fs::symlink_status(final_, error))) {
    fail_input("{}: is a device or a pipe; it must be a file", final_.string());
  }
  remove_stale_temporaries(final_);
  fd_ = make_locked_file(final_, "", temporary_);
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove(temporary_, ignored);
  keep_on_signal(temporary_);
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_input("{}: can't write: {}", final_.string(), std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit(const std::function<void()>& before_rename) {
  if (::fsync(fd_.get()) != 0) {
    fail_input("{}: can't flush to disk: {}", final_.string(), std::strerror(errno));
  }
  if (before_rename) before_rename();
  keep_on_signal(temporary_, [this] {
    if (::rename(temporary_.c_str(), final_.c_str()) != 0) fail_rename(final_, errno);
  });
  committed_ = true;
  flush_folder(parent_of(final_));
}

void write_atomically(const fs::path& path, std::string_view bytes,
                      const std::function<void()>& before_rename) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit(before_rename);
}

AtomicFolder::AtomicFolder(fs::path final_path, bool replace)
    : final_(std::move(final_path)), replace_(replace) {
  final_ = without_slash(final_);
  std::error_code error;
  if (final_.empty()) fail_option("--out: the name of the folder to make is empty");
  if (!replace_ && fs::exists(final_, error)) {
    fail_option("{}: exists already; remove it or choose another folder", final_.string());
  }
  fs::create_directories(parent_of(final_), error);
  if (error) fail_input("{}: can't create: {}", final_.string(), error.message());
  remove_stale_temporaries(final_);
  lock_ = make_locked_file(final_, kLockSuffix, lock_file_);
  const std::string lock_file = lock_file_.string();
  temporary_ = lock_file.substr(0, lock_file.size() - std::strlen(kLockSuffix));
  int reason = 0;
  const bool made = remove_on_signal(temporary_, [&] {
    const bool is_made = ::mkdir(temporary_.c_str(), 0777) == 0;
    reason = errno;
    return is_made;
  });
  if (!made) {
    forget_lock();
    fail_input("{}: can't create: {}", final_.string(), std::strerror(reason));
  }
}

AtomicFolder::~AtomicFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  forget_lock();
}

void AtomicFolder::forget_lock() noexcept {
  std::error_code ignored;
  fs::remove(lock_file_, ignored);
  keep_on_signal(temporary_);
  keep_on_signal(lock_file_);
}

void AtomicFolder::commit() {
  yield_to_signal();
  try {
    flush_tree(temporary_);
  } catch (const fs::filesystem_error& error) {
    fail_input("{}: can't flush to disk: {}", final_.string(), error.what());
  }
  keep_on_signal(temporary_, [this] { move_into_place(); });
  committed_ = true;
  forget_lock();
  flush_folder(parent_of(final_));
}

void AtomicFolder::move_into_place() {
  const auto rename = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), flags) == 0;
  };
  std::error_code error;
  if (replace_ && fs::exists(final_, error)) {
    if (!rename(RENAME_EXCHANGE)) fail_rename(final_, errno);
    fs::remove_all(temporary_, error);  // the old one now
    return;
  }
  if (rename(RENAME_NOREPLACE)) return;
  // Some network file systems know no flags.
  const int reason = errno;
  if (reason != EINVAL && reason != ENOSYS) fail_rename(final_, reason);
  if (!rename(0)) fail_rename(final_, errno);
}

}  // namespace atl
