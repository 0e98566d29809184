#include "engine/comm/rank_facts.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr OperationLabel kLabel{.operation = "the comparison of options"};
constexpr char kMagic[] = {'A', 'T', 'O', 'L', 'L', 'J', 'O', 'B'};
constexpr std::uint32_t kProtocol = 1;

// The first bytes that every version of the program sends to rank 0, which answers with a verdict:
// the length of a text and the text, an error unless it is empty. What follows depends on the
// protocol.
struct Greeting {
  char magic[8] = {};
  std::uint32_t protocol = 0;
  char program[104] = {};
  std::uint32_t reserved = 0;
  std::int64_t length = 0;  // of the facts
};
static_assert(sizeof(Greeting) == 128);

Greeting greeting_of(const RankStart& start, std::size_t length) {
  Greeting greeting;
  std::memcpy(greeting.magic, kMagic, sizeof(kMagic));
  greeting.protocol = kProtocol;
  const std::size_t size = std::min(start.program.size(), sizeof(greeting.program) - 1);
  std::memcpy(greeting.program, start.program.data(), size);
  greeting.length = static_cast<std::int64_t>(length);
  return greeting;
}

void add(std::string& bytes, const std::string& text) {
  const auto length = static_cast<std::int64_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += text;
}

std::string take(std::string_view& bytes) {
  std::int64_t length = 0;
  ATOLL_ASSERT(bytes.size() >= sizeof(length));
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  ATOLL_ASSERT(length >= 0 && static_cast<std::size_t>(length) <= bytes.size());
  std::string text(bytes.substr(0, static_cast<std::size_t>(length)));
  bytes.remove_prefix(text.size());
  return text;
}

std::string to_bytes(const RankStart& start) {
  std::string bytes;
  add(bytes, start.failure);
  for (const RankFact& fact : start.facts) {
    for (const std::string& text : {fact.name, fact.value, fact.note}) add(bytes, text);
  }
  return bytes;
}

RankStart from_bytes(std::string_view bytes) {
  RankStart start;
  start.failure = take(bytes);
  while (!bytes.empty()) {
    RankFact fact;
    for (std::string* text : {&fact.name, &fact.value, &fact.note}) *text = take(bytes);
    start.facts.push_back(std::move(fact));
  }
  return start;
}

// On rank 0 what each rank sent, of sizes it knows; empty on the others.
std::vector<std::string> collect(Transport& transport, const std::string& sent,
                                 const std::vector<std::size_t>& sizes) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  // By rank; an abandoned transfer outlives this call.
  auto memory = std::make_shared<std::vector<std::string>>(ranks);
  std::vector<std::span<const std::byte>> sends(ranks);
  std::vector<std::span<std::byte>> receives(ranks);
  const bool collects = transport.rank() == 0;
  (*memory)[0] = sent;
  if (!collects) sends[0] = std::as_bytes(std::span((*memory)[0]));
  for (std::size_t r = 1; collects && r < ranks; ++r) {
    (*memory)[r].resize(sizes[r]);
    receives[r] = std::as_writable_bytes(std::span((*memory)[r]));
  }
  transport.all_to_all_v(std::move(sends), std::move(receives), kLabel, memory)->wait_all();
  return collects ? *memory : std::vector<std::string>{};
}

