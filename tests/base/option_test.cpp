#include "base/option.hpp"

#include <gmock/gmock.h>

#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

enum class Shade { kLight, kDark };
const char* to_string(Shade shade) { return shade == Shade::kLight ? "light" : "dark"; }

struct Size {
  int width = 1;
  int height = 1;
};
std::string to_string(const Size& size) { return fmt::format("{}x{}", size.width, size.height); }
Size parse_size(const std::string& text) {
  if (text.size() != 3 || text[1] != 'x') fail_option("allowed is a size as in 3x4");
  return {text[0] - '0', text[2] - '0'};
}

struct Paint {
  int coats = 2;
  double thickness = 0.5;
  Shade shade = Shade::kLight;
  bool glossy = false;
  std::string maker = "own";
  Size size;
};

struct Wall {
  Paint paint;
};

const OptionTable<Paint>& paint_options() {
  using Row = Option<Paint>;
  static const OptionTable<Paint> table = {
      {.name = "coats",
       .group = "Paint",
       .help = "How many",
       .value = Row::number(ATOLL_FIELD(coats), 1, 9),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "thickness",
       .group = "Paint",
       .help = "Of each",
       .value = Row::above(ATOLL_FIELD(thickness), 0)},
      {.name = "shade",
       .group = "Paint",
       .help = "Shade",
       .value = Row::name_of(ATOLL_FIELD(shade), {Shade::kLight, Shade::kDark}),
       .recorded = [](const Paint& paint) { return paint.shade != Shade::kLight; }},
      {.name = "glossy",
       .group = "Paint",
       .help = "Whether it shines",
       .value = Row::on_or_off(ATOLL_FIELD(glossy))},
      {.name = "maker",
       .group = "Paint",
       .help = "Whose",
       .value = Row::text_of(ATOLL_FIELD(maker), {"own", "other"})},
      {.name = "size",
       .group = "Paint",
       .help = "Of the wall",
       .value = Row::written(ATOLL_FIELD(size), parse_size)},
  };
  return table;
}

OptionTable<Wall> wall_options() {
  OptionTable<Wall> table;
  for (const auto& row : paint_options()) table.push_back(row.inside<Wall>(ATOLL_FIELD(paint)));
  return table;
}

Json all_values(const Wall& wall) {
  Json json;
  for (const auto& row : wall_options()) json[row.name] = option_json(row, wall);
  return json;
}

TEST(OptionTable, ValuesGoToRecordsAndBack) {
  Wall wall;
  EXPECT_EQ(
      all_values(wall).dump(),
      R"({"coats":2,"thickness":0.5,"shade":"light","glossy":false,"maker":"own","size":"1x1"})");
  const Json wanted = parse_json(
      R"({"coats":9,"thickness":0.25,"shade":"dark","glossy":true,"maker":"other","size":"3x4"})",
      "record");
  for (const auto& row : wall_options()) {
    read_option_json(row, wanted, row.name.c_str(), "record", wall);
  }
  EXPECT_EQ(all_values(wall), wanted);
  EXPECT_EQ(wall.paint.shade, Shade::kDark);
  EXPECT_EQ(wall.paint.size.height, 4);
}

TEST(OptionTable, RowsOfAMemberKeepWhatTheySay) {
  const OptionTable<Wall> table = wall_options();
  const auto& coats = option_named(table, "coats");
  EXPECT_EQ(coats.group, "Paint");
  EXPECT_EQ(coats.help, "How many");
  EXPECT_EQ(coats.plan, PlanRole::kMadeFor);
  EXPECT_FALSE(option_named(table, "glossy").recorded);
  Wall wall;
  EXPECT_TRUE(coats.recorded(wall));
  EXPECT_FALSE(option_named(table, "shade").recorded(wall));
  wall.paint.shade = Shade::kDark;
  EXPECT_TRUE(option_named(table, "shade").recorded(wall));
}

TEST(OptionTable, ValuesThatAreNotAllowedAreRefused) {
  const auto refusal = [](const char* name, const Json& value) {
    Wall wall;
    const OptionTable<Wall> table = wall_options();
    const Error error = thrown_error([&] {
      read_option_json(option_named(table, name), {{"field", value}}, "field", "record", wall);
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  EXPECT_EQ(refusal("coats", 10),
            "record: field 'field' is 10; allowed is a whole number from 1 to 9");
  EXPECT_EQ(refusal("thickness", 0.0), "record: field 'field' is 0; allowed is a number above 0");
  EXPECT_EQ(refusal("shade", "blue"), "record: field 'field' is 'blue'; allowed are light, dark");
  EXPECT_EQ(refusal("maker", "none"), "record: field 'field' is 'none'; allowed are own, other");
  EXPECT_EQ(refusal("size", "3"), "record: field 'field' is '3'; allowed is a size as in 3x4");
  EXPECT_THAT(refusal("glossy", "on"), testing::HasSubstr("wrong type"));
}

TEST(OptionTable, LimitsRefuseWhatIsNoNumber) {
  const Limits<double> share{.least = 0, .most = 1};
  EXPECT_TRUE(share.allow(0) && share.allow(1));
  EXPECT_FALSE(share.allow(1.01) || share.allow(-0.01));
  EXPECT_FALSE(share.allow(std::nan("")));
  EXPECT_FALSE(Limits<double>{.least = 0}.allow(HUGE_VAL));
  EXPECT_EQ(Limits<double>{.least = 0}.in_words(), "a number of at least 0");
  EXPECT_EQ(share.in_words(), "a number from 0 to 1");
}

}  // namespace
}  // namespace atl
