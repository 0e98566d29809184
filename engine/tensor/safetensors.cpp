#include "engine/tensor/safetensors.hpp"

#include <algorithm>
#include <cstring>

#include "base/files.hpp"
#include "base/json.hpp"

namespace atl {

namespace {

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as the format's own library

std::int64_t bytes_of_dtype(const std::string& dtype, const std::string& place) {
  if (dtype == "U8") return 1;
  if (dtype == "F32") return 4;
  if (dtype == "F64" || dtype == "I64") return 8;
  fail_input("{}: dtype '{}' found; allowed are F32, F64, I64, U8", place, dtype);
}

NamedTensor read_tensor(const Json& entry, std::span<const std::byte> data,
                        const std::filesystem::path& path, const std::string& name) {
  const std::string place = path.string() + ", tensor '" + name + "'";
  NamedTensor tensor;
  tensor.dtype = json_field<std::string>(entry, "dtype", place);
  tensor.shape = json_field<std::vector<std::int64_t>>(entry, "shape", place);
  const auto offsets = json_field<std::vector<std::int64_t>>(entry, "data_offsets", place);
  const auto size = static_cast<std::int64_t>(data.size());
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[0] > offsets[1] || offsets[1] > size) {
    fail_input("{}: data_offsets don't lie inside the {} bytes of data", place, size);
  }
  std::int64_t expected = bytes_of_dtype(tensor.dtype, place);
  for (const std::int64_t length : tensor.shape) {
    if (length < 0 || (length > 0 && expected > size / length)) {
      fail_input("{}: shape with length {} does not fit into the file", place, length);
    }
    expected *= length;
  }
  if (expected != offsets[1] - offsets[0]) {
    fail_input("{}: {} bytes found, its shape needs {}", place, offsets[1] - offsets[0], expected);
  }
  const auto bytes = data.subspan(offsets[0], expected);
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

}  // namespace

std::string to_safetensors(const SafetensorsFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const auto size = static_cast<std::int64_t>(tensor.bytes.size());
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + size}}};
    offset += size;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // tensors start at a multiple of 8 bytes
  std::string result(8, '\0');
  for (std::size_t byte = 0; byte < 8; ++byte) {
    result[byte] = static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * byte));
  }
  result += text;
  for (const auto& [name, tensor] : file.tensors) {
    result.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return result;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(MappedFile(path).bytes(), path);
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes,
                                  const std::filesystem::path& path) {
  if (bytes.size() < 8)
    fail_input("{}: {} bytes are too few for safetensors", path.string(), bytes.size());
  std::uint64_t length = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    length |= static_cast<std::uint64_t>(bytes[byte]) << (8 * byte);
  }
  if (length > bytes.size() - 8) {
    fail_input("{}: cut off: a header of {} bytes announced, {} bytes there", path.string(), length,
               bytes.size() - 8);
  }
  if (length > kMostHeaderBytes) {
    fail_input("{}: a header of {} bytes; allowed are up to {}", path.string(), length,
               kMostHeaderBytes);
  }
  const Json header = parse_json({reinterpret_cast<const char*>(bytes.data()) + 8, length},
                                 path.string() + ": the header");
  if (!header.is_object()) fail_input("{}: the header is not a JSON object", path.string());
  SafetensorsFile file;
  const auto data = bytes.subspan(8 + length);
  std::size_t covered = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = json_field<std::map<std::string, std::string>>(header, "__metadata__", path);
    } else {
      file.tensors[name] = read_tensor(entry, data, path, name);
      covered += file.tensors[name].bytes.size();
    }
  }
  // Ranges that fit and add up to less or more leave gaps or overlap.
  if (covered != data.size()) {
    fail_input("{}: its tensors hold {} bytes, the file has {}: gaps or overlaps", path.string(),
               covered, data.size());
  }
  return file;
}

}  // namespace atl
