// The `atoll` program.
#include "base/interrupt.hpp"
#include "launch/atoll.hpp"

namespace {

// Libraries are initialised before main, which takes long on a busy machine. An orderly end that is
// asked for meanwhile must not kill the process.
__attribute__((section(".preinit_array"), used)) void (*const hold)() = atl::hold_signals;

}  // namespace

int main(int argc, char** argv) { return atl::main(argc, argv); }
