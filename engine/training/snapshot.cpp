#include "engine/training/snapshot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/host_share.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// A slot begins with a line that says what follows it: a process may end while it writes.
std::string header_of(int epoch, std::size_t set_backs, std::string_view content) {
  return fmt::format("atoll snapshot {:010} {:06} {:020} {}\n", epoch, set_backs, content.size(),
                     to_hex(checksum(content)));
}

struct Snapshot {
  int epoch = 0;  // 0: none that is whole
  std::size_t set_backs = 0;
  std::string content;
};

Snapshot read_snapshot(const fs::path& path) {
  if (!is_there(path)) return {};
  try {
    const std::string text = read_text(path);
    const std::size_t line = text.find('\n');
    int epoch = 0;
    std::size_t set_backs = 0;
    std::uint64_t size = 0;
    const int read =
        std::sscanf(text.c_str(), "atoll snapshot %d %zu %" SCNu64, &epoch, &set_backs, &size);
    if (read != 3) return {};
    // The rest of a longer snapshot behind it does not count, and need not be cut off in time.
    if (line == std::string::npos || size > text.size() - line - 1) return {};
    Snapshot found{epoch, set_backs, text.substr(line + 1, size)};
    const bool whole = text.compare(0, line + 1, header_of(epoch, set_backs, found.content)) == 0;
    return whole ? found : Snapshot{};
  } catch (const Error&) {
    return {};
  }
}

// Errors by their number in errno; 0: written. The pages of a slot are used again, so once both
// are there the memory for them is, too.
int overwrite(const fs::path& path, std::string_view header, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return errno;
  // The header comes last: until then the slot says that it holds something else.
  const auto put = [&](std::string_view bytes, off_t place) {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), place);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes.remove_prefix(static_cast<std::size_t>(written));
      place += written;
    }
    return 0;
  };
  if (const int error = put(content, static_cast<off_t>(header.size())); error != 0) return error;
  return put(header, 0);
}

int newest_of(const std::array<int, 2>& epochs) { return std::max(epochs[0], epochs[1]); }

constexpr std::string_view kFolderPrefix = "atoll-";

// A folder that nobody else can have written to; else errno says why.
bool is_own_folder(const fs::path& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return false;
  const bool own =
      S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
  if (!own) errno = EPERM;
  return own;
}

}  // namespace

std::string make_snapshot_id() {
  std::random_device random;
  std::string id;
  for (int part = 0; part < 4; ++part) id += fmt::format("{:08x}", random() & 0xffffffffU);
  return id;
}

bool is_snapshot_id(std::string_view id) {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

fs::path snapshot_folder(const fs::path& dir, const std::string& id) {
  return dir / (std::string(kFolderPrefix) + id);
}

void remove_snapshot_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const bool is_one = name.starts_with(kFolderPrefix) &&
                      is_snapshot_id(std::string_view(name).substr(kFolderPrefix.size()));
  std::error_code ignored;
  if (is_one && is_own_folder(folder)) fs::remove_all(folder, ignored);
}

std::optional<SnapshotChoice> choose_snapshot(const std::vector<HeldEpochs>& held) {
  int newest = 0;
  bool any_exchange = false;
  for (const HeldEpochs& rank : held) {
    newest = std::max(newest, newest_of(rank.state));
    any_exchange = any_exchange || newest_of(rank.exchange) > 0;
  }
  if (newest == 0) return std::nullopt;
  const auto holder_of = [&](int epoch) {
    const auto holder =
        std::ranges::find_if(held, [&](const HeldEpochs& rank) { return rank.has_state(epoch); });
    return static_cast<int>(holder - held.begin());
  };
  const auto all_have_exchange = [&](int epoch) {
    return std::ranges::all_of(held,
                               [&](const HeldEpochs& rank) { return rank.has_exchange(epoch); });
  };
  if (!any_exchange || all_have_exchange(newest)) {
    return SnapshotChoice{newest, holder_of(newest), any_exchange};
  }
  // Ranks end at most one snapshot apart.
  int before = 0;
  for (const HeldEpochs& rank : held) {
    for (const int epoch : rank.state) {
      if (epoch < newest) before = std::max(before, epoch);
    }
  }
  if (before > 0 && all_have_exchange(before))
    return SnapshotChoice{before, holder_of(before), true};
  return SnapshotChoice{newest, holder_of(newest), false};
}

Snapshots::Snapshots(Transport& transport, const fs::path& folder, const std::string& id,
                     std::vector<int> set_backs)
    : transport_(transport),
      id_(id),
      set_backs_(std::move(set_backs)),
      folder_(snapshot_folder(folder, id)),
      first_on_host_(device_rank_on_host(transport, /*uses_device=*/false) == 0) {
  std::string host = host_name();
  std::ranges::replace(host, '/', '_');
  state_ = slots(host + ".state");
  exchange_ = slots(fmt::format("{}.rank-{}-of-{}", host, transport.rank(), transport.size()));
}

