// The stack machine that reads a pickle: pickle.cpp has its operations, pickle_objects.cpp the few
// classes it knows. Internal to datasets/.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "datasets/pickle.hpp"

namespace atl {

// A stack machine over the opcodes of CPython's pickle.py. Callables are never called: a REDUCE or
// NEWOBJ of the few known ones yields plain data, any other is an error.
class Unpickler {
 public:
  explicit Unpickler(Pickle& pickle);

  PickleValue run() {
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
  using Kind = PickleValue::Kind;

  [[noreturn]] void bad(const std::string& why) const {
    fail_input("{}: byte {}: not a pickle of plain data: {}", pickle_.file_, opcode_at_, why);
  }
  // Counts memory that stays; throws Error{kInput} if it is more than plain data of this size
  // needs.
  void spend(std::size_t bytes);

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

  std::vector<PickleValue>& items(const PickleValue& value) {
    return pickle_.lists_[static_cast<std::size_t>(value.integer)];
  }
  PickleObject& object_of(const PickleValue& value) {
    return pickle_.objects_[static_cast<std::size_t>(value.integer)];
  }
  void push(const PickleValue& value);
  void push_integer(std::int64_t number, Kind kind = Kind::kInteger);
  void push_bytes(std::string_view bytes);
  void push_list(Kind kind, std::vector<PickleValue> items);
  PickleValue add_object(Kind kind, std::string name);

  PickleValue pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) bad("the stack is empty");
    const PickleValue top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue top() {
    const PickleValue value = pop();
    stack_.push_back(value);
    return value;
  }
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) bad("a mark is missing");
    std::vector<PickleValue> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                   stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleValue> pop_some(std::size_t count) {
    std::vector<PickleValue> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  bool literal(unsigned char opcode);
  bool container(unsigned char opcode);
  bool memo(unsigned char opcode);
  bool object(unsigned char opcode);
  std::int64_t take_long(std::size_t bytes);
  std::int64_t parse_decimal(std::string_view line);
  void append(const PickleValue& target, std::span<const PickleValue> added, Kind kind);
  void remember(std::uint64_t key);
  void recall(std::uint64_t key);
  void push_global(std::string_view module, std::string_view name);
  PickleValue reduce(const PickleValue& callable, const PickleValue& arguments);
  void build(const PickleValue& target, const PickleValue& state);
  void build_array(PickleObject& array, const PickleValue& state);
  void set_byte_order(PickleObject& type, const PickleValue& state);
  std::vector<std::int64_t> shape_of(const PickleValue& tuple);

  Pickle& pickle_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t budget_;  // bytes that may still be spent
  std::size_t highest_stack_ = 0;
  std::deque<PickleValue> stack_;  // as the lists of a Pickle
  std::vector<std::size_t> marks_;
  struct Remembered {
    PickleValue value;
    bool stored = false;
  };
  std::vector<Remembered> memo_;
};

}  // namespace atl
