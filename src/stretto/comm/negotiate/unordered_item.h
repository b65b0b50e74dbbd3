// An operation of an Unordered.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {

// Lives from submission until wait() has returned.
struct Unordered::Item {
  std::string name, description;
  Start start;  // empty: `operations` are to be started
  Group group = kWorld;
  std::vector<Operation> operations;

  bool started = false;         // or has failed
  std::mutex resting;           // held by the thread that calls `rest` or waits for `handles`
  Rest rest;                    // of what `start` has started
  std::vector<Handle> handles;  // of `operations`, when they have started
  std::exception_ptr error;
};

}  // namespace stretto::comm
