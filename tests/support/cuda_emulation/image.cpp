#include "tests/support/cuda_emulation/image.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace atl::cuda_emulation {
namespace {

constexpr std::string_view kMarker = "atoll_shared_marker_";

struct Image {
  std::vector<SharedVariable> shared;
  std::vector<std::pair<std::uintptr_t, const char*>> functions;  // sorted by address
};

// Where the program was loaded; the first entry is the program itself.
std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

// The whole file, mapped for the life of the process because names point into it.
const char* map_program() {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  void* bytes = MAP_FAILED;
  if (fstat(file, &status) == 0) {
    bytes =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  return bytes == MAP_FAILED ? nullptr : static_cast<const char*>(bytes);
}

// "_ZZ<function>E" of a marker's or another local variable's name "_ZZ<function>E<length><name>".
std::string_view owner_of_marker(std::string_view name) {
  std::size_t end = name.find(kMarker);
  if (end == std::string_view::npos) return {};
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  return name.substr(0, end);
}

bool is_shared(std::string_view name, const std::set<std::string_view>& owners) {
  if (!name.starts_with("_ZZ") || name.find(kMarker) != std::string_view::npos) return false;
  return std::any_of(owners.begin(), owners.end(),
                     [name](std::string_view owner) { return name.starts_with(owner); });
}

Image read_image() {
  Image image;
  const char* bytes = map_program();
  if (bytes == nullptr) return image;
  const std::uintptr_t base = load_address();
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes + sections[s].sh_offset);
    const std::size_t count = sections[s].sh_size / sizeof(Elf64_Sym);
    const char* names = bytes + sections[sections[s].sh_link].sh_offset;

    std::set<std::string_view> owners;
    for (std::size_t i = 0; i < count; ++i) {
      const char* name = names + symbols[i].st_name;
      const std::string_view owner = owner_of_marker(name);
      if (!owner.empty()) owners.insert(owner);
      if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_value != 0) {
        image.functions.emplace_back(base + symbols[i].st_value, name);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Elf64_Sym& symbol = symbols[i];
      const bool placed = symbol.st_shndx > 0 && symbol.st_shndx < header->e_shnum;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !placed) continue;
      // Constants of the same function live in a section that can't be written.
      if ((sections[symbol.st_shndx].sh_flags & SHF_WRITE) == 0) continue;
      if (!is_shared(names + symbol.st_name, owners)) continue;
      image.shared.push_back({reinterpret_cast<void*>(base + symbol.st_value), symbol.st_size});
    }
  }
  std::sort(image.functions.begin(), image.functions.end());
  return image;
}

const Image& image() {
  static const Image* const read = new Image(read_image());
  return *read;
}

}  // namespace

const std::vector<SharedVariable>& shared_variables() { return image().shared; }

const char* function_name(const void* address) {
  const auto& functions = image().functions;
  const std::pair<std::uintptr_t, const char*> key(reinterpret_cast<std::uintptr_t>(address),
                                                   nullptr);
  const auto found = std::lower_bound(functions.begin(), functions.end(), key);
  if (found == functions.end() || found->first != key.first) return "an unnamed kernel";
  return found->second;
}

}  // namespace atl::cuda_emulation
