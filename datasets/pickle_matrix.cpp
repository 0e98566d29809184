#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "datasets/pickle.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

using Kind = PickleValue::Kind;
namespace {

// The elements of an array, read where they lie; exact for every id and count that is accepted
// later.
class Elements {
 public:
  Elements(const Pickle& pickle, const PickleValue& array) {
    if (array.kind != Kind::kArray) fail_input("{}: an array is expected", pickle.file());
    const PickleObject& object = pickle.object(array);
    choose(pickle, object.name);
    std::size_t expected = width_;
    for (const std::int64_t length : object.shape) {
      if (length > 0 && expected > std::numeric_limits<std::uint32_t>::max() * std::size_t{256} /
                                       static_cast<std::size_t>(length)) {
        fail_input("{}: an array's shape is larger than any file", pickle.file());
      }
      expected *= static_cast<std::size_t>(length);
    }
    if (expected != object.bytes.size()) {
      fail_input("{}: an array has {} bytes, its shape says {}", pickle.file(), object.bytes.size(),
                 expected);
    }
    data_ = object.bytes.data();
    size_ = object.bytes.size() / width_;
    if (object.by_columns) {
      rows_ = static_cast<std::size_t>(object.shape[0]);
      columns_ = static_cast<std::size_t>(object.shape[1]);
    }
  }

  std::size_t size() const { return size_; }
  // Element i, counted row by row.
  double operator[](std::size_t i) const {
    const std::size_t stored = rows_ == 0 ? i : i % columns_ * rows_ + i / columns_;
    return read_(data_ + stored * width_);
  }

 private:
  template <typename T, bool kReversed>
  static double read_as(const char* at) {
    std::array<char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), at, sizeof(T));
    if constexpr (kReversed) std::ranges::reverse(bytes);
    return static_cast<double>(std::bit_cast<T>(bytes));
  }
  template <typename T>
  void use(bool reversed) {
    read_ = reversed ? &read_as<T, true> : &read_as<T, false>;
    width_ = sizeof(T);
  }
  void choose(const Pickle& pickle, const std::string& type) {
    const bool reversed = type.starts_with('>');
    const std::string_view kind =
        std::string_view(type).substr(std::min<std::size_t>(1, type.size()));
    if (kind == "f4") return use<float>(reversed);
    if (kind == "f8") return use<double>(reversed);
    if (kind == "i4") return use<std::int32_t>(reversed);
    if (kind == "i8") return use<std::int64_t>(reversed);
    if (kind == "u1" || kind == "b1") return use<std::uint8_t>(false);
    fail_input("{}: element type {}; allowed are f4 f8 i4 i8 u1 b1", pickle.file(),
               in_quotes(type));
  }

  double (*read_)(const char*) = nullptr;
  std::size_t width_ = 1;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t rows_ = 0, columns_ = 0;  // in Fortran order
};

const PickleValue& state_field(const Pickle& pickle, const PickleValue& object,
                               std::string_view name) {
  const PickleValue& state = pickle.object(object).state;
  const auto items =
      state.kind == Kind::kDict ? pickle.items(state) : std::span<const PickleValue>();
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kBytes && items[i].bytes() == name) return items[i + 1];
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
  const auto lengths =
      shape.kind == Kind::kTuple ? pickle.items(shape) : std::span<const PickleValue>();
  if (lengths.size() != 2 || lengths[0].kind != Kind::kInteger ||
      lengths[1].kind != Kind::kInteger) {
    fail_input("{}: the sparse matrix has a malformed shape", pickle.file());
  }
  const auto length = [&](std::size_t axis, std::int64_t maximum) {
    return whole(pickle, static_cast<double>(lengths[axis].integer), maximum, "length");
  };
  matrix.rows = length(0, kMaxRows);
  matrix.columns = length(1, kMaxColumns);
  const Elements data(pickle, state_field(pickle, object, "data"));
  const Elements indices(pickle, state_field(pickle, object, "indices"));
  const Elements indptr(pickle, state_field(pickle, object, "indptr"));
  if (data.size() != indices.size() ||
      static_cast<std::int64_t>(indptr.size()) != matrix.rows + 1) {
    fail_input("{}: a sparse matrix of {} rows has {} row pointers, {} columns and {} values",
               pickle.file(), matrix.rows, indptr.size(), indices.size(), data.size());
  }
  const auto nnz = static_cast<std::int64_t>(data.size());
  matrix.row_ptr.reserve(indptr.size());
  for (std::size_t i = 0; i < indptr.size(); ++i) {
    matrix.row_ptr.push_back(whole(pickle, indptr[i], nnz, "row pointer"));
  }
  if (!std::is_sorted(matrix.row_ptr.begin(), matrix.row_ptr.end()) ||
      matrix.row_ptr.front() != 0 || matrix.row_ptr.back() != nnz) {
    fail_input("{}: the row pointers of the sparse matrix don't ascend from 0 to {}", pickle.file(),
               nnz);
  }
  matrix.col_idx.reserve(indices.size());
  matrix.values.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    matrix.col_idx.push_back(
        static_cast<std::int32_t>(whole(pickle, indices[i], matrix.columns - 1, "column")));
    matrix.values.push_back(static_cast<float>(data[i]));
  }
  return matrix;
}

PickledMatrix from_dense(const Pickle& pickle, const PickleValue& array) {
  const std::vector<std::int64_t>& shape = pickle.object(array).shape;
  if (shape.size() != 2) {
    fail_input("{}: {} dimensions found, 2 expected", pickle.file(), shape.size());
  }
  PickledMatrix matrix;
  const Elements values(pickle, array);
  matrix.rows = whole(pickle, static_cast<double>(shape[0]), kMaxRows, "length");
  matrix.columns = whole(pickle, static_cast<double>(shape[1]), kMaxColumns, "length");
  if (values.size() == 0 && matrix.rows > 0) {
    fail_input("{}: an array of {} rows without columns", pickle.file(), matrix.rows);
  }
  matrix.row_ptr.push_back(0);
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      const double value = values[static_cast<std::size_t>(i * matrix.columns + j)];
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
  const auto id = [&](const PickleValue& value) {
    if (value.kind != Kind::kInteger || value.integer < 0 || value.integer >= kMaxRows) {
      fail_input("{}: a node id that is not an integer from 0 to {}", pickle.file(), kMaxRows - 1);
    }
    return value.integer;
  };
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> adjacency;
  std::size_t total = 0;
  const auto pairs = pickle.items(root);
  adjacency.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const PickleValue& list = pairs[i + 1];
    if (list.kind != Kind::kList && list.kind != Kind::kTuple) {
      fail_input("{}: the neighbours of a node are not a list", pickle.file());
    }
    // Every neighbour takes a byte of the file, unless one list stands for many nodes.
    const auto neighbours = pickle.items(list);
    total += neighbours.size();
    if (total > pickle.bytes()) fail_input("{}: nodes share one list", pickle.file());
    auto& entry = adjacency.emplace_back(id(pairs[i]), std::vector<std::int64_t>());
    entry.second.reserve(neighbours.size());
    for (const PickleValue& item : neighbours) entry.second.push_back(id(item));
  }
  return adjacency;
}

}  // namespace atl