Snapshots::Slots Snapshots::slots(const std::string& name) const {
  return {Slot{folder_ / (name + ".0")}, Slot{folder_ / (name + ".1")}};
}

int Snapshots::epoch_in(const Slot& slot) const {
  const Snapshot found = read_snapshot(slot.path);
  const auto later = std::span(set_backs_).subspan(std::min(found.set_backs, set_backs_.size()));
  const bool counts = std::ranges::all_of(later, [&](int to) { return found.epoch <= to; });
  return counts ? found.epoch : 0;
}

void Snapshots::find() {
  HeldEpochs mine;
  for (std::size_t s = 0; s < 2 && is_own_folder(folder_); ++s) {
    if (first_on_host_) mine.state[s] = state_[s].epoch = epoch_in(state_[s]);
    mine.exchange[s] = exchange_[s].epoch = epoch_in(exchange_[s]);
  }
  const auto ranks = static_cast<std::size_t>(transport_.size());
  std::vector<std::int64_t> epochs(4 * ranks, 0);
  const auto rank = static_cast<std::size_t>(transport_.rank());
  std::ranges::copy(mine.state, epochs.begin() + static_cast<std::ptrdiff_t>(4 * rank));
  std::ranges::copy(mine.exchange, epochs.begin() + static_cast<std::ptrdiff_t>(4 * rank + 2));
  transport_.all_reduce(std::span(epochs), {"list of snapshots"});
  std::vector<HeldEpochs> held(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t s = 0; s < 2; ++s) {
      held[r].state[s] = static_cast<int>(epochs[4 * r + s]);
      held[r].exchange[s] = static_cast<int>(epochs[4 * r + 2 + s]);
    }
  }
  found_ = choose_snapshot(held);
}

std::string Snapshots::read_state(std::string& place) const {
  std::string content;
  on_all_ranks(transport_, [&] {
    if (transport_.rank() != found_->holder) return;
    for (const Slot& slot : state_) {
      if (slot.epoch != found_->epoch) continue;
      place = slot.path.string();
      content = read_snapshot(slot.path).content;
    }
    if (content.empty()) fail_input("{}: was removed or replaced meanwhile", folder_.string());
  });
  share_text(transport_, place, {"name of the snapshot"}, found_->holder);
  share_text(transport_, content, {"snapshot"}, found_->holder);
  return content;
}

std::string Snapshots::read_exchange() const {
  for (const Slot& slot : exchange_) {
    if (slot.epoch == found_->epoch) return read_snapshot(slot.path).content;
  }
  return {};
}

bool Snapshots::make_folder() {
  if (folder_made_) return true;
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return false;
  return folder_made_ = is_own_folder(folder_);
}

void Snapshots::keep(int epoch, const std::string& state,
                     const std::optional<std::string>& exchange) {
  if (!make_folder()) {
    warn(epoch, std::strerror(errno));
    return;
  }
  // First what the others can't replace: choose_snapshot() wants both of one epoch.
  if (exchange) write(exchange_, epoch, *exchange);
  if (first_on_host_) write(state_, epoch, state);
}

void Snapshots::write(Slots& slots, int epoch, const std::string& content) {
  Slot& slot = oldest(slots);
  slot.epoch = 0;
  if (const int error = overwrite(slot.path, header_of(epoch, set_backs_.size(), content), content);
      error != 0) {
    warn(epoch, std::strerror(error));
    return;
  }
  slot.epoch = epoch;
}

void Snapshots::warn(int epoch, const std::string& reason) {
  if (warned_) return;
  warned_ = true;
  log::warn(
      "{}: can't keep a snapshot of epoch {}: {}; the run goes on, and a failure costs the work "
      "since the last snapshot or checkpoint",
      folder_.string(), epoch, reason);
}

void Snapshots::remove() {
  std::error_code ignored;
  std::string host = state_[0].path.filename().string();
  host.resize(host.size() - std::strlen("state.0"));
  if (first_on_host_) {
    // Also those of runs on other numbers of ranks.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
      if (entry.path().filename().string().starts_with(host)) fs::remove(entry.path(), ignored);
    }
    fs::remove(folder_, ignored);  // hosts that share the folder: the last one's does it
  }
  for (Slots* slots : {&state_, &exchange_}) {
    for (Slot& slot : *slots) slot.epoch = 0;
  }
  folder_made_ = false;
}

}  // namespace atl
