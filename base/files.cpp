#include "base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_input("{}: can't write: {}", path.string(), std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail_input("{}: can't open: {}", path.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    fail_input("{}: can't read its size: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail_input("{}: not a regular file", path.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) fail_input("{}: can't map: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_atomically(const fs::path& path, std::string_view bytes) {
  const fs::path temporary = path.string() + ".tmp";
  try {
    {
      const Descriptor fd(
          ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (fd.get() < 0) fail_input("{}: can't create: {}", path.string(), std::strerror(errno));
      write_all(fd.get(), bytes, path);
      if (::fsync(fd.get()) != 0) {
        fail_input("{}: can't flush to disk: {}", path.string(), std::strerror(errno));
      }
    }
    std::error_code error;
    fs::rename(temporary, path, error);
    if (error) fail_input("{}: can't rename into place: {}", path.string(), error.message());
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void check_output_file(const fs::path& path, std::string_view option) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error) || !path.has_filename()) {
    fail_option("{} {}: names a folder; it must name a file", option, path.string());
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!fs::is_directory(folder, error)) {
    fail_option("{} {}: folder {} is not there", option, path.string(), folder.string());
  }
}

namespace {

// Temporary folders carry the process id; those of processes that are gone are of no use.
void remove_stale(const fs::path& final_path) {
  const fs::path parent = final_path.has_parent_path() ? final_path.parent_path() : ".";
  const std::string prefix = final_path.filename().string() + ".tmp-";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int process = std::atoi(name.c_str() + prefix.size());
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) {
      fs::remove_all(entry.path(), error);
    }
  }
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path final_path, bool replace)
    : final_(std::move(final_path)), replace_(replace) {
  if (!final_.has_filename()) final_ = final_.parent_path();  // a trailing slash
  std::error_code error;
  if (final_.empty()) fail_option("--out: the name of the folder to make is empty");
  if (!replace_ && fs::exists(final_, error)) {
    fail_option("{}: exists already; remove it or choose another folder", final_.string());
  }
  remove_stale(final_);
  temporary_ = final_.string() + fmt::format(".tmp-{}", ::getpid());
  fs::remove_all(temporary_, error);
  fs::create_directories(temporary_, error);
  if (error) fail_input("{}: can't create: {}", final_.string(), error.message());
}

AtomicFolder::~AtomicFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  std::error_code error;
  if (replace_) fs::remove_all(final_, error);
  fs::rename(temporary_, final_, error);
  if (error) fail_input("{}: can't rename into place: {}", final_.string(), error.message());
  committed_ = true;
}

}  // namespace atl
