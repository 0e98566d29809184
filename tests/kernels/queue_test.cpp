// Queues, copies, recordings and clocks, on backends that run at once and on those that run late.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "tests/kernels/harness.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kQueuedRows = 2000;
constexpr std::int64_t kQueuedCols = 64;
constexpr std::int64_t kBytes =
    kQueuedRows * kQueuedCols * static_cast<std::int64_t>(sizeof(float));

// Host memory of a backend, released with the test.
class Staging {
 public:
  Staging(Backend& backend, std::int64_t bytes)
      : backend_(backend), data_(backend.allocate_staging(bytes)) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() { backend_.release_staging(data_); }
  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Backend& backend_;
  void* data_;
};

class QueueTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) h = std::make_unique<Harness>(GetParam());
  }
  Backend& backend() { return h->backend(); }
  MatrixView filled(float value) {
    return h->matrix(kQueuedRows, kQueuedCols, Use::kInOut,
                     std::vector<float>(kQueuedRows * kQueuedCols, value));
  }
  // y += x, for results that show how often and in which order things ran.
  void add(Queue& queue, ConstMatrixView x, MatrixView y) {
    backend().run(queue, kernels::Spmm{identity_, {0, kQueuedRows}, x, 1, y});
  }
  void make_identity() {
    std::vector<std::int64_t> row_ptr;
    std::vector<std::int32_t> col_idx;
    for (std::int64_t i = 0; i <= kQueuedRows; ++i) row_ptr.push_back(i);
    for (std::int64_t i = 0; i < kQueuedRows; ++i) col_idx.push_back(static_cast<std::int32_t>(i));
    identity_.rows = kQueuedRows;
    identity_.cols = kQueuedRows;
    identity_.row_ptr = h->input_span(row_ptr);
    identity_.col_idx = h->input_span(col_idx);
  }
  void expect_all(ConstMatrixView y, double value) {
    for (const double found : h->download(y)) ASSERT_EQ(found, value);
  }

  std::unique_ptr<Harness> h;
  SparseOperator identity_;
};
INSTANTIATE_TEST_SUITE_P(Backends, QueueTest, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST_P(QueueTest, MemoryIsAligned) {
  for (const std::int64_t bytes : {0LL, 1LL, 100LL, 5LL << 20}) {
    void* data = backend().allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    backend().release(data);
    const Staging staging(backend(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(staging.data()) % 64, 0U);
    std::memset(staging.data(), 1, static_cast<std::size_t>(bytes));
  }
}

TEST_P(QueueTest, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 50;
  const Error device = thrown_error([&] { backend().allocate(kTooMuch); });
  EXPECT_EQ(device.kind(), ErrorKind::kMemory);
  EXPECT_THAT(device.what(), HasSubstr("1125899906842624"));
  EXPECT_EQ(thrown_error([&] { backend().allocate_staging(kTooMuch); }).kind(), ErrorKind::kMemory);
  // And the backend goes on.
  const MatrixView y = filled(1);
  backend().run(h->queue(), kernels::FillZero{y});
  expect_all(y, 0);
}

TEST_P(QueueTest, SaysWhatItRunsOn) {
  EXPECT_EQ(backend().name(), GetParam());
  EXPECT_FALSE(backend().device().empty());
  EXPECT_FALSE(backend().device_id().empty());
  EXPECT_EQ(backend().device_id() == "host", backend().host_accessible());
  EXPECT_GT(backend().available_bytes(), kBytes);
}

// Memory that the queue copies from may be gone as soon as copy() returns, unless it is staging.
TEST_P(QueueTest, CopiesFromOrdinaryMemoryAreReadAtOnce) {
  const MatrixView y = h->matrix(1, kQueuedCols, Use::kInOut);
  std::vector<float> source(kQueuedCols, 3);
  backend().copy(h->queue(), y.data, source.data(), kQueuedCols * 4, CopyKind::kHostToDevice);
  std::fill(source.begin(), source.end(), 4.0F);
  for (const double found : h->download(y)) ASSERT_EQ(found, 3);
}

TEST_P(QueueTest, CopiesToOrdinaryMemoryAreWrittenAtOnce) {
  make_identity();
  const MatrixView y = filled(1);
  for (int k = 0; k < 4; ++k) add(h->queue(), filled(1), y);
  float found = 0;
  backend().copy(h->queue(), &found, y.row<float>(kQueuedRows - 1) + kQueuedCols - 1, sizeof(found),
                 CopyKind::kDeviceToHost);
  EXPECT_EQ(found, 5);
}

TEST_P(QueueTest, CopiesByWayOfStagingRunInTheQueue) {
  make_identity();
  const Staging from(backend(), kBytes);
  const Staging to(backend(), kBytes);
  std::fill_n(from.as<float>(), kQueuedRows * kQueuedCols, 2.0F);
  std::fill_n(to.as<float>(), kQueuedRows * kQueuedCols, -1.0F);
  h->set_padding(0);
  const MatrixView x = h->matrix(kQueuedRows, kQueuedCols, Use::kInOut);
  const MatrixView y = h->matrix(kQueuedRows, kQueuedCols, Use::kInOut);
  backend().copy(h->queue(), x.data, from.data(), kBytes, CopyKind::kHostToDevice);
  backend().copy(h->queue(), y.data, x.data, kBytes, CopyKind::kDeviceToDevice);
  add(h->queue(), x, y);
  backend().copy(h->queue(), to.data(), y.data, kBytes, CopyKind::kDeviceToHost);
  backend().synchronize(h->queue());
  for (std::int64_t k = 0; k < kQueuedRows * kQueuedCols; ++k) ASSERT_EQ(to.as<float>()[k], 4);
}

TEST_P(QueueTest, WaitForOrdersTwoQueues) {
  make_identity();
  const auto first = backend().make_queue();
  const auto second = backend().make_queue(QueuePriority::kHigh);
  const MatrixView ones = filled(1);
  const MatrixView x = filled(0);
  const MatrixView y = filled(0);
  backend().wait_for(*first, h->queue());
  // Twelve turns of "x += 1 here, y += x there", each waiting for the other: y = 1 + 2 + ... + 12.
  for (int turn = 0; turn < 12; ++turn) {
    add(*first, ones, x);
    backend().wait_for(*second, *first);
    add(*second, x, y);
    backend().wait_for(*first, *second);
  }
  backend().synchronize(*second);
  backend().wait_for(h->queue(), *second);
  expect_all(y, 78);
  backend().synchronize(*first);
}

// A value goes to the host and comes back elsewhere, beside what the other queue computes; the same
// in a recording.
TEST_P(QueueTest, ACopyQueueTakesNoMemoryAndIsOrderedByWaiting) {
  make_identity();
  const std::int64_t before = backend().available_bytes();
  const auto copies = backend().make_copy_queue();
  if (!backend().host_accessible()) {
    // Beside this process others may take memory of a device, and its driver for itself; a
    // workspace would be 32 MiB.
    constexpr std::int64_t kNoise = 4 << 20;
    EXPECT_NEAR(static_cast<double>(backend().available_bytes()), static_cast<double>(before),
                kNoise);
  }
  const Staging staging(backend(), kBytes);
  const MatrixView ones = filled(1);
  const MatrixView x = filled(0);
  const MatrixView y = filled(0);
  const auto body = [&] {
    add(h->queue(), ones, x);
    backend().wait_for(*copies, h->queue());
    backend().copy(*copies, staging.data(), x.data, kBytes, CopyKind::kDeviceToHost);
    add(h->queue(), ones, y);
    backend().wait_for(h->queue(), *copies);
    add(h->queue(), ones, x);  // not before it was copied
    backend().wait_for(*copies, h->queue());
    backend().copy(*copies, y.data, staging.data(), kBytes, CopyKind::kHostToDevice);
    backend().wait_for(h->queue(), *copies);
    add(h->queue(), ones, y);
  };
  body();
  expect_all(y, 2);  // x as it was copied, and 1
  expect_all(x, 2);
  const auto recording = backend().record(h->queue(), body);
  if (recording == nullptr) return;
  backend().replay(h->queue(), *recording);
  backend().replay(h->queue(), *recording);
  expect_all(y, 6);
  expect_all(x, 6);
}

// Work queued on `before` later is not waited for, and a queue may wait for an idle one.
TEST_P(QueueTest, WaitForAnIdleQueue) {
  make_identity();
  const auto other = backend().make_queue();
  backend().wait_for(h->queue(), *other);
  const MatrixView y = filled(1);
  add(h->queue(), filled(1), y);
  expect_all(y, 2);
}

TEST_P(QueueTest, BecomesIdleOnItsOwn) {
  make_identity();
  const Staging staging(backend(), 4);
  *staging.as<float>() = 0;
  const MatrixView y = filled(1);
  for (int k = 0; k < 3; ++k) add(h->queue(), filled(1), y);
  backend().copy(h->queue(), staging.data(), y.row<float>(kQueuedRows - 1), 4,
                 CopyKind::kDeviceToHost);
  // No synchronize: asking must be enough, as a host that has other things to do would.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!backend().is_idle(h->queue()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(backend().is_idle(h->queue()));
  EXPECT_EQ(*staging.as<float>(), 4);
  backend().synchronize(h->queue());
  EXPECT_TRUE(backend().is_idle(h->queue()));
}

// The memory of a released buffer may be handed out again at once; what was queued reads the old
// contents all the same.
TEST_P(QueueTest, ReleaseWaitsForQueuedWork) {
  make_identity();
  const auto other = backend().make_queue();
  const MatrixView y = filled(1);
  const std::vector<float> twos(kQueuedRows * kQueuedCols, 2);
  const std::vector<float> nines(kQueuedRows * kQueuedCols, 9);
  for (int k = 0; k < 3; ++k) {
    void* data = backend().allocate(kBytes);
    backend().copy(h->queue(), data, twos.data(), kBytes, CopyKind::kHostToDevice);
    add(h->queue(), {data, kQueuedRows, kQueuedCols, kQueuedCols}, y);
    backend().release(data);
    void* again = backend().allocate(kBytes);
    backend().copy(*other, again, nines.data(), kBytes, CopyKind::kHostToDevice);
    backend().synchronize(*other);
    backend().release(again);
  }
  expect_all(y, 7);
}

// One epoch's work: random numbers and a step, both of the state in memory.
struct Epoch {
  Epilogue epilogue;
  AdamSpec spec;
  MatrixView x, y, parameters, m, v;

  void run(Backend& backend, Queue& queue) const {
    backend.run(queue, kernels::ApplyEpilogue{x, epilogue, y});
    backend.run(queue, kernels::AdamStep{spec, parameters, y.rows_in({0, 1}), m, v});
  }
};

const std::vector<AdamSegment> kSegments{{0, kQueuedCols, 0.01}};

Epoch make_epoch(Harness& h, const EpochState* state) {
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < kQueuedRows; ++i) ids.push_back(GlobalId{i});
  Epoch epoch;
  epoch.epilogue.dropout = {
      {11, RandomStream::kDropout, 1, 0}, dropout_threshold(0.5), h.input_span(ids), state};
  epoch.spec.segments = kSegments;
  epoch.spec.state = state;
  epoch.x =
      h.matrix(kQueuedRows, kQueuedCols, Use::kInOut, random_floats(kQueuedRows * kQueuedCols, 1));
  epoch.y = h.matrix(kQueuedRows, kQueuedCols, Use::kInOut,
                     std::vector<float>(kQueuedRows * kQueuedCols, 0));
  epoch.parameters = h.matrix(1, kQueuedCols, Use::kInOut, random_floats(kQueuedCols, 2));
  epoch.m = h.matrix(1, kQueuedCols, Use::kInOut, std::vector<float>(kQueuedCols, 0));
  epoch.v = h.matrix(1, kQueuedCols, Use::kInOut, std::vector<float>(kQueuedCols, 0));
  return epoch;
}

EpochState state_of(std::uint32_t epoch) {
  return {.epoch = epoch,
          .learning_rate = 0.1 / epoch,
          .first_correction = 1 - std::pow(0.9, epoch),
          .second_correction = 1 - std::pow(0.999, epoch)};
}

TEST_P(QueueTest, ReplaysReadTheStateOfTheirEpoch) {
  const auto state = h->inout_span(std::vector<EpochState>(1));
  const Epoch recorded = make_epoch(*h, state.data());
  backend().synchronize(h->queue());
  bool called = false;
  const auto recording = backend().record(h->queue(), [&] {
    called = true;
    recorded.run(backend(), h->queue());
  });
  EXPECT_EQ(called, recording != nullptr);
  if (recording == nullptr) GTEST_SKIP() << GetParam() << " makes no recordings";
  // Recording alone runs nothing.
  expect_all(recorded.y, 0);

  Harness oracle("reference");
  const auto oracle_state = oracle.inout_span(std::vector<EpochState>(1));
  const Epoch expected = make_epoch(oracle, oracle_state.data());
  const Staging staging(backend(), sizeof(EpochState));
  for (const std::uint32_t epoch : {1U, 2U, 5U}) {
    *staging.as<EpochState>() = state_of(epoch);
    backend().copy(h->queue(), state.data(), staging.data(), sizeof(EpochState),
                   CopyKind::kHostToDevice);
    backend().replay(h->queue(), *recording);
    oracle_state[0] = state_of(epoch);
    expected.run(oracle.backend(), oracle.queue());
    expect_close(h->download(recorded.y), oracle.download(expected.y), 2e-7, "y");
    expect_close(h->download(recorded.parameters), oracle.download(expected.parameters), 1e-6,
                 "parameters");
  }
}

TEST_P(QueueTest, RecordingsHoldSeveralQueuesAndCopies) {
  make_identity();
  const auto other = backend().make_queue();
  h->set_padding(0);
  const Staging from(backend(), kBytes);
  const Staging to(backend(), kBytes);
  const MatrixView x = h->matrix(kQueuedRows, kQueuedCols, Use::kInOut);
  const MatrixView y = filled(0);
  const MatrixView z = filled(0);
  backend().synchronize(h->queue());
  std::fill_n(from.as<float>(), kQueuedRows * kQueuedCols, -100.0F);
  const auto recording = backend().record(h->queue(), [&] {
    backend().copy(h->queue(), x.data, from.data(), kBytes, CopyKind::kHostToDevice);
    backend().wait_for(*other, h->queue());
    add(*other, x, z);
    add(h->queue(), x, y);
    backend().wait_for(h->queue(), *other);
    add(h->queue(), z, y);
    backend().copy(h->queue(), to.data(), y.data, kBytes, CopyKind::kDeviceToHost);
  });
  if (recording == nullptr) GTEST_SKIP() << GetParam() << " makes no recordings";
  // Staging memory is read when a replay runs, not when it was recorded: x = 1, 2, 3.
  double z_now = 0;
  double y_now = 0;
  for (const int value : {1, 2, 3}) {
    std::fill_n(from.as<float>(), kQueuedRows * kQueuedCols, static_cast<float>(value));
    backend().replay(h->queue(), *recording);
    backend().synchronize(h->queue());
    z_now += value;
    y_now += value + z_now;
    ASSERT_EQ(to.as<float>()[kQueuedRows * kQueuedCols - 1], y_now);
  }
  // Twice without waiting in between, and the other queue is usable on its own.
  backend().replay(h->queue(), *recording);
  backend().replay(h->queue(), *recording);
  backend().wait_for(*other, h->queue());
  add(*other, x, z);
  backend().wait_for(h->queue(), *other);
  expect_all(z, z_now + 3 + 3 + 3);
  expect_all(y, y_now + 3 + (z_now + 3) + 3 + (z_now + 6));
}

TEST_P(QueueTest, AClockTellsWhenWorkRan) {
  make_identity();
  const auto clock = backend().make_clock(h->queue());
  if (clock == nullptr) GTEST_SKIP() << "the host's clock times " << GetParam();
  for (int round = 0; round < 2; ++round) {
    clock->reset();
    clock->push_range("add");
    const int begin = clock->mark();
    for (int k = 0; k < 10; ++k) add(h->queue(), filled(1), filled(1));
    const int end = clock->mark();
    clock->pop_range();
    const int later = clock->mark();
    backend().synchronize(h->queue());
    EXPECT_GE(clock->microseconds(begin), 0);
    EXPECT_GT(clock->microseconds(end), clock->microseconds(begin));
    EXPECT_GE(clock->microseconds(later), clock->microseconds(end));
    EXPECT_LT(clock->microseconds(later), 60e6);
  }
}

}  // namespace

}  // namespace atl
