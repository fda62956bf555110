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

namespace {

void AddHolders(const std::vector<MemoryLedger::Holder>& holders,
                const std::function<bool(const std::string& user)>& may_know,
                google::protobuf::RepeatedPtrField<v1::DeviceHolders::Holder>* out) {
  for (const MemoryLedger::Holder& each : holders) {
    v1::DeviceHolders::Holder& holder = *out->Add();
    holder.set_session_id(each.session);
    holder.set_bytes(each.bytes);
    if (may_know(each.user)) holder.set_user(each.user);
  }
}

}  // namespace

void DescribeMemory(const SessionEngine& engine,
                    const std::function<bool(const std::string& user)>& may_know,
                    google::protobuf::RepeatedPtrField<v1::DeviceHolders>* out) {
  for (Device* device : engine.runtime.devices()) {
    v1::DeviceHolders& holders = *out->Add();
    const MemoryStats stats = device->allocator().stats();
    holders.set_device(device->name());
    holders.set_capacity_bytes(stats.capacity_bytes);
    holders.set_in_use_bytes(stats.in_use_bytes);
    holders.set_tensor_bytes(engine.ledger.OfDevice(device).bytes);
    AddHolders(engine.ledger.Holders(device), may_know, holders.mutable_holders());
  }
}

v1::SpilledMemory DescribeSpilled(const SessionEngine& engine,
                                  const std::function<bool(const std::string& user)>& may_know) {
  v1::SpilledMemory spilled;
  const SpillStore& store = engine.spiller->store();
  const SpillStore::Stats stats = store.stats();
  spilled.set_host_bytes(stats.host_bytes);
  spilled.set_host_limit_bytes(store.options().host_bytes);
  spilled.set_disk_bytes(stats.disk_bytes);
  spilled.set_disk_limit_bytes(store.options().disk_bytes);
  spilled.set_waiting(engine.spiller->stats().waiting);
  AddHolders(engine.ledger.Holders(nullptr), may_know, spilled.mutable_holders());
  return spilled;
}

}  // namespace tensord
