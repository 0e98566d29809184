#include "datasets/grown_array.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace atl {

GrownArray new_array(const char* descr, std::vector<std::int64_t> shape) {
  const std::string text = make_npy_header(descr, shape);
  const NpyHeader header{.descr = descr, .shape = std::move(shape)};
  const std::size_t bytes = static_cast<std::size_t>(header.elements()) * header.item_bytes();
  GrownArray array{std::make_shared<MappedFile>(MappedFile::grown(text.size() + bytes))};
  std::byte* begin = array.file->writable().data();
  std::memcpy(begin, text.data(), text.size());
  array.values = begin + text.size();
  return array;
}

GrownArray grown_array(const NpyFile& old, std::vector<std::int64_t> shape) {
  const std::string& descr = old.header().descr;
  const std::string text = make_npy_header(descr, shape);
  const auto old_bytes =
      static_cast<std::size_t>(old.header().elements()) * old.header().item_bytes();
  if (old.header().data_offset != text.size()) {  // of another writer
    GrownArray array = new_array(descr.c_str(), std::move(shape));
    std::memcpy(array.values, old.value_bytes().data(), old_bytes);
    return array;
  }
  const NpyHeader header{.descr = descr, .shape = std::move(shape)};
  const std::size_t bytes = static_cast<std::size_t>(header.elements()) * header.item_bytes();
  GrownArray array{
      std::make_shared<MappedFile>(MappedFile::grown(text.size() + bytes, old.path()))};
  std::byte* begin = array.file->writable().data();
  std::memcpy(begin, text.data(), text.size());
  array.values = begin + text.size();
  return array;
}

}  // namespace atl
