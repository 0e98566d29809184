#include "datasets/byte_source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace atl {

RandomFile::RandomFile(Descriptor file, std::string place)
    : file_(std::move(file)), place_(std::move(place)) {}

RandomFile::RandomFile(const std::filesystem::path& path, std::string place)
    : RandomFile(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), std::move(place)) {
  if (file_.get() < 0) fail_input("{}: can't open: {}", place_, std::strerror(errno));
}

std::shared_ptr<RandomFile> RandomFile::temporary(const std::filesystem::path& folder,
                                                  std::string place) {
  std::string name = (folder / "rows-XXXXXX").string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) {
    fail_input("{}: can't make a temporary file in {}: {}", place, folder.string(),
               std::strerror(errno));
  }
  ::unlink(name.c_str());
  return std::shared_ptr<RandomFile>(new RandomFile(std::move(file), std::move(place)));
}

void RandomFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input("{}: can't read: {}", place_, std::strerror(errno));
    if (got == 0) fail_input("{}: ends before its last element", place_);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void RandomFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_input("{}: can't write a temporary copy: {}", place_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

std::uint64_t ByteSource::skip(std::uint64_t count) {
  std::array<std::byte, std::size_t{1} << 14U> passed;
  std::uint64_t done = 0;
  while (done < count) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(passed.size(), count - done));
    const std::size_t got = read(std::span(passed).first(step));
    if (got == 0) break;
    done += got;
  }
  return done;
}

std::shared_ptr<const RandomFile> ByteSource::random_access() {
  ATOLL_ASSERT(false, "a source of bytes that are read in their order only");
  return nullptr;
}

}  // namespace atl
