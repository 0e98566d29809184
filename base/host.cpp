#include "base/host.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/text.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return ::access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file, ignored);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string host_key() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return host_name() + ' ' + boot;
}

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::vector<std::string> process_stat(long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  return words_of(std::string_view(text).substr(name_end + 1));
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable == nullptr ? "" : variable);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const fs::path file = fs::path(folder) / name;
    if (is_program(file)) return file.string();
  }
  return {};
}

std::string this_program() { return fs::read_symlink("/proc/self/exe").string(); }

}  // namespace atl
