#include "engine/comm/transport.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "engine/comm/rank_list.hpp"
#include "engine/comm/sum_steps.hpp"

namespace atl {

namespace {

using SendList = std::vector<std::span<const std::byte>>;
using ReceiveList = std::vector<std::span<std::byte>>;

template <typename T>
void all_reduce_values(Transport& transport, std::span<T> values, const OperationLabel& label) {
  if (transport.size() == 1 || values.empty()) return;
  const auto steps = all_reduce_steps(transport.rank(), transport.size(), values.size());
  sum_by_steps(transport, steps, values, label);
}

std::vector<std::byte> to_vector(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// FNV-1a.
std::int64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return static_cast<std::int64_t>(hash);
}

}  // namespace

std::string to_string(const OperationLabel& label) {
  std::string text;
  if (label.layer >= 0) text += fmt::format("layer {} ", label.layer);
  if (label.direction[0] != '\0') text += fmt::format("{} ", label.direction);
  text += label.operation[0] != '\0' ? label.operation : "exchange";
  if (label.epoch >= 0) text += fmt::format(" of epoch {}", label.epoch);
  return text;
}

std::shared_ptr<const RankGroup> RankGroup::whole_job(int ranks) {
  auto job = std::make_shared<RankGroup>();
  job->job_ranks.resize(static_cast<std::size_t>(ranks));
  std::iota(job->job_ranks.begin(), job->job_ranks.end(), 0);
  return job;
}

std::vector<int> RankGroup::in_job(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = job_rank(rank);
  return ranks;
}

std::string RankGroup::describe(const OperationLabel& label) const {
  if (name.empty()) return to_string(label);
  return fmt::format("{} in {} ({})", to_string(label), name, rank_list(job_ranks));
}

std::unique_ptr<Transport> Transport::split(int group, const std::string& name) {
  ATOLL_ASSERT(group >= 0 || group == kNoGroup, "group {}", group);
  ATOLL_ASSERT(group == kNoGroup || !name.empty(), "group {} has no name", group);
  // Tells every rank what the others give, with a deadline.
  const auto ranks = static_cast<std::size_t>(size());
  const auto own = static_cast<std::size_t>(rank());
  std::vector<std::int64_t> given(2 * ranks);
  const std::span numbers = std::span(given).first(ranks);
  const std::span names = std::span(given).last(ranks);
  numbers[own] = group;
  names[own] = hash_of(name);
  all_reduce(std::span(given), {.operation = "split into groups"});

  auto members = std::make_shared<RankGroup>();
  members->name = name;
  int place = 0;
  for (std::size_t r = 0; r < ranks && group != kNoGroup; ++r) {
    if (numbers[r] != group) continue;
    if (names[r] != names[own]) {
      fail(ErrorKind::kCommunication,
           "rank {} calls group {} of a split \"{}\", rank {} calls it otherwise; the ranks of a "
           "group give one name",
           group_->job_rank(rank()), group, name, group_->job_rank(static_cast<int>(r)));
    }
    if (r == own) place = static_cast<int>(members->job_ranks.size());
    members->job_ranks.push_back(group_->job_rank(static_cast<int>(r)));
  }
  auto made = do_split(group, std::move(members), place);
  if (made) made->parent_ = this;
  return made;
}

std::unique_ptr<PendingTransfer> Transport::all_to_all_v(SendList sends, ReceiveList receives,
                                                         const OperationLabel& label,
                                                         std::shared_ptr<const void> keep_alive,
                                                         PacketPieces pieces) {
  ATOLL_ASSERT(std::ssize(sends) == size() && std::ssize(receives) == size(),
               "{} sends and {} receives for {} ranks", sends.size(), receives.size(), size());
  ATOLL_ASSERT(sends[rank()].empty() && receives[rank()].empty(), "rank {} sends to itself",
               rank());
  const auto divides = [&](const std::vector<std::size_t>& ends, const auto& packets) {
    if (ends.empty()) return true;
    const auto count = static_cast<std::size_t>(pieces.count);
    bool all = ends.size() == packets.size() * count;
    for (std::size_t peer = 0; all && peer < packets.size(); ++peer) {
      const std::span of = std::span(ends).subspan(peer * count, count);
      all = std::ranges::is_sorted(of) && of.back() == packets[peer].size();
    }
    return all;
  };
  ATOLL_ASSERT(divides(pieces.send_ends, sends) && divides(pieces.receive_ends, receives),
               "{} pieces", pieces.count);
  std::int64_t bytes = 0;
  for (const auto& send : sends) bytes += std::ssize(send);
  auto pending =
      do_all_to_all_v(std::move(sends), std::move(receives), label, std::move(keep_alive), pieces);
  for (Transport* counting = this; counting != nullptr; counting = counting->parent_) {
    counting->bytes_sent_ += bytes;
  }
  return pending;
}

void Transport::all_reduce(std::span<float> values, const OperationLabel& label) {
  all_reduce_values(*this, values, label);
}

void Transport::all_reduce(std::span<double> values, const OperationLabel& label) {
  all_reduce_values(*this, values, label);
}

void Transport::all_reduce(std::span<std::int64_t> values, const OperationLabel& label) {
  all_reduce_values(*this, values, label);
}

HeartbeatScope::HeartbeatScope(Transport& transport, const OperationLabel& label)
    : transport_(transport) {
  if (transport_.scopes_++ == 0) transport_.begin_work(label);
}

HeartbeatScope::~HeartbeatScope() {
  if (--transport_.scopes_ == 0) transport_.end_work();
}

ReduceBlock reduce_block(std::size_t count, int rank, int size) {
  const auto parts = static_cast<std::size_t>(size);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = count * r / parts;
  return {begin, count * (r + 1) / parts - begin};
}

std::int64_t all_reduce_bytes(std::int64_t count, std::int64_t value_bytes, int rank, int size) {
  const auto own =
      static_cast<std::int64_t>(reduce_block(static_cast<std::size_t>(count), rank, size).count);
  return (count - own + (size - 1) * own) * value_bytes;
}

void Transport::broadcast(std::span<std::byte> bytes, int root, const OperationLabel& label) {
  ATOLL_ASSERT(root >= 0 && root < size(), "root {}", root);
  if (size() == 1) return;
  auto memory = std::make_shared<std::vector<std::byte>>(to_vector(bytes));
  SendList sends(size());
  ReceiveList receives(size());
  if (rank() == root) {
    for (int r = 0; r < size(); ++r) {
      if (r != root) sends[r] = *memory;
    }
  } else {
    receives[root] = *memory;
  }
  all_to_all_v(std::move(sends), std::move(receives), label, memory)->wait_all();
  if (rank() != root) std::ranges::copy(*memory, bytes.begin());
}

std::vector<std::vector<std::byte>> Transport::gather(std::span<const std::byte> bytes, int root,
                                                      const OperationLabel& label) {
  ATOLL_ASSERT(root >= 0 && root < size(), "root {}", root);
  struct Memory {
    std::vector<std::int64_t> lengths;
    std::vector<std::vector<std::byte>> bytes;  // by rank; of the own rank what it sends
  };
  auto memory = std::make_shared<Memory>();
  memory->lengths.resize(size());
  memory->bytes.resize(size());
  memory->lengths[rank()] = std::ssize(bytes);
  memory->bytes[rank()] = to_vector(bytes);

  const auto to_root = [&](auto&& bytes_of) {
    SendList sends(size());
    ReceiveList receives(size());
    if (rank() != root) {
      sends[root] = bytes_of(rank());
    } else {
      for (int r = 0; r < size(); ++r) {
        if (r != root) receives[r] = bytes_of(r);
      }
    }
    all_to_all_v(std::move(sends), std::move(receives), label, memory)->wait_all();
  };
  to_root([&](int r) { return std::as_writable_bytes(std::span(&memory->lengths[r], 1)); });
  if (rank() == root) {
    for (int r = 0; r < size(); ++r) memory->bytes[r].resize(memory->lengths[r]);
  }
  to_root([&](int r) { return std::span<std::byte>(memory->bytes[r]); });
  if (rank() != root) return {};
  return std::move(memory->bytes);
}

void Transport::barrier(const OperationLabel& label) {
  if (size() == 1) return;
  struct Memory {
    std::byte sent{};
    std::vector<std::byte> received;
  };
  auto memory = std::make_shared<Memory>();
  memory->received.resize(size());
  SendList sends(size());
  ReceiveList receives(size());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sends[r] = std::span(&memory->sent, 1);
    receives[r] = std::span(&memory->received[r], 1);
  }
  all_to_all_v(std::move(sends), std::move(receives), label, memory)->wait_all();
}

}  // namespace atl
