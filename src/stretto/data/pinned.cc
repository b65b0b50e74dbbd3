#include "stretto/data/pinned.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <utility>

#if defined(__linux__)
#include <dlfcn.h>
#endif

#include "stretto/base/fork.h"
#include "stretto/base/log.h"

namespace stretto::data {
namespace {

// Of cuda.h.
constexpr unsigned kForAllContexts = 1;  // CU_MEMHOSTREGISTER_PORTABLE
constexpr int kRelaxed = 2;              // CU_STREAM_CAPTURE_MODE_RELAXED

#if defined(__linux__)
template <typename... Arguments>
bool load(void* library, const char* name, std::function<int(Arguments...)>& call) {
  void* const found = ::dlsym(library, name);
  if (found != nullptr) call = reinterpret_cast<int (*)(Arguments...)>(found);
  return found != nullptr;
}

std::unique_ptr<CudaDriver> load_cuda() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  auto d = std::make_unique<CudaDriver>();
  const bool all = load(library, "cuDeviceGetCount", d->device_count) &&
                   load(library, "cuDevicePrimaryCtxGetState", d->primary_context_state) &&
                   load(library, "cuDevicePrimaryCtxRetain", d->retain_primary_context) &&
                   load(library, "cuDevicePrimaryCtxRelease_v2", d->release_primary_context) &&
                   load(library, "cuCtxPushCurrent_v2", d->push_context) &&
                   load(library, "cuCtxPopCurrent_v2", d->pop_context) &&
                   load(library, "cuMemHostRegister_v2", d->register_memory) &&
                   load(library, "cuMemHostUnregister", d->unregister_memory) &&
                   load(library, "cuThreadExchangeStreamCaptureMode", d->exchange_capture_mode) &&
                   load(library, "cuGetErrorName", d->error_name);
  if (all) return d;  // and the library stays
  ::dlclose(library);
  log_once(LogLevel::kWarning,
           "loader: libcuda.so.1 is older than CUDA 11: memory of batches is not pinned");
  return nullptr;
}
#else
std::unique_ptr<CudaDriver> load_cuda() { return nullptr; }
#endif

std::string name_of(const CudaDriver& driver, int error) {
  const char* name = nullptr;
  if (driver.error_name(error, &name) != 0 || name == nullptr)
    return fmt::format("error {}", error);
  return name;
}

// The first device on which this process has a context; -1: none.
int device_in_use(const CudaDriver& driver) {
  int count = 0;
  if (driver.device_count(&count) != 0) return -1;
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver.primary_context_state(device, &flags, &active) == 0 && active != 0) return device;
  }
  return -1;
}

// Makes the device's context this thread's for one call, which then returns the number of an error.
// The retained context stays so until it is released.
int in_context(const CudaDriver& driver, int device, const std::function<int()>& call) {
  void* context = nullptr;
  if (const int error = driver.retain_primary_context(&context, device)) return error;
  int error = driver.push_context(context);
  if (error == 0) {
    // Or another thread that captures a graph would find its capture broken.
    int mode = kRelaxed;
    const bool relaxed = driver.exchange_capture_mode(&mode) == 0;
    error = call();
    if (relaxed) driver.exchange_capture_mode(&mode);
    driver.pop_context(&context);
  }
  driver.release_primary_context(device);
  return error;
}

}  // namespace

const CudaDriver* loaded_cuda() {
  static std::atomic<const CudaDriver*> known{nullptr};
  if (const CudaDriver* const driver = known.load(std::memory_order_acquire)) return driver;
  std::unique_ptr<const CudaDriver> mine = load_cuda();
  const CudaDriver* first = nullptr;
  if (mine == nullptr || !known.compare_exchange_strong(first, mine.get())) return first;
  return mine.release();  // for as long as the process lives, like the library
}

void Pinned::pin(const CudaDriver* driver, void* memory, int64_t bytes) {
  if (driver == nullptr || bytes_ > 0 || refused_) return;
  const int device = device_in_use(*driver);
  if (device < 0) return;
  constexpr int64_t kPage = 4096;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  // The context is held as long as the memory is locked in it.
  void* held = nullptr;
  int error = driver->retain_primary_context(&held, device);
  if (error == 0) {
    error = in_context(*driver, device, [&] {
      return driver->register_memory(memory, static_cast<size_t>(bytes), kForAllContexts);
    });
    if (error != 0) driver->release_primary_context(device);
  }
  if (error != 0) {
    refused_ = true;
    log_once(LogLevel::kWarning, fmt::format("loader: CUDA does not pin memory of batches: {}",
                                             name_of(*driver, error)));
    return;
  }
  driver_ = driver;
  memory_ = memory;
  bytes_ = bytes;
  device_ = device;
  forks_ = forks();
}

void Pinned::unpin() {
  const CudaDriver* const driver = std::exchange(driver_, nullptr);
  if (driver == nullptr) return;
  bytes_ = 0;
  if (forks_ != forks()) return;
  // At the end of the process the driver may be gone already, which has unlocked all.
  in_context(*driver, device_, [&] { return driver->unregister_memory(memory_); });
  driver->release_primary_context(device_);
}

}  // namespace stretto::data
