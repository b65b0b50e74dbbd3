// An operation of an Unordered.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {

// Lives from submission until wait() has returned.
struct Unordered::Item {
  std::string name, description;
  Start start;
  bool started = false;  // or has failed
  std::mutex resting;    // held by the thread that calls `rest`
  Rest rest;
  std::exception_ptr error;
};

}  // namespace stretto::comm
