#include "launch/machine_report.hpp"

#include <arpa/inet.h>
#include <dnnl.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <metis.h>
#include <netinet/in.h>
#include <omp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/descriptor.hpp"
#include "base/host.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/unique_handle.hpp"
#include "engine/comm/device_transport.hpp"
#include "engine/comm/message_route.hpp"
#include "engine/comm/mpi_library.hpp"
#include "kernels/cuda_devices.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using Findings = std::vector<Finding>;

void add_mpi(Findings& findings) {
  const MpiFacts mpi = find_mpi();
  if (mpi.version.empty()) {
    findings.push_back({"MPI", "library", mpi.text(), FindingLevel::kNote, mpi.absence});
    return;
  }
  findings.push_back({"MPI", "library", mpi.text()});
  std::string launcher = find_program("mpirun");
  if (launcher.empty()) launcher = find_program("srun");
  if (launcher.empty()) {
    findings.push_back({"MPI", "launcher", "none", FindingLevel::kProblem,
                        "neither mpirun nor srun is on PATH; install openmpi-bin, or train in one "
                        "process with --transport local --ranks P"});
  } else {
    findings.push_back({"MPI", "launcher", launcher});
  }
  if (::geteuid() == 0 && std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr &&
      mpi.version.starts_with("Open MPI")) {
    findings.push_back({"MPI", "user", "root", FindingLevel::kNote,
                        "mpirun refuses to run as root unless OMPI_ALLOW_RUN_AS_ROOT=1 and "
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set"});
  }
}

// The value of the first line "`key` : value" of /proc/cpuinfo.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) {
      return colon + 2 < line.size() ? line.substr(colon + 2) : "";
    }
  }
  return "unknown";
}

void add_processor(Findings& findings) {
  findings.push_back({"processor", "model", cpuinfo("model name")});
  std::istringstream flags(cpuinfo("flags"));
  const std::vector<std::string> wanted = {"avx2",    "fma",         "f16c",
                                           "avx512f", "avx512_bf16", "amx_bf16"};
  std::vector<std::string> present;
  for (std::string flag; flags >> flag;) {
    if (std::find(wanted.begin(), wanted.end(), flag) != wanted.end()) present.push_back(flag);
  }
  if (std::find(present.begin(), present.end(), "avx2") == present.end()) {
    findings.push_back({"processor", "SIMD", fmt::format("{}", fmt::join(present, " ")),
                        FindingLevel::kNote,
                        "without AVX2 the cpu backend runs several times slower"});
  } else {
    findings.push_back({"processor", "SIMD", fmt::format("{}", fmt::join(present, " "))});
  }
  const int threads = parallel_threads();
  findings.push_back({"processor", "OpenMP",
                      fmt::format("{} threads of {} processors", threads, omp_get_num_procs())});
}

struct TopologyTraits {
  using Value = hwloc_topology_t;
  static Value null() { return nullptr; }
  static void release(Value topology) noexcept { hwloc_topology_destroy(topology); }
};
using Topology = UniqueHandle<TopologyTraits>;

void add_topology(Findings& findings) {
  hwloc_topology_t loaded = nullptr;
  const bool made = hwloc_topology_init(&loaded) == 0;
  const Topology owner(made ? loaded : TopologyTraits::null());
  hwloc_topology_t topology = owner.get();
  if (!made || hwloc_topology_load(topology) != 0) {
    findings.push_back({"processor", "topology", "unknown", FindingLevel::kNote,
                        "hwloc could not read the topology; ranks can't be bound to sockets"});
    return;
  }
  const auto count = [&](hwloc_obj_type_t type) {
    return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
  };
  findings.push_back({"processor", "topology",
                      fmt::format("{} sockets, {} NUMA nodes, {} cores, {} hardware threads",
                                  count(HWLOC_OBJ_PACKAGE), count(HWLOC_OBJ_NUMANODE),
                                  count(HWLOC_OBJ_CORE), count(HWLOC_OBJ_PU))});
  if (const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L3CACHE, 0)) {
    const auto bytes = static_cast<std::int64_t>(cache->attr->cache.size);
    findings.push_back({"processor", "L3 cache",
                        fmt::format("{} x {}", count(HWLOC_OBJ_L3CACHE), format_bytes(bytes))});
  }
}

void add_libraries(Findings& findings) {
  const dnnl_version_t& dnnl = *dnnl_version();
  findings.push_back(
      {"libraries", "oneDNN", fmt::format("{}.{}.{}", dnnl.major, dnnl.minor, dnnl.patch)});
  findings.push_back({"libraries", "METIS",
                      fmt::format("{}.{}.{}, {}-bit indices", METIS_VER_MAJOR, METIS_VER_MINOR,
                                  METIS_VER_SUBMINOR, IDXTYPEWIDTH)});
}

void add_memory(Findings& findings) {
  const std::int64_t total = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  findings.push_back({"memory", "total", format_bytes(total)});
  findings.push_back(
      {"memory", "available to this process", format_bytes(available_memory_bytes())});
  std::error_code error;
  const fs::space_info shared = fs::space("/dev/shm", error);
  // OpenMPI keeps a few MiB per rank there for ranks of one host.
  constexpr std::uintmax_t kEnough = std::uintmax_t{256} << 20U;
  if (!error) {
    Finding finding{"memory", "/dev/shm free",
                    format_bytes(static_cast<std::int64_t>(shared.available))};
    if (shared.available < kEnough) {
      finding.level = FindingLevel::kNote;
      finding.advice =
          "ranks on one host exchange through it; make it larger (docker run --shm-size 1g)";
    }
    findings.push_back(finding);
  }
}

