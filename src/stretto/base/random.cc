#include "stretto/base/random.h"

#include <mutex>
#include <random>

namespace stretto {
namespace {

struct Drawn {
  std::mutex mutex;
  uint64_t seed = 0, draws = 0;

  Drawn() {
    std::random_device device;
    seed = uint64_t{device()} << 32 | device();
  }
};

Drawn& drawn() {
  static Drawn* state = new Drawn;  // stays: models may run while the process ends
  return *state;
}

// Of draws that go by a number: none of the process's ever has it.
constexpr uint64_t kNumbered = ~uint64_t{0};

thread_local bool repeated = false;

}  // namespace

RandomStream next_random_stream() {
  Drawn& state = drawn();
  const std::lock_guard lock(state.mutex);
  return {state.seed, state.draws++};
}

void manual_seed(uint64_t seed) {
  Drawn& state = drawn();
  const std::lock_guard lock(state.mutex);
  state.seed = seed;
  state.draws = 0;
}

RandomStream random_stream_of(uint64_t number) { return {number, kNumbered}; }

RepeatedDraws::RepeatedDraws() : outer_(repeated) { repeated = true; }

RepeatedDraws::~RepeatedDraws() { repeated = outer_; }

bool RepeatedDraws::alive() { return repeated; }

}  // namespace stretto
