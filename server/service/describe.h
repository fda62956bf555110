// Devices and publications as clients and operators see them.
#pragma once

#include <string_view>

#include "core/device/device.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/sharing/publications.h"

namespace tensord {

v1::DeviceInfo Describe(Device& device);
// Without its tensors. Readers are the owner's and administrators' to know.
v1::Publication Describe(const Publication& publication, std::string_view caller,
                         bool admin = false);

}  // namespace tensord
