#include "server/service/describe.h"

namespace tensord {

v1::DeviceInfo Describe(Device& device) {
  v1::DeviceInfo info;
  info.set_name(device.name());
  info.set_arch(device.target().arch);
  info.set_executes(device.executes());
  info.set_memory_bytes(device.allocator().stats().capacity_bytes);
  return info;
}

}  // namespace tensord
