#include "stretto/comm/system/fd.h"

#include <unistd.h>

#include "stretto/comm/system/children.h"

namespace stretto::comm {

Fd::~Fd() {
  if (fd_ < 0) return;
  keep_in_children(fd_);
  close(fd_);
}

}  // namespace stretto::comm
