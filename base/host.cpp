#include "base/host.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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
