#include "engine/comm/transport.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

using SendList = std::vector<std::span<const std::byte>>;
using ReceiveList = std::vector<std::span<std::byte>>;

// Everything lies in memory of its own, not in the caller's, because an abandoned transfer outlives
// the caller's.
template <typename T>
struct ReduceMemory {
  std::vector<T> values;  // as given; block by block replaced by the sums
  std::vector<T> parts;   // own block as rank r has it, for all r
};

template <typename T>
void reduce_scatter(Transport& transport, const std::shared_ptr<ReduceMemory<T>>& memory,
                    const OperationLabel& label) {
  const int size = transport.size();
  const std::span<T> values(memory->values);
  const ReduceBlock own = reduce_block(values.size(), transport.rank(), size);
  memory->parts.resize(own.count * static_cast<std::size_t>(size));
  SendList sends(size);
  ReceiveList receives(size);
  for (int r = 0; r < size; ++r) {
    const auto part = std::span<T>(memory->parts).subspan(own.count * r, own.count);
    if (r == transport.rank()) {
      std::ranges::copy(values.subspan(own.begin, own.count), part.begin());
      continue;
    }
    const ReduceBlock block = reduce_block(values.size(), r, size);
    sends[r] = std::as_bytes(values.subspan(block.begin, block.count));
    receives[r] = std::as_writable_bytes(part);
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), label, memory)->wait_all();
}

// Sums the ranks' parts of the own block in rank order, in the type Sum.
template <typename T, typename Sum>
void sum_own_block(ReduceMemory<T>& memory, int rank, int size) {
  const ReduceBlock own = reduce_block(memory.values.size(), rank, size);
  for (std::size_t i = 0; i < own.count; ++i) {
    Sum sum = memory.parts[i];
    for (int r = 1; r < size; ++r) sum += memory.parts[own.count * r + i];
    memory.values[own.begin + i] = static_cast<T>(sum);
  }
}

template <typename T>
void all_gather(Transport& transport, const std::shared_ptr<ReduceMemory<T>>& memory,
                const OperationLabel& label) {
  const int size = transport.size();
  const std::span<T> values(memory->values);
  const ReduceBlock own = reduce_block(values.size(), transport.rank(), size);
  SendList sends(size);
  ReceiveList receives(size);
  for (int r = 0; r < size; ++r) {
    if (r == transport.rank()) continue;
    const ReduceBlock block = reduce_block(values.size(), r, size);
    sends[r] = std::as_bytes(values.subspan(own.begin, own.count));
    receives[r] = std::as_writable_bytes(values.subspan(block.begin, block.count));
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), label, memory)->wait_all();
}

template <typename T, typename Sum>
void all_reduce_in_rank_order(Transport& transport, std::span<T> values,
                              const OperationLabel& label) {
  if (transport.size() == 1 || values.empty()) return;
  auto memory = std::make_shared<ReduceMemory<T>>();
  memory->values.assign(values.begin(), values.end());
  reduce_scatter<T>(transport, memory, label);
  sum_own_block<T, Sum>(*memory, transport.rank(), transport.size());
  all_gather<T>(transport, memory, label);
  std::ranges::copy(memory->values, values.begin());
}

std::vector<std::byte> to_vector(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
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

std::unique_ptr<PendingTransfer> Transport::all_to_all_v(SendList sends, ReceiveList receives,
                                                         const OperationLabel& label,
                                                         std::shared_ptr<const void> keep_alive) {
  ATOLL_ASSERT(std::ssize(sends) == size() && std::ssize(receives) == size(),
               "{} sends and {} receives for {} ranks", sends.size(), receives.size(), size());
  ATOLL_ASSERT(sends[rank()].empty() && receives[rank()].empty(), "rank {} sends to itself",
               rank());
  std::int64_t bytes = 0;
  for (const auto& send : sends) bytes += std::ssize(send);
  auto pending =
      do_all_to_all_v(std::move(sends), std::move(receives), label, std::move(keep_alive));
  bytes_sent_ += bytes;
  return pending;
}

void Transport::all_reduce(std::span<float> values, const OperationLabel& label) {
  all_reduce_in_rank_order<float, double>(*this, values, label);
}

void Transport::all_reduce(std::span<double> values, const OperationLabel& label) {
  all_reduce_in_rank_order<double, double>(*this, values, label);
}

void Transport::all_reduce(std::span<std::int64_t> values, const OperationLabel& label) {
  all_reduce_in_rank_order<std::int64_t, std::int64_t>(*this, values, label);
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
