#include "base/file_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/elapsed.hpp"
#include "base/error.hpp"
#include "base/lost_pages.hpp"
#include "base/memory.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kTrialBytes = 64 << 20;

Descriptor nameless_file(const fs::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  // Some file systems know no files without a name.
  std::string name = (folder / "atoll-values-XXXXXX").string();
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) {
    fail_input("{}: can't make a file: {}", folder.string(), std::strerror(errno));
  }
  ::unlink(name.c_str());
  return file;
}

std::int64_t free_bytes(const fs::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return 0;
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

}  // namespace

FileMemory::FileMemory(const fs::path& folder, std::int64_t bytes)
    : folder_(folder), file_(nameless_file(folder)), bytes_((bytes + kPage - 1) / kPage * kPage) {
  if (bytes_ == 0) return;
  const std::int64_t free = free_bytes(folder);
  const int error = bytes_ > free ? ENOSPC : ::posix_fallocate(file_.get(), 0, bytes_);
  if (error != 0) {
    fail_input("{}: no room for {} of values: {}; {} are free", folder.string(),
               format_bytes(bytes_), std::strerror(error), format_bytes(free));
  }
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE,
                            MAP_SHARED, file_.get(), 0);
  if (data == MAP_FAILED) refuse("can't map a file");
  data_ = static_cast<std::byte*>(data);
  register_mapping(part(0, bytes_), folder / "(values)");
}

FileMemory::~FileMemory() {
  if (data_ == nullptr) return;
  unregister_mapping(part(0, bytes_));
  ::munmap(data_, static_cast<std::size_t>(bytes_));
}

void FileMemory::refuse(const char* what) const {
  fail_input("{}: {}: {}", folder_.string(), what, std::strerror(errno));
}

std::span<std::byte> FileMemory::part(std::int64_t begin, std::int64_t end) const {
  ATOLL_ASSERT(
      begin >= 0 && begin <= end && end <= bytes_ && begin % kPage == 0 && end % kPage == 0,
      "[{}, {}) of {}", begin, end, bytes_);
  return {data_ + begin, static_cast<std::size_t>(end - begin)};
}

void FileMemory::fetch(std::int64_t begin, std::int64_t end) const {
  const std::span<std::byte> all = part(begin, end);
  // A refusal costs only time.
  ::madvise(all.data(), all.size(), MADV_WILLNEED);
}

void FileMemory::release_pages(std::int64_t begin, std::int64_t end) const {
  const std::span<std::byte> all = part(begin, end);
  ::madvise(all.data(), all.size(), MADV_DONTNEED);
}

void FileMemory::release(std::int64_t begin, std::int64_t end) const {
  release_pages(begin, end);
  if (::sync_file_range(file_.get(), begin, end - begin, SYNC_FILE_RANGE_WRITE) != 0) {
    refuse("can't write values");
  }
}

// The system tells of any page of the file that it could not write, whichever are waited for.
void FileMemory::check() const {
  if (::sync_file_range(file_.get(), 0, kPage, SYNC_FILE_RANGE_WAIT_BEFORE) != 0) {
    refuse("can't write values");
  }
}

void FileMemory::drop(std::int64_t begin, std::int64_t end) const {
  if (begin == end) return;
  // Room on the disk is taken again at once.
  if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin) !=
      0) {
    return release(begin, end);
  }
  if (const int error = ::posix_fallocate(file_.get(), begin, end - begin); error != 0) {
    errno = error;
    refuse("no room for values");
  }
}

DiskRates measure_disk(const fs::path& folder) {
  const Descriptor file = nameless_file(folder);
  std::vector<std::int64_t> numbers(kTrialBytes / sizeof(std::int64_t));
  // No two pages alike: some disks write such pages once.
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto require = [&](bool done) {
    if (!done) fail_input("{}: its disk fails: {}", folder.string(), std::strerror(errno));
  };
  DiskRates rates;
  SteadyTime start = steady_now();
  require(::pwrite(file.get(), numbers.data(), kTrialBytes, 0) == kTrialBytes);
  require(::fdatasync(file.get()) == 0);
  rates.write = static_cast<double>(kTrialBytes) / seconds_since(start);
  ::posix_fadvise(file.get(), 0, kTrialBytes, POSIX_FADV_DONTNEED);
  start = steady_now();
  require(::pread(file.get(), numbers.data(), kTrialBytes, 0) == kTrialBytes);
  rates.read = static_cast<double>(kTrialBytes) / seconds_since(start);
  return rates;
}

}  // namespace atl
