// Which packets travel in pieces (PacketPieces), for the transport and for whoever foretells it.
#pragma once

#include <cstddef>

namespace atl {

// Smaller packets travel whole over MPI: their pieces would wait longer for the poll that lets them
// go than they travel.
inline constexpr std::size_t kLeastDividedBytes = std::size_t{1} << 20;

}  // namespace atl
