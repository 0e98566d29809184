// The map of which backends exist and the choice among them at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
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

// The reason why a backend can't be used on this machine.
struct BackendObstacle {
  std::string why;          // what is missing or does not fit, and what to do; empty: nothing
  bool has_device = false;  // of the backend's kind, though it can't be used
};

// A backend was asked for by name that can't be used.
class UnusableBackend : public Error {
 public:
  UnusableBackend(const std::string& name, BackendObstacle obstacle)
      : Error(ErrorKind::kOption, fmt::format("backend {}: {}", name, obstacle.why)),
        obstacle_(std::move(obstacle)) {}
  const BackendObstacle& obstacle() const { return obstacle_; }

 private:
  BackendObstacle obstacle_;
};

// name: reference | cpu | cuda | auto. `auto` is cuda where that can be used, else cpu; `obstacle`
// then says why. An explicit `cuda` never falls back: throws UnusableBackend. Unknown names throw
// Error{kOption} listing the valid ones.
std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options,
                                      BackendObstacle* obstacle = nullptr);
std::vector<std::string> backend_names();
// The names in a list such as "cuda,cpu", and what is wrong with it: "" if nothing is.
std::vector<std::string> backends_of(const std::string& list);
std::string backend_list_problem(const std::string& list);

// Seams, one per backend; an absent backend is a stub source chosen by CMake.
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(int threads);
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
// Devices that the cuda backend can see (0 without one), and in `why` the reason if 0. Whether it
// can use one is known when it is made.
int cuda_device_count(std::string& why);

}  // namespace atl