std::string describe_peers(const std::vector<CudaDeviceInfo>& devices) {
  std::vector<std::string> apart;
  for (const CudaDeviceInfo& device : devices) {
    for (const CudaDeviceInfo& other : devices) {
      if (other.index > device.index && std::ranges::count(device.peers, other.index) == 0) {
        apart.push_back(fmt::format("{}-{}", device.index, other.index));
      }
    }
  }
  if (apart.empty()) return "every device reaches every other's memory";
  return fmt::format("not between devices {}: what they exchange passes the host's memory",
                     fmt::join(apart, ", "));
}

// How messages of one rank per device would travel; of two ranks where there is one device or none.
std::string describe_messages(const std::vector<CudaDeviceInfo>& devices) {
  std::vector<RankDevice> ranks;
  for (const CudaDeviceInfo& device : devices) ranks.push_back(rank_device("cuda", device.pci_id));
  if (ranks.empty()) ranks.push_back(rank_device("cpu", "host"));
  if (ranks.size() == 1) ranks.push_back(ranks.front());
  return describe_route(ranks, nccl_obstacle(ranks), "mpi");
}

constexpr const char* kWithoutDevice = "--backend auto uses the cpu backend";

void add_devices(Findings& findings) {
  const CudaInstallation cuda = examine_cuda();
  if (cuda.devices.empty()) {
    findings.push_back(
        {"devices", "CUDA", "none: " + cuda.why, FindingLevel::kNote, kWithoutDevice});
  } else {
    findings.push_back(
        {"devices", "CUDA",
         fmt::format("{} device{}, runtime {}, driver for up to {}", cuda.devices.size(),
                     cuda.devices.size() == 1 ? "" : "s", cuda.runtime, cuda.driver)});
  }
  if (!cuda.library_obstacle.empty()) {
    Finding finding{"devices", "CUDA libraries", "none: " + cuda.library_obstacle};
    if (!cuda.devices.empty()) {
      finding.level = FindingLevel::kNote;
      finding.advice = kWithoutDevice;
    }
    findings.push_back(finding);
  } else if (!cuda.libraries.empty()) {
    findings.push_back(
        {"devices", "CUDA libraries", fmt::format("{}", fmt::join(cuda.libraries, ", "))});
  }
  for (const CudaDeviceInfo& device : cuda.devices) {
    Finding finding{"devices", fmt::format("CUDA device {}", device.index),
                    fmt::format("{}, sm_{}, {}, {}", device.name, device.capability,
                                format_bytes(device.memory_bytes), device.pci_id)};
    if (!device.obstacle.empty()) {
      finding.value += "; unusable: " + device.obstacle;
      finding.level = FindingLevel::kNote;
      finding.advice = kWithoutDevice;
    }
    findings.push_back(finding);
  }
  if (cuda.devices.size() > 1) {
    findings.push_back({"devices", "peer access", describe_peers(cuda.devices)});
  }
  const std::string nccl = nccl_version();
  Finding library{"devices", "NCCL", nccl.empty() ? "none: " + nccl_absence() : nccl};
  if (nccl.empty() && cuda.devices.size() > 1) {
    library.level = FindingLevel::kNote;
    library.advice =
        "build where nccl.h and libnccl are found, and run where libnccl.so.2 is; devices then "
        "exchange directly";
  }
  findings.push_back(library);
  findings.push_back({"devices", "two or more ranks", describe_messages(cuda.devices)});
}

void add_disk(Findings& findings) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::space_info space = fs::space(here, error);
  if (error) {
    findings.push_back(
        {"disk", "current folder", error.message(), FindingLevel::kNote, "free space is unknown"});
    return;
  }
  findings.push_back({"disk", "free in the current folder",
                      format_bytes(static_cast<std::int64_t>(space.available))});
  if (::access(here.c_str(), W_OK) != 0) {
    findings.push_back({"disk", "current folder", "not writable", FindingLevel::kNote,
                        "give --out and --run-dir folders that can be written"});
  }
}

// Connects to itself over 127.0.0.1 and sends one byte; "" if that worked, else what failed.
std::string try_loopback() {
  const auto failed = [](const char* what) {
    return fmt::format("{}: {}", what, std::strerror(errno));
  };
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const Descriptor server(::socket(AF_INET, SOCK_STREAM, 0));
  const Descriptor client(::socket(AF_INET, SOCK_STREAM, 0));
  if (!server || !client) return failed("socket");
  if (::bind(server.get(), generic, length) != 0) return failed("bind");
  if (::listen(server.get(), 1) != 0) return failed("listen");
  if (::getsockname(server.get(), generic, &length) != 0) return failed("getsockname");
  if (::connect(client.get(), generic, length) != 0) return failed("connect");
  const Descriptor peer(::accept(server.get(), nullptr, nullptr));
  if (!peer) return failed("accept");
  char byte = 'a';
  if (::send(client.get(), &byte, 1, 0) != 1) return failed("send");
  if (::recv(peer.get(), &byte, 1, 0) != 1) return failed("receive");
  return {};
}

void add_network(Findings& findings) {
  findings.push_back({"network", "host name", host_name()});
  const std::string trouble = try_loopback();
  if (trouble.empty()) {
    findings.push_back({"network", "loopback TCP", "works"});
  } else {
    findings.push_back({"network", "loopback TCP", trouble, FindingLevel::kProblem,
                        "mpirun talks to its ranks over TCP; bring the loopback interface up (ip "
                        "link set lo up)"});
  }
}

}  // namespace

std::vector<Finding> examine_machine() {
  Findings findings;
  add_mpi(findings);
  add_processor(findings);
  add_topology(findings);
  add_libraries(findings);
  add_memory(findings);
  add_devices(findings);
  add_disk(findings);
  add_network(findings);
  return findings;
}

}  // namespace atl
