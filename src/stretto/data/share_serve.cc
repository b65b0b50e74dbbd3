// The side of the process that has the loader.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/share.h"
#include "stretto/data/share_wire.h"

namespace stretto::data {
namespace {

struct Gone {};  // the other end is

// How often somebody who waits for a request looks whether the process there has ended, besides
// being told: an end that is missed would keep this process for ever.
constexpr int kLookMs = 1000;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

class Session {
 public:
  Session(Loader& loader, int socket, int process) : loader_(loader), wire_(socket, process) {}
  ~Session() {
    // The other end may still hold batches: no others may come into their memory.
    loader_.impl().pool->close();
    if (const auto& masks = loader_.impl().mask_pool) masks->close();
  }

  void run() {
    try {
      const InterruptScope interrupt([this] {
        if (wire_.gone()) throw Gone();
      });
      for (;;) answer(request());
    } catch (const Gone&) {
    }
  }

 private:
  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const int64_t got = wire_.receive(bytes);
      if (got < 0) throw Gone();
      bytes = bytes.subspan(static_cast<size_t>(got));
      if (got > 0) continue;
      if (wire_.gone()) throw Gone();  // whatever half of a request is there
      wire_.wait(kLookMs);
    }
  }

  Request request() {
    Request request;
    read(std::as_writable_bytes(std::span(&request, 1)));
    if (request.given_back > kMostGivenBack || request.ask > Ask::kLoad) {
      throw Gone();  // it is none of ours
    }
    std::vector<uint64_t> numbers(request.given_back);
    read(std::as_writable_bytes(std::span(numbers)));
    for (const uint64_t number : numbers) held_.erase(number);
    return request;
  }

  void answer(const Request& request) {
    std::optional<Batch> batch;
    Reply reply;
    ErrorText error;
    try {
      if (request.ask == Ask::kLoad) {
        loader_.load(request.position);
        reply.answer = Answer::kLoaded;
      } else {
        batch = loader_.next();
        reply.answer = batch ? Answer::kBatch : Answer::kEnd;
      }
    } catch (const std::exception& e) {
      reply.answer = Answer::kError;
      error = error_text(e);
    }
    reply.position = loader_.position();
    reply.kind = error.kind;
    reply.code = error.code;
    reply.offset = error.offset;
    reply.file_bytes = std::ssize(error.file);
    reply.problem_bytes = std::ssize(error.problem);
    send(reply, batch, error);
  }

  // Of those that the other end knows.
  std::vector<uint64_t> gone_slots() {
    std::vector<uint64_t> gone;
    std::vector<uint64_t> numbers = loader_.impl().pool->numbers();
    if (const auto& pool = loader_.impl().mask_pool) {  // its numbers are larger
      const std::vector<uint64_t> more = pool->numbers();
      numbers.insert(numbers.end(), more.begin(), more.end());
    }
    for (const uint64_t number : known_) {
      if (!std::ranges::binary_search(numbers, number)) gone.push_back(number);
    }
    for (const uint64_t number : gone) known_.erase(number);
    return gone;
  }

  void send(Reply& reply, const std::optional<Batch>& batch, const ErrorText& error) {
    const std::vector<uint64_t> gone = gone_slots();
    reply.gone = std::ssize(gone);
    std::vector<int> files;
    std::vector<std::shared_ptr<Slot>> brought;
    if (batch) {
      const auto slot = std::static_pointer_cast<Slot>(batch->hold);
      describe(*batch, *slot, reply);
      const auto give = [&](const std::shared_ptr<Slot>& given, uint32_t brings) {
        held_.emplace(given->number, given);
        if (!known_.insert(given->number).second) return;
        reply.brings |= brings;
        files.push_back(given->file);
        brought.push_back(given);
      };
      give(slot, kBringsSlot);
      if (slot->joined_masks != nullptr) give(slot->joined_masks, kBringsMasks);
    }
    const ReplyRows rows = reply_rows(reply);
    std::vector<std::byte> behind(static_cast<size_t>(rows.bytes));
    const auto put = [&behind](int64_t at, const void* from, int64_t bytes) {
      if (bytes > 0) std::memcpy(behind.data() + at, from, static_cast<size_t>(bytes));
    };
    put(rows.gone, gone.data(), 8 * reply.gone);
    put(rows.file, error.file.data(), reply.file_bytes);
    put(rows.problem, error.problem.data(), reply.problem_bytes);
    if (batch) {
      put(rows.labels, batch->labels, 8 * batch->count);
      put(rows.samples, batch->samples, 8 * batch->count);
      put(rows.real, batch->real, batch->count);
      if (reply.boxes >= 0) {
        put(rows.image_ids, batch->image_ids, 8 * batch->count);
        put(rows.starts, batch->box_starts, 8 * (batch->count + 1));
        put(rows.box_labels, batch->box_labels, 8 * reply.boxes);
        put(rows.boxes, batch->boxes, 16 * reply.boxes);
        put(rows.areas, batch->box_areas, 4 * reply.boxes);
      }
    }
    if (!wire_.send(bytes_of(reply), behind, files)) throw Gone();
    // One descriptor for each batch that a rank keeps would use up those of all ranks.
    for (const std::shared_ptr<Slot>& slot : brought) slot->close_file();
  }

  static void describe(const Batch& batch, const Slot& slot, Reply& reply) {
    const auto at = [&slot](const void* part) {
      return part == nullptr ? -1 : static_cast<const std::byte*>(part) - slot.data;
    };
    reply.slot = slot.number;
    reply.slot_bytes = slot.bytes;
    reply.count = batch.count;
    reply.height = batch.height;
    reply.width = batch.width;
    reply.classes = batch.classes;
    reply.masks_at = at(batch.masks);
    reply.targets_at = at(batch.targets);
    reply.epoch = batch.epoch;
    reply.number = batch.number;
    reply.boxes = batch.boxes == nullptr ? -1 : batch.box_starts[batch.count];
    if (slot.joined_masks == nullptr) return;
    reply.mask_slot = slot.joined_masks->number;
    reply.mask_bytes = slot.joined_masks->bytes;
  }

  Loader& loader_;
  const Wire wire_;
  std::unordered_map<uint64_t, std::shared_ptr<Slot>> held_;  // by the other end
  std::unordered_set<uint64_t> known_;                        // that it was sent
};

void serve(Loader& loader, int socket, int process) { Session(loader, socket, process).run(); }

}  // namespace stretto::data
