#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <random>
#include <thread>

#include "stretto/ir/interpreter.h"
#include "stretto/runtime/executor_pool.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/testing.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

// Counts every allocation of this test program, to hold run() to its promise of none.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
// Not inlined: GCC would see the free() without the malloc() above and warn of a mismatch.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace stretto::runtime {
namespace {

Tensor random_tensor(const TensorSpec& spec, uint64_t seed) {
  Tensor tensor(DType::kFloat32, spec.shape);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& v : tensor.mutable_values<float>()) v = uniform(random);
  return tensor;
}

void expect_right(const Model& model, const Tensor& x, const std::vector<Tensor>& got) {
  const auto expected = ir::interpret(*model.state().graph, std::vector<Tensor>{x});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // Small sums in fp32, F(4,3) at most: 1e-5 of the largest value (see
    // docs/design/candidates.md).
    EXPECT_LT(compare("y", got[i], expected[i]).relative_to_max, 2e-5);
  }
}

TEST(Session, AgreesWithTheReference) {
  for (int threads : {1, 2, 3}) {
    const Model model = model_of(kSmallNet, threads);
    Session session(model);
    for (uint64_t seed : {1, 2, 3}) {
      const Tensor x = random_tensor(model.inputs()[0], seed);
      expect_right(model, x, session.run({x}));
    }
  }
}

TEST(Session, RunAllocatesNothingAfterTheFirst) {
  for (int threads : {1, 2}) {
    const Model model = model_of(kSmallNet, threads);
    Session session(model);
    const Tensor x = random_tensor(model.inputs()[0], 1);
    std::vector<Tensor> outputs = session.run({x});
    const void* from[] = {x.data()};
    void* to[] = {outputs[0].mutable_data(), outputs[1].mutable_data()};
    session.run(from, to);
    const int64_t before = g_allocations.load();
    for (int i = 0; i < 20; ++i) session.run(from, to);
    EXPECT_EQ(g_allocations.load(), before);
  }
}

TEST(Session, TakesUnalignedMemory) {
  const Model model = model_of(kSmallNet);
  Session session(model);
  const Tensor x = random_tensor(model.inputs()[0], 5);
  const std::vector<Tensor> expected = session.run({x});
  std::vector<float> from(static_cast<size_t>(x.count()) + 1);
  std::copy(x.values<float>().begin(), x.values<float>().end(), from.begin() + 1);
  std::vector<float> y(static_cast<size_t>(expected[0].count()) + 1),
      d(static_cast<size_t>(expected[1].count()) + 1);
  const void* inputs[] = {from.data() + 1};
  void* outputs[] = {y.data() + 1, d.data() + 1};
  session.run(inputs, outputs);
  EXPECT_TRUE(std::equal(y.begin() + 1, y.end(), expected[0].values<float>().begin()));
  EXPECT_TRUE(std::equal(d.begin() + 1, d.end(), expected[1].values<float>().begin()));
}

