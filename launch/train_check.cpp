#include "launch/train_check.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "launch/config_file.hpp"

namespace atl {

CheckedTraining::CheckedTraining(const std::vector<std::string>& words, const std::string& place)
    : program_(std::make_unique<CLI::App>()) {
  program_->option_defaults()->always_capture_default();
  flags_ = &add_train_check(*program_);
  add_config_option(*program_);
  command_ = program_->get_subcommand("train");
  add_manner(*command_, manner_);
  program_->parse_complete_callback([this] { complete_options(*program_); });
  std::vector<std::string> last_first = words;
  complete_bare_flags(last_first);
  std::ranges::reverse(last_first);
  try {
    program_->parse(std::move(last_first));
  } catch (const CLI::Success&) {
    fail_option("{}: --help is no option of a training; ask 'atoll train --help' instead", place);
  } catch (const CLI::ParseError& error) {
    fail_option("{}: {}", place, describe(error, *program_));
  } catch (const Error& error) {
    fail(ErrorKind::kOption, "{}: {}", place, error.what());
  }
}

bool CheckedTraining::is_given(const std::string& option) const {
  return !command_->get_option(option)->empty();
}

std::string CheckedTraining::value(const std::string& option) const {
  return command_->get_option(option)->as<std::string>();
}

}  // namespace atl
