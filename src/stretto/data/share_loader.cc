// The side of the process that takes the batches.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/pinned.h"
#include "stretto/data/share.h"
#include "stretto/data/share_wire.h"

namespace stretto::data {
namespace {

constexpr int kInterruptMs = 50;
// In one request, 32 KB, which find room in the socket whatever the other process does: the one
// before has been answered. So to ask never waits. The rest goes with the next ones.
constexpr size_t kMostGivenBackAtOnce = 4096;
// Of what follows a reply, memory for so much more than has come is taken: who says that more will
// come may lie.
constexpr size_t kMostUnread = size_t{1} << 20;

// What would be a signal when it is read: memory that is not there, or may be taken away.
void check_slot_memory(int file, int64_t bytes) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < bytes) {
    throw_unsupported("expected a memfd of {} bytes", bytes);
  }
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw_unsupported("expected a memfd that is sealed against shrinking");
  }
}

// Of the largest batch.
int64_t most_slot_bytes(const LoaderOptions& o, const Dataset& dataset) {
  int64_t most = 0;
  for (const Phase& phase : o.phases) {
    const SlotLayout layout =
        slot_layout(o, phase.shape, target_classes(o, dataset), phase.shape.batch);
    most = std::max(most, slot_bytes(layout.bytes));
  }
  return most;
}

// A slot of the other process.
class Mapping {
 public:
  Mapping(int file, int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    check_slot_memory(file, bytes);
    // Its pages are there already: to map them here one by one would be a page fault each.
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (data_ == MAP_FAILED) {
      throw_unsupported("{} bytes cannot be mapped: {}", bytes, std::strerror(errno));
    }
  }
  ~Mapping() {
    pinned_.unpin();
    ::munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }
  void pin(const CudaDriver* driver) { pinned_.pin(driver, data_, bytes()); }
  int64_t pinned_bytes() const { return pinned_.bytes(); }

 private:
  void* data_;
  const size_t bytes_;
  Pinned pinned_;
};

// Slots that nobody here holds any more, until the other process is told with the next request.
struct GivenBack {
  const uint64_t forks = stretto::forks();
  std::mutex mutex;
  std::vector<uint64_t> numbers;
};

// What a batch consists of here.
struct Held {
  std::shared_ptr<Mapping> memory;
  std::vector<std::byte> rows;
  std::shared_ptr<Mapping> joined_masks;       // of boxes
  std::vector<const uint8_t*> masks_of_boxes;  // of each picture
  uint64_t slot = 0, mask_slot = 0;            // 0: none
  std::shared_ptr<GivenBack> given_back;

  ~Held() {
    // The lock may have been held when the process forked.
    if (given_back == nullptr || given_back->forks != forks()) return;
    const std::lock_guard lock(given_back->mutex);
    given_back->numbers.push_back(slot);
    if (mask_slot != 0) given_back->numbers.push_back(mask_slot);
  }
};

}  // namespace

