// `atoll completion`: what a shell needs to complete commands, options and their values.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "launch/command.hpp"
#include "launch/command_list.hpp"
#include "launch/validators.hpp"

namespace atl {

namespace {

// Each script asks the program itself, so that it never knows less than the program. Where there
// is no proposal, file names are completed.
const std::vector<std::pair<std::string, const char*>>& completion_scripts() {
  static const std::vector<std::pair<std::string, const char*>> kScripts = {
      {"bash", R"(_atoll() {
  # Not COMP_WORDS: bash splits those at = and :
  local line=${COMP_LINE:0:COMP_POINT} words=() found=()
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  mapfile -t found < <("${words[0]}" completion bash -- "${words[@]:1}" 2>/dev/null)
  local last=${words[-1]}
  COMPREPLY=("${found[@]#"${last%"${last##*[=:]}"}"}")
  [[ ${found[0]:-} == *= ]] && compopt -o nospace
}
complete -o default -F _atoll atoll
)"},
      {"zsh", R"(#compdef atoll
_atoll() {
  local -a found
  found=("${(@f)$("${words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then _describe atoll found; else _files; fi
}
compdef _atoll atoll
)"},
      {"fish", R"(function __atoll
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] completion fish -- $words[2..] 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c atoll -f -a '(__atoll)'
)"}};
  return kScripts;
}

std::vector<std::string> completed_shells() {
  std::vector<std::string> names;
  for (const auto& [shell, script] : completion_scripts()) names.push_back(shell);
  return names;
}

struct Proposal {
  std::string word;
  std::string text;  // what it means; "": nothing to say
};

const OptionDescription* find_option(const ListedCommand& command, const std::string& word) {
  const auto is_meant = [&](const OptionDescription& option) {
    return word == "--" + option.name || (!option.letter.empty() && word == "-" + option.letter);
  };
  const auto found = std::ranges::find_if(command.options, is_meant);
  return found == command.options.end() ? nullptr : &*found;
}

// Walks along the words of a command line as the parser does, and keeps what the next may be.
class CommandLineWalk {
 public:
  explicit CommandLineWalk(const std::vector<ListedCommand>& commands)
      : commands_(commands), command_(&commands.front()) {}

  void step(const std::string& word) {
    if (open_ != nullptr) {
      open_ = nullptr;
    } else if (word == "--") {  // what `atoll launch` starts is a command line of its own
      command_ = &commands_.front();
      positionals_ = 0;
    } else if (word.starts_with("-")) {
      const OptionDescription* option = find_option(*command_, word);
      if (option != nullptr && !option->is_flag) open_ = option;
    } else if (!command_->nested.empty()) {
      enter(word);
    } else {
      ++positionals_;
    }
  }

  // Words that may stand where `begun` does.
  std::vector<Proposal> proposals(const std::string& begun) const {
    std::vector<Proposal> all;
    const std::size_t equals = begun.find('=');
    if (open_ != nullptr) {
      append_words(*open_, "", all);
    } else if (begun.starts_with("-") && equals != std::string::npos) {
      const std::string name = begun.substr(0, equals);
      if (const auto* option = find_option(*command_, name)) append_words(*option, name + '=', all);
    } else if (begun.starts_with("-")) {
      for (const OptionDescription& option : command_->options) {
        all.push_back({"--" + option.name, option.help});
      }
    } else if (!command_->nested.empty()) {
      append_commands(all);
    } else if (positionals_ < command_->positionals.size()) {
      append_words(command_->positionals[positionals_], "", all);
    }
    std::erase_if(all, [&](const Proposal& known) { return !known.word.starts_with(begun); });
    return all;
  }

 private:
  void enter(const std::string& word) {
    const std::string name = command_->name.empty() ? word : command_->name + ' ' + word;
    const auto found = std::ranges::find(commands_, name, &ListedCommand::name);
    if (found != commands_.end()) command_ = &*found;
  }

  static void append_words(const OptionDescription& option, const std::string& before,
                           std::vector<Proposal>& all) {
    for (const std::string& word : option.words) all.push_back({before + word, ""});
  }

  void append_commands(std::vector<Proposal>& all) const {
    for (const std::string& word : command_->nested) {
      CommandLineWalk nested = *this;
      nested.enter(word);
      all.push_back({word, nested.command_->does});
    }
  }

  const std::vector<ListedCommand>& commands_;
  const ListedCommand* command_;
  const OptionDescription* open_ = nullptr;  // the option whose value comes next
  std::size_t positionals_ = 0;
};

// One line as `shell` reads it.
std::string proposal_line(const Proposal& proposal, const std::string& shell) {
  const std::string text = proposal.text.substr(0, proposal.text.find_first_of(";:\n"));
  if (shell == "bash" || (text.empty() && shell == "fish")) return proposal.word;
  if (shell == "fish") return fmt::format("{}\t{}", proposal.word, text);
  std::string word;
  for (const char c : proposal.word) word += c == ':' ? std::string("\\:") : std::string(1, c);
  return text.empty() ? word : fmt::format("{}:{}", word, text);
}

void run_completion(const CLI::App& program, const std::string& shell,
                    const std::vector<std::string>& words) {
  if (words.empty()) {
    const auto script = std::ranges::find(completion_scripts(), shell,
                                          [](const auto& known) { return known.first; });
    fmt::print("{}", script->second);
    return;
  }
  const std::vector<ListedCommand> commands = list_commands(program);
  CommandLineWalk walk(commands);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) walk.step(words[i]);
  for (const Proposal& proposal : walk.proposals(words.back())) {
    fmt::print("{}\n", proposal_line(proposal, shell));
  }
}

}  // namespace

void add_completion_command(CLI::App& app) {
  struct Arguments {
    std::string shell;
    std::vector<std::string> words;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("completion", "Completion of commands for your shell");
  command->add_option("shell", arguments->shell, "Prints what this shell is to read")
      ->required()
      ->check(one_of(completed_shells()));
  command->add_option("words", arguments->words,
                      "After --: prints instead what the last of these words could become");
  command->footer(
      "Examples:\n"
      "  source <(atoll completion bash)                              # in ~/.bashrc\n"
      "  source <(atoll completion zsh)                               # in ~/.zshrc\n"
      "  atoll completion fish > ~/.config/fish/completions/atoll.fish\n"
      "The program must be found by its name: PATH=$PATH:$PWD/build");
  command->callback([&app, arguments] { run_completion(app, arguments->shell, arguments->words); });
}

}  // namespace atl
