#include "base/npy.hpp"

#include <cerrno>
#include <cstring>
#include <limits>

namespace atl {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// A cursor over the header's Python dict literal, which NumPy writes in one fixed dialect:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictParser {
 public:
  DictParser(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  NpyHeader parse() {
    NpyHeader header;
    bool have_descr = false;
    bool have_order = false;
    bool have_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        header.descr = quoted();
        have_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        have_order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        have_shape = true;
      } else {
        bad("has an unknown key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) bad("goes on after its '}'");
    if (!have_descr || !have_order || !have_shape) {
      bad("lacks one of 'descr', 'fortran_order', 'shape'");
    }
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail_input("{}: the .npy header {} (near byte {} of the header)", place_, why, at_);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("lacks '") + c + "'");
  }
  std::string quoted() {
    skip_spaces();
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) bad("has an unterminated string");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    bad("has a 'fortran_order' that is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      const std::size_t first = at_;
      std::int64_t value = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10) bad("has a huge shape");
        value = value * 10 + (text_[at_] - '0');
        ++at_;
      }
      if (at_ == first) bad("has a 'shape' that is not a tuple of lengths");
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
};

void check_element_type(const NpyHeader& header, const std::string& place) {
  const std::string& d = header.descr;
  const bool known = d.size() >= 3 && (d[0] == '<' || d[0] == '|' || d[0] == '>' || d[0] == '=') &&
                     std::string_view("fiubUS").find(d[1]) != std::string_view::npos &&
                     d.find_first_not_of("0123456789", 2) == std::string::npos && d.size() <= 8;
  if (!known) {
    fail_input(
        "{}: element type '{}' is not supported; allowed are plain numbers and booleans "
        "(no Python objects)",
        place, d);
  }
}

}  // namespace

std::int64_t NpyHeader::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t length : shape) product *= length;
  return product;
}

std::size_t NpyHeader::item_bytes() const {
  const std::size_t count = std::stoul(descr.substr(2));
  return descr[1] == 'U' ? 4 * count : count;
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& place) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 10) {
    fail_input("{}: not a .npy file (its first bytes are not \\x93NUMPY)", place);
  }
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(bytes[i]); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    fail_input("{}: .npy version {}.{}; allowed are 1.0, 2.0, 3.0", place, version, byte(7));
  }
  if (version > 1 && text.size() < 12) fail_input("{}: the .npy header is cut off", place);
  const std::size_t start = version == 1 ? 10 : 12;
  const std::size_t length = version == 1
                                 ? byte(8) | byte(9) << 8U
                                 : byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
  if (length > text.size() - start) {
    fail_input("{}: the .npy header is cut off: {} bytes announced, {} there", place, length,
               text.size() - start);
  }
  NpyHeader header = DictParser(text.substr(start, length), place).parse();
  header.data_offset = start + length;
  check_element_type(header, place);
  std::int64_t product = static_cast<std::int64_t>(std::max<std::size_t>(1, header.item_bytes()));
  for (const std::int64_t dimension : header.shape) {
    if (dimension != 0 && product > std::numeric_limits<std::int64_t>::max() / dimension) {
      fail_input("{}: the shape in the .npy header is larger than any memory", place);
    }
    product *= dimension;
  }
  return header;
}

std::string make_npy_header(const std::string& descr, std::span<const std::int64_t> shape) {
  std::string dimensions;
  for (const std::int64_t length : shape) dimensions += fmt::format("{}, ", length);
  if (shape.size() > 1) dimensions.resize(dimensions.size() - 2);
  if (shape.size() == 1) dimensions.resize(dimensions.size() - 1);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dimensions);
  dict.append(63 - (kMagic.size() + 4 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xFFU);
  header += static_cast<char>(dict.size() >> 8U);
  return header + dict;
}

NpyFile::NpyFile(const std::filesystem::path& path)
    : NpyFile(path, std::make_shared<const MappedFile>(path)) {}

NpyFile::NpyFile(std::filesystem::path path, std::shared_ptr<const MappedFile> bytes)
    : path_(std::move(path)), map_(std::move(bytes)) {
  const std::string place = path_.string();
  const std::size_t size = map_->bytes().size();
  header_ = parse_npy_header(map_->bytes(), place);
  if (header_.fortran_order && header_.shape.size() > 1) {
    fail_input("{}: the array is in Fortran order; save it with numpy.ascontiguousarray", place);
  }
  if (header_.descr[0] == '>') {
    fail_input("{}: element type '{}' is big-endian; allowed is little-endian ('<')", place,
               header_.descr);
  }
  const std::size_t expected =
      header_.data_offset + static_cast<std::size_t>(header_.elements()) * header_.item_bytes();
  if (size != expected) {
    fail_input("{}: {} bytes found, {} expected from its header", place, size, expected);
  }
}

void NpyFile::require_descr(const char* descr) const {
  if (header_.descr != descr) {
    fail_input("{}: element type '{}' found, '{}' expected", path_.string(), header_.descr, descr);
  }
}

void NpyFile::require_shape(std::span<const std::int64_t> shape) const {
  bool equal = header_.shape.size() == shape.size();
  for (std::size_t i = 0; equal && i < shape.size(); ++i) {
    equal = shape[i] < 0 || header_.shape[i] == shape[i];
  }
  if (equal) return;
  const auto print = [](std::span<const std::int64_t> lengths) {
    std::string text;
    for (const std::int64_t n : lengths) {
      text += (text.empty() ? "" : ", ") + (n < 0 ? std::string("any") : std::to_string(n));
    }
    return "(" + text + ")";
  };
  fail_input("{}: shape {} found, {} expected", path_.string(), print(header_.shape), print(shape));
}

NpyWriter::NpyWriter(const std::filesystem::path& path, std::string descr,
                     std::vector<std::int64_t> shape)
    : path_(path), descr_(std::move(descr)), shape_(std::move(shape)) {
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr) fail_input("{}: can't create: {}", path.string(), std::strerror(errno));
  const std::string header = make_npy_header(descr_, shape_);
  if (std::fwrite(header.data(), 1, header.size(), file_) != header.size()) {
    fail_input("{}: can't write: {}", path.string(), std::strerror(errno));
  }
}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

void NpyWriter::write_bytes(std::span<const std::byte> bytes) {
  ATOLL_ASSERT(file_ != nullptr);
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    fail_input("{}: can't write: {}", path_.string(), std::strerror(errno));
  }
  written_ += bytes.size();
}

void NpyWriter::close() {
  NpyHeader header;
  header.descr = descr_;
  header.shape = shape_;
  ATOLL_ASSERT(written_ == static_cast<std::size_t>(header.elements()) * header.item_bytes(),
               "{}: {} bytes written", path_.string(), written_);
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) {
    fail_input("{}: can't write: {}", path_.string(), std::strerror(errno));
  }
}

}  // namespace atl
