// What the last operations of a rank were: always recorded, so that a job which hangs or fails can
// be explained afterwards. Nothing is allocated for an operation.
//
// Not thread-safe: the caller holds the engine's lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {

class FlightRecorder {
 public:
  static constexpr size_t kOperations = 1000;
  static constexpr size_t kNameBytes = 56;  // with the final zero; longer names are cut

  // An operation that has just been submitted; one that has ended, successfully or not.
  void submitted(const OpenOperation& open);
  void finished(const OpenOperation& open, double now);

  struct Pending {
    const OpenOperation* open;
    std::vector<int> awaited;  // ranks of the job whose data it waits for
  };
  struct Group {
    comm::Group id;
    std::string name;
    std::vector<int> ranks;
    uint64_t next_sequence;
  };
  struct Peer {
    int rank;
    bool alive, departed;
    double silent_s;  // since bytes last arrived
  };
  // What the engine knows beside the records.
  struct Context {
    Membership membership;
    std::string host, reason;
    std::vector<Group> groups;
    std::vector<Pending> pending;
    std::vector<Peer> peers;
  };

  // One JSON object (docs/formats/flight-record.md). Times are seconds since 1970.
  std::string json(const Context& context) const;

 private:
  enum class State : uint8_t { kNone, kOpen, kDone, kFailed };
  struct Record {
    Handle handle = 0;
    comm::Group group = 0;
    uint64_t sequence = 0;
    int64_t bytes = 0;
    double submitted_s = 0, started_s = 0, done_s = 0;
    int32_t peer = 0;
    uint32_t tag = 0;
    Kind kind = Kind::kBarrier;
    DType dtype = DType::kUndefined;
    State state = State::kNone;
    std::array<char, kNameBytes> name;
  };
  Record& slot(Handle handle) { return records_[handle % kOperations]; }

  // By handle: handles are numbers in order of submission.
  std::array<Record, kOperations> records_{};
  int64_t submitted_ = 0, finished_ = 0, failed_ = 0;
};

}  // namespace stretto::comm
