#include "datasets/grown_array.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace atl {

namespace {

std::size_t bytes_of_values(const NpyHeader& header) {
  return static_cast<std::size_t>(header.elements()) * header.item_bytes();
}

// An array with the bytes of the file `old`, if it is not empty; the values behind them are 0.
GrownArray make_array(const std::string& descr, std::vector<std::int64_t> shape,
                      const std::filesystem::path& old) {
  const std::string text = make_npy_header(descr, shape);
  const NpyHeader header{.descr = descr, .shape = std::move(shape)};
  GrownArray array{
      std::make_shared<MappedFile>(MappedFile::grown(text.size() + bytes_of_values(header), old))};
  std::byte* begin = array.file->writable().data();
  std::memcpy(begin, text.data(), text.size());
  array.values = begin + text.size();
  return array;
}

}  // namespace

GrownArray new_array(const char* descr, std::vector<std::int64_t> shape) {
  return make_array(descr, std::move(shape), {});
}

GrownArray grown_array(const NpyFile& old, std::vector<std::int64_t> shape) {
  const std::string& descr = old.header().descr;
  const bool has_our_header = old.header().data_offset == make_npy_header(descr, shape).size();
  if (has_our_header) return make_array(descr, std::move(shape), old.path());
  GrownArray array = make_array(descr, std::move(shape), {});
  std::memcpy(array.values, old.value_bytes().data(), bytes_of_values(old.header()));
  return array;
}

}  // namespace atl
