// Ends the HTTP servers of libcivetweb soon: they look every two seconds whether they are to end,
// and whenever somebody connects. A daemon that ends shouldn't take so long.
#pragma once

#include <functional>

#include "server/listen.h"

namespace tensord {

// Calls `stop`, which waits until the server is gone, and connects to it until then.
void StopHttp(const ListenAddress& address, const std::function<void()>& stop);

}  // namespace tensord
