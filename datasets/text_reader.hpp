// Streams the lines of a plain or gzip text file and parses their fields, with errors that name
// file, line, column and the value found.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"

namespace atl {

// The text in quotes, cut to a readable length, with every unprintable byte as \xNN.
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

// The fields of one line, separated by blanks or by one comma (with blanks around it).
class FieldReader {
 public:
  FieldReader(std::string_view line, const LineReader& reader)
      : rest_(line), begin_(line.data()), reader_(reader) {
    skip_blanks();
  }

  bool done() const { return rest_.empty() && !after_comma_; }
  // The next field as an integer in [minimum, maximum]; `what` names it in errors.
  std::int64_t integer(std::int64_t minimum, std::int64_t maximum, const char* what);
  // The next field as a finite number.
  float number(const char* what);
  // The next field as any number, NaN and infinities included.
  double any_number(const char* what);
  // Past the next field, whatever it is. Throws Error{kInput} if there is none.
  void skip();
  // All fields that are left.
  std::vector<std::string> all() const;
  // Throws Error{kInput} unless the line is used up.
  void expect_end() const;
  // Throws Error{kInput} with file, line and the column of the next field.
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  void skip_blanks();
  std::string_view peek() const;  // the next field
  void advance(std::size_t length);

  std::string_view rest_;
  const char* begin_;
  bool after_comma_ = false;
  const LineReader& reader_;
};

}  // namespace atl
