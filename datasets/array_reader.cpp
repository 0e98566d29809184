#include "datasets/array_reader.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "datasets/transposed_source.hpp"

namespace atl {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18U;
constexpr std::size_t kLongestHeader = std::size_t{1} << 16U;
constexpr const char* kTypes = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1";

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path)
      : path_(path), file_(std::fopen(path.c_str(), "rb"), &std::fclose) {
    if (!file_) fail_input("{}: can't open: {}", path_.string(), std::strerror(errno));
  }
  std::size_t read(std::span<std::byte> bytes) override {
    const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file_.get());
    if (got < bytes.size() && std::ferror(file_.get()) != 0) {
      fail_input("{}: can't read: {}", path_.string(), std::strerror(errno));
    }
    return got;
  }
  std::shared_ptr<const RandomFile> random_access() override {
    return std::make_shared<RandomFile>(path_, path_.string());
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// IEEE half precision to single, exact.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | mantissa << 13U);
}

struct Half {
  std::uint16_t bits;
};

template <typename From, typename To>
To converted(From raw) {
  if constexpr (std::is_same_v<From, Half>) {
    return converted<float, To>(half_to_float(raw.bits));
  } else {
    return static_cast<To>(raw);
  }
}

// Whether `raw` has an exact int64 value.
template <typename From>
bool fits_integer(From raw) {
  if constexpr (std::is_same_v<From, Half>) {
    return fits_integer(half_to_float(raw.bits));
  } else if constexpr (std::is_floating_point_v<From>) {
    return std::abs(raw) <= static_cast<From>(0x1p53) && raw == std::trunc(raw);
  } else if constexpr (std::is_same_v<From, std::uint64_t>) {
    return raw <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  } else {
    return true;
  }
}

// Whether `raw` is a number in single precision, too. Those that are none are for whoever reads.
template <typename From>
bool fits_float(From raw) {
  if constexpr (std::is_same_v<From, double>) {
    return !std::isinf(static_cast<float>(raw)) || std::isinf(raw);
  } else {
    return true;
  }
}

// Converts until the first element that To can't hold; returns how many were converted.
template <typename From, typename To>
std::size_t convert(std::span<const std::byte> bytes, std::span<To> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    From raw;
    std::memcpy(&raw, bytes.data() + i * sizeof(From), sizeof(From));
    if constexpr (std::is_integral_v<To>) {
      if (!fits_integer(raw)) return i;
    } else if constexpr (std::is_same_v<To, float>) {
      if (!fits_float(raw)) return i;
    }
    values[i] = converted<From, To>(raw);
  }
  return values.size();
}

template <typename To>
std::size_t convert_by_type(const std::string& descr, std::span<const std::byte> bytes,
                            std::span<To> values, const std::string& place) {
  const std::string type = descr.substr(1);
  if (type == "f4") return convert<float>(bytes, values);
  if (type == "f8") return convert<double>(bytes, values);
  if (type == "f2") return convert<Half>(bytes, values);
  if (type == "i8") return convert<std::int64_t>(bytes, values);
  if (type == "i4") return convert<std::int32_t>(bytes, values);
  if (type == "i2") return convert<std::int16_t>(bytes, values);
  if (type == "i1") return convert<std::int8_t>(bytes, values);
  if (type == "u8") return convert<std::uint64_t>(bytes, values);
  if (type == "u4") return convert<std::uint32_t>(bytes, values);
  if (type == "u2") return convert<std::uint16_t>(bytes, values);
  if (type == "u1" || type == "b1") return convert<std::uint8_t>(bytes, values);
  fail_input("{}: element type '{}' is not a number; allowed are {}", place, descr, kTypes);
}

// The bytes of each element the other way round.
void reverse_each(std::span<std::byte> bytes, std::size_t item) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += item) {
    std::ranges::reverse(bytes.subspan(begin, item));
  }
}

}  // namespace

bool holds_objects(std::span<const std::byte> header) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  return text.starts_with("\x93NUMPY") && text.find("'descr': '|O'") != std::string_view::npos;
}

