#include "datasets/type_array.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "datasets/array_reader.hpp"

namespace atl {

std::vector<std::uint16_t> read_types(ArrayReader reader, std::int64_t length) {
  if (reader.kind() != 'i' && reader.kind() != 'u') {
    fail_input("{}: element type '{}' found, integers of 8 to 64 bits expected", reader.place(),
               reader.header().descr);
  }
  reader.require_shape({length});
  std::vector<std::uint16_t> types;
  types.reserve(static_cast<std::size_t>(reader.elements()));
  each_value<std::int64_t>(reader, [&](std::int64_t type, std::int64_t at) {
    if (type < 0 || type >= kMaxTypes) {
      fail_input("{}: entry {} is {}; allowed are types 0 to {}", reader.place(), at, type,
                 kMaxTypes - 1);
    }
    types.push_back(static_cast<std::uint16_t>(type));
  });
  return types;
}

TypeArray::TypeArray(const std::filesystem::path& path, std::int64_t length) {
  there_ = is_there(path);
  if (!there_) return;
  file_ = NpyFile(path);
  file_.require_shape(std::vector{length});
  if (!file_.is(npy_descr<std::uint16_t>())) {
    narrowed_ = read_types(ArrayReader::open_npy(path), length);
  }
}

TypeArray::TypeArray(NpyFile types, std::int64_t length) : file_(std::move(types)), there_(true) {
  file_.require_descr(npy_descr<std::uint16_t>());
  file_.require_shape(std::vector{length});
}

std::span<const std::uint16_t> TypeArray::values() const {
  return file_.is(npy_descr<std::uint16_t>()) ? file_.values<std::uint16_t>() : narrowed_;
}

std::int64_t TypeArray::count(const Json& json, const char* field,
                              const std::filesystem::path& file) const {
  if (json.contains(field)) {
    const auto stated = json_field<std::int64_t>(json, field, file);
    const std::int64_t least = there_ ? 1 : 0;
    const std::int64_t most = there_ ? kMaxTypes : 0;
    if (stated < least || stated > most) {
      fail_input("{}: field '{}' is {}; allowed are {} to {}{}", file.string(), field, stated,
                 least, most, there_ ? "" : " without the array of types");
    }
    return stated;
  }
  const std::span<const std::uint16_t> types = values();
  if (types.empty()) return there_ ? 1 : 0;
  return std::int64_t{*std::ranges::max_element(types)} + 1;
}

void TypeArray::check(std::int64_t count) const {
  const std::span<const std::uint16_t> types = values();
  const auto wrong = std::ranges::find_if(types, [&](std::uint16_t type) { return type >= count; });
  if (wrong == types.end()) return;
  fail_input("{}: entry {} is {}; allowed are types 0 to {}", file_.path().string(),
             wrong - types.begin(), *wrong, count - 1);
}

}  // namespace atl
