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

v1::Publication Describe(const Publication& publication, std::string_view caller, bool admin) {
  v1::Publication out;
  out.set_owner(publication.owner);
  out.set_name(publication.name);
  out.set_version(publication.version);
  if (admin || caller == publication.owner) {
    out.mutable_readers()->Add(publication.readers.begin(), publication.readers.end());
  }
  out.set_bytes(publication.bytes());
  out.set_holders(publication.holders());
  out.set_tensor_count(publication.tensors.size());
  out.set_saved(publication.saved);
  return out;
}

}  // namespace tensord
