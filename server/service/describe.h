// Devices as clients and operators see them.
#pragma once

#include "core/device/device.h"
#include "proto/tensord/v1/session.pb.h"

namespace tensord {

v1::DeviceInfo Describe(Device& device);

}  // namespace tensord
