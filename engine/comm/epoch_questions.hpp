// Asks whoever has started a training, after each epoch, whether it is to go on: the `progress`
// function of Python's atoll.train().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.hpp"

namespace atl {

// Lines of text over TCP: "hello KEY" first, then an object of JSON per epoch, as in metrics.jsonl.
// Each of these is answered by "go on", "rate R" (with this learning rate from now on), "enough"
// (the run ends here, with its result) or "interrupt" (it ends as after Ctrl-C).
class EpochQuestions {
 public:
  // Where the environment names who answers: "ADDRESS:PORT KEY".
  static constexpr const char* kAddress = "ATOLL_PROGRESS";

  enum class Verdict : std::uint8_t { kGoOn, kEnough, kInterrupt };
  struct Answer {
    Verdict verdict = Verdict::kInterrupt;
    double learning_rate = 0;  // from now on; 0: as before
  };

  // Null if the environment names nobody, or it can't be reached: a warning.
  static std::unique_ptr<EpochQuestions> from_environment();
  // Waits for the answer, however long that takes. Who has gone away would not go on, nor does
  // whoever answers something else.
  Answer ask(const std::string& line);

 private:
  explicit EpochQuestions(Descriptor socket) : socket_(std::move(socket)) {}
  bool send(const std::string& line);
  std::string receive();  // a line; empty: nobody is there any more

  Descriptor socket_;
  std::string received_;
};

}  // namespace atl
