#include "datasets/pickle.hpp"

#include <bit>
#include <charconv>
#include <limits>

#include "base/error.hpp"
#include "datasets/text_reader.hpp"
#include "datasets/unpickler.hpp"

namespace atl {

using Kind = PickleValue::Kind;

namespace {

// Plain data takes 8 to 11 bytes of memory per byte of its pickle where it is costliest: lists of
// small numbers, and many short lists. A file made of nothing but empty lists takes more.
constexpr std::size_t kBytesPerByte = 12;
constexpr std::size_t kFreeBytes = std::size_t{4} << 20U;
// Programs number what they store one after the other; an optimised pickle does, too.
constexpr std::uint64_t kMemoGap = 1024;

}  // namespace

Unpickler::Unpickler(Pickle& pickle)
    : pickle_(pickle),
      text_(reinterpret_cast<const char*>(pickle.map_.bytes().data()), pickle.map_.bytes().size()),
      budget_(kFreeBytes + kBytesPerByte * text_.size()) {}

void Unpickler::spend(std::size_t bytes) {
  if (bytes > budget_) {
    fail_input(
        "{}: byte {}: this pickle of {} bytes takes more than {} bytes of memory, which plain "
        "data of its size doesn't; save it again",
        pickle_.file_, opcode_at_, text_.size(), kFreeBytes + kBytesPerByte * text_.size());
  }
  budget_ -= bytes;
}

void Unpickler::push(const PickleValue& value) {
  stack_.push_back(value);
  if (stack_.size() > highest_stack_) {
    highest_stack_ = stack_.size();
    spend(sizeof(PickleValue));
  }
}

void Unpickler::push_integer(std::int64_t number, Kind kind) {
  PickleValue value;
  value.kind = kind;
  value.integer = number;
  push(value);
}

void Unpickler::push_bytes(std::string_view bytes) {
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    bad(fmt::format("{} bytes in one string; allowed are fewer than 2^32", bytes.size()));
  }
  PickleValue value;
  value.kind = Kind::kBytes;
  value.length = static_cast<std::uint32_t>(bytes.size());
  value.text = bytes.data();
  push(value);
}

void Unpickler::push_list(Kind kind, std::vector<PickleValue> items) {
  spend(sizeof(items) + items.size() * sizeof(PickleValue));
  pickle_.lists_.push_back(std::move(items));
  push_integer(static_cast<std::int64_t>(pickle_.lists_.size()) - 1, kind);
}

PickleValue Unpickler::add_object(Kind kind, std::string name) {
  spend(sizeof(PickleObject) + name.size());
  pickle_.objects_.emplace_back();
  pickle_.objects_.back().name = std::move(name);
  PickleValue value;
  value.kind = kind;
  value.integer = static_cast<std::int64_t>(pickle_.objects_.size()) - 1;
  return value;
}

void Unpickler::remember(std::uint64_t key) {
  if (key > memo_.size() + kMemoGap) bad(fmt::format("number {} follows {}", key, memo_.size()));
  if (key >= memo_.size()) {
    spend((key + 1 - memo_.size()) * sizeof(Remembered));
    memo_.resize(key + 1);
  }
  memo_[key] = {top(), true};
}

void Unpickler::recall(std::uint64_t key) {
  if (key >= memo_.size() || !memo_[key].stored) bad("refers to something it never stored");
  push(memo_[key].value);
}

// A little-endian two's complement number.
std::int64_t Unpickler::take_long(std::size_t bytes) {
  if (bytes > 8) bad("an integer has more than 64 bits");
  if (bytes == 0) return 0;
  const unsigned unused = static_cast<unsigned>(64 - 8 * bytes);
  return static_cast<std::int64_t>(take_unsigned(bytes) << unused) >> unused;
}

std::int64_t Unpickler::parse_decimal(std::string_view line) {
  if (line.ends_with('L')) line.remove_suffix(1);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || stop != line.data() + line.size()) {
    bad(in_quotes(line) + " is not a 64-bit integer");
  }
  return number;
}

