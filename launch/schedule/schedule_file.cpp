#include "launch/schedule/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json_entry.hpp"
#include "launch/schedule/schedule_slots.hpp"

namespace atl {

namespace {

constexpr int kScheduleFormat = 1;
constexpr double kMostSeconds = 1e12;
constexpr std::int64_t kMostCount = 1'000'000'000;

// A time that is not known, such as when a job ends that is under way, is null.
Json seconds_json(double seconds) { return std::isfinite(seconds) ? Json(seconds) : Json(); }

Json jobs_json(const ScheduleFile& file) {
  Json jobs = Json::array();
  for (std::size_t j = 0; j < file.jobs.size(); ++j) {
    const SchedulableJob& job = file.jobs[j];
    jobs.push_back({{"name", job.name},
                    {"folder", file.folders[j]},
                    {"arrival_s", job.arrival_s},
                    {"epochs", job.epochs},
                    {"least_ranks", job.least_ranks},
                    {"most_ranks", job.most_ranks},
                    {"priority", job.priority}});
  }
  return jobs;
}

Json hosts_json(const std::vector<ScheduledHost>& hosts) {
  Json list = Json::array();
  for (const ScheduledHost& host : hosts) {
    Json json = {{"name", host.name}, {"slots", host.slots}, {"kind", host.kind}};
    if (host.is_lost) json["lost"] = true;
    list.push_back(std::move(json));
  }
  return list;
}

Json schedule_json(const ScheduleFile& file, const JobSchedule& schedule) {
  Json segments = Json::array();
  for (const JobSegment& segment : schedule.segments) {
    segments.push_back({{"job", segment.job},
                        {"hosts", host_names(segment.placement, file.hosts)},
                        {"ranks_per_host", segment.placement.ranks_per_host},
                        {"from_s", segment.from_s},
                        {"to_s", segment.to_s},
                        {"first_epoch", segment.first_epoch},
                        {"last_epoch", segment.last_epoch}});
  }
  Json completion = Json::array();
  for (const double seconds : schedule.completion_s) completion.push_back(seconds_json(seconds));
  return {{"mean_completion_s", seconds_json(schedule.mean_completion_s)},
          {"makespan_s", seconds_json(schedule.makespan_s)},
          {"completion_s", std::move(completion)},
          {"segments", std::move(segments)}};
}

struct ScheduleEntry : JsonEntry {
  using JsonEntry::JsonEntry;

  double number(const char* field, double least, double most) const {
    const std::string allowed = fmt::format("numbers from {} to {}", least, most);
    const Json& found = required(field, allowed);
    if (!found.is_number()) refuse(field, found, allowed);
    const auto value = found.get<double>();
    if (!(value >= least && value <= most)) refuse(field, found, allowed);
    return value;
  }
  double seconds(const char* field) const { return number(field, 0, kMostSeconds); }
  // Infinite where the file has null.
  double seconds_or_null(const char* field) const {
    const bool unknown = required(field, "numbers and null").is_null();
    return unknown ? std::numeric_limits<double>::infinity() : seconds(field);
  }
  bool flag(const char* field) const {
    const Json& found = required(field, "true and false");
    if (!found.is_boolean()) refuse(field, found, "true and false");
    return found.get<bool>();
  }
  const Json& array(const char* field) const {
    const Json& found = required(field, "lists");
    if (!found.is_array()) refuse(field, found, "lists");
    return found;
  }
};

class ScheduleReader {
 public:
  ScheduleReader(const Json& json, const std::string& place)
      : root_(json, place,
              {"format", "list", "topology", "policy", "elastic", "first_come_mean_s", "bound_s",
               "hosts", "jobs", "planned", "done"}) {}

  ScheduleFile read() {
    root_.require_format(kScheduleFormat);
    file_.list = root_.text("list", "names of files");
    file_.topology = root_.text("topology", "names of files");
    file_.policy = root_.text("policy", "names of policies");
    file_.elastic = root_.flag("elastic");
    file_.first_come_mean_s = root_.seconds_or_null("first_come_mean_s");
    file_.bound_s = root_.seconds_or_null("bound_s");
    each(root_, "hosts", [&](const Json& json, const std::string& at) { read_host(json, at); });
    each(root_, "jobs", [&](const Json& json, const std::string& at) { read_job(json, at); });
    file_.schedule = read_schedule("planned");
    if (root_.has("done")) file_.done = read_schedule("done");
    return std::move(file_);
  }

 private:
  template <typename Read>
  static void each(const ScheduleEntry& entry, const char* field, const Read& read) {
    std::size_t index = 0;
    for (const Json& json : entry.array(field)) {
      read(json, fmt::format("{}: {}[{}]", entry.place, field, index++));
    }
  }

  JobSchedule read_schedule(const char* field) const {
    const ScheduleEntry entry(root_.required(field, "objects"),
                              fmt::format("{}: {}", root_.place, field),
                              {"mean_completion_s", "makespan_s", "completion_s", "segments"});
    JobSchedule schedule;
    schedule.mean_completion_s = entry.seconds_or_null("mean_completion_s");
    schedule.makespan_s = entry.seconds_or_null("makespan_s");
    each(entry, "completion_s", [&](const Json& json, const std::string& place) {
      const Json object = {{"seconds", json}};
      schedule.completion_s.push_back(
          ScheduleEntry(object, place, {"seconds"}).seconds_or_null("seconds"));
    });
    if (schedule.completion_s.size() != file_.jobs.size()) {
      entry.refuse("completion_s", entry.json.at("completion_s"),
                   fmt::format("lists of {}, a number for each job", file_.jobs.size()));
    }
    each(entry, "segments", [&](const Json& json, const std::string& place) {
      schedule.segments.push_back(read_segment(json, place));
    });
    return schedule;
  }

