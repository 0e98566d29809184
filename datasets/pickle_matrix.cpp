#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "datasets/pickle.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

using Kind = PickleValue::Kind;
using Index = PickleValue::Index;

namespace {

template <typename T>
std::vector<double> elements_as(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T raw;
    std::memcpy(&raw, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(raw);
  }
  return values;
}

// The elements of an array as doubles; exact for every id and count that is accepted later.
std::vector<double> elements(const Pickle& pickle, const PickleValue& array) {
  if (array.kind != Kind::kArray) fail_input("{}: an array is expected", pickle.file());
  std::size_t item = 0;
  std::vector<double> values;
  if (array.name == "<f4") values = elements_as<float>(array.bytes), item = 4;
  if (array.name == "<f8") values = elements_as<double>(array.bytes), item = 8;
  if (array.name == "<i4") values = elements_as<std::int32_t>(array.bytes), item = 4;
  if (array.name == "<i8") values = elements_as<std::int64_t>(array.bytes), item = 8;
  if (array.name == "<u1" || array.name == "<b1") {
    values = elements_as<std::uint8_t>(array.bytes), item = 1;
  }
  if (item == 0) {
    fail_input("{}: element type {}; allowed are f4 f8 i4 i8 u1 b1", pickle.file(),
               in_quotes(array.name));
  }
  std::size_t expected = item;
  for (const std::int64_t length : array.shape) {
    if (length > 0 && expected > std::numeric_limits<std::uint32_t>::max() * std::size_t{256} /
                                     static_cast<std::size_t>(length)) {
      fail_input("{}: an array's shape is larger than any file", pickle.file());
    }
    expected *= static_cast<std::size_t>(length);
  }
  if (expected != array.bytes.size()) {
    fail_input("{}: an array has {} bytes, its shape says {}", pickle.file(), array.bytes.size(),
               expected);
  }
  return values;
}

const PickleValue& state_field(const Pickle& pickle, const PickleValue& object,
                               std::string_view name) {
  for (std::size_t i = 0; i + 1 < object.items.size(); i += 2) {
    const PickleValue& key = pickle.at(object.items[i]);
    if (key.kind == Kind::kBytes && key.bytes == name) return pickle.at(object.items[i + 1]);
  }
  fail_input("{}: the sparse matrix has no '{}'", pickle.file(), name);
}

std::int64_t whole(const Pickle& pickle, double value, std::int64_t maximum, const char* what) {
  if (!(value >= 0 && value <= static_cast<double>(maximum)) || value != std::floor(value)) {
    fail_input("{}: {} {} found; allowed are 0 to {}", pickle.file(), what, value, maximum);
  }
  return static_cast<std::int64_t>(value);
}

// Rows and columns of a matrix that is densified later are bounded, so that a short file can't ask
// for absurd memory.
constexpr std::int64_t kMaxColumns = 1 << 24;
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();

PickledMatrix from_sparse(const Pickle& pickle, const PickleValue& object) {
  PickledMatrix matrix;
  const PickleValue& shape = state_field(pickle, object, "_shape");
  if (shape.kind != Kind::kTuple || shape.items.size() != 2) {
    fail_input("{}: the sparse matrix has a malformed shape", pickle.file());
  }
  const auto length = [&](std::size_t axis, std::int64_t maximum) {
    return whole(pickle, static_cast<double>(pickle.at(shape.items[axis]).integer), maximum,
                 "length");
  };
  matrix.rows = length(0, kMaxRows);
  matrix.columns = length(1, kMaxColumns);
  const std::vector<double> data = elements(pickle, state_field(pickle, object, "data"));
  const std::vector<double> indices = elements(pickle, state_field(pickle, object, "indices"));
  const std::vector<double> indptr = elements(pickle, state_field(pickle, object, "indptr"));
  if (data.size() != indices.size() ||
      static_cast<std::int64_t>(indptr.size()) != matrix.rows + 1) {
    fail_input("{}: a sparse matrix of {} rows has {} row pointers, {} columns and {} values",
               pickle.file(), matrix.rows, indptr.size(), indices.size(), data.size());
  }
  const auto nnz = static_cast<std::int64_t>(data.size());
  for (const double value : indptr) {
    matrix.row_ptr.push_back(whole(pickle, value, nnz, "row pointer"));
  }
  if (!std::is_sorted(matrix.row_ptr.begin(), matrix.row_ptr.end()) ||
      matrix.row_ptr.front() != 0 || matrix.row_ptr.back() != nnz) {
    fail_input("{}: the row pointers of the sparse matrix don't ascend from 0 to {}", pickle.file(),
               nnz);
  }
  for (const double value : indices) {
    matrix.col_idx.push_back(
        static_cast<std::int32_t>(whole(pickle, value, matrix.columns - 1, "column")));
  }
  matrix.values.assign(data.begin(), data.end());
  return matrix;
}

PickledMatrix from_dense(const Pickle& pickle, const PickleValue& array) {
  if (array.shape.size() != 2) {
    fail_input("{}: {} dimensions found, 2 expected", pickle.file(), array.shape.size());
  }
  PickledMatrix matrix;
  const std::vector<double> values = elements(pickle, array);
  matrix.rows = whole(pickle, static_cast<double>(array.shape[0]), kMaxRows, "length");
  matrix.columns = whole(pickle, static_cast<double>(array.shape[1]), kMaxColumns, "length");
  if (values.empty() && matrix.rows > 0) {
    fail_input("{}: an array of {} rows without columns", pickle.file(), matrix.rows);
  }
  matrix.row_ptr.push_back(0);
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      const double value = values[i * matrix.columns + j];
      if (value == 0) continue;
      matrix.col_idx.push_back(static_cast<std::int32_t>(j));
      matrix.values.push_back(static_cast<float>(value));
    }
    matrix.row_ptr.push_back(static_cast<std::int64_t>(matrix.col_idx.size()));
  }
  return matrix;
}

}  // namespace

PickledMatrix read_matrix(const Pickle& pickle) {
  const PickleValue& root = pickle.root();
  if (root.kind == Kind::kArray) return from_dense(pickle, root);
  if (root.kind == Kind::kObject) return from_sparse(pickle, root);
  fail_input("{}: a NumPy array or a SciPy CSR matrix is expected", pickle.file());
}

std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> read_adjacency(
    const Pickle& pickle) {
  const PickleValue& root = pickle.root();
  if (root.kind != Kind::kDict) fail_input("{}: a dict is expected", pickle.file());
  const auto id = [&](Index index) {
    const PickleValue& value = pickle.at(index);
    if (value.kind != Kind::kInteger || value.integer < 0 || value.integer >= kMaxRows) {
      fail_input("{}: a node id that is not an integer from 0 to {}", pickle.file(), kMaxRows - 1);
    }
    return value.integer;
  };
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> adjacency;
  std::size_t total = 0;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& list = pickle.at(root.items[i + 1]);
    if (list.kind != Kind::kList && list.kind != Kind::kTuple) {
      fail_input("{}: the neighbours of a node are not a list", pickle.file());
    }
    // Every neighbour takes a byte of the file, unless one list stands for many nodes.
    total += list.items.size();
    if (total > pickle.bytes()) fail_input("{}: nodes share one list", pickle.file());
    auto& entry = adjacency.emplace_back(id(root.items[i]), std::vector<std::int64_t>());
    for (const Index item : list.items) entry.second.push_back(id(item));
  }
  return adjacency;
}

}  // namespace atl
