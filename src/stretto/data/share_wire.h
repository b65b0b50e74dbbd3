// What serve() and SharedLoader say to each other. Both are of one build, and on one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "stretto/data/order.h"

namespace stretto::data {

enum class Ask : uint32_t { kNext, kLoad };

// Behind it come the numbers of the slots that are given back, eight bytes each.
struct Request {
  Ask ask = Ask::kNext;
  uint32_t given_back = 0;
  Position position;  // kLoad
};
inline constexpr uint32_t kMostGivenBack = 1 << 20;
// Every byte is sent, so that none may be padding, which nobody writes.
static_assert(std::has_unique_object_representations_v<Request>);

enum class Answer : uint32_t { kBatch, kEnd, kLoaded, kError };
enum class ErrorKind : uint32_t { kInvalid, kUnsupported, kFormat, kMemory, kOther };

// Behind it come what share_rows() lists. With the first byte come the memfds of slots that the
// other end does not know yet.
inline constexpr uint32_t kBringsSlot = 1, kBringsMasks = 2;
struct Reply {
  Answer answer = Answer::kBatch;
  uint32_t brings = 0;  // kBringsSlot and kBringsMasks: whose memory comes along, in this order
  Position position;    // behind what this reply gives
  // kBatch.
  uint64_t slot = 0;
  int64_t slot_bytes = 0;
  int64_t count = 0, height = 0, width = 0, classes = 0;
  int64_t masks_at = -1, targets_at = -1;  // in the slot; -1: there are none
  int64_t epoch = 0, number = 0;
  int64_t boxes = -1;  // of all pictures; -1: none were asked for
  int64_t gone = 0;    // slots that the other end may forget
  // kError.
  ErrorKind kind = ErrorKind::kOther;
  int32_t code = 0;
  int64_t offset = -1;
  int64_t file_bytes = 0, problem_bytes = 0;
  // kBatch: the slot with the masks of all boxes, one behind the other; no bytes: there are none.
  uint64_t mask_slot = 0;
  int64_t mask_bytes = 0;
};
static_assert(std::has_unique_object_representations_v<Reply>);

// Where the parts behind a reply begin, and where they end: those of eight bytes come first.
struct ReplyRows {
  int64_t labels = 0, samples = 0, image_ids = 0, starts = 0, box_labels = 0;
  int64_t gone = 0;
  int64_t boxes = 0, areas = 0;  // four bytes
  int64_t real = 0, file = 0, problem = 0;
  int64_t bytes = 0;
};
ReplyRows reply_rows(const Reply& reply);
// Whether the numbers can be those of a reply.
bool plausible(const Reply& reply);
// Of a batch: whether all its parts lie in the slot and where their elements may lie, with elements
// and masks of so many bytes.
bool fits_slot(const Reply& reply, size_t element_bytes, size_t mask_bytes);

struct ErrorText {
  ErrorKind kind = ErrorKind::kOther;
  int32_t code = 0;
  int64_t offset = -1;
  std::string file, problem;
};
ErrorText error_text(const std::exception& error);
[[noreturn]] void throw_error(const ErrorText& error);

// A connected stream socket, and maybe the process at its other end. Closes both.
class Wire {
 public:
  explicit Wire(int socket, int process = -1) : socket_(socket), process_(process) {}
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Waits so long at most (-1: for ever) for something to read. False: nothing came.
  bool wait(int timeout_ms) const;
  // Whether the other end is closed or its process has ended. Bytes may be left to read.
  bool gone() const;
  static constexpr size_t kMostFiles = 2;
  // Sends all of it; `files`: up to kMostFiles descriptors go along. False: the other end is gone.
  bool send(std::span<const std::byte> head, std::span<const std::byte> rest,
            std::span<const int> files = {}) const;
  // What is there, up to bytes.size(). 0: nothing now. -1: the other end is closed. Descriptors
  // that come along are put behind those in `files`; more than kMostFiles are closed, and without
  // `files` none is taken.
  int64_t receive(std::span<std::byte> bytes, std::vector<int>* files = nullptr) const;

 private:
  const int socket_, process_;
};

}  // namespace stretto::data
