#include "base/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "base/progress.hpp"

namespace atl {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

namespace {

// The checksum of pieces as they come.
class Stream {
 public:
  Stream() { XXH3_64bits_reset(state_.get()); }
  void add(std::span<const std::byte> piece) {
    XXH3_64bits_update(state_.get(), piece.data(), piece.size());
  }
  std::uint64_t result() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_{XXH3_createState(),
                                                                         &XXH3_freeState};
};

}  // namespace

std::uint64_t checksum(std::initializer_list<std::span<const std::byte>> pieces) {
  Stream stream;
  for (const std::span<const std::byte> piece : pieces) stream.add(piece);
  return stream.result();
}

// Read in pieces, not mapped: the pages of a map would count as memory of this process.
std::uint64_t file_checksum(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) fail_input("{}: can't open: {}", path.string(), std::strerror(errno));
  Stream stream;
  std::error_code unknown;
  const auto total = std::filesystem::file_size(path, unknown);
  // Small enough to stay in a core's cache, and no larger than a small file: to clear the pages of
  // more took longer than to read a delta's arrays.
  constexpr std::uintmax_t kMost = 1 << 18;
  const auto bytes =
      static_cast<std::size_t>(unknown ? kMost : std::clamp<std::uintmax_t>(total, 1, kMost));
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> piece(memory.get(), bytes);
  Activity activity("checksum of " + path.filename().string(),
                    unknown ? 0 : static_cast<std::int64_t>(total));
  std::int64_t done = 0;
  while (true) {
    const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get());
    if (std::ferror(file.get()) != 0) {
      fail_input("{}: can't read: {}", path.string(), std::strerror(errno));
    }
    if (got == 0) break;
    stream.add(piece.first(got));
    activity.advance_to(done += static_cast<std::int64_t>(got));
  }
  return stream.result();
}

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace atl
