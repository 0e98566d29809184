#include "base/progress.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace atl {
namespace {

// The text that a StatusLine has written so far.
class Written {
 public:
  explicit Written(bool terminal)
      : stream_(open_memstream(&text_, &size_)), line_(stream_, terminal) {}
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() {
    std::fclose(stream_);
    std::free(text_);
  }
  StatusLine& line() { return line_; }
  std::string text() {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
  StatusLine line_;
};

TEST(ActivityBoard, IsQuietForTwoSecondsThenOneLineEveryTenInAPipe) {
  Written written(false);
  ActivityBoard board(written.line());
  const ActivityState cut("cutting", 0);
  ASSERT_TRUE(board.begin(cut, 100));
  for (double now = 100; now < 102; now += 0.1) board.tick(now);
  EXPECT_EQ(written.text(), "");
  for (int tenths = 20; tenths <= 250; ++tenths) board.tick(100 + tenths / 10.0);
  board.end(cut);
  EXPECT_EQ(written.text(), "cutting, 2 s\ncutting, 12 s\ncutting, 22 s\n");
}

TEST(ActivityBoard, RenewsTheLineOnATerminalAndTakesItAwayAtTheEnd) {
  Written written(true);
  ActivityBoard board(written.line());
  const ActivityState cut("cutting", 0);
  board.begin(cut, 0);
  for (const double now : {1.9, 2.0, 2.1, 2.4, 2.5, 3.0}) board.tick(now);
  board.end(cut);
  EXPECT_EQ(written.text(), "cutting, 2 s\r\033[Kcutting, 2 s\r\033[Kcutting, 3 s\r\033[K");
}

TEST(ActivityBoard, NamesOutermostAndInnermostAndTheShareDone) {
  Written written(false);
  ActivityBoard board(written.line());
  const ActivityState import("importing x", 0);
  ActivityState edges("reading edges", 200);
  const ActivityState features("reading features", 0);
  board.begin(import, 0);
  board.begin(edges, 1);
  edges.done = 50;
  board.tick(2);
  board.end(edges);
  board.begin(features, 11);
  board.tick(12);
  board.end(features);
  board.tick(150);
  edges.done = 300;  // a file that grew
  board.begin(edges, 150);
  board.tick(7500);
  EXPECT_EQ(written.text(),
            "importing x: reading edges, 25 %, 2 s\n"
            "importing x: reading features, 12 s\n"
            "importing x, 2 min 30 s\n"
            "importing x: reading edges, 100 %, 2 h 5 min\n");
}

TEST(ActivityBoard, ShowsTheActivitiesOfOneThread) {
  Written written(false);
  ActivityBoard board(written.line());
  const ActivityState mine("mine", 0);
  const ActivityState other("other", 0);
  ASSERT_TRUE(board.begin(mine, 0));
  bool shown = true;
  std::thread([&] { shown = board.begin(other, 1); }).join();
  EXPECT_FALSE(shown);
  board.tick(2);
  board.end(mine);
  EXPECT_TRUE(board.empty());
  std::thread([&] { shown = board.begin(other, 3); }).join();
  EXPECT_TRUE(shown);
  EXPECT_EQ(written.text(), "mine, 2 s\n");
}

// A phase of more than two seconds is named, also between the lines of a pipe.
TEST(ActivityBoard, NamesEveryLongPhase) {
  Written written(false);
  ActivityBoard board(written.line());
  const ActivityState import("importing x", 0);
  const ActivityState shortly("checking", 0);
  const ActivityState longer("sorting", 0);
  board.begin(import, 0);
  for (double now = 0; now < 3; now += 0.5) board.tick(now);
  board.begin(shortly, 3);
  for (double now = 3; now < 4.5; now += 0.5) board.tick(now);
  board.end(shortly);
  board.begin(longer, 4.5);
  for (double now = 4.5; now < 9; now += 0.5) board.tick(now);
  board.end(longer);
  EXPECT_EQ(written.text(), "importing x, 2 s\nimporting x: sorting, 6 s\n");
}

TEST(StatusLine, MakesRoomForOtherText) {
  Written written(true);
  written.line().show("epoch 1");
  { const auto lock = written.line().interlude(); }
  written.line().show("epoch 2");
  written.line().keep();
  written.line().clear();
  EXPECT_EQ(written.text(), "epoch 1\r\033[Kepoch 2\n");
}

// A terminal without a size counts as 80 columns wide.
TEST(StatusLine, FitsTheTerminal) {
  Written written(true);
  EXPECT_EQ(written.line().room(), 79U);
  written.line().show(std::string(100, 'x'));
  EXPECT_EQ(written.text(), std::string(79, 'x'));
}

TEST(StatusLine, EscapesWhatATerminalObeys) {
  Written written(false);
  written.line().show("a\033[2Jb\nc");
  EXPECT_EQ(written.text(), "a\\x1b[2Jb\\x0ac\n");
}

// Many short activities on many threads: the timer thread comes and goes without a deadlock.
TEST(Activity, BeginsAndEndsOnManyThreads) {
  Activity::show_all(true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        Activity outer("outer");
        Activity inner("inner", 10);
        inner.advance_to(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Activity::show_all(false);
}

}  // namespace
}  // namespace atl
