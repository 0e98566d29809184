// weights.safetensors as part of the program: CMake writes the source from the file.
#pragma once

#include <cstddef>
#include <span>

namespace atl {

std::span<const std::byte> shipped_weights();

}  // namespace atl
