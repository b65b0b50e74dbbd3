// Memory that a GPU copies from by itself, beside the processor's work: locked by CUDA's driver,
// where this process uses one.
#pragma once

#include <cstdint>
#include <functional>

namespace stretto::data {

// The calls of libcuda.so.1 by their names in cuda.h (CUDA 11 and later), so that a test can stand
// in for a driver. They return 0 or the number of an error.
struct CudaDriver {
  std::function<int(int* count)> device_count;
  std::function<int(int device, unsigned* flags, int* active)> primary_context_state;
  std::function<int(void** context, int device)> retain_primary_context;
  std::function<int(int device)> release_primary_context;
  std::function<int(void* context)> push_context;
  std::function<int(void** context)> pop_context;
  std::function<int(void* memory, size_t bytes, unsigned flags)> register_memory;
  std::function<int(void* memory)> unregister_memory;
  std::function<int(int* mode)> exchange_capture_mode;
  std::function<int(int error, const char** name)> error_name;
};

// That of the library which this process has loaded already; nullptr: it has loaded none.
const CudaDriver* loaded_cuda();

// The state of one piece of memory. To begin with it is as any other.
class Pinned {
 public:
  Pinned() = default;
  ~Pinned() { unpin(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  // Locks memory for all GPUs, from the begin of a page to the end of one. Does nothing where that
  // was done or refused, and while no GPU has a context of this process: one is never made here,
  // because it takes half a gigabyte of the GPU that the process may not even use. So call it again
  // when the memory is used again. A refusal is logged once.
  void pin(const CudaDriver* driver, void* memory, int64_t bytes);
  // Before the memory is freed. In a child of fork(), which has no CUDA, it does nothing.
  void unpin();
  int64_t bytes() const { return bytes_; }  // that are locked

 private:
  const CudaDriver* driver_ = nullptr;
  void* memory_ = nullptr;
  int64_t bytes_ = 0;
  int device_ = -1;
  uint64_t forks_ = 0;
  bool refused_ = false;
};

}  // namespace stretto::data