std::vector<Greeting> collect_greetings(Transport& transport, const Greeting& own) {
  const std::string bytes(reinterpret_cast<const char*>(&own), sizeof(own));
  std::vector<std::string> collected;
  try {
    const auto ranks = static_cast<std::size_t>(transport.size());
    collected = collect(transport, bytes, std::vector<std::size_t>(ranks, sizeof(Greeting)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCommunication) throw;
    fail_option("{}; do all ranks run the same version of this program?", error.what());
  }
  std::vector<Greeting> greetings(collected.size());
  for (std::size_t r = 0; r < collected.size(); ++r) {
    std::memcpy(&greetings[r], collected[r].data(), sizeof(Greeting));
  }
  return greetings;
}

std::vector<RankStart> collect_starts(Transport& transport, const std::string& own,
                                      const std::vector<Greeting>& greetings) {
  std::vector<std::size_t> sizes;
  for (const Greeting& greeting : greetings) {
    sizes.push_back(static_cast<std::size_t>(greeting.length));
  }
  std::vector<RankStart> starts;
  for (const std::string& bytes : collect(transport, own, sizes)) {
    starts.push_back(from_bytes(bytes));
  }
  return starts;
}

// Throws rank 0's verdict on all ranks unless it is empty.
void share_verdict(Transport& transport, std::string verdict) {
  auto length = static_cast<std::int64_t>(verdict.size());
  transport.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0, kLabel);
  if (length == 0) return;
  verdict.resize(static_cast<std::size_t>(length));
  transport.broadcast(std::as_writable_bytes(std::span(verdict)), 0, kLabel);
  throw Error(ErrorKind::kOption, verdict);
}

std::string judge_greetings(const std::vector<Greeting>& greetings) {
  for (std::size_t r = 1; r < greetings.size(); ++r) {
    if (std::memcmp(greetings[r].magic, kMagic, sizeof(kMagic)) != 0) {
      return fmt::format("rank {} runs another program than rank 0, which is {}", r,
                         greetings[0].program);
    }
    if (greetings[r].protocol != kProtocol) {
      return fmt::format("rank 0 runs {}, rank {} runs {}; start the same program on every host",
                         greetings[0].program, r, greetings[r].program);
    }
  }
  return "";
}

std::string judge_failures(const std::vector<RankStart>& starts) {
  const auto first = std::ranges::find_if(starts, [](const auto& s) { return !s.failure.empty(); });
  if (first == starts.end()) return "";
  const bool everywhere =
      std::ranges::all_of(starts, [&](const auto& s) { return s.failure == first->failure; });
  if (everywhere) return first->failure;
  return fmt::format("rank {} of this job can't start: {}", first - starts.begin(), first->failure);
}

const RankFact* find_fact(const RankStart& start, const std::string& name) {
  const auto found = std::ranges::find(start.facts, name, &RankFact::name);
  return found == start.facts.end() ? nullptr : &*found;
}

std::string describe(const RankFact* fact) {
  if (fact == nullptr) return "not set";
  return fact->note.empty() ? fact->value : fmt::format("{} ({})", fact->value, fact->note);
}

std::string differing(const std::string& name, const RankFact* wanted, const RankFact* found,
                      std::size_t rank) {
  return fmt::format(
      "{} is {} on rank 0 and {} on rank {}; the ranks of a job must be started alike", name,
      describe(wanted), describe(found), rank);
}

std::string judge(const std::vector<RankStart>& starts) {
  if (std::string verdict = judge_failures(starts); !verdict.empty()) return verdict;
  for (const RankFact& wanted : starts[0].facts) {
    for (std::size_t r = 1; r < starts.size(); ++r) {
      const RankFact* found = find_fact(starts[r], wanted.name);
      if (found == nullptr || found->value != wanted.value) {
        return differing(wanted.name, &wanted, found, r);
      }
    }
  }
  for (std::size_t r = 1; r < starts.size(); ++r) {
    for (const RankFact& found : starts[r].facts) {
      const RankFact* wanted = find_fact(starts[0], found.name);
      if (wanted == nullptr) return differing(found.name, wanted, &found, r);
    }
  }
  return "";
}

}  // namespace

void require_same_start(Transport& transport, const RankStart& start) {
  if (transport.size() == 1) {
    if (!start.failure.empty()) throw Error(ErrorKind::kOption, start.failure);
    return;
  }
  RankStart own = start;
  own.facts.insert(own.facts.begin(), {"the program", start.program});
  const std::string bytes = to_bytes(own);
  const bool judges = transport.rank() == 0;
  const auto greetings = collect_greetings(transport, greeting_of(own, bytes.size()));
  share_verdict(transport, judges ? judge_greetings(greetings) : "");
  const auto starts = collect_starts(transport, bytes, greetings);
  share_verdict(transport, judges ? judge(starts) : "");
}

}  // namespace atl
