// Names the calling thread for debuggers and top; the system keeps the first 15 characters.
#pragma once

#include <pthread.h>

#include <string>

namespace tensord::hcq {

inline void NameThread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace tensord::hcq
