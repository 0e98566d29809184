#include "datasets/text_reader.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/byte_order_mark.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace atl {

namespace {

constexpr std::size_t kFirstBuffer = std::size_t{1} << 18U;

// The size of the file; a clear error for folders, pipes and missing files.
std::int64_t readable_bytes(const std::filesystem::path& path) {
  return static_cast<std::int64_t>(MappedFile(path).bytes().size());
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  constexpr std::size_t kLongestCharacter = 4;
  const auto continues = [&](std::size_t at) { return (text[at] & 0xC0) == 0x80; };
  std::size_t end = std::min(text.size(), kShown);
  while (end < text.size() && end > kShown - kLongestCharacter && continues(end)) --end;
  return fmt::format("'{}{}'", printable(text.substr(0, end)), end < text.size() ? "..." : "");
}

bool is_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#' || line[first] == '%';
}

LineReader::LineReader(const std::filesystem::path& path)
    : file_(path.string()), activity_("reading " + path.filename().string(), readable_bytes(path)) {
  handle_ = gzopen(path.c_str(), "rb");
  if (handle_ == nullptr) fail_input("{}: can't open: {}", file_, std::strerror(errno));
  gzbuffer(handle_, 1U << 17U);
  if (path.extension() == ".gz" && gzdirect(handle_) != 0) {
    gzclose(handle_);
    fail_input("{}: not gzip data, although its name ends in .gz", file_);
  }
  buffer_.resize(kFirstBuffer);
}

LineReader::~LineReader() { gzclose(handle_); }

bool LineReader::refill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (end_ > kLongestLine) {
      fail_input(
          "{}: line {} goes on after {} bytes; allowed are {} in a line: is this a text file?",
          file_, line_number_ + 1, end_, kLongestLine);
    }
    buffer_.resize(std::min(2 * buffer_.size(), kLongestLine + 1));
  }
  const int got =
      gzread(handle_, buffer_.data() + end_, static_cast<unsigned>(buffer_.size() - end_));
  int code = Z_OK;
  const char* message = gzerror(handle_, &code);
  if (got < 0 || code == Z_BUF_ERROR) {
    fail_input("{}: damaged or truncated gzip data after line {}: {}", file_, line_number_,
               message);
  }
  activity_.advance_to(gzoffset(handle_));
  at_end_ = got == 0;
  end_ += static_cast<std::size_t>(got);
  return got > 0;
}

void LineReader::skip_byte_order_mark() {
  refill();
  begin_ = byte_order_mark({buffer_.data(), end_}, file_);
}

bool LineReader::next(std::string_view& line) {
  if (line_number_ == 0) skip_byte_order_mark();
  std::size_t searched = 0;
  while (true) {
    const char* start = buffer_.data() + begin_;
    const std::size_t held = end_ - begin_;
    const void* found = std::memchr(start + searched, '\n', held - searched);
    if (found != nullptr) {
      line = {start, static_cast<std::size_t>(static_cast<const char*>(found) - start)};
      begin_ += line.size() + 1;
      break;
    }
    searched = held;
    if (refill()) continue;
    if (held == 0) return false;
    line = {buffer_.data() + begin_, held};
    begin_ = end_;
    break;
  }
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  ++line_number_;
  return true;
}

void FieldReader::skip_blanks() {
  while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
}

std::string_view FieldReader::peek() const {
  if (rest_.starts_with('"')) {
    std::size_t end = rest_.find('"', 1);
    while (end != std::string_view::npos && rest_.substr(end + 1).starts_with('"')) {
      end = rest_.find('"', end + 2);
    }
    return rest_.substr(0, end == std::string_view::npos ? end : end + 1);
  }
  if (separator_ == Separator::kBlankOrComma) return rest_.substr(0, rest_.find_first_of(" \t,"));
  std::string_view field = rest_.substr(0, rest_.find(static_cast<char>(separator_)));
  while (!field.empty() && is_blank(field.back())) field.remove_suffix(1);
  return field;
}

void FieldReader::advance(std::size_t length) {
  rest_.remove_prefix(length);
  skip_blanks();
  after_separator_ = !rest_.empty() && is_separator(rest_.front());
  if (after_separator_) {
    rest_.remove_prefix(1);
    skip_blanks();
  } else if (separator_ != Separator::kBlankOrComma && !rest_.empty()) {
    fail_here(fmt::format("{} expected, {} found",
                          separator_ == Separator::kTab     ? "a tab"
                          : separator_ == Separator::kComma ? "a comma"
                                                            : "a semicolon",
                          in_quotes(peek())));
  }
}

void FieldReader::fail_here(const std::string& message) const {
  fail_input("{}: line {}, column {}: {}", reader_.file(), reader_.line_number(),
             rest_.data() - begin_ + 1, message);
}

void FieldReader::skip() {
  if (done()) fail_here("another column expected, the end of the line found");
  advance(peek().size());
}

std::vector<std::string> FieldReader::all() const {
  FieldReader rest = *this;
  std::vector<std::string> fields;
  while (!rest.done()) {
    fields.emplace_back(rest.peek().starts_with('{') ? rest.take_rest() : rest.text("a field"));
  }
  return fields;
}

