// Streams the lines of a plain or gzip text file and parses their fields, with errors that name
// file, line, column and the value found.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"

namespace atl {

// The text in quotes, cut to a readable length and printable().
std::string in_quotes(std::string_view text);

// True of lines that lists pass over: empty ones, and those that start with # or %.
bool is_comment(std::string_view line);

// Reads line by line with a bounded buffer, and shows how far it is. gzip is recognised by its
// content; a file called *.gz must be gzip. A UTF-8 byte order mark is skipped. Throws
// Error{kInput} on truncated or damaged gzip data, on UTF-16 and UTF-32, and on lines of more than
// kLongestLine bytes.
class LineReader {
 public:
  // A line of a METIS file with some seven million neighbours.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 26U;

  explicit LineReader(const std::filesystem::path& path);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader();

  // The next line without its line end; valid until the next call. False at the end of the file.
  bool next(std::string_view& line);
  std::int64_t line_number() const { return line_number_; }  // of the last line, 1-based
  const std::string& file() const { return file_; }

 private:
  bool refill();
  void skip_byte_order_mark();

  std::string file_;
  Activity activity_;
  gzFile handle_ = nullptr;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread part of the buffer
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::int64_t line_number_ = 0;
};

// Separator of the fields of a line: blanks or one comma (with blanks around it), unless it is a
// character that the whole file keeps to, so that fields may hold blanks or be empty.
enum class Separator : char { kBlankOrComma = 0, kComma = ',', kTab = '\t', kSemicolon = ';' };

// The fields of one line. A field may stand in double quotes, with two for one in it. Where fields
// are separated by tabs or semicolons, numbers may have a comma for the decimal point.
class FieldReader {
 public:
  FieldReader(std::string_view line, const LineReader& reader,
              Separator separator = Separator::kBlankOrComma)
      : rest_(line), begin_(line.data()), separator_(separator), reader_(reader) {
    skip_blanks();
  }

  bool done() const { return rest_.empty() && !after_separator_; }
  // The next field as an integer in [minimum, maximum]; `what` names it in errors. Whole numbers
  // are integers however they are written (3.0, 1e+05).
  std::int64_t integer(std::int64_t minimum, std::int64_t maximum, const char* what);
  // The same, but false, and the field is still the next one, if it is no such integer.
  bool take_integer(std::int64_t minimum, std::int64_t maximum, std::int64_t& value);
  // The next field as a finite number.
  float number(const char* what);
  // The next field as any number, NaN and infinities included.
  double any_number(const char* what);
  // The next field without its quotes; valid until the next call. Throws Error{kInput} if there is
  // none, or if its quotes don't end.
  std::string_view text(const char* what);
  // Everything that is left of the line.
  std::string_view take_rest();
  // Past the next field, whatever it is. Throws Error{kInput} if there is none.
  void skip();
  // All fields that are left, without their quotes. What begins with { goes on to the end.
  std::vector<std::string> all() const;
  // The next field as it stands there.
  std::string_view peek() const;
  // Throws Error{kInput} unless the line is used up.
  void expect_end() const;
  // Throws Error{kInput} with file, line and the column of the next field.
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  bool is_separator(char c) const {
    return c == (separator_ == Separator::kBlankOrComma ? ',' : static_cast<char>(separator_));
  }
  bool is_blank(char c) const { return c == ' ' || (c == '\t' && separator_ != Separator::kTab); }
  bool ends_field(const char* at) const {
    return at == rest_.data() + rest_.size() || is_blank(*at) || is_separator(*at);
  }
  void skip_blanks();
  void advance(std::size_t length);

  std::string_view rest_;
  const char* begin_;
  Separator separator_;
  bool after_separator_ = false;
  std::string unquoted_;  // of a field with quotes in it
  const LineReader& reader_;
};

// A whole number in a notation that has a point or, as R writes it, an exponent with its
// sign: 12.0, 1e+05. With an exponent, or digits behind the point that are not 0, at most 2^53.
std::optional<std::int64_t> whole_number(std::string_view text);

// A number begins with a digit, or a digit behind a sign or a point.
bool looks_like_number(std::string_view text);

std::string in_small_letters(std::string_view text);  // of ASCII

// The likeliest separator of the fields of a file that has these lines.
Separator likely_separator(std::span<const std::string> lines);

}  // namespace atl
