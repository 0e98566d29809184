// The `atoll` program.
#include "launch/atoll.hpp"

int main(int argc, char** argv) { return atl::main(argc, argv); }