std::string_view FieldReader::text(const char* what) {
  if (done()) fail_here(fmt::format("{} expected, the end of the line found", what));
  const std::string_view field = peek();
  if (!field.starts_with('"')) {
    advance(field.size());
    return field;
  }
  if (field.size() < 2 || !field.ends_with('"')) {
    fail_here(fmt::format("the quotes of {} don't end in this line", in_quotes(field)));
  }
  std::string_view inside = field.substr(1, field.size() - 2);
  if (inside.find('"') != std::string_view::npos) {
    unquoted_.clear();
    for (std::size_t i = 0; i < inside.size(); ++i) {
      unquoted_ += inside[i];
      if (inside[i] == '"') ++i;  // past the second of two
    }
    inside = unquoted_;
  }
  advance(field.size());
  return inside;
}

std::string_view FieldReader::take_rest() {
  const std::string_view rest = rest_;
  rest_ = {};
  after_separator_ = false;
  return rest;
}

void FieldReader::expect_end() const {
  if (!done()) fail_here(fmt::format("end of line expected, {} found", in_quotes(peek())));
}

bool FieldReader::take_integer(std::int64_t minimum, std::int64_t maximum, std::int64_t& value) {
  const char* const first = rest_.data();
  const auto [stop, error] = std::from_chars(first, first + rest_.size(), value);
  if (error == std::errc() && ends_field(stop)) {
    if (value < minimum || value > maximum) return false;
    advance(static_cast<std::size_t>(stop - first));
    return true;
  }
  const std::string_view field = peek();
  std::string_view inside = field;
  if (inside.size() > 1 && inside.starts_with('"') && inside.ends_with('"')) {
    inside = inside.substr(1, inside.size() - 2);
  }
  const char* const last = inside.data() + inside.size();
  const auto [end, failed] = std::from_chars(inside.data(), last, value);
  if (failed != std::errc() || end != last) {
    const std::optional<std::int64_t> whole = whole_number(inside);
    if (!whole) return false;
    value = *whole;
  }
  if (value < minimum || value > maximum) return false;
  advance(field.size());
  return true;
}

std::int64_t FieldReader::integer(std::int64_t minimum, std::int64_t maximum, const char* what) {
  std::int64_t value = 0;
  if (take_integer(minimum, maximum, value)) return value;
  const std::string_view field = peek();
  const std::size_t sign = field.starts_with('-') ? 1 : 0;
  if (whole_number(field) ||
      (field.size() > sign && field.find_first_not_of("0123456789", sign) == field.npos)) {
    fail_here(fmt::format("{} {} is out of range; allowed are {} to {}", what, in_quotes(field),
                          minimum, maximum));
  }
  fail_here(fmt::format("{} expected (an integer), {} found", what, in_quotes(field)));
}

double FieldReader::any_number(const char* what) {
  const char* const first = rest_.data();
  double value = 0;
  const auto [stop, error] = std::from_chars(first, first + rest_.size(), value);
  if (error == std::errc() && ends_field(stop)) {
    advance(static_cast<std::size_t>(stop - first));
    return value;
  }
  const std::string_view field = peek();
  std::string plain(field);
  if (plain.size() > 1 && plain.starts_with('"') && plain.ends_with('"')) {
    plain = plain.substr(1, plain.size() - 2);
  }
  const bool comma = separator_ == Separator::kTab || separator_ == Separator::kSemicolon;
  if (comma && std::ranges::count(plain, ',') == 1) std::ranges::replace(plain, ',', '.');
  const char* const last = plain.data() + plain.size();
  const auto [end, failed] = std::from_chars(plain.data(), last, value);
  if (failed == std::errc::invalid_argument || end != last) {
    fail_here(fmt::format("{} expected (a number), {} found", what, in_quotes(field)));
  }
  // Out of range of double: too small is 0, too large is refused as infinite by number().
  if (failed != std::errc()) value = std::strtod(plain.c_str(), nullptr);
  advance(field.size());
  return value;
}

float FieldReader::number(const char* what) {
  const FieldReader before = *this;
  const auto value = static_cast<float>(any_number(what));
  if (!std::isfinite(value)) {
    before.fail_here(
        fmt::format("{} is {}; allowed are {}", what, in_quotes(before.peek()), kFiniteFloats));
  }
  return value;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::size_t exponent = text.find("e+");
  if (point == std::string_view::npos && exponent == std::string_view::npos) return {};
  constexpr double kExact = 0x1p53;
  double value = 0;
  const char* const last = text.data() + text.size();
  // 9007199254740993.0 is no double.
  std::int64_t digits = 0;
  const auto [end, wrong] = std::from_chars(text.data(), last, digits);
  if (wrong == std::errc() && exponent == text.npos && end == text.data() + point &&
      text.find_first_not_of('0', point + 1) == text.npos) {
    return digits;
  }
  const auto [stop, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || stop != last || std::abs(value) > kExact) return {};
  if (value != std::trunc(value)) return {};
  return static_cast<std::int64_t>(value);
}

bool looks_like_number(std::string_view text) {
  const std::size_t digit = text.find_first_of("0123456789");
  return digit <= 2 && text.find_first_not_of("+-.") == digit;
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

Separator likely_separator(std::span<const std::string> lines) {
  for (const Separator separator : {Separator::kSemicolon, Separator::kTab, Separator::kComma}) {
    const auto parts = [&](const std::string& line) {
      std::int64_t count = 1;
      bool quoted = false;
      for (const char c : line) {
        if (c == '{') break;
        if (c == '"') quoted = !quoted;
        if (!quoted && c == static_cast<char>(separator)) ++count;
      }
      return count;
    };
    const std::int64_t first = lines.empty() ? 1 : parts(lines.front());
    if (first < 2) continue;
    if (std::ranges::all_of(lines, [&](const auto& line) { return parts(line) == first; })) {
      return separator;
    }
  }
  return Separator::kBlankOrComma;
}

}  // namespace atl
