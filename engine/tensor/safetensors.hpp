// The safetensors file format: an 8-byte little-endian header length, a JSON header, raw tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace atl {

struct NamedTensor {
  std::string dtype;  // "F32", "F64", "I64", "U8"
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

// A tensor of values on the host, `dtype` being the name of their type.
template <typename T>
NamedTensor host_tensor(const char* dtype, std::vector<std::int64_t> shape,
                        std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}
// The values of a tensor whose type is T.
template <typename T>
std::vector<T> values_in(const NamedTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(T));
  return values;
}

struct SafetensorsFile {
  std::map<std::string, NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The file's bytes; tensors are laid out in name order. The metadata entry `checksum` is made here:
// XXH3 of all bytes, with sixteen zeros in its own place.
std::string to_safetensors(const SafetensorsFile& file);
// Throws Error{kInput} naming `path` and what is wrong: cut off, not JSON, offsets out of range,
// with gaps or overlaps, sizes that don't fit shapes, another checksum than its own says.
SafetensorsFile read_safetensors(const std::filesystem::path& path);
// The same of a file's bytes; `path` is what messages call it.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes,
                                  const std::filesystem::path& path);

// Throws Error{kInput} if the file carried no checksum: what we read back was written with one.
void require_checksum(const SafetensorsFile& file, const std::filesystem::path& path);

}  // namespace atl
