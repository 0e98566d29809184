#include "engine/training/progress.hpp"

#include <cmath>

#include "base/status_line.hpp"

namespace atl {

Progress::Progress(int first_epoch, int epochs, std::string metric, bool enabled)
    : first_epoch_(first_epoch), epochs_(epochs), metric_(std::move(metric)), enabled_(enabled) {
  if (enabled) first_.emplace(fmt::format("epoch {}", first_epoch));
}

Progress::~Progress() {
  if (enabled_) StatusLine::standard_error().keep();
}

void Progress::report(const EpochResult& result, const Metrics* metrics) {
  if (!enabled_) return;
  first_.reset();
  if (metrics != nullptr) {
    last_metrics_ = fmt::format("  {} {}", metric_, to_text(*metrics));
    last_valid_ = std::isnan(metrics->valid) ? fmt::format("  train {:.4f}", metrics->train)
                                             : fmt::format("  valid {:.4f}", metrics->valid);
  }
  StatusLine& line = StatusLine::standard_error();
  const Clock::time_point now = Clock::now();
  const bool last_epoch = result.epoch == epochs_;
  // A terminal gets ten updates a second; a pipe one line every two seconds, first and last epoch.
  const double pause = std::chrono::duration<double>(now - last_).count();
  if (!last_epoch && result.epoch != first_epoch_ && pause < (line.terminal() ? 0.1 : 2.0)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = (result.epoch - first_epoch_ + 1) / seconds;
  const std::string begin =
      fmt::format("epoch {}/{}  loss {:.4g}", result.epoch, epochs_, result.loss);
  const std::string end = fmt::format("  {} left", format_elapsed((epochs_ - result.epoch) / rate));
  // Where there is little room, what can be done without goes first.
  for (const std::string& middle : {last_metrics_ + fmt::format("  {:.2f} epochs/s", rate),
                                    last_metrics_, last_valid_, std::string()}) {
    const std::string text = begin + middle + end;
    if (text.size() > line.room() && !middle.empty()) continue;
    line.show(text);
    return;
  }
}

}  // namespace atl
