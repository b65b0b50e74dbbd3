// Waiting for a word of memory that another thread changes: spins, then sleeps on a futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stretto {

// A hint to the processor that this thread spins.
void relax();

// Changes `word` and wakes those who wait for that.
void set_and_wake(std::atomic<uint32_t>& word, uint32_t value);

// The same for a word that several threads raise, one value after the other: nothing where it has a
// higher one already, counting round, because a thread that was stopped before it came here must
// not take it back.
void raise_and_wake(std::atomic<uint32_t>& word, uint32_t value);

// Returns when `word` is not `value` any more. Spins for kSpinTime before it sleeps.
// Spinning pays only while the other threads really run: on a busy machine the one waited for may
// need this very core. About as long as it takes to wake a sleeper, so that neither a wrong spin
// nor a wrong sleep costs more than twice the right one. To yield instead would be worse: a thread
// that yields to a busy neighbour gets its core back after a whole time slice, one that is woken at
// once.
void wait_while(std::atomic<uint32_t>& word, uint32_t value);

constexpr auto kSpinTime = std::chrono::microseconds(30);

// The two halves of it: spins, or sleeps, until the word changes or, about, `most` has passed.
// Whether the word has changed.
bool spin_while(const std::atomic<uint32_t>& word, uint32_t value,
                std::chrono::microseconds most = kSpinTime);
bool sleep_while(std::atomic<uint32_t>& word, uint32_t value, std::chrono::microseconds most);

}  // namespace stretto