ArrayReader::ArrayReader(std::unique_ptr<ByteSource> source, std::string place,
                         std::int64_t total_bytes)
    : source_(std::move(source)), place_(std::move(place)), buffer_(kBufferBytes) {
  std::vector<std::byte> head(12);
  if (total_bytes < 12) fail_input("{}: not a .npy array: only {} bytes", place_, total_bytes);
  read_exactly(head);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(head[i]); };
  const bool short_form = byte(6) == 1;
  const std::size_t length = short_form
                                 ? byte(8) | byte(9) << 8U
                                 : byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
  const std::size_t start = short_form ? 10 : 12;
  const std::size_t available = static_cast<std::size_t>(total_bytes) - 12;
  const std::size_t wanted =
      std::max<std::size_t>(start + std::min(length, kLongestHeader), 12) - 12;
  head.resize(12 + std::min(wanted, available));
  read_exactly(std::span(head).subspan(12));
  if (holds_objects(head)) {
    fail_input(
        "{}: holds pickled Python objects, which are not read, because unpickling can run code; "
        "save "
        "it with numbers as elements: numpy.save(NEW, numpy.load(OLD, "
        "allow_pickle=True).astype(TYPE))",
        place_);
  }
  header_ = parse_npy_header(head, place_);
  const auto data = static_cast<std::uint64_t>(elements()) * header_.item_bytes();
  if (data != static_cast<std::uint64_t>(total_bytes) - header_.data_offset) {
    fail_input("{}: {} bytes of elements found, {} expected from the header", place_,
               static_cast<std::uint64_t>(total_bytes) - header_.data_offset, data);
  }
  if (std::string_view("fiub").find(kind()) == std::string_view::npos || header_.item_bytes() > 8) {
    fail_input("{}: element type '{}' is not a number; allowed are {}", place_, header_.descr,
               kTypes);
  }
  if (header_.fortran_order &&
      std::ranges::count_if(header_.shape, [](auto n) { return n > 1; }) > 1) {
    if (dimensions() != 2) {
      fail_input("{}: {} dimensions in Fortran order; allowed are at most 2", place_, dimensions());
    }
    source_ = std::make_unique<TransposedSource>(
        source_->random_access(), header_.data_offset, static_cast<std::uint64_t>(header_.shape[0]),
        static_cast<std::uint64_t>(header_.shape[1]), header_.item_bytes());
  }
}

ArrayReader ArrayReader::open_npy(const std::filesystem::path& path) {
  const auto bytes = static_cast<std::int64_t>(MappedFile(path).bytes().size());
  return {std::make_unique<FileSource>(path), path.string(), bytes};
}

void ArrayReader::require_shape(std::initializer_list<std::int64_t> shape) const {
  bool equal = shape.size() == header_.shape.size();
  for (std::size_t i = 0; equal && i < shape.size(); ++i) {
    const std::int64_t wanted = shape.begin()[i];
    equal = wanted < 0 || wanted == header_.shape[i];
  }
  if (equal) return;
  const auto print = [](auto begin, auto end) {
    std::string text = "(";
    for (auto it = begin; it != end; ++it) {
      text += (it == begin ? "" : ", ") + (*it < 0 ? std::string("any") : std::to_string(*it));
    }
    return text + ")";
  };
  fail_input("{}: shape {} found, {} expected", place_,
             print(header_.shape.begin(), header_.shape.end()), print(shape.begin(), shape.end()));
}

void ArrayReader::read_exactly(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t got = source_->read(bytes);
    if (got == 0) fail_input("{}: ends before its last element", place_);
    bytes = bytes.subspan(got);
  }
}

template <typename T>
void ArrayReader::read_converted(std::span<T> values) {
  const std::size_t item = header_.item_bytes();
  ATOLL_ASSERT(at_ + static_cast<std::int64_t>(values.size()) <= elements(), "{}", place_);
  while (!values.empty()) {
    const std::size_t count =
        std::min(values.size(), buffer_.size() / std::max<std::size_t>(item, 1));
    const std::span<std::byte> bytes(buffer_.data(), count * item);
    read_exactly(bytes);
    if (header_.descr[0] == '>') reverse_each(bytes, item);
    const std::size_t done = convert_by_type<T>(header_.descr, bytes, values.first(count), place_);
    at_ += static_cast<std::int64_t>(done);
    if (done < count) {
      double found = 0;
      convert_by_type<double>(header_.descr, bytes.subspan(done * item), {&found, 1}, place_);
      if constexpr (std::is_same_v<T, float>) {
        fail_input("{}: element {} is {}; allowed are {}", place_, at_, found, kFiniteFloats);
      }
      if (header_.descr.ends_with("u8")) {
        fail_input("{}: element {} is more than 2^63 - 1, the largest integer allowed", place_,
                   at_);
      }
      fail_input("{}: element {} is {}; an integer is expected", place_, at_, found);
    }
    values = values.subspan(count);
  }
}

void ArrayReader::read(std::span<float> values) { read_converted(values); }
void ArrayReader::read(std::span<double> values) { read_converted(values); }
void ArrayReader::read(std::span<std::int64_t> values) { read_converted(values); }

void ArrayReader::skip(std::int64_t count) {
  ATOLL_ASSERT(at_ + count <= elements(), "{}", place_);
  at_ += count;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * header_.item_bytes();
  if (source_->skip(bytes) != bytes) fail_input("{}: ends before its last element", place_);
}

void ArrayReader::finish() {
  ATOLL_ASSERT(at_ == elements(), "{}: {} of {} elements read", place_, at_, elements());
  std::byte extra{};
  if (source_->read({&extra, 1}) != 0) fail_input("{}: goes on after its last element", place_);
}

std::vector<std::int64_t> read_integers(ArrayReader reader, std::int64_t dimensions) {
  if (reader.dimensions() != dimensions) {
    fail_input("{}: {} dimensions found, {} expected", reader.place(), reader.dimensions(),
               dimensions);
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(reader.elements()));
  reader.read(values);
  reader.finish();
  return values;
}

}  // namespace atl
