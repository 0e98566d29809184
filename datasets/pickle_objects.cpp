#include "datasets/text_reader.hpp"
#include "datasets/unpickler.hpp"

namespace atl {

using Kind = PickleValue::Kind;

void Unpickler::push_global(std::string_view module, std::string_view name) {
  push(add_object(Kind::kGlobal, fmt::format("{}.{}", module, name)));
}

// Known callables: what they would have made, as data.
PickleValue Unpickler::reduce(const PickleValue& callable, const PickleValue& arguments) {
  if (callable.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) {
    bad("calls something that is not a known class");
  }
  const std::string name = object_of(callable).name;
  const std::vector<PickleValue>& given = items(arguments);
  const bool has_text = !given.empty() && given[0].kind == Kind::kBytes;
  if (name == "numpy.core.multiarray._reconstruct" ||
      name == "numpy._core.multiarray._reconstruct") {
    return add_object(Kind::kArray, "");
  }
  if (name == "numpy.dtype") {
    if (!has_text) bad("an element type without a name");
    return add_object(Kind::kType, fmt::format("<{}", given[0].bytes().substr(0, 8)));
  }
  if (name == "collections.defaultdict" || name == "collections.OrderedDict") {
    push_list(Kind::kDict, {});
    return pop();
  }
  if (name == "_codecs.encode" && has_text) {
    // Python 3 saves short byte strings as latin-1 text; only empty ones are the same in both.
    if (given[0].length != 0) bad("bytes stored as encoded text");
    return given[0];
  }
  if (name == "scipy.sparse.csr.csr_matrix" || name == "scipy.sparse._csr.csr_matrix") {
    return add_object(Kind::kObject, name);
  }
  bad("calls " + in_quotes(name) + "; only NumPy arrays, SciPy CSR matrices and dicts are read");
}

void Unpickler::build(const PickleValue& target, const PickleValue& state) {
  switch (target.kind) {
    case Kind::kArray:
      build_array(object_of(target), state);
      return;
    case Kind::kType:
      set_byte_order(object_of(target), state);
      return;
    case Kind::kObject:
      if (state.kind != Kind::kDict) bad("the state of an object is not a dict");
      object_of(target).state = state;
      return;
    default:
      bad("sets the state of something that has none");
  }
}

std::vector<std::int64_t> Unpickler::shape_of(const PickleValue& tuple) {
  std::vector<std::int64_t> shape;
  if (tuple.kind != Kind::kTuple) bad("an array's shape is not a tuple");
  for (const PickleValue& item : items(tuple)) {
    if (item.kind != Kind::kInteger || item.integer < 0) {
      bad("an array's shape is not made of lengths");
    }
    shape.push_back(item.integer);
  }
  spend(shape.size() * sizeof(shape[0]));
  return shape;
}

// state: (version, shape, dtype, is_fortran, elements)
void Unpickler::build_array(PickleObject& array, const PickleValue& state) {
  if (state.kind != Kind::kTuple || items(state).size() != 5) bad("an array's state is malformed");
  const std::vector<PickleValue>& given = items(state);
  const PickleValue& fortran = given[3];
  if (given[2].kind != Kind::kType) bad("an array has no element type");
  if (given[4].kind != Kind::kBytes) bad("an array of Python objects");
  if (fortran.kind != Kind::kBool && fortran.kind != Kind::kInteger) {
    bad("an array's order is not said");
  }
  array.shape = shape_of(given[1]);
  array.by_columns = fortran.integer != 0 && array.shape.size() > 1;
  if (array.by_columns && array.shape.size() > 2) bad("a Fortran array of more than 2 dimensions");
  array.name = object_of(given[2]).name;
  array.bytes = given[4].bytes();
}

// state: (version, byte order, ...)
void Unpickler::set_byte_order(PickleObject& type, const PickleValue& state) {
  if (state.kind != Kind::kTuple || items(state).size() < 2) bad("an element type is malformed");
  const PickleValue& order = items(state)[1];
  if (order.kind == Kind::kBytes && order.bytes() == ">") type.name[0] = '>';
}

}  // namespace atl
