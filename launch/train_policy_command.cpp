// `atoll plan train-policy`: trains the prior of the tree search by self-play.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "engine/placement/policy/policy_prior.hpp"
#include "engine/placement/policy/policy_training.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct PolicyArguments {
  PolicyTrainingOptions training;
  std::int64_t hidden = PolicyShape().hidden;
  std::string out;
  std::string from;
};

PolicyNetwork first_network(const PolicyArguments& arguments) {
  if (!arguments.from.empty()) return read_policy(arguments.from);
  if (arguments.hidden % PolicyNetwork::kHeads != 0) {
    fail_option("--hidden {}: allowed are multiples of {} from {} to 256", arguments.hidden,
                PolicyNetwork::kHeads, PolicyNetwork::kHeads);
  }
  return PolicyNetwork({.hidden = arguments.hidden}, arguments.training.seed);
}

void run_train_policy(const PolicyArguments& arguments) {
  PolicyTrainingOptions options = arguments.training;
  options.trained_before = !arguments.from.empty();
  if (options.instances < options.rounds) {
    fail_option("--instances {}: allowed are {} or more, one per round", options.instances,
                options.rounds);
  }
  check_result_file(arguments.out, "--out");
  PolicyNetwork network = first_network(arguments);
  const int samples = train_policy(network, options, [&](const PolicyProgress& progress) {
    fmt::print("round {} epoch {}: {} decisions, loss {:.4f}, best option likeliest in {:.1f} %\n",
               progress.round + 1, progress.epoch + 1, progress.samples, progress.loss,
               100 * progress.accuracy);
    std::fflush(stdout);
    // Weights so far can be used, and gone on from, at any time.
    write_atomically(arguments.out, policy_weights(network));
  });
  fmt::print(
      "learned from {} decisions; written to {}; use with: atoll plan ... --search mcts "
      "--prior {}\n",
      samples, arguments.out, arguments.out);
}

}  // namespace

void add_train_policy_command(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand(
      "train-policy", "Train the policy of --search mcts on random machines and graphs");
  command->footer(
      "Searches on random instances by the policy so far and learns what they found, in rounds;\n"
      "the file is written after each epoch. Numbers of instances, epochs and rounds, and the "
      "seed\n"
      "fix the result.\n"
      "Examples:\n"
      "  atoll plan train-policy --out policy.safetensors\n"
      "  atoll plan train-policy --from policy.safetensors --instances 1000 --out "
      "better.safetensors");
  const auto arguments = std::make_shared<PolicyArguments>();
  PolicyTrainingOptions& training = arguments->training;
  command->add_option("--out", arguments->out, "File of weights to write (safetensors)")
      ->required();
  command->add_option("--from", arguments->from, "File of weights to go on from")
      ->check(CLI::ExistingFile);
  command->add_option("--instances", training.instances, "Random instances, all rounds together")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--rounds", training.rounds, "Rounds of searching, then learning")
      ->check(CLI::Range(1, 1000));
  command->add_option("--epochs", training.epochs, "Passes over all decisions so far, per round")
      ->check(CLI::Range(1, 10000));
  command
      ->add_option("--evaluations", training.evaluations, "Simulated epochs per searched decision")
      ->check(CLI::Range(2, 1000000));
  command->add_option("--lr", training.learning_rate, "Learning rate of Adam")
      ->check(positive_number());
  command->add_option("--hidden", arguments->hidden, "Columns of the network; without --from")
      ->check(CLI::Range(PolicyNetwork::kHeads, std::int64_t{256}));
  command
      ->add_option(
          "--budget", training.seconds,
          "Time after which no instance is searched any more, and the round is the last; 0: any")
      ->transform(seconds({.least = 0}));
  command->add_option("--seed", training.seed, "Seed of weights, instances and searches")
      ->check(seed_number());
  command->callback([arguments] { run_train_policy(*arguments); });
}

}  // namespace atl
