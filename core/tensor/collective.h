// Collectives: what a value becomes when the devices of a program put theirs together. In a program
// for n devices every node is a value on each of them; these functions are made of Exchange, which
// alone moves anything. All devices get the same bits. Not for front ends, whose tensors are whole.
//
// `devices` is that number n, 2 at least.
#pragma once

#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

// The number of the device, from 0, of dtype index and without axes.
Expr DeviceIndex(Graph& graph, int64_t devices);

// The values of all devices, one after the other along an axis.
Expr AllGather(const Expr& x, int64_t axis, int64_t devices);

// This device's part of a value that all have, along an axis whose size `devices` divides.
Expr OwnPart(const Expr& x, int64_t axis, int64_t devices);

// Each device's part along `to` of the whole whose parts along `from` the devices have.
Expr AllToAll(const Expr& x, int64_t from, int64_t to, int64_t devices);

// How a reduction over devices is done, and with how many bytes that each device receives, in units
// of the value's size: kGather has every device reduce all (devices - 1); kSwap and kRing have it
// reduce its part and gather the parts (2). kSwap takes the parts of all others at once, kRing
// passes a sum around, so that each device hears from one other only and needs no more memory.
enum class AllReduceKind { kAuto, kGather, kSwap, kRing };
Expr AllReduce(const Expr& x, ReduceKind reduction, int64_t devices,
               AllReduceKind kind = AllReduceKind::kAuto);

}  // namespace tensord
