// Devices, publications and who holds memory, as clients and operators see them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/device/device.h"
#include "proto/tensord/v1/admin.pb.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/session/session.h"
#include "server/sharing/publications.h"

namespace tensord {

v1::DeviceInfo Describe(Device& device);
// Without its tensors. Readers are the owner's and administrators' to know.
v1::Publication Describe(const Publication& publication, std::string_view caller,
                         bool admin = false);

// `may_know` says of a user whether the caller may be told the name.
void DescribeMemory(const SessionEngine& engine,
                    const std::function<bool(const std::string& user)>& may_know,
                    google::protobuf::RepeatedPtrField<v1::DeviceHolders>* out);
// What is spilled, of an engine that does so.
v1::SpilledMemory DescribeSpilled(const SessionEngine& engine,
                                  const std::function<bool(const std::string& user)>& may_know);

}  // namespace tensord