struct SharedLoader::Impl {
  Impl(Dataset d, LoaderOptions o, int socket, std::string s)
      : dataset(std::move(d)),
        options(std::move(o)),
        wire(socket),
        server(std::move(s)),
        places(Order(options.order, dataset.size(), 0).size()),
        most_bytes(most_slot_bytes(options, dataset)),
        at{.seed = options.order.seed, .order = hash_of(options.order, dataset.size())} {}
  ~Impl() { close_files(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void close_files() {
    for (const int file : files) ::close(file);
    files.clear();
  }

  // The other process has ended, or says what nobody understands.
  [[noreturn]] void fail(std::string_view how) {
    broken = fmt::format(
        "loader: {} {}: it made the batches of this host's ranks, and no more come", server, how);
    throw CommError(-1, server, broken);
  }

  void ask(Ask what, const Position& position) {
    if (!broken.empty()) throw CommError(-1, server, broken);
    std::vector<uint64_t> numbers;
    {
      const std::lock_guard lock(given_back->mutex);
      std::vector<uint64_t>& all = given_back->numbers;
      const size_t count = std::min(all.size(), kMostGivenBackAtOnce);
      numbers.assign(all.end() - static_cast<ptrdiff_t>(count), all.end());
      all.resize(all.size() - count);
    }
    const Request request{
        .ask = what, .given_back = static_cast<uint32_t>(numbers.size()), .position = position};
    pending = what;
    if (!wire.send(std::as_bytes(std::span(&request, 1)), std::as_bytes(std::span(numbers)))) {
      fail("has ended");
    }
  }

  static bool answers(Answer answer, Ask what) {
    if (answer == Answer::kError) return true;
    return (answer == Answer::kLoaded) == (what == Ask::kLoad);
  }

  // Reads on where an interrupt left off.
  void fill(std::span<std::byte> bytes) {
    while (filled < bytes.size()) {
      const int64_t got = wire.receive(bytes.subspan(filled), &files);
      if (got < 0) fail("has ended");
      filled += static_cast<size_t>(got);
      if (got > 0) continue;
      check_interrupt();
      wire.wait(kInterruptMs);
    }
  }

  // What answers the request that is pending, which then is so no more.
  void receive() {
    if (!broken.empty()) throw CommError(-1, server, broken);
    if (!has_head) {
      fill(std::as_writable_bytes(std::span(&reply, 1)));
      if (!plausible(reply) || !answers(reply.answer, *pending)) fail("sent what is no reply");
      rows.clear();
      has_head = true;
      filled = 0;
    }
    const auto all = static_cast<size_t>(reply_rows(reply).bytes);
    for (;;) {
      fill(rows);
      if (rows.size() == all) break;
      rows.resize(std::min(all, rows.size() + std::max(rows.size(), kMostUnread)));
    }
    filled = 0;
    has_head = false;
    pending.reset();
  }

  ErrorText error() const {
    const ReplyRows r = reply_rows(reply);
    const char* const text = reinterpret_cast<const char*>(rows.data());
    return {.kind = reply.kind,
            .code = reply.code,
            .offset = reply.offset,
            .file = {text + r.file, static_cast<size_t>(reply.file_bytes)},
            .problem = {text + r.problem, static_cast<size_t>(reply.problem_bytes)}};
  }

  // What the reply gives. Where there is no memory for its batch, which nobody gets then, `at` is
  // before it.
  std::shared_ptr<Held> take() {
    auto held = hold();
    try {
      check_position(reply.position, options, at.order, places);
    } catch (const InvalidArgument&) {
      fail("sent a place that this loader does not have");
    }
    const std::lock_guard lock(mutex);
    const uint64_t order = at.order;
    at = reply.position;
    at.order = order;
    return held;
  }

  // Forgets slots, and knows the one of this reply.
  std::shared_ptr<Held> hold() {
    auto held = std::make_shared<Held>();
    held->rows = std::exchange(rows, {});
    const ReplyRows r = reply_rows(reply);
    std::vector<uint64_t> gone(static_cast<size_t>(reply.gone));
    if (!gone.empty()) std::memcpy(gone.data(), held->rows.data() + r.gone, 8 * gone.size());
    for (const uint64_t number : gone) slots.erase(number);
    if (reply.answer != Answer::kBatch) return held;
    held->slot = reply.slot;
    held->given_back = given_back;
    if (reply.slot_bytes > most_bytes) fail("sent a batch that is larger than any of this loader");
    held->memory = memory_of(reply.slot, reply.slot_bytes, (reply.brings & kBringsSlot) != 0);
    if (!fits_slot(reply, dtype_bytes(options.dtype), dtype_bytes(options.mask_dtype))) {
      fail("sent a batch that lies beside its memory");
    }
    if (reply.mask_bytes > 0) {
      if (!options.masks_of_boxes ||
          reply.mask_bytes != mask_slot_bytes(reply.boxes * reply.height * reply.width)) {
        fail("sent masks of other boxes");
      }
      held->joined_masks =
          memory_of(reply.mask_slot, reply.mask_bytes, (reply.brings & kBringsMasks) != 0);
      held->mask_slot = reply.mask_slot;
    } else if (options.masks_of_boxes && reply.boxes != 0) {
      fail("sent boxes without their masks");
    }
    close_files();
    if (reply.boxes >= 0) {
      std::vector<int64_t> starts(static_cast<size_t>(reply.count) + 1);
      std::memcpy(starts.data(), held->rows.data() + r.starts, 8 * starts.size());
      if (starts.front() != 0 || starts.back() != reply.boxes || !std::ranges::is_sorted(starts)) {
        fail("sent boxes of no pictures");
      }
      if (options.masks_of_boxes) set_masks(*held, starts);
    }
    const auto real = std::span(held->rows).subspan(static_cast<size_t>(r.real));
    if (!std::ranges::all_of(real.first(static_cast<size_t>(reply.count)),
                             [](std::byte b) { return b <= std::byte{1}; })) {
      fail("sent what is neither real nor padding");
    }
    return held;
  }

  // A slot of the other process, which may come with the reply.
  std::shared_ptr<Mapping> memory_of(uint64_t number, int64_t bytes, bool brought) {
    if (brought) {
      if (files.empty()) {
        fail("sent a batch whose memory did not arrive: this process has too many open files");
      }
      try {
        slots[number] = std::make_shared<Mapping>(files.front(), bytes);
      } catch (const Unsupported& e) {
        fail(fmt::format("sent a batch for which there is no memory: {}", e.what()));
      }
      ::close(files.front());
      files.erase(files.begin());
    }
    const auto found = slots.find(number);
    if (found == slots.end() || found->second->bytes() != bytes) {
      fail("sent a batch in memory that it had not sent");
    }
    if (options.pin) {
      found->second->pin(options.cuda != nullptr ? options.cuda : loaded_cuda());
      int64_t all = 0;
      for (const auto& [of, mapping] : slots) all += mapping->pinned_bytes();
      pinned_bytes.store(all, std::memory_order_relaxed);
    }
    return found->second;
  }

  void set_masks(Held& held, std::span<const int64_t> starts) const {
    static constexpr uint8_t kNothing = 0;
    const auto* const first = held.joined_masks == nullptr
                                  ? &kNothing
                                  : reinterpret_cast<const uint8_t*>(held.joined_masks->data());
    for (const int64_t start : starts.first(starts.size() - 1)) {
      held.masks_of_boxes.push_back(
          held.joined_masks == nullptr ? first : first + start * reply.height * reply.width);
    }
  }

  Batch batch(const std::shared_ptr<Held>& held) const {
    const ReplyRows r = reply_rows(reply);
    const std::byte* const row = held->rows.data();
    std::byte* const data = held->memory->data();
    const auto numbers = [row](int64_t begin) {
      return reinterpret_cast<const int64_t*>(row + begin);
    };
    const auto floats = [row](int64_t begin) {
      return reinterpret_cast<const float*>(row + begin);
    };
    const bool boxes = reply.boxes >= 0;
    return {
        .data = data,
        .dtype = options.dtype,
        .layout = options.layout,
        .count = reply.count,
        .height = reply.height,
        .width = reply.width,
        .labels = numbers(r.labels),
        .real = reinterpret_cast<const bool*>(row + r.real),
        .samples = numbers(r.samples),
        .targets = reply.targets_at < 0 ? nullptr
                                        : reinterpret_cast<const float*>(data + reply.targets_at),
        .classes = reply.classes,
        .boxes = boxes ? floats(r.boxes) : nullptr,
        .box_labels = boxes ? numbers(r.box_labels) : nullptr,
        .box_areas = boxes ? floats(r.areas) : nullptr,
        .box_starts = boxes ? numbers(r.starts) : nullptr,
        .image_ids = boxes ? numbers(r.image_ids) : nullptr,
        .masks_of_boxes = boxes && options.masks_of_boxes ? held->masks_of_boxes.data() : nullptr,
        .masks = reply.masks_at < 0 ? nullptr : data + reply.masks_at,
        .mask_dtype = options.mask_dtype,
        .epoch = reply.epoch,
        .number = reply.number,
        .hold = held};
  }

  const Dataset dataset;
  const LoaderOptions options;
  const Wire wire;
  const std::string server;
  const int64_t places;      // of every epoch
  const int64_t most_bytes;  // of a slot
  const uint64_t forks = stretto::forks();
  const std::shared_ptr<GivenBack> given_back = std::make_shared<GivenBack>();
  std::unordered_map<uint64_t, std::shared_ptr<Mapping>> slots;
  std::atomic<int64_t> pinned_bytes{0};

  // Of the request that is not answered yet: an interrupt may have ended the wait for it.
  std::optional<Ask> pending;
  Reply reply;
  std::vector<std::byte> rows;  // behind it
  size_t filled = 0;            // bytes of the part that is read
  bool has_head = false;
  std::vector<int> files;  // came with it
  std::string broken;

  mutable std::mutex mutex;
  Position at;  // behind what next() gave
};

void check_loader(const LoaderOptions& options, const Dataset& dataset) {
  check_options(options, dataset.size());
  check_dataset(options, dataset);
}

SharedLoader::SharedLoader(Dataset dataset, LoaderOptions options, int socket, std::string server)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options), socket,
                                   std::move(server))) {}