  void read_host(const Json& json, const std::string& place) {
    const ScheduleEntry entry(json, place, {"name", "slots", "kind", "lost"});
    ScheduledHost host{.name = entry.text("name", "names"),
                       .slots = static_cast<int>(entry.whole("slots", 1, kMostRanks)),
                       .kind = static_cast<int>(entry.whole("kind", 0, kMostRanks)),
                       .is_lost = entry.has("lost") && entry.flag("lost")};
    if (std::ranges::find(file_.hosts, host.name, &ScheduledHost::name) != file_.hosts.end()) {
      entry.refuse("name", host.name, "names of their own");
    }
    file_.hosts.push_back(std::move(host));
  }

  void read_job(const Json& json, const std::string& place) {
    const ScheduleEntry entry(
        json, place,
        {"name", "folder", "arrival_s", "epochs", "least_ranks", "most_ranks", "priority"});
    SchedulableJob job;
    job.name = entry.text("name", "names");
    job.arrival_s = entry.seconds("arrival_s");
    job.epochs = entry.whole("epochs", 1, kMostCount);
    job.least_ranks = static_cast<int>(entry.whole("least_ranks", 1, kMostRanks));
    job.most_ranks = static_cast<int>(entry.whole("most_ranks", job.least_ranks, kMostRanks));
    job.priority = entry.number("priority", 0, kMostSeconds);
    file_.jobs.push_back(std::move(job));
    file_.folders.push_back(entry.text("folder", "names of folders"));
  }

  JobSegment read_segment(const Json& json, const std::string& place) const {
    const ScheduleEntry entry(
        json, place,
        {"job", "hosts", "ranks_per_host", "from_s", "to_s", "first_epoch", "last_epoch"});
    JobSegment segment;
    segment.job =
        static_cast<int>(entry.whole("job", 0, static_cast<std::int64_t>(file_.jobs.size()) - 1));
    for (const Json& name : entry.list("hosts", "lists with at least one host")) {
      segment.placement.hosts.push_back(host_named(entry, name));
    }
    int room = kMostRanks;
    for (const int host : segment.placement.hosts) {
      room = std::min(room, file_.hosts[static_cast<std::size_t>(host)].slots);
    }
    segment.placement.ranks_per_host = static_cast<int>(entry.whole("ranks_per_host", 1, room));
    segment.from_s = entry.seconds("from_s");
    segment.to_s = entry.number("to_s", segment.from_s, kMostSeconds);
    segment.first_epoch = entry.number("first_epoch", 0, kMostCount);
    segment.last_epoch = entry.number("last_epoch", segment.first_epoch, kMostCount);
    return segment;
  }

  int host_named(const ScheduleEntry& entry, const Json& name) const {
    const auto found = name.is_string() ? std::ranges::find(file_.hosts, name.get<std::string>(),
                                                            &ScheduledHost::name)
                                        : file_.hosts.end();
    if (found == file_.hosts.end()) entry.refuse("hosts", name, "names of 'hosts'");
    return static_cast<int>(found - file_.hosts.begin());
  }

  static constexpr int kMostRanks = 1 << 20;
  ScheduleEntry root_;
  ScheduleFile file_;
};

}  // namespace

Json to_json(const ScheduleFile& file) {
  Json json = {{"format", kScheduleFormat},
               {"list", file.list},
               {"topology", file.topology},
               {"policy", file.policy},
               {"elastic", file.elastic},
               {"first_come_mean_s", seconds_json(file.first_come_mean_s)},
               {"bound_s", seconds_json(file.bound_s)},
               {"hosts", hosts_json(file.hosts)},
               {"jobs", jobs_json(file)},
               {"planned", schedule_json(file, file.schedule)}};
  if (file.done) json["done"] = schedule_json(file, *file.done);
  return json;
}

ScheduleFile read_schedule(const std::filesystem::path& path) {
  return ScheduleReader(read_json(path), path.string()).read();
}

Json schedule_trace(const ScheduleFile& file) {
  Json events = Json::array();
  const auto name = [&](const char* what, int host, int slot, const std::string& text) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", host}, {"tid", slot}, {"args", {{"name", text}}}});
  };
  for (int host = 0; host < static_cast<int>(file.hosts.size()); ++host) {
    const ScheduledHost& of = file.hosts[static_cast<std::size_t>(host)];
    name("process_name", host, 0, of.name);
    for (int slot = 0; slot < of.slots; ++slot) {
      name("thread_name", host, slot, fmt::format("slot {}", slot));
    }
  }
  // Perfetto gives equal names equal colours.
  for (const SlotBar& bar : slot_bars(file.schedule, file.hosts)) {
    const JobSegment& segment = file.schedule.segments[bar.segment];
    events.push_back({{"name", file.jobs[static_cast<std::size_t>(segment.job)].name},
                      {"ph", "X"},
                      {"ts", segment.from_s * 1e6},
                      {"dur", (segment.to_s - segment.from_s) * 1e6},
                      {"pid", bar.host},
                      {"tid", bar.slot},
                      {"args",
                       {{"ranks", segment.placement.ranks()},
                        {"first_epoch", segment.first_epoch},
                        {"last_epoch", segment.last_epoch}}}});
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace atl
