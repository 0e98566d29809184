// The line on standard error that says how work goes on: on a terminal one line that renews itself,
// in a pipe plain lines.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace atl {

// Safe from several threads. What else is written to the same place (log lines) holds `interlude`
// meanwhile, so that the line is never in its way.
class StatusLine {
 public:
  StatusLine(std::FILE* stream, bool terminal) : stream_(stream), terminal_(terminal) {}
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  // The one of this process.
  static StatusLine& standard_error();

  bool terminal() const { return terminal_; }
  // Characters that the line has room for; in a pipe any number.
  std::size_t room() const;
  // Renews the line, cut to the width of the terminal; in a pipe adds one.
  void show(std::string_view text);
  // From now on nothing is shown.
  void silence();
  // Takes the line away.
  void clear();
  // Leaves the line where it is and goes to the next.
  void keep();
  // Takes the line away and holds it off for the life of the result.
  [[nodiscard]] std::unique_lock<std::mutex> interlude();

 private:
  void wipe();

  std::mutex mutex_;
  std::FILE* stream_;
  bool terminal_;
  bool silent_ = false;
  bool open_ = false;  // the cursor stands behind the line
};

}  // namespace atl
