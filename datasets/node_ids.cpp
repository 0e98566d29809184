#include "datasets/node_ids.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace {

std::uint64_t hash_number(std::int64_t id) { return mix_bits(static_cast<std::uint64_t>(id)); }

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

std::int64_t NodeIds::count() const {
  return static_cast<std::int64_t>(text_ ? ends_.size() : numbers_.size());
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
  const auto entries = static_cast<std::size_t>(count());
  if (entries >= static_cast<std::size_t>(kMaxNodes)) {
    fail_input("{}: more than {} different ids of nodes", place_, kMaxNodes);
  }
  if (2 * (entries + 1) <= slots_.size()) return;
  slots_.assign(std::max<std::size_t>(1024, 2 * slots_.size()), 0);
  for (std::size_t entry = 0; entry < entries; ++entry) place_in_table(static_cast<Entry>(entry));
}

void NodeIds::add(std::int64_t id) {
  if (text_) return add_text(std::to_string(id));
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
  for (const std::int64_t number : std::exchange(numbers_, {})) {
    characters_ += std::to_string(number);
    ends_.push_back(characters_.size());
  }
  std::ranges::fill(slots_, 0);
  for (Entry entry = 0; entry < ends_.size(); ++entry) place_in_table(entry);
}

void NodeIds::finish() {
  by_node_.resize(static_cast<std::size_t>(count()));
  std::iota(by_node_.begin(), by_node_.end(), Entry{0});
  std::ranges::sort(by_node_, [&](Entry a, Entry b) {
    return text_ ? text_of(a) < text_of(b) : numbers_[a] < numbers_[b];
  });
  nodes_.resize(by_node_.size());
  for (std::size_t node = 0; node < by_node_.size(); ++node) {
    nodes_[by_node_[node]] = static_cast<Entry>(node);
    if (!text_) continue;
    try {
      static_cast<void>(Json((*this)[static_cast<std::int64_t>(node)]).dump());
    } catch (const Json::exception&) {
      fail_input("{}: node id {} is not UTF-8", place_, in_quotes(text_of(by_node_[node])));
    }
  }
}

std::int64_t NodeIds::node_in(std::size_t slot) const {
  return slots_[slot] == 0 ? -1 : std::int64_t{nodes_[slots_[slot] - 1]};
}

std::int64_t NodeIds::find(std::int64_t id) const {
  if (text_) return find(std::string_view(std::to_string(id)));
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
  const Entry entry = by_node_[static_cast<std::size_t>(node)];
  return text_ ? std::string(text_of(entry)) : std::to_string(numbers_[entry]);
}

}  // namespace atl
