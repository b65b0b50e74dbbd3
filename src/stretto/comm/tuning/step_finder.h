// Finds where training steps begin in the operations of a group: either the caller says so, or the
// sequence of operations repeats. Depends on the order of submission alone, so all ranks find the
// same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stretto::comm {

class StepFinder {
 public:
  enum class Event : uint8_t {
    kNothing,
    kModel,  // a sequence was recognised: model() has changed, and its first step begins
    kStep,   // a step of model() has ended
    kOther,  // other operations came since the last event, so its time says nothing about steps
  };

  // Called before an operation is submitted, which belongs to the time after the event. `hash`
  // describes the operation; `bytes` is its size.
  Event operation(uint64_t hash, int64_t bytes);

  // The caller says that a step has ended. From then on only this method makes events.
  Event step();

  // Describes the operations of a step: "26 operations, 97.5 MiB, 0123456789abcdef"; empty:
  // unknown.
  const std::string& model() const { return model_; }

 private:
  struct Seen {
    uint64_t hash = 0;
    int64_t bytes = 0;
  };
  Event follow(const Seen& next);
  size_t find_period();
  void adopt(const Seen* begin, size_t count);

  std::string model_;
  std::vector<Seen> history_;  // while nothing is recognised
  size_t possible_size_ = 0;   // with fewer operations in history_ there is no period in it
  std::vector<Seen> sequence_;
  size_t at_ = 0;  // in the sequence
  int64_t repeats_ = 1, repeat_ = 0;
  int outsiders_ = 0;
  bool disturbed_ = false;

  bool told_ = false;  // the caller says where steps end
  std::vector<Seen> since_;
  uint64_t last_hash_ = 0;
  int alike_ = 0;
};

}  // namespace stretto::comm
