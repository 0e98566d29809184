#include "datasets/pickle.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "base/error.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

using Kind = PickleValue::Kind;
using Index = PickleValue::Index;

// A stack machine over the opcodes of CPython's pickle.py. Callables are never called: a REDUCE or
// NEWOBJ of the few known ones yields plain data, any other is an error.
class Unpickler {
 public:
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
  Index add_integer(std::int64_t number, Kind kind = Kind::kInteger) {
    PickleValue result;
    result.kind = kind;
    result.integer = number;
    return add(std::move(result));
  }
  Index add_bytes(std::string_view bytes) {
    PickleValue result;
    result.kind = Kind::kBytes;
    result.bytes = bytes;
    return add(std::move(result));
  }
  Index add_items(Kind kind, std::vector<Index> items) {
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
  void append(Index target, std::span<const Index> items, Kind kind);
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

void Unpickler::push_global(std::string_view module, std::string_view name) {
  PickleValue result;
  result.kind = Kind::kGlobal;
  result.name = fmt::format("{}.{}", module, name);
  push(add(std::move(result)));
}

// Known callables: what they would have made, as data.
Index Unpickler::reduce(Index callable, Index arguments) {
  if (value(callable).kind != Kind::kGlobal || value(arguments).kind != Kind::kTuple) {
    bad("calls something that is not a known class");
  }
  const std::string name = value(callable).name;
  const std::vector<Index> items = value(arguments).items;
  PickleValue result;
  if (name == "numpy.core.multiarray._reconstruct" ||
      name == "numpy._core.multiarray._reconstruct") {
    result.kind = Kind::kArray;
  } else if (name == "numpy.dtype") {
    if (items.empty() || value(items[0]).kind != Kind::kBytes)
      bad("an element type without a name");
    result.kind = Kind::kType;
    result.name = fmt::format("<{}", value(items[0]).bytes.substr(0, 8));
  } else if (name == "collections.defaultdict" || name == "collections.OrderedDict") {
    result.kind = Kind::kDict;
  } else if (name == "_codecs.encode" && !items.empty() && value(items[0]).kind == Kind::kBytes) {
    // Python 3 saves short byte strings as latin-1 text; only empty ones are the same in both.
    if (!value(items[0]).bytes.empty()) bad("bytes stored as encoded text");
    return items[0];
  } else if (name == "scipy.sparse.csr.csr_matrix" || name == "scipy.sparse._csr.csr_matrix") {
    result.kind = Kind::kObject;
    result.name = name;
  } else {
    bad("calls " + in_quotes(name) + "; only NumPy arrays, SciPy CSR matrices and dicts are read");
  }
  return add(std::move(result));
}

void Unpickler::build(Index target, Index state) {
  PickleValue& object = value(target);
  const PickleValue& given = value(state);
  switch (object.kind) {
    case Kind::kArray:
      build_array(object, given);
      return;
    case Kind::kType:
      check_type(given);
      return;
    case Kind::kObject:
      if (given.kind != Kind::kDict) bad("the state of an object is not a dict");
      object.items = std::vector<Index>(given.items);
      return;
    default:
      bad("sets the state of something that has none");
  }
}

std::vector<std::int64_t> Unpickler::shape_of(Index tuple) {
  std::vector<std::int64_t> shape;
  if (value(tuple).kind != Kind::kTuple) bad("an array's shape is not a tuple");
  for (const Index item : value(tuple).items) {
    if (value(item).kind != Kind::kInteger || value(item).integer < 0) {
      bad("an array's shape is not made of lengths");
    }
    shape.push_back(value(item).integer);
  }
  return shape;
}

// state: (version, shape, dtype, is_fortran, elements)
void Unpickler::build_array(PickleValue& array, const PickleValue& state) {
  if (state.kind != Kind::kTuple || state.items.size() != 5) bad("an array's state is malformed");
  const PickleValue& type = value(state.items[2]);
  const PickleValue& fortran = value(state.items[3]);
  const PickleValue& elements = value(state.items[4]);
  if (type.kind != Kind::kType) bad("an array has no element type");
  if (elements.kind != Kind::kBytes) bad("an array of Python objects");
  array.shape = shape_of(state.items[1]);
  if (fortran.integer != 0 && array.shape.size() > 1) bad("an array in Fortran order");
  array.name = type.name;
  array.bytes = elements.bytes;
}

// state: (version, byte order, ...)
void Unpickler::check_type(const PickleValue& state) {
  if (state.kind != Kind::kTuple || state.items.size() < 2) bad("an element type is malformed");
  const PickleValue& order = value(state.items[1]);
  if (order.kind == Kind::kBytes && order.bytes == ">") bad("a big-endian array");
}

Pickle::Pickle(const std::filesystem::path& path) : map_(path), file_(path.string()) {
  root_ = Unpickler(*this).run();
}

}  // namespace atl
