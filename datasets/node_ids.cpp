#include "datasets/node_ids.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/mixed_bits.hpp"
#include "base/text.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace {

std::uint64_t hash_number(std::int64_t id) { return mixed_bits(0, static_cast<std::uint64_t>(id)); }

// A text that is the usual way to write a number, or a number with a point.
std::optional<std::int64_t> number_of_id(std::string_view id) {
  std::int64_t value = 0;
  const char* const last = id.data() + id.size();
  const auto [stop, error] = std::from_chars(id.data(), last, value);
  if (error != std::errc() || stop != last) return whole_number(id);
  const std::string_view digits = id.starts_with('-') ? id.substr(1) : id;
  if (digits.starts_with('0') && id != "0") return {};
  return value;
}

}  // namespace

void SmallNumbers::add(std::int64_t number) {
  const auto word = static_cast<std::size_t>(number / 64);
  const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(number % 64);
  if (word >= bits_.size()) {
    const auto most = static_cast<std::size_t>(kEnd / 64);
    bits_.resize(std::min(most, std::max(word + 1, 2 * bits_.size())));
  }
  if ((bits_[word] & bit) != 0) return;
  bits_[word] |= bit;
  ++count_;
}

void SmallNumbers::finish() {
  before_.resize(bits_.size());
  std::uint32_t sum = 0;
  for (std::size_t word = 0; word < bits_.size(); ++word) {
    before_[word] = sum;
    sum += static_cast<std::uint32_t>(std::popcount(bits_[word]));
  }
}

std::int64_t SmallNumbers::find(std::int64_t number) const {
  const auto word = static_cast<std::size_t>(number / 64);
  const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(number % 64);
  if (word >= bits_.size() || (bits_[word] & bit) == 0) return -1;
  return std::int64_t{before_[word]} + std::popcount(bits_[word] & (bit - 1));
}

std::int64_t SmallNumbers::operator[](std::int64_t rank) const {
  const auto after = std::ranges::upper_bound(before_, static_cast<std::uint32_t>(rank));
  const auto word = static_cast<std::size_t>(after - before_.begin()) - 1;
  std::uint64_t bits = bits_[word];
  for (std::int64_t k = before_[word]; k < rank; ++k) bits &= bits - 1;
  return static_cast<std::int64_t>(word) * 64 + std::countr_zero(bits);
}

std::int64_t NodeIds::count() const {
  return static_cast<std::int64_t>(entries()) + small_.count();
}

std::string_view NodeIds::text_of(Entry entry) const {
  const std::uint64_t begin = entry == 0 ? 0 : ends_[entry - 1];
  return std::string_view(characters_).substr(begin, ends_[entry] - begin);
}

std::uint64_t NodeIds::hash_of(Entry entry) const {
  return text_ ? checksum(text_of(entry)) : hash_number(numbers_[entry]);
}

// The slot of the entry that `equal` accepts, or the free one where it would be.
template <typename Equal>
std::size_t NodeIds::slot_of(std::uint64_t hash, const Equal& equal) const {
  std::size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot] != 0 && !equal(slots_[slot] - 1)) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void NodeIds::place_in_table(Entry entry) {
  slots_[slot_of(hash_of(entry), [](Entry) { return false; })] = entry + 1;
}

// Keeps at least half of the table free.
void NodeIds::grow() {
  if (count() >= kMaxNodes) {
    fail_input("{}: more than {} different ids of nodes", place_, kMaxNodes);
  }
  if (2 * (entries() + 1) <= slots_.size()) return;
  slots_.assign(std::max<std::size_t>(1024, 2 * slots_.size()), 0);
  for (std::size_t entry = 0; entry < entries(); ++entry) place_in_table(static_cast<Entry>(entry));
}

void NodeIds::add(std::int64_t id) {
  if (text_) return add_text(std::to_string(id));
  if (id >= 0 && id < SmallNumbers::kEnd) return small_.add(id);
  grow();
  const std::size_t slot =
      slot_of(hash_number(id), [&](Entry entry) { return numbers_[entry] == id; });
  if (slots_[slot] != 0) return;
  numbers_.push_back(id);
  slots_[slot] = static_cast<Entry>(numbers_.size());
}

void NodeIds::add(std::string_view id) {
  if (const std::optional<std::int64_t> number = number_of_id(id)) return add(*number);
  if (!text_) become_text();
  add_text(id);
}

void NodeIds::add_text(std::string_view id) {
  grow();
  const std::size_t slot = slot_of(checksum(id), [&](Entry e) { return text_of(e) == id; });
  if (slots_[slot] != 0) return;
  characters_ += id;
  ends_.push_back(characters_.size());
  slots_[slot] = static_cast<Entry>(ends_.size());
}

void NodeIds::become_text() {
  text_ = true;
  slots_.clear();
  for (const std::int64_t number : std::exchange(numbers_, {})) add_text(std::to_string(number));
  small_.finish();
  SmallNumbers small = std::exchange(small_, {});
  for (std::int64_t k = 0; k < small.count(); ++k) add_text(std::to_string(small[k]));
}

void NodeIds::finish() {
  small_.finish();
  by_node_.resize(entries());
  std::iota(by_node_.begin(), by_node_.end(), Entry{0});
  std::ranges::sort(by_node_, [&](Entry a, Entry b) {
    return text_ ? text_of(a) < text_of(b) : numbers_[a] < numbers_[b];
  });
  negative_ = std::ranges::count_if(numbers_, [](std::int64_t number) { return number < 0; });
  nodes_.resize(by_node_.size());
  for (std::size_t k = 0; k < by_node_.size(); ++k) {
    const std::int64_t smaller = std::cmp_less(k, negative_) ? 0 : small_.count();
    nodes_[by_node_[k]] = static_cast<Entry>(static_cast<std::int64_t>(k) + smaller);
    if (text_ && !is_utf8(text_of(by_node_[k]))) {
      fail_input("{}: node id {} is not UTF-8", place_, in_quotes(text_of(by_node_[k])));
    }
  }
}

std::int64_t NodeIds::node_in(std::size_t slot) const {
  return slots_[slot] == 0 ? -1 : std::int64_t{nodes_[slots_[slot] - 1]};
}

std::int64_t NodeIds::find(std::int64_t id) const {
  if (text_) return find(std::string_view(std::to_string(id)));
  if (id >= 0 && id < SmallNumbers::kEnd) {
    const std::int64_t rank = small_.find(id);
    return rank < 0 ? -1 : negative_ + rank;
  }
  if (slots_.empty()) return -1;
  return node_in(slot_of(hash_number(id), [&](Entry entry) { return numbers_[entry] == id; }));
}

std::int64_t NodeIds::find(std::string_view id) const {
  const std::optional<std::int64_t> number = number_of_id(id);
  if (!text_) return number ? find(*number) : -1;
  if (slots_.empty()) return -1;
  const std::string plain = number ? std::to_string(*number) : std::string(id);
  return node_in(slot_of(checksum(plain), [&](Entry entry) { return text_of(entry) == plain; }));
}

std::string NodeIds::operator[](std::int64_t node) const {
  const std::int64_t rank = node - negative_;
  if (rank >= 0 && rank < small_.count()) return std::to_string(small_[rank]);
  const Entry entry = by_node_[static_cast<std::size_t>(rank < 0 ? node : node - small_.count())];
  return text_ ? std::string(text_of(entry)) : std::to_string(numbers_[entry]);
}

}  // namespace atl
