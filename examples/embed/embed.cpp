// A program that trains in its own process, as part of what else it does: embed DATA RUN.
#include <atoll/embed.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// Prints what went wrong and ends the program, or returns what the command has printed.
std::string run(const std::vector<std::string>& words) {
  const atl::Outcome outcome = atl::run_command(words);
  if (outcome.exit_code == 0) return outcome.output;
  std::fprintf(stderr, "embed: %s: %s\n", words.front().c_str(), outcome.error.c_str());
  std::exit(outcome.exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed DATASET RUN\n");
    return 2;
  }
  const std::string dataset = argv[1];
  const std::string folder = argv[2];
  atl::send_log_to([](bool warning, const std::string& line) {
    if (warning) std::fprintf(stderr, "embed: %s\n", line.c_str());
  });
  // Two threads of this process are the ranks.
  run({"train", dataset, "--transport", "local", "--ranks", "2", "--epochs", "20", "--run-dir",
       folder});
  const std::string said = run({"predict", folder, dataset, "--what", "embeddings", "--out",
                                folder + "/embeddings.npy", "--transport", "local"});
  std::printf("%s", said.c_str());
  return 0;
}
