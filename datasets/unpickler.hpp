// The stack machine that reads a pickle: pickle.cpp has its operations, pickle_objects.cpp the few
// classes it knows. Internal to datasets/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "datasets/pickle.hpp"

namespace atl {

// A stack machine over the opcodes of CPython's pickle.py. Callables are never called: a REDUCE or
// NEWOBJ of the few known ones yields plain data, any other is an error.
class Unpickler {
 public:
  using Index = PickleValue::Index;

  explicit Unpickler(Pickle& pickle)
      : pickle_(pickle),
        text_(reinterpret_cast<const char*>(pickle.map_.bytes().data()),
              pickle.map_.bytes().size()) {}

  Index run() {
    while (true) {
      opcode_at_ = at_;
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') return pop();
      if (!literal(opcode) && !container(opcode) && !memo(opcode) && !object(opcode)) {
        bad(fmt::format("operation 0x{:02x} is not supported", opcode));
      }
    }
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail_input("{}: byte {}: not a pickle of plain data: {}", pickle_.file_, opcode_at_, why);
  }

  std::string_view take(std::size_t count) {
    if (count > text_.size() - at_) bad("the file ends too early");
    const std::string_view bytes = text_.substr(at_, count);
    at_ += count;
    return bytes;
  }
  std::string_view take_line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) bad("the file ends too early");
    const std::string_view line = take(end - at_);
    take(1);
    return line;
  }
  std::uint64_t take_unsigned(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::string_view raw = take(bytes);
    for (std::size_t i = bytes; i-- > 0;) value = value << 8U | static_cast<unsigned char>(raw[i]);
    return value;
  }

  PickleValue& value(Index index) { return pickle_.values_[index]; }
  Index add(PickleValue new_value) {
    pickle_.values_.push_back(std::move(new_value));
    return static_cast<Index>(pickle_.values_.size() - 1);
  }
  Index add_integer(std::int64_t number, PickleValue::Kind kind = PickleValue::Kind::kInteger) {
    PickleValue result;
    result.kind = kind;
    result.integer = number;
    return add(std::move(result));
  }
  Index add_bytes(std::string_view bytes) {
    PickleValue result;
    result.kind = PickleValue::Kind::kBytes;
    result.bytes = bytes;
    return add(std::move(result));
  }
  Index add_items(PickleValue::Kind kind, std::vector<Index> items) {
    PickleValue result;
    result.kind = kind;
    result.items = std::move(items);
    return add(std::move(result));
  }

  void push(Index index) { stack_.push_back(index); }
  Index pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) bad("the stack is empty");
    const Index top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Index top() {
    const Index index = pop();
    push(index);
    return index;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) bad("a mark is missing");
    std::vector<Index> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                             stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<Index> pop_some(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  bool literal(unsigned char opcode);
  bool container(unsigned char opcode);
  bool memo(unsigned char opcode);
  bool object(unsigned char opcode);
  std::int64_t take_long(std::size_t bytes);
  std::int64_t parse_decimal(std::string_view line);
  void append(Index target, std::span<const Index> items, PickleValue::Kind kind);
  void remember(std::uint64_t key) { memo_[key] = top(); }
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) bad("refers to something it never stored");
    push(found->second);
  }
  void push_global(std::string_view module, std::string_view name);
  Index reduce(Index callable, Index arguments);
  void build(Index target, Index state);
  void build_array(PickleValue& array, const PickleValue& state);
  void check_type(const PickleValue& state);
  std::vector<std::int64_t> shape_of(Index tuple);

  Pickle& pickle_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
};

}  // namespace atl