SharedLoader::~SharedLoader() {
  // A child of fork() must not end the connection of its parent.
  if (impl_->forks != forks()) static_cast<void>(impl_.release());
}

SharedLoader::Impl& SharedLoader::impl() const {
  if (impl_->forks != forks()) {
    throw_unsupported(
        "loader: this process was forked from the one that has the connection to {}: make a loader "
        "here",
        impl_->server);
  }
  return *impl_;
}

std::optional<Batch> SharedLoader::next() {
  Impl& m = impl();
  // A load() whose wait was interrupted: whether it went well is where the loader is now.
  if (m.pending == Ask::kLoad) {
    m.receive();
    m.take();
  }
  if (!m.pending) m.ask(Ask::kNext, {});
  m.receive();
  if (m.reply.answer == Answer::kError) {
    const ErrorText error = m.error();
    m.take();
    throw_error(error);
  }
  const auto held = m.take();
  if (m.reply.answer == Answer::kEnd) return std::nullopt;
  return m.batch(held);
}

void SharedLoader::set_epoch(int64_t epoch) {
  check_epoch(epoch);
  load({.seed = impl_->options.order.seed, .epoch = epoch, .place = 0});
}

int64_t SharedLoader::batches(int64_t epoch) const {
  return batches_of_epoch(impl_->options, impl_->places, epoch);
}

std::vector<int64_t> SharedLoader::indices(int64_t epoch) const {
  return indices_of_epoch(impl_->options, impl_->dataset.size(), epoch);
}

int64_t SharedLoader::pinned_bytes() const {
  return impl_->pinned_bytes.load(std::memory_order_relaxed);
}

Position SharedLoader::position() const {
  const Impl& m = impl();
  const std::lock_guard lock(m.mutex);
  return m.at;
}

void SharedLoader::load(const Position& position) {
  Impl& m = impl();
  check_position(position, m.options, m.at.order, m.places);
  if (m.pending) {  // its batch is given back at once, and was given to nobody
    m.receive();
    m.hold();
  }
  m.ask(Ask::kLoad, position);
  m.receive();
  const ErrorText error = m.error();
  m.take();
  if (m.reply.answer == Answer::kError) throw_error(error);
}

}  // namespace stretto::data
