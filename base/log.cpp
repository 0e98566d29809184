#include "base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/progress.hpp"
#include "base/status_line.hpp"
#include "base/text.hpp"

namespace atl::log {

namespace {

// The message with what a terminal would obey escaped: names in it come from files.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableMessage>();
  }
};

// Standard error, shared with the line that says how work goes on.
class StandardErrorSink : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const auto lock = StatusLine::standard_error().interlude();
    spdlog::sinks::stderr_color_sink_mt::log(message);
  }
};

class ReceiverSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ReceiverSink(Receiver receiver) : receiver_(std::move(receiver)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    receiver_(message.level, printable({message.payload.data(), message.payload.size()}));
  }
  void flush_() override {}

  Receiver receiver_;
};

}  // namespace

void configure(int rank, int size, bool verbose) {
  auto logger = spdlog::get("atoll");
  if (!logger) {
    auto sink = std::make_shared<StandardErrorSink>();
    // See no-color.org: any value but an empty one.
    const char* const no_color = std::getenv("NO_COLOR");
    if (no_color != nullptr && *no_color != '\0') sink->set_color_mode(spdlog::color_mode::never);
    logger = std::make_shared<spdlog::logger>("atoll", std::move(sink));
    spdlog::set_default_logger(logger);
  }
  const std::string prefix = size > 1 ? "rank " + std::to_string(rank) + ": " : "";
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('Z').set_pattern("[%H:%M:%S] %^%l%$ " + prefix + "%Z");
  logger->set_formatter(std::move(formatter));
  logger->set_level(verbose     ? spdlog::level::debug
                    : rank == 0 ? spdlog::level::info
                                : spdlog::level::warn);
  Activity::show_all(rank == 0);
}

void silence() {
  spdlog::get("atoll")->set_level(spdlog::level::warn);
  Activity::show_all(false);
  StatusLine::standard_error().silence();
}

void send_to(Receiver receiver) {
  configure(0, 1, false);
  Activity::show_all(false);
  StatusLine::standard_error().silence();
  spdlog::get("atoll")->sinks() = {std::make_shared<ReceiverSink>(std::move(receiver))};
}

}  // namespace atl::log
