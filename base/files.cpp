#include "base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/lost_pages.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// A dataset folder, not some other program's dataset.json.
bool is_dataset_folder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "dataset.json", error) &&
         (fs::exists(folder / "row_ptr.npy", error) ||
          fs::exists(folder / "added_edges.npy", error));  // what a delta always has
}

// The file, opened for reading, and its size.
struct OpenedFile {
  Descriptor fd;
  std::size_t size = 0;
};

// Why a file could not be opened; `error`: of errno.
std::string why_unopened(const fs::path& path, int error) {
  std::error_code ignored;
  const fs::path target = error == ENOENT ? fs::read_symlink(path, ignored) : fs::path();
  if (target.empty()) return std::strerror(error);
  return fmt::format("it is a link to {}, where nothing is", target.string());
}

OpenedFile open_to_map(const fs::path& path) {
  // Without O_NONBLOCK a FIFO would wait here for somebody to write.
  OpenedFile file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!file.fd) fail_input("{}: can't open: {}", path.string(), why_unopened(path, errno));
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0) {
    fail_input("{}: can't read its size: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail_input("{}: not a regular file", path.string());
  file.size = static_cast<std::size_t>(status.st_size);
  return file;
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const OpenedFile file = open_to_map(path);
  size_ = file.size;
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd.get(), 0);
  if (data == MAP_FAILED) fail_input("{}: can't map: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
  register_mapping(bytes(), path);
}

MappedFile MappedFile::grown(std::size_t size, const fs::path& path) {
  MappedFile memory;
  if (size == 0) return memory;
  constexpr int kPrivate = MAP_PRIVATE | MAP_NORESERVE;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, kPrivate | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    fail(ErrorKind::kMemory, "no {} bytes of memory: {}", size, std::strerror(errno));
  }
  memory.data_ = static_cast<const std::byte*>(data);
  memory.size_ = size;
  if (path.empty()) {
    ::madvise(data, size, MADV_HUGEPAGE);  // a refusal costs only time
    return memory;
  }
  const OpenedFile file = open_to_map(path);
  ATOLL_ASSERT(file.size <= size, "{}: {} bytes, {} wanted", path.string(), file.size, size);
  if (file.size == 0) return memory;
  // In the place of the first pages; what is behind the file's end in the last of them is 0, too.
  if (::mmap(data, file.size, PROT_READ | PROT_WRITE, kPrivate | MAP_FIXED, file.fd.get(), 0) ==
      MAP_FAILED) {
    fail_input("{}: can't map: {}", path.string(), std::strerror(errno));
  }
  register_mapping(memory.bytes(), path);
  return memory;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unregister_mapping(bytes());
  ::munmap(const_cast<std::byte*>(data_), size_);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_output_file(const fs::path& path, std::string_view option) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error) || !path.has_filename()) {
    fail_option("{} {}: names a folder; it must name a file", option, path.string());
  }
  // Below /dev and /proc are links to what is open, which may be a file.
  const std::string around = fs::absolute(path, error).lexically_normal().parent_path();
  const bool is_open_file = around == "/dev" || (around + "/").starts_with("/proc/");
  if (is_open_file || fs::is_other(path, error)) {
    fail_option("{} {}: is a device or a pipe; it must name a file", option, path.string());
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(folder, error)) {
    fail_option("{} {}: folder {} is not there", option, path.string(), folder.string());
  }
  check_outside_datasets(path, option);
}

fs::path dataset_folder_around(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  fs::path folder = fs::weakly_canonical(whole, error);
  if (error) folder = whole;
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if (is_dataset_folder(folder)) return folder;
  }
  return {};
}

void check_outside_datasets(const fs::path& path, std::string_view option) {
  const fs::path dataset = dataset_folder_around(path);
  if (dataset.empty()) return;
  fail_option("{} {}: lies inside the dataset folder {}; choose a place outside", option,
              path.string(), dataset.string());
}

}  // namespace atl
