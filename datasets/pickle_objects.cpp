#include "datasets/text_reader.hpp"
#include "datasets/unpickler.hpp"

namespace atl {

using Kind = PickleValue::Kind;
using Index = PickleValue::Index;

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

}  // namespace atl
