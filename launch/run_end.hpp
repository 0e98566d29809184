// Messages to whoever ends a run: that the signal was heard, and the command that goes on.
#pragma once

#include <filesystem>
#include <string>

#include "engine/comm/transport.hpp"

namespace atl {

// Keeps the words that started this process, for the commands below. Without it (a program that
// embeds commands) they are called "atoll".
void keep_command_line(int argc, char** argv);

// Says at once that a run ends after its epoch. For StopRequest.
void acknowledge_stop(int signal);

// The command that goes on with a run whose ranks this transport joins, as a line for the shell.
std::string resume_command(const Transport& transport, const std::filesystem::path& run_dir);
// The command line of this process, `atoll launch`, with --resume behind `train`.
std::string resume_launch_command();

}  // namespace atl
