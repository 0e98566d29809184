// The map of which backends exist and the choice among them at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace atl {

class KernelChoices;

struct BackendOptions {
  int threads = 0;     // CPU threads; 0 = what OpenMP would use
  int device = -1;     // accelerator index; -1 = local_rank modulo devices
  int local_rank = 0;  // of this rank among those on its host
  bool tf32 = false;   // f32 products may round their factors to TF32 (10 bits of mantissa)
  // Kernels measured before, or to be measured; null: each operation's default.
  std::shared_ptr<KernelChoices> choices = nullptr;
};

// name: reference | cpu | cuda | auto. `auto` is cuda when a device is there, else cpu. An explicit
// `cuda` never falls back: throws Error{kDevice} that says what is missing. Unknown names throw
// Error{kOption} listing the valid ones.
std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options);
std::vector<std::string> backend_names();
// The names in a list such as "cuda,cpu", and what is wrong with it: "" if nothing is.
std::vector<std::string> backends_of(const std::string& list);
std::string backend_list_problem(const std::string& list);

// Seams, one per backend; an absent backend is a stub source chosen by CMake.
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(int threads);
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
// Devices usable by the cuda backend (0 without one), and in `why` the reason if 0.
int cuda_device_count(std::string& why);

}  // namespace atl
