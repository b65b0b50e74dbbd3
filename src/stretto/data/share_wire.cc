#include "stretto/data/share_wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

// A batch has at most 2^20 samples (loader_options.cc), and a picture far fewer boxes than this.
constexpr int64_t kMostCount = 1 << 20, kMostBoxes = int64_t{1} << 32;
constexpr int64_t kMostText = 1 << 24, kMostGone = 1 << 20;
constexpr int64_t kMostElements = int64_t{1} << 48;

bool within(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

// Of an error, without what FormatError puts before it.
std::string problem_of(const FormatError& error) {
  const std::string prefix = FormatError(error.file(), error.offset(), "").what();
  const std::string_view text = error.what();
  return std::string(text.starts_with(prefix) ? text.substr(prefix.size()) : text);
}

}  // namespace

ReplyRows reply_rows(const Reply& r) {
  ReplyRows rows;
  int64_t at = 0;
  const auto take = [&at](int64_t count, int64_t each) {
    const int64_t begin = at;
    at += count * each;
    return begin;
  };
  const bool boxes = r.boxes >= 0;
  rows.labels = take(r.count, 8);
  rows.samples = take(r.count, 8);
  rows.image_ids = take(boxes ? r.count : 0, 8);
  rows.starts = take(boxes ? r.count + 1 : 0, 8);
  rows.box_labels = take(boxes ? r.boxes : 0, 8);
  rows.gone = take(r.gone, 8);
  rows.boxes = take(boxes ? r.boxes : 0, 16);
  rows.areas = take(boxes ? r.boxes : 0, 4);
  rows.real = take(r.count, 1);
  rows.file = take(r.file_bytes, 1);
  rows.problem = take(r.problem_bytes, 1);
  rows.bytes = at;
  return rows;
}

bool plausible(const Reply& r) {
  if (r.answer > Answer::kError || r.kind > ErrorKind::kOther) return false;
  if (!within(r.count, 0, kMostCount) || !within(r.boxes, -1, kMostBoxes) ||
      !within(r.gone, 0, kMostGone) || !within(r.file_bytes, 0, kMostText) ||
      !within(r.problem_bytes, 0, kMostText)) {
    return false;
  }
  if (r.answer != Answer::kBatch) return true;
  if (!within(r.slot_bytes, 1, kMostElements) || !within(r.height, 1, 1 << 20) ||
      !within(r.width, 1, 1 << 20) || r.count == 0 ||
      r.count * r.height * r.width > kMostElements || !within(r.classes, 0, 1 << 24)) {
    return false;
  }
  const int64_t each = r.height * r.width;
  if (!within(r.mask_bytes, 0, kMostElements) ||
      (r.mask_bytes > 0 && !within(r.boxes, 1, r.mask_bytes / each))) {
    return false;
  }
  return within(r.masks_at, -1, r.slot_bytes) && within(r.targets_at, -1, r.slot_bytes);
}

bool fits_slot(const Reply& r, size_t element_bytes, size_t mask_bytes) {
  const auto ends = [&r](int64_t at, int64_t count, size_t bytes) {
    const auto each = static_cast<int64_t>(bytes);
    return at < 0 || (at % each == 0 && at + count * each <= r.slot_bytes);
  };
  const int64_t pixels = r.count * r.height * r.width;
  return ends(0, 3 * pixels, element_bytes) && ends(r.masks_at, pixels, mask_bytes) &&
         ends(r.targets_at, r.count * r.classes, sizeof(float));
}

ErrorText error_text(const std::exception& error) {
  if (const auto* e = dynamic_cast<const FormatError*>(&error)) {
    return {.kind = ErrorKind::kFormat,
            .code = e->code(),
            .offset = e->offset(),
            .file = e->file(),
            .problem = problem_of(*e)};
  }
  ErrorText text{.problem = error.what()};
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) text.kind = ErrorKind::kInvalid;
  if (dynamic_cast<const Unsupported*>(&error) != nullptr) text.kind = ErrorKind::kUnsupported;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) text.kind = ErrorKind::kMemory;
  return text;
}

void throw_error(const ErrorText& error) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
      throw InvalidArgument(error.problem);
    case ErrorKind::kUnsupported:
      throw Unsupported(error.problem);
    case ErrorKind::kFormat:
      throw FormatError(error.file, error.offset, error.problem, error.code);
    case ErrorKind::kMemory:
      throw std::bad_alloc();
    case ErrorKind::kOther:
      break;
  }
  throw InternalError(error.problem);
}

Wire::~Wire() {
  ::close(socket_);
  if (process_ >= 0) ::close(process_);
}

bool Wire::wait(int timeout_ms) const {
  pollfd of[2] = {{socket_, POLLIN | POLLRDHUP, 0}, {process_, POLLIN, 0}};
  return ::poll(of, process_ >= 0 ? 2 : 1, timeout_ms) > 0;
}

bool Wire::gone() const {
  pollfd of[2] = {{socket_, POLLRDHUP, 0}, {process_, POLLIN, 0}};
  return ::poll(of, process_ >= 0 ? 2 : 1, 0) > 0;
}

bool Wire::send(std::span<const std::byte> head, std::span<const std::byte> rest,
                std::span<const int> files) const {
  while (!head.empty() || !rest.empty()) {
    iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                      {const_cast<std::byte*>(rest.data()), rest.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
    if (!files.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(files.size_bytes());
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(files.size_bytes());
      std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
    }
    const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd of[2] = {{socket_, POLLOUT | POLLRDHUP, 0}, {process_, POLLIN, 0}};
      ::poll(of, process_ >= 0 ? 2 : 1, 1000);
      if ((of[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ||
          (process_ >= 0 && of[1].revents != 0)) {
        return false;
      }
      continue;
    }
    if (sent < 0) return false;
    files = {};  // they went with the first byte
    const size_t of_head = std::min(static_cast<size_t>(sent), head.size());
    head = head.subspan(of_head);
    rest = rest.subspan(static_cast<size_t>(sent) - of_head);
  }
  return true;
}

int64_t Wire::receive(std::span<std::byte> bytes, std::vector<int>* files) const {
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  if (files != nullptr) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  const ssize_t got = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
  if (got == 0) return -1;
  if (files != nullptr) {
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      for (size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
        int file;
        std::memcpy(&file, reinterpret_cast<const char*>(header) + at, sizeof(int));
        if (files->size() < kMostFiles) {
          files->push_back(file);
        } else {
          ::close(file);
        }
      }
    }
  }
  return got;
}

}  // namespace stretto::data
