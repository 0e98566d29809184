#include "engine/tensor/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/checksum.hpp"
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

// Where a tensor lies in the data.
struct DataRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
};

void require_no_gaps(std::vector<DataRange> ranges, std::int64_t size,
                     const std::filesystem::path& path) {
  // Empty ones come before those that begin at the same place.
  std::ranges::sort(ranges, {},
                    [](const DataRange& range) { return std::tie(range.begin, range.end); });
  std::int64_t end = 0;
  for (const DataRange& range : ranges) {
    if (range.begin != end) {
      fail_input(
          "{}, tensor '{}': its data begin at byte {}, but those before it end at byte {}; allowed "
          "are neither gaps nor overlaps",
          path.string(), range.name, range.begin, end);
    }
    end = range.end;
  }
  if (end != size) {
    fail_input("{}: its tensors end at byte {} of {} bytes of data; allowed are no gaps",
               path.string(), end, size);
  }
}

constexpr const char* kChecksum = "checksum";
const std::string kNoChecksum(16, '0');

// Where the digits of the checksum stand in a file with this header text, which begins at byte 8.
std::size_t place_of_checksum(std::string_view text, const std::string& digits) {
  const std::string entry = fmt::format("\"{}\":\"{}\"", kChecksum, digits);
  const std::size_t found = text.find(entry);
  return found == std::string_view::npos ? found : 8 + found + entry.size() - digits.size() - 1;
}

void verify_checksum(std::span<const std::byte> bytes, std::string_view header,
                     const std::string& expected, const std::filesystem::path& path) {
  const std::size_t at = place_of_checksum(header, expected);
  std::string found = "none in its place";
  if (at != std::string_view::npos && expected.size() == kNoChecksum.size()) {
    found = to_hex(checksum({bytes.first(at), std::as_bytes(std::span(kNoChecksum)),
                             bytes.subspan(at + kNoChecksum.size())}));
  }
  if (found != expected) {
    fail_input("{}: checksum {} found, {} expected: the file is damaged", path.string(), found,
               expected);
  }
}

}  // namespace

std::string to_safetensors(const SafetensorsFile& file) {
  std::map<std::string, std::string> metadata = file.metadata;
  metadata[kChecksum] = kNoChecksum;
  Json header = Json::object();
  header["__metadata__"] = metadata;
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
  result.reserve(result.size() + text.size() + static_cast<std::size_t>(offset));
  result += text;
  for (const auto& [name, tensor] : file.tensors) {
    result.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  result.replace(place_of_checksum(text, kNoChecksum), kNoChecksum.size(),
                 to_hex(checksum(result)));
  return result;
}

void require_checksum(const SafetensorsFile& file, const std::filesystem::path& path) {
  if (file.metadata.contains(kChecksum)) return;
  fail_input("{}: its metadata has no '{}': damaged, or not written by this program", path.string(),
             kChecksum);
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
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  const Json header = parse_json(text, path.string() + ": the header");
  if (!header.is_object()) fail_input("{}: the header is not a JSON object", path.string());
  SafetensorsFile file;
  if (header.contains("__metadata__")) {
    file.metadata = json_field<std::map<std::string, std::string>>(header, "__metadata__", path);
  }
  const auto stated = file.metadata.find(kChecksum);
  if (stated != file.metadata.end()) verify_checksum(bytes, text, stated->second, path);
  const auto data = bytes.subspan(8 + length);
  std::vector<DataRange> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    file.tensors[name] = read_tensor(entry, data, path, name);
    const auto begin = entry.at("data_offsets").at(0).get<std::int64_t>();
    ranges.push_back(
        {begin, begin + static_cast<std::int64_t>(file.tensors[name].bytes.size()), name});
  }
  require_no_gaps(std::move(ranges), static_cast<std::int64_t>(data.size()), path);
  return file;
}

}  // namespace atl
