// The MPI library that is found on the machine where the program runs (ATOLL_MPI=runtime). Two
// plug-ins, which lie beside the program, are mpi_calls.cpp compiled against the headers of the two
// binary interfaces that are in use. The library is loaded first, the plug-in then finds its
// functions there.
#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "engine/comm/mpi/mpi_facts.hpp"
#include "engine/comm/mpi/mpi_search.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

struct LoadedMpi {
  const MpiCalls* calls = nullptr;
  std::string file;
};

std::string last_dl_error() {
  const char* const text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

// The file from which `address` was loaded; empty if that is unknown.
fs::path file_of(const void* address) {
  Dl_info info{};
  void* entry = nullptr;
  if (::dladdr1(address, &info, &entry, RTLD_DL_LINKMAP) == 0 || info.dli_fname == nullptr)
    return {};
  // The name of the program itself is what it was started as, which need not be a path.
  const bool is_program = static_cast<const link_map*>(entry)->l_name[0] == '\0';
  const fs::path name = is_program ? fs::path("/proc/self/exe") : fs::path(info.dli_fname);
  std::error_code failed;
  const fs::path file = fs::canonical(name, failed);
  return failed ? name : file;
}

fs::path find_plug_in(MpiKind kind) {
  const std::string name = kind == MpiKind::kOpenMpi ? "libatoll_openmpi.so" : "libatoll_mpich.so";
  // The folder of the program, or of the module that has these functions.
  const fs::path folder = file_of(reinterpret_cast<const void*>(&find_mpi)).parent_path();
  for (const fs::path& candidate : {folder / name, folder / "bin" / name}) {
    std::error_code ignored;
    if (fs::exists(candidate, ignored)) return candidate;
  }
  return folder / name;  // dlopen() says that it is missing
}

class MpiLoader {
 public:
  explicit MpiLoader(MpiSearch search) : search_(std::move(search)) {}

  LoadedMpi load() {
    if (!search_.file.empty()) {
      if (const auto found = try_library(search_.file, std::nullopt)) return *found;
      fail_option("ATOLL_MPI={}: {}", search_.file, fmt::join(tried_, "; "));
    }
    const char* const path = std::getenv("PATH");
    const std::vector<std::string> folders = mpi_library_folders(path == nullptr ? "" : path);
    for (const MpiKind kind : search_.kinds) {
      for (const std::string& name : mpi_library_names(kind)) {
        // The launcher's own library comes before another one of the system's, unless the user says
        // where to look.
        const bool told = std::getenv("LD_LIBRARY_PATH") != nullptr;
        if (const auto found = told ? try_library(name, kind) : std::nullopt) return *found;
        for (const std::string& folder : folders) {
          const std::string file = folder + "/" + name;
          if (::access(file.c_str(), F_OK) != 0) continue;
          if (const auto found = try_library(file, kind)) return *found;
        }
        if (const auto found = told ? std::nullopt : try_library(name, kind)) return *found;
      }
    }
    fail_option("{}", describe_failure(folders));
  }

 private:
  // kind: the one that it must be of; otherwise of any.
  std::optional<LoadedMpi> try_library(const std::string& file, std::optional<MpiKind> kind) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return refuse(last_dl_error());
    const void* const init = ::dlsym(library, "MPI_Init_thread");
    if (init == nullptr) return refuse(file + " is no library of MPI");
    const MpiKind found =
        ::dlsym(library, "ompi_mpi_comm_world") != nullptr ? MpiKind::kOpenMpi : MpiKind::kMpich;
    if (kind && *kind != found) {
      return refuse(fmt::format("{} is of {}", file, mpi_kind_name(found)));
    }
    const fs::path plug_in = find_plug_in(found);
    if (::access(plug_in.c_str(), R_OK) != 0) {
      return refuse(fmt::format("{}: the plug-in {} is not there", file, plug_in.string()));
    }
    // Components of Open MPI, and the plug-in, look for its functions among those of the program.
    // They stay there, so only what will be used may come there.
    if (::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return refuse(last_dl_error());
    void* const layer = ::dlopen(plug_in.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (layer == nullptr) return refuse(last_dl_error());
    const auto calls =
        reinterpret_cast<decltype(&atoll_mpi_calls)>(::dlsym(layer, "atoll_mpi_calls"));
    if (calls == nullptr) return refuse(last_dl_error());
    if (calls()->is_open_mpi != (found == MpiKind::kOpenMpi)) {
      return refuse(fmt::format("{} was compiled for another library than {}", plug_in.string(),
                                mpi_kind_name(found)));
    }
    return LoadedMpi{calls(), file_of(init).string()};
  }

  std::optional<LoadedMpi> refuse(std::string reason) {
    tried_.push_back(std::move(reason));
    return std::nullopt;
  }

  std::string describe_failure(const std::vector<std::string>& folders) const {
    std::vector<std::string> names;
    for (const MpiKind kind : search_.kinds) {
      names.push_back(
          fmt::format("{} ({})", fmt::join(mpi_library_names(kind), ", "), mpi_kind_name(kind)));
    }
    return fmt::format(
        "no library of MPI was found, and this program brings none: {}looked for {} where the "
        "dynamic linker looks{}{} ({}). Install Open MPI or MPICH (openmpi-bin or mpich), add its "
        "folder to LD_LIBRARY_PATH, or name the file by ATOLL_MPI=/path/of/libmpi.so.40. Ranks "
        "that are threads of one process need none: --transport local --ranks P",
        search_.launcher.empty() ? "" : search_.launcher + " started this process; ",
        fmt::join(names, " and "), folders.empty() ? "" : " and in ", fmt::join(folders, ", "),
        fmt::join(tried_, "; "));
  }

  MpiSearch search_;
  std::vector<std::string> tried_;
};

std::atomic<const MpiCalls*> g_calls = nullptr;

const LoadedMpi& loaded_mpi() {
  static const LoadedMpi loaded = MpiLoader(plan_mpi_search(::getenv)).load();
  g_calls = loaded.calls;
  return loaded;
}

}  // namespace

const MpiCalls& mpi_calls() { return *loaded_mpi().calls; }

const MpiCalls* mpi_calls_in_use() noexcept { return g_calls; }

MpiFacts find_mpi() {
  try {
    const LoadedMpi& loaded = loaded_mpi();
    return {.version = short_mpi_version(*loaded.calls), .file = loaded.file};
  } catch (const Error& error) {
    return {.absence = error.what()};
  }
}

}  // namespace atl
