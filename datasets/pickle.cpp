#include "datasets/pickle.hpp"

#include <bit>
#include <charconv>

#include "base/error.hpp"
#include "datasets/text_reader.hpp"
#include "datasets/unpickler.hpp"

namespace atl {

using Kind = PickleValue::Kind;
using Index = PickleValue::Index;

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
      push(add({}));
      return true;
    case 0x88:
    case 0x89:
      push(add_integer(opcode == 0x88 ? 1 : 0, Kind::kBool));
      return true;
    case 'J':
      push(add_integer(take_long(4)));
      return true;
    case 'K':
      push(add_integer(static_cast<std::int64_t>(take_unsigned(1))));
      return true;
    case 'M':
      push(add_integer(static_cast<std::int64_t>(take_unsigned(2))));
      return true;
    case 0x8a:  // LONG1
      push(add_integer(take_long(take_unsigned(1))));
      return true;
    case 'I':
    case 'L':
      push(add_integer(parse_decimal(take_line())));
      return true;
    case 'G': {  // big-endian double
      std::uint64_t bits = 0;
      for (const char c : take(8)) bits = bits << 8U | static_cast<unsigned char>(c);
      PickleValue result;
      result.kind = Kind::kReal;
      result.real = std::bit_cast<double>(bits);
      push(add(std::move(result)));
      return true;
    }
    case 'U':
    case 'C':
    case 0x8c:  // SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE
      push(add_bytes(take(take_unsigned(1))));
      return true;
    case 'T':
    case 'B':
    case 'X':  // BINSTRING, BINBYTES, BINUNICODE
      push(add_bytes(take(take_unsigned(4))));
      return true;
    case 0x8e:  // BINBYTES8
      push(add_bytes(take(take_unsigned(8))));
      return true;
    default:
      return false;
  }
}

void Unpickler::append(Index target, std::span<const Index> items, Kind kind) {
  if (value(target).kind != kind) bad("adds to something that is not a list or dict");
  if (kind == Kind::kDict && items.size() % 2 != 0) bad("a dict key has no value");
  auto& held = value(target).items;
  held.insert(held.end(), items.begin(), items.end());
}

bool Unpickler::container(unsigned char opcode) {
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      pop();
      return true;
    case ')':
      push(add_items(Kind::kTuple, {}));
      return true;
    case ']':
      push(add_items(Kind::kList, {}));
      return true;
    case '}':
      push(add_items(Kind::kDict, {}));
      return true;
    case 't':
      push(add_items(Kind::kTuple, pop_to_mark()));
      return true;
    case 'l':
      push(add_items(Kind::kList, pop_to_mark()));
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push(add_items(Kind::kTuple, pop_some(opcode - 0x84U)));
      return true;
    case 'a': {
      const Index item = pop();
      append(top(), {&item, 1}, Kind::kList);
      return true;
    }
    case 'e': {
      const std::vector<Index> items = pop_to_mark();
      append(top(), items, Kind::kList);
      return true;
    }
    case 's': {
      const std::vector<Index> pair = pop_some(2);
      append(top(), pair, Kind::kDict);
      return true;
    }
    case 'u': {
      const std::vector<Index> pairs = pop_to_mark();
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
      const std::vector<Index> names = pop_some(2);
      push_global(value(names[0]).bytes, value(names[1]).bytes);
      return true;
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      const std::vector<Index> call = pop_some(2);
      push(reduce(call[0], call[1]));
      return true;
    }
    case 'b': {
      const Index state = pop();
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
