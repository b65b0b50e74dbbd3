// A process at the other end of a socket that breaks the rules of share_wire.h, for the fuzzer and
// for the test that replays its seeds. The bytes are a script: the first one says which side is
// tried, a SharedLoader or serve(), and the others are steps of the other end, most of them what an
// honest one sends, with changes. tests/fuzz/share_seeds.py writes such scripts.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/index.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/share.h"
#include "stretto/data/share_wire.h"
#include "stretto/data/tiny_pictures_testing.h"

namespace stretto::data {

class ShareScript {
 public:
  ShareScript(const uint8_t* data, size_t size) : at_(data), left_(size) {}
  bool done() const { return left_ == 0; }
  // 0 when there is nothing left.
  uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  uint64_t number() {  // of as many bytes as the first one says, up to eight
    uint64_t value = 0;
    for (int left = byte() % 9; left > 0; --left) value = value << 8 | byte();
    return value;
  }
  std::string text() {
    const size_t taken = std::min<size_t>(byte(), left_);
    std::string out(reinterpret_cast<const char*>(at_), taken);
    at_ += taken;
    left_ -= taken;
    return out;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

// What a run of a script has shown.
struct ShareFindings {
  int batches = 0;     // that came through, and whose every array was read
  int errors = 0;      // of the loader, that came through
  bool ended = false;  // the side that was tried said in the end that the other one is gone
  int wrong = 0;       // values that no honest end gives
};

enum class Memory : uint8_t { kSealed, kShort, kUnsealed, kPipe, kTwo, kHuge, kFolder, kNone };

inline int memory_of(Memory kind, int64_t bytes) {
  if (kind == Memory::kFolder) return ::open("/", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (kind == Memory::kPipe) {
    int ends[2];
    STRETTO_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
    ::close(ends[1]);
    return ends[0];
  }
  const int file = ::memfd_create("stretto batch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (kind == Memory::kShort) bytes = std::max<int64_t>(bytes - 4096, 1);
  if (kind == Memory::kHuge) bytes = int64_t{1} << 40;
  STRETTO_CHECK(file >= 0 && ::ftruncate(file, bytes) == 0, "memfd");
  if (kind != Memory::kUnsealed) {
    ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  }
  return file;
}

// One end of a pair of sockets, which says anything.
class AnyEnd {
 public:
  AnyEnd() {
    STRETTO_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) == 0, "socketpair");
  }
  ~AnyEnd() { close(); }
  AnyEnd(const AnyEnd&) = delete;
  AnyEnd& operator=(const AnyEnd&) = delete;

  int other() const { return ends_[1]; }
  void close() {
    if (ends_[0] >= 0) ::close(std::exchange(ends_[0], -1));
  }
  // Whether all of it found room. Closes the files.
  bool say(std::string_view bytes, const std::vector<int>& files) const {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    const size_t control_bytes = files.size() * sizeof(int);
    if (!files.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(control_bytes);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(control_bytes);
      std::memcpy(CMSG_DATA(header), files.data(), control_bytes);
    }
    const ssize_t sent = ::sendmsg(ends_[0], &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (const int file : files) ::close(file);
    return sent == std::ssize(bytes);
  }
  // What is there of what the other end said is forgotten.
  void drain() const {
    char bytes[4096];
    while (::recv(ends_[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
  }
  // Reads so many, and whatever file comes. False: the other end is gone.
  bool hear(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      // Several times, because a process may stand still while time goes on.
      pollfd of{ends_[0], POLLIN, 0};
      int silent = 0;
      while (::poll(&of, 1, 5'000) == 0)
        if (++silent == 3) throw_internal("share: serve() does not answer");
      iovec part{bytes.data(), bytes.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t got = ::recvmsg(ends_[0], &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      if (const cmsghdr* const header = CMSG_FIRSTHDR(&message)) {
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
          int file;
          std::memcpy(&file, reinterpret_cast<const char*>(header) + at, sizeof file);
          ::close(file);
        }
      }
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
  }

 private:
  static void throw_internal(const char* what) { throw InternalError(what); }
  int ends_[2];
};

template <typename T>
std::string text_of_struct(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Of one picture of one pixel, eight times, and a file that is missing.
class ScriptDataset {
 public:
  ScriptDataset() : file_(::memfd_create("picture", MFD_CLOEXEC)) {
    const std::string png = tiny_png();
    STRETTO_CHECK(::write(file_, png.data(), png.size()) == std::ssize(png), "memfd");
    TableBuilder builder;
    builder.table().source = "script";
    builder.table().kind = "coco";
    builder.table().one_file_each_below = "/";
    const Annotation box{.x0 = 0, .y0 = 0, .x1 = 1, .y1 = 1, .label = 0};
    Details details;
    details.outlines.push_back({.box = 0, .polygons = {{0, 0, 1, 0, 1, 1, 0, 1}}});
    for (int i = 0; i < 9; ++i) {
      builder.add(i < 8 ? "/proc/self/fd/" + std::to_string(file_) : "/missing", {.label = i},
                  {&box, 1}, encode_details(details));
    }
    dataset_.emplace(std::move(builder).take());
  }
  ~ScriptDataset() { ::close(file_); }
  ScriptDataset(const ScriptDataset&) = delete;
  ScriptDataset& operator=(const ScriptDataset&) = delete;
  const Dataset& get() const { return *dataset_; }

 private:
  const int file_;
  std::optional<Dataset> dataset_;
};

// Which parts batches have, by the bits of a number.
inline LoaderOptions script_options(uint8_t parts) {
  LoaderOptions o;
  o.phases = {{.epoch = 0, .shape = {.height = 2, .width = 3, .batch = 2}},
              {.epoch = 1, .shape = {.height = 5, .width = 4, .batch = 1}}};
  o.threads = 1;
  o.memory = BatchMemory::kShared;
  o.boxes = (parts & 1) != 0;
  o.masks = (parts & 2) != 0;
  if ((parts & 4) != 0) o.dtype = DType::kUInt8;
  if ((parts & 8) != 0) o.mask_dtype = DType::kInt64;
  o.masks_of_boxes = o.boxes && (parts & 16) != 0;
  if (parts % 16 == 0) {
    o.transforms = media::operators::parse_operators("mixup(0.4)");
    o.classes = 9;
    o.phases.pop_back();
  }
  return o;
}

// A SharedLoader, and the script as the process that serves it.
class ScriptedServer {
 public:
  ScriptedServer(ShareScript& script, uint8_t parts)
      : script_(script), options_(script_options(parts)) {
    loader_.emplace(data_.get(), options_, end_.other(), "the script");
  }

  ShareFindings run() {
    while (!script_.done() && !findings_.ended) step();
    end_.close();
    held_.clear();
    for (int i = 0; i < 10'000 && !findings_.ended; ++i) next();
    return findings_;
  }

 private:
  struct Stalled {};  // the script has not said enough
  static constexpr int kMostStalls = 8;

  void step() {
    end_.drain();
    switch (script_.byte() & 7) {
      case 0:
        return say(honest_batch());
      case 1: {
        Reply reply = honest_batch();
        change(reply);
        return say(reply);
      }
      case 2: {
        Reply reply{.answer = Answer{script_.byte() & 3u}};
        reply.file_bytes = reply.answer == Answer::kError ? 3 : 0;
        reply.problem_bytes = reply.answer == Answer::kError ? 5 : 0;
        reply.kind = ErrorKind{script_.byte() % 5u};
        return say(reply);
      }
      case 3:
        end_.say(script_.text(), {});
        return;
      case 4:
        return next();
      case 5:
        return call([this] { loader_->load({.epoch = script_.byte() % 2, .place = 0}); });
      case 6:
        return held_.clear();
      default:
        memory_ = Memory{static_cast<uint8_t>(script_.byte() & 7)};
    }
  }

  Reply honest_batch() {
    const Shape& shape = options_.phases[0].shape;
    const int64_t classes = target_classes(options_, data_.get());
    const SlotLayout layout = slot_layout(options_, shape, classes, shape.batch);
    const int64_t things = options_.masks_of_boxes ? 3 * shape.height * shape.width : 0;
    return {.brings = kBringsSlot | (things > 0 ? kBringsMasks : 0),
            .position = {.place = 2},
            .slot = ++slot_,
            .slot_bytes = slot_bytes(layout.bytes),
            .count = shape.batch,
            .height = shape.height,
            .width = shape.width,
            .classes = classes,
            .masks_at = options_.masks ? layout.masks : -1,
            .targets_at = classes > 0 ? layout.targets : -1,
            .boxes = options_.boxes ? 3 : -1,
            .mask_slot = things > 0 ? (uint64_t{1} << 63) + slot_ : 0,
            .mask_bytes = things > 0 ? mask_slot_bytes(things) : 0};
  }

  // Numbers of it by their place, which need not begin at one.
  void change(Reply& reply) {
    for (int left = 1 + script_.byte() % 3; left > 0; --left) {
      const size_t at = script_.byte() % (sizeof(Reply) / 4) * 4;
      const uint64_t value = script_.number();
      std::memcpy(reinterpret_cast<std::byte*>(&reply) + at, &value,
                  std::min(sizeof value, sizeof(Reply) - at));
    }
  }

  void say(const Reply& reply) {
    std::string bytes = text_of_struct(reply);
    if (plausible(reply)) {
      const ReplyRows rows = reply_rows(reply);
      const auto begin = static_cast<int64_t>(bytes.size());
      bytes.resize(static_cast<size_t>(begin + std::min<int64_t>(rows.bytes, 1 << 12)));
      const int64_t starts[] = {0, 1, 3};
      if (reply.boxes == 3 && reply.count == 2) {
        std::memcpy(bytes.data() + begin + rows.starts, starts, sizeof starts);
      }
      // Whatever else the script has changed.
      const size_t at = script_.number() % bytes.size();
      const std::string text = script_.text();
      bytes.replace(at, std::min(text.size(), bytes.size() - at), text, 0,
                    std::min(text.size(), bytes.size() - at));
    }
    std::vector<int> files;
    if (memory_ != Memory::kNone && reply.brings != 0) {
      const int64_t size = std::clamp<int64_t>(reply.slot_bytes, 1, 1 << 20);
      files.push_back(memory_of(memory_, size));
      if ((reply.brings & kBringsMasks) != 0) {
        files.push_back(memory_of(memory_, std::clamp<int64_t>(reply.mask_bytes, 1, 1 << 20)));
      } else if (memory_ == Memory::kTwo) {
        files.push_back(memory_of(memory_, size));
      }
    }
    end_.say(bytes, files);
  }

  void next() {
    call([this] {
      auto batch = loader_->next();
      if (!batch) return;
      read(*batch);
      ++findings_.batches;
      held_.push_back(std::move(*batch));
    });
  }

  template <typename F>
  void call(const F& work) {
    if (stalls_ == kMostStalls) end_.close();
    try {
      // The script says nothing while the loader waits, so that it never need wait.
      const InterruptScope interrupt(
          [this] {
            ++stalls_;
            throw Stalled();
          },
          0);
      work();
    } catch (const CommError&) {
      findings_.ended = true;
    } catch (const InvalidArgument&) {
      ++findings_.errors;
    } catch (const Unsupported&) {
      ++findings_.errors;
    } catch (const FormatError&) {
      ++findings_.errors;
    } catch (const std::bad_alloc&) {
      ++findings_.errors;
    } catch (const InternalError&) {  // kOther
      ++findings_.errors;
    } catch (const Stalled&) {
    }
    const Position at = loader_->position();
    if (at.epoch < 0 || at.place < 0 || at.place > 9) ++findings_.wrong;
  }

  // Every byte of its arrays, so that the sanitizer sees those that are not there.
  void read(const Batch& b) {
    uint64_t sum = 0;
    const auto all = [&sum](const void* from, int64_t bytes) {
      const auto* const at = static_cast<const volatile uint8_t*>(from);
      for (int64_t i = 0; from != nullptr && i < bytes; ++i) sum += at[i];
    };
    const int64_t pixels = b.count * b.height * b.width;
    all(b.data, 3 * pixels * static_cast<int64_t>(dtype_bytes(b.dtype)));
    all(b.masks, pixels * static_cast<int64_t>(dtype_bytes(b.mask_dtype)));
    all(b.labels, 8 * b.count);
    all(b.samples, 8 * b.count);
    for (int64_t i = 0; i < b.count; ++i) sum += b.real[i];
    for (int64_t i = 0; b.targets != nullptr && i < b.count * b.classes; ++i) {
      sum += b.targets[i] == 0;
    }
    if (b.boxes == nullptr) return;
    all(b.image_ids, 8 * b.count);
    const int64_t boxes = b.box_starts[b.count];
    for (int64_t i = 0; i < b.count; ++i) {
      if (b.box_starts[i] > b.box_starts[i + 1] || b.box_starts[i] < 0) ++findings_.wrong;
    }
    all(b.boxes, 16 * boxes);
    all(b.box_areas, 4 * boxes);
    all(b.box_labels, 8 * boxes);
    for (int64_t i = 0; b.masks_of_boxes != nullptr && i < b.count; ++i) {
      all(b.masks_of_boxes[i], (b.box_starts[i + 1] - b.box_starts[i]) * b.height * b.width);
    }
  }

  ShareScript& script_;
  const ScriptDataset data_;
  const LoaderOptions options_;
  AnyEnd end_;
  std::optional<SharedLoader> loader_;
  std::vector<Batch> held_;
  Memory memory_ = Memory::kSealed;
  uint64_t slot_ = 0;
  int stalls_ = 0;
  ShareFindings findings_;
};

// serve(), and the script as the rank that takes the batches.
class ScriptedRank {
 public:
  ScriptedRank(ShareScript& script, uint8_t parts)
      : script_(script), loader_(data_.get(), script_options(parts)) {
    thread_ = std::thread([this] {
      serve(loader_, end_.other(), -1);
      findings_.ended = true;
    });
  }
  ~ScriptedRank() {
    end_.close();
    if (thread_.joinable()) thread_.join();
    close_files();
  }

  ShareFindings run() {
    while (!script_.done() && !gone_) step();
    end_.close();
    thread_.join();
    return findings_;
  }

 private:
  void step() {
    switch (script_.byte() & 7) {
      case 0:
      case 1:
        return ask({.ask = Ask::kNext});
      case 2:
        return ask({.ask = Ask::kLoad,
                    .position = {.epoch = script_.byte() % 4, .place = script_.byte() % 12}});
      case 3: {
        Request request{.given_back = script_.byte()};
        const size_t at = script_.byte() % (sizeof(Request) / 4) * 4;
        const uint64_t value = script_.number();
        std::memcpy(reinterpret_cast<std::byte*>(&request) + at, &value,
                    std::min(sizeof value, sizeof(Request) - at));
        in_step_ = false;
        return say(text_of_struct(request) + script_.text());
      }
      case 4:
        in_step_ = false;
        return say(script_.text());
      case 5:
        files_.push_back(memory_of(Memory{static_cast<uint8_t>(script_.byte() % 7)}, 4096));
        if (files_.size() == 2) say("");
        return;
      case 6:
        return given_back_.clear();  // it keeps them
      default:
        return end_.drain();
    }
  }

  void say(std::string_view bytes) {
    if (!bytes.empty()) gone_ = !end_.say(bytes, std::exchange(files_, {}));
    close_files();
  }

  void close_files() {
    for (const int file : std::exchange(files_, {})) ::close(file);
  }

  void ask(Request request) {
    const std::vector<uint64_t> numbers = std::exchange(given_back_, {});
    request.given_back = static_cast<uint32_t>(numbers.size());
    std::string bytes = text_of_struct(request);
    bytes.append(reinterpret_cast<const char*>(numbers.data()), 8 * numbers.size());
    say(bytes);
    if (in_step_ && !gone_) answer();
  }

  void answer() {
    Reply reply;
    if (!end_.hear(std::as_writable_bytes(std::span(&reply, 1)))) {
      gone_ = true;
      return;
    }
    if (!plausible(reply)) {
      ++findings_.wrong;
      gone_ = true;
      return;
    }
    std::vector<std::byte> rows(static_cast<size_t>(reply_rows(reply).bytes));
    gone_ = !end_.hear(rows);
    if (reply.answer == Answer::kError) ++findings_.errors;
    if (reply.answer != Answer::kBatch) return;
    given_back_.push_back(reply.slot);
    if (reply.mask_bytes > 0) given_back_.push_back(reply.mask_slot);
    ++findings_.batches;
  }

  ShareScript& script_;
  const ScriptDataset data_;
  Loader loader_;
  AnyEnd end_;
  std::thread thread_;
  std::vector<int> files_;
  std::vector<uint64_t> given_back_;
  bool in_step_ = true;  // every request so far was an honest one
  bool gone_ = false;
  ShareFindings findings_;
};

inline ShareFindings run_share_script(const uint8_t* data, size_t size) {
  ShareScript script(data, size);
  const uint8_t first = script.byte();
  const auto parts = static_cast<uint8_t>(first >> 1);
  if ((first & 1) != 0) return ScriptedRank(script, parts).run();
  return ScriptedServer(script, parts).run();
}

}  // namespace stretto::data