bool Unpickler::literal(unsigned char opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
      if (const auto protocol = take_unsigned(1); protocol > 5) {
        bad(fmt::format("protocol {}; allowed are 0 to 5", protocol));
      }
      return true;
    case 0x95:  // FRAME
      take(8);
      return true;
    case 'N':
      push({});
      return true;
    case 0x88:
    case 0x89:
      push_integer(opcode == 0x88 ? 1 : 0, Kind::kBool);
      return true;
    case 'J':
      push_integer(take_long(4));
      return true;
    case 'K':
      push_integer(static_cast<std::int64_t>(take_unsigned(1)));
      return true;
    case 'M':
      push_integer(static_cast<std::int64_t>(take_unsigned(2)));
      return true;
    case 0x8a:  // LONG1
      push_integer(take_long(take_unsigned(1)));
      return true;
    case 'I':
    case 'L':
      push_integer(parse_decimal(take_line()));
      return true;
    case 'G': {  // big-endian double
      std::uint64_t bits = 0;
      for (const char c : take(8)) bits = bits << 8U | static_cast<unsigned char>(c);
      PickleValue value;
      value.kind = Kind::kReal;
      value.real = std::bit_cast<double>(bits);
      push(value);
      return true;
    }
    case 'U':
    case 'C':
    case 0x8c:  // SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE
      push_bytes(take(take_unsigned(1)));
      return true;
    case 'T':
    case 'B':
    case 'X':  // BINSTRING, BINBYTES, BINUNICODE
      push_bytes(take(take_unsigned(4)));
      return true;
    case 0x8e:  // BINBYTES8
      push_bytes(take(take_unsigned(8)));
      return true;
    default:
      return false;
  }
}

void Unpickler::append(const PickleValue& target, std::span<const PickleValue> added, Kind kind) {
  if (target.kind != kind) bad("adds to something that is not a list or dict");
  if (kind == Kind::kDict && added.size() % 2 != 0) bad("a dict key has no value");
  spend(added.size() * sizeof(PickleValue));
  auto& held = items(target);
  held.insert(held.end(), added.begin(), added.end());
}

bool Unpickler::container(unsigned char opcode) {
  switch (opcode) {
    case '(':
      spend(sizeof(marks_.back()));
      marks_.push_back(stack_.size());
      return true;
    case '0':
      pop();
      return true;
    case ')':
      push_list(Kind::kTuple, {});
      return true;
    case ']':
      push_list(Kind::kList, {});
      return true;
    case '}':
      push_list(Kind::kDict, {});
      return true;
    case 't':
      push_list(Kind::kTuple, pop_to_mark());
      return true;
    case 'l':
      push_list(Kind::kList, pop_to_mark());
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_list(Kind::kTuple, pop_some(opcode - 0x84U));
      return true;
    case 'a': {
      const PickleValue item = pop();
      append(top(), {&item, 1}, Kind::kList);
      return true;
    }
    case 'e': {
      const std::vector<PickleValue> items = pop_to_mark();
      append(top(), items, Kind::kList);
      return true;
    }
    case 's': {
      const std::vector<PickleValue> pair = pop_some(2);
      append(top(), pair, Kind::kDict);
      return true;
    }
    case 'u': {
      const std::vector<PickleValue> pairs = pop_to_mark();
      append(top(), pairs, Kind::kDict);
      return true;
    }
    default:
      return false;
  }
}

bool Unpickler::memo(unsigned char opcode) {
  switch (opcode) {
    case 'q':
      remember(take_unsigned(1));
      return true;
    case 'r':
      remember(take_unsigned(4));
      return true;
    case 'p':
      remember(static_cast<std::uint64_t>(parse_decimal(take_line())));
      return true;
    case 0x94:  // MEMOIZE
      remember(memo_.size());
      return true;
    case 'h':
      recall(take_unsigned(1));
      return true;
    case 'j':
      recall(take_unsigned(4));
      return true;
    case 'g':
      recall(static_cast<std::uint64_t>(parse_decimal(take_line())));
      return true;
    default:
      return false;
  }
}

bool Unpickler::object(unsigned char opcode) {
  switch (opcode) {
    case 'c': {
      const std::string_view module = take_line();
      push_global(module, take_line());
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const std::vector<PickleValue> names = pop_some(2);
      for (const PickleValue& name : names) {
        if (name.kind != Kind::kBytes) bad("a class without a name");
      }
      push_global(names[0].bytes(), names[1].bytes());
      return true;
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      const std::vector<PickleValue> call = pop_some(2);
      push(reduce(call[0], call[1]));
      return true;
    }
    case 'b': {
      const PickleValue state = pop();
      build(top(), state);
      return true;
    }
    default:
      return false;
  }
}

Pickle::Pickle(const std::filesystem::path& path) : map_(path), file_(path.string()) {
  root_ = Unpickler(*this).run();
}

}  // namespace atl