TEST(Session, ManyCallersShareOneSession) {
  const Model model = model_of(kSmallNet, 2);
  Session session(model);
  std::vector<Tensor> xs;
  std::vector<std::vector<Tensor>> expected;
  for (uint64_t i = 0; i < 3; ++i) {
    xs.push_back(random_tensor(model.inputs()[0], i));
    expected.push_back(session.run({xs.back()}));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (size_t i = 0; i < xs.size(); ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) {
        const auto y = session.run({xs[i]});
        const auto a = y[0].values<float>(), b = expected[i][0].values<float>();
        if (!std::equal(a.begin(), a.end(), b.begin())) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

int threads_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Calls `session` from `callers` threads at once, `runs` times each, and returns the most threads
// that the process had meanwhile.
int run_from_many_threads(Session& session, const Tensor& x, int callers, int runs) {
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < runs; ++k) session.run({x});
      const int now = threads_of_process();
      for (int old = most; now > old && !most.compare_exchange_weak(old, now);) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return most;
}

TEST(Session, A96thCallerBringsNoTeamOfItsOwn) {
  constexpr int kThreads = 3, kCallers = 96;
  Session session(model_of(kSmallNet, kThreads));
  const Tensor x = random_tensor(session.model().inputs()[0], 7);
  const int before = threads_of_process();  // the first team is there
  const int most = run_from_many_threads(session, x, kCallers, 5);
  EXPECT_LE(most, before + kCallers + (executor_limit(kThreads) - 1) * (kThreads - 1));
}

TEST(Session, WaitingCallersSleep) {
  Session session(model_of(kSmallNet, cpu_info().cores));
  const Tensor x = random_tensor(session.model().inputs()[0], 8);
#ifdef STRETTO_EMULATED
  constexpr int kCallers = 96, kRuns = 2;
#else
  constexpr int kCallers = 96, kRuns = 20;
#endif
  session.run({x});
  double start = cpu_seconds();
  for (int i = 0; i < kCallers * kRuns; ++i) session.run({x});
  const double alone = cpu_seconds() - start;
  start = cpu_seconds();
  run_from_many_threads(session, x, kCallers, kRuns);
  const double together = cpu_seconds() - start;
  // The same work, plus starting 96 threads and waking them 1,920 times: tens of milliseconds.
  // Callers that yield or spin instead cost as much as they wait, many times the work itself.
  EXPECT_LT(together, 2 * alone + 0.5) << "alone " << alone << " s";
}

TEST(Session, SeveralSessionsShareOneModel) {
  const Model model = model_of(kSmallNet, 2);
  const Tensor x = random_tensor(model.inputs()[0], 4);
  const auto expected = Session(model).run({x});
  std::atomic<int> wrong{0};
  std::vector<std::thread> owners;
  for (int threads : {0, 1, 3}) {  // as optimised, and compiled anew from the graph
    owners.emplace_back([&, threads] {
      Session session(model, threads);
      for (int k = 0; k < 5; ++k) {
        const auto y = session.run({x});
        // Another thread count may choose another kernel: fp32 sums in another order.
        if (!(compare("y", y[0], expected[0]).relative_to_max < 2e-5)) ++wrong;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Session, NamesWhatIsWrongWithAnInput) {
  const Model model = model_of(kSmallNet);
  Session session(model);
  const auto message = [&](std::vector<Tensor> inputs) -> std::string {
    try {
      session.run(inputs);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "run: small has 1 inputs, got 0");
  EXPECT_EQ(message({Tensor(DType::kFloat32, {1, 3, 4, 4})}),
            "input x: expected shape 1x3x33x31, got 1x3x4x4");
  EXPECT_EQ(message({Tensor(DType::kFloat64, {1, 3, 33, 31})}),
            "input x: expected float32, got float64");
}

TEST(Session, OtherThreadCountsCompileFromTheGraph) {
  const Model model = model_of(kSmallNet, 1);
  Session session(model, 3);
  const Tensor x = random_tensor(model.inputs()[0], 9);
  expect_right(model, x, session.run({x}));
  EXPECT_THROW(Session(model, -1), InvalidArgument);
  EXPECT_THROW(Session(model, 1025), InvalidArgument);
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Selu and Celu have no kernel; Relu has.
constexpr std::string_view kInterpretedNet = R"(
  graph interpreted
  input x: float32[1000, 1000]
  a = Selu(x)
  b = Relu(a)
  c = Celu(b)
  y = Selu(c)
  output y
)";

TEST(Session, InterpretedNodesGiveTheSameBitsOnAnyTeam) {
  const Model alone = model_of(kInterpretedNet, 1);
  const Tensor x = random_tensor(alone.inputs()[0], 4);
  const Tensor expected = Session(alone).run({x})[0];
  for (int threads : {2, 3}) {
    Session session(model_of(kInterpretedNet, threads));
    const Tensor got = session.run({x})[0];
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.bytes()), 0) << threads;
  }
}

TEST(Session, InterpretedNodesRunOnTheTeam) {
  Session session(model_of(kInterpretedNet, 2));
  const Tensor x = random_tensor(session.model().inputs()[0], 4);
  session.run({x});
  const double all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double caller = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int run = 0; run < 5; ++run) session.run({x});
  const double all_s = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - all;
  const double caller_s = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - caller;
  // Half of it, if the machine is quiet; a waiting thread spins for a fraction of a millisecond.
  EXPECT_GT((all_s - caller_s) / all_s, 0.25) << caller_s << " of " << all_s << " s";
}

}  // namespace
}  // namespace stretto::runtime
