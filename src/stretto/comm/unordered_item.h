// What an Unordered remembers of an operation.
#pragma once

#include <exception>
#include <mutex>
#include <string>

#include "stretto/comm/unordered.h"

namespace stretto::comm {

// From submission until somebody has waited for it.
struct Unordered::Item {
  std::string name, description;
  Start start;
  bool started = false;  // or failed
  std::mutex resting;    // one thread waits for the rest at a time
  Rest rest;
  std::exception_ptr error;
};

}  // namespace stretto::comm
