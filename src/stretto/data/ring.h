// Reads that the kernel does while their threads go on: io_uring, by its system calls (io_uring(7)
// says how its two queues work).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace stretto::data {

class Ring {
 public:
  // nullptr where reads cannot be given to io_uring: the kernel is no Linux or older than 5.6, or
  // its administrator or a filter of system calls (seccomp, as in many containers) refuses it.
  static std::unique_ptr<Ring> make(unsigned entries);
  // No read may be under way.
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // One thread at a time calls read() and ended(); at most `entries` reads are under way.
  //
  // False: the kernel does not take it now.
  bool read(int fd, uint64_t offset, void* to, uint32_t bytes, uint64_t number);
  struct Ended {
    uint64_t number = 0;
    int64_t result = 0;  // bytes that were read, or less than 0: an errno, negated
  };
  std::optional<Ended> ended();  // one that nobody was told of

  // Returns when there is one that ended() gives, or a while later where the kernel does not say
  // it. Beside read(), but not beside ended(), which may take away what is waited for.
  void wait() const;

 private:
  struct Queues;
  explicit Ring(std::unique_ptr<Queues> queues);
  bool submit(uint8_t operation, int fd, uint64_t offset, void* to, uint32_t bytes,
              uint64_t number);
  std::unique_ptr<Queues> queues_;
};

}  // namespace stretto::data
