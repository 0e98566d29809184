#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "kernels/cuda_libraries.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "ATOLL_CUDA_LIBRARIES";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The parts of a variable such as PATH.
std::vector<std::string> folders_in(const char* name) {
  std::vector<std::string> folders;
  std::istringstream text(variable(name));
  for (std::string folder; std::getline(text, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

// The entries of a folder, in the order of names; nothing if it can't be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

// Folders of Python's packages, in the order in which they are searched.
class PackageFolders {
 public:
  PackageFolders() {
    add_around_program();
    for (const std::string& folder : folders_in("PYTHONPATH")) add(folder);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) add_below(variable(name));
    add_of_interpreter();
    const std::string home = variable("HOME");
    if (!home.empty()) add_below(fs::path(home) / ".local");
  }

  const std::vector<fs::path>& found() const { return found_; }

 private:
  // Only where NVIDIA's packages are.
  void add(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder / "nvidia", error)) return;
    const fs::path plain = fs::weakly_canonical(folder, error);
    if (std::ranges::count(found_, plain) == 0) found_.push_back(plain);
  }

  // prefix: what `sys.prefix` would say.
  void add_below(const fs::path& prefix) {
    if (prefix.empty()) return;
    for (const char* library : {"lib", "lib64"}) {
      for (const fs::path& python : entries_of(prefix / library)) {
        if (!python.filename().string().starts_with("python3")) continue;
        for (const char* packages : {"site-packages", "dist-packages"}) add(python / packages);
      }
    }
  }

  // The file with this code is atoll/bin/atoll or atoll/_engine.*.so among the packages.
  void add_around_program() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&load_cuda_library), &info) == 0) return;
    std::error_code error;
    // A program's own name is what it was called by.
    fs::path folder = fs::weakly_canonical(
        info.dli_fname != nullptr && fs::path(info.dli_fname).is_absolute() ? info.dli_fname
                                                                            : "/proc/self/exe",
        error);
    constexpr int kLevels = 3;
    for (int level = 0; level < kLevels; ++level) add(folder = folder.parent_path());
  }

  // A virtual environment has its packages beside the link that is its python3; other installations
  // beside the program.
  void add_of_interpreter() {
    for (const std::string& folder : folders_in("PATH")) {
      const fs::path program = fs::path(folder) / "python3";
      std::error_code error;
      if (!fs::exists(program, error)) continue;
      add_below(program.parent_path().parent_path());
      add_below(fs::weakly_canonical(program, error).parent_path().parent_path());
      return;
    }
  }

  std::vector<fs::path> found_;
};

// "" if the library has every function, else what is wrong with it.
std::string lack_of(void* library, std::span<const char* const> functions) {
  for (const char* name : functions) {
    if (::dlsym(library, name) == nullptr) {
      return fmt::format("has no function {}: it is of another version", name);
    }
  }
  return "";
}

// Tries one file after the other and remembers why none served.
class Search {
 public:
  Search(const CudaLibrary& library, std::span<const char* const> functions)
      : library_(library), functions_(functions) {}

  void* run() {
    const std::string folder = variable(kVariable);
    if (!folder.empty()) return try_file((fs::path(folder) / library_.file).string());
    if (void* found = try_file(library_.file)) return found;
    std::error_code error;
    if (fs::exists(library_.of_build, error)) {
      if (void* found = try_file(library_.of_build)) return found;
    }
    const PackageFolders folders;
    for (const fs::path& packages : folders.found()) {
      for (const fs::path& package : entries_of(packages / "nvidia")) {
        const fs::path file = package / "lib" / library_.file;
        if (!fs::exists(file, error)) continue;
        if (void* found = try_file(file.string())) return found;
      }
    }
    return nullptr;
  }

  std::string why() const {
    return fmt::format(
        "{} does not load ({}); install it with pip install '{}', or with the CUDA toolkit, or "
        "name "
        "the folder that holds it in {}",
        library_.file, fmt::join(reasons_, "; "), library_.package, kVariable);
  }

 private:
  void* try_file(const std::string& path) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* reason = ::dlerror();
      reasons_.emplace_back(reason == nullptr ? path + ": no reason given" : reason);
      return nullptr;
    }
    std::string lack = lack_of(library, functions_);
    if (lack.empty() && library_.lack) lack = library_.lack(library);
    if (lack.empty()) return library;
    reasons_.push_back(fmt::format("{} {}", path, lack));
    ::dlclose(library);
    return nullptr;
  }

  const CudaLibrary& library_;
  std::span<const char* const> functions_;
  std::vector<std::string> reasons_;
};

}  // namespace

void* load_cuda_library(const CudaLibrary& library, std::span<const char* const> functions,
                        std::string& why) {
  Search search(library, functions);
  void* found = search.run();
  if (found == nullptr) why = search.why();
  return found;
}

}  // namespace atl
