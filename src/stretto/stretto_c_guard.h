// How the C interface reports errors: one status and one text per thread.
#pragma once

#include <exception>
#include <string>

#include "stretto/base/error.h"
#include "stretto/stretto_c.h"

namespace stretto::c {

inline thread_local std::string last_error;
inline thread_local stretto_status last_status = STRETTO_OK;
inline thread_local int32_t last_rank = -1;

inline stretto_status fail(stretto_status status, const char* text) noexcept {
  last_status = status;
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

// No exception may cross into C.
template <typename Body>
stretto_status guarded(Body&& body) noexcept {
  try {
    body();
    return STRETTO_OK;
  } catch (const InvalidArgument& e) {
    return fail(STRETTO_INVALID_ARGUMENT, e.what());
  } catch (const Unsupported& e) {
    return fail(STRETTO_UNSUPPORTED, e.what());
  } catch (const FormatError& e) {
    return fail(STRETTO_FORMAT_ERROR, e.what());
  } catch (const CommError& e) {
    last_rank = e.rank();
    return fail(STRETTO_COMM_ERROR, e.what());
  } catch (const std::exception& e) {
    return fail(STRETTO_INTERNAL_ERROR, e.what());
  } catch (...) {
    return fail(STRETTO_INTERNAL_ERROR, "unknown exception");
  }
}

inline void require(const void* pointer, const char* name) {
  if (!pointer) throw_invalid("{}: expected a pointer, got NULL", name);
}

}  // namespace stretto::c
