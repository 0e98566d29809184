#include "datasets/text_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/byte_order_mark.hpp"
#include "base/error.hpp"
#include "base/files.hpp"

namespace atl {

namespace {

constexpr std::size_t kFirstBuffer = std::size_t{1} << 18U;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// The size of the file; a clear error for folders, pipes and missing files.
std::int64_t readable_bytes(const std::filesystem::path& path) {
  return static_cast<std::int64_t>(MappedFile(path).bytes().size());
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string result = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return result + (text.size() > kShown ? "...'" : "'");
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

std::string_view FieldReader::peek() const { return rest_.substr(0, rest_.find_first_of(" \t,")); }

void FieldReader::advance(std::size_t length) {
  rest_.remove_prefix(length);
  skip_blanks();
  after_comma_ = !rest_.empty() && rest_.front() == ',';
  if (after_comma_) {
    rest_.remove_prefix(1);
    skip_blanks();
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
    fields.emplace_back(rest.peek());
    rest.advance(rest.peek().size());
  }
  return fields;
}

void FieldReader::expect_end() const {
  if (!done()) fail_here(fmt::format("end of line expected, {} found", in_quotes(peek())));
}

std::int64_t FieldReader::integer(std::int64_t minimum, std::int64_t maximum, const char* what) {
  const char* const first = rest_.data();
  const char* const last = first + rest_.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(first, last, value);
  const bool ends = stop == last || is_blank(*stop) || *stop == ',';
  if (error == std::errc::invalid_argument || !ends) {
    fail_here(fmt::format("{} expected (an integer), {} found", what, in_quotes(peek())));
  }
  if (error != std::errc() || value < minimum || value > maximum) {
    fail_here(fmt::format("{} {} is out of range; allowed are {} to {}", what, in_quotes(peek()),
                          minimum, maximum));
  }
  advance(static_cast<std::size_t>(stop - first));
  return value;
}

double FieldReader::any_number(const char* what) {
  const char* const first = rest_.data();
  const char* const last = first + rest_.size();
  double value = 0;
  const auto [stop, error] = std::from_chars(first, last, value);
  const bool ends = stop == last || is_blank(*stop) || *stop == ',';
  if (error == std::errc::invalid_argument || !ends) {
    fail_here(fmt::format("{} expected (a number), {} found", what, in_quotes(peek())));
  }
  // Out of range of double: too small is 0, too large is refused as infinite by number().
  if (error != std::errc()) value = std::strtod(std::string(peek()).c_str(), nullptr);
  advance(static_cast<std::size_t>(stop - first));
  return value;
}

float FieldReader::number(const char* what) {
  const FieldReader before = *this;
  const auto value = static_cast<float>(any_number(what));
  if (!std::isfinite(value)) {
    before.fail_here(
        fmt::format("{} is {}; allowed are finite numbers", what, in_quotes(before.peek())));
  }
  return value;
}

}  // namespace atl
