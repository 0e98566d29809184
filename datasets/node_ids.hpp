// Numbers nodes whose ids are anything but 0 to N - 1: numbers with gaps, or names. Internal to
// datasets/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

// Numbers from 0 to kEnd - 1, each once, as a bit each: 32 MiB at most. A number is found, and the
// k-th one, within a cache line or two, which a table of millions isn't.
class SmallNumbers {
 public:
  static constexpr std::int64_t kEnd = std::int64_t{1} << 28;

  std::int64_t count() const { return count_; }
  void add(std::int64_t number);
  void finish();
  // How many are smaller; -1: this one isn't there.
  std::int64_t find(std::int64_t number) const;
  std::int64_t operator[](std::int64_t rank) const;

 private:
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> before_;  // numbers in the words before each
  std::int64_t count_ = 0;
};

// First every id is added, any number of times; after finish() each has a number. Ids that are all
// numbers are numbered in ascending order; otherwise all are text, in the order of their bytes.
// 12.0 and (as R writes it) 1e+05 are the numbers 12 and 100000; 007 is text. Takes some 30 bytes
// per id that is no small number, and the text.
class NodeIds {
 public:
  // Throws Error{kInput} naming `place` if there are more than a graph may have nodes.
  explicit NodeIds(std::string place) : place_(std::move(place)) {}

  void add(std::string_view id);
  void add(std::int64_t id);
  // Throws Error{kInput} if a text is not UTF-8.
  void finish();

  std::int64_t count() const;
  bool are_numbers() const { return !text_; }
  // The node that has this id; -1: none has it.
  std::int64_t find(std::string_view id) const;
  std::int64_t find(std::int64_t id) const;
  // The id of a node.
  std::string operator[](std::int64_t node) const;

 private:
  using Entry = std::uint32_t;  // ids in the order in which they were added first

  void become_text();
  void add_text(std::string_view id);
  void grow();
  std::size_t entries() const { return text_ ? ends_.size() : numbers_.size(); }
  void place_in_table(Entry entry);
  std::string_view text_of(Entry entry) const;
  std::uint64_t hash_of(Entry entry) const;
  template <typename Equal>
  std::size_t slot_of(std::uint64_t hash, const Equal& equal) const;
  std::int64_t node_in(std::size_t slot) const;

  std::string place_;
  bool text_ = false;
  SmallNumbers small_;                  // unless text_
  std::vector<std::int64_t> numbers_;   // the other ones
  std::string characters_;              // of all texts
  std::vector<std::uint64_t> ends_;     // of each text in characters_
  std::vector<Entry> slots_;            // hash table with open addressing; entry + 1, 0: free
  std::vector<Entry> by_node_, nodes_;  // entries in order, the node of each entry
  std::int64_t negative_ = 0;           // of numbers_
};

}  // namespace atl
