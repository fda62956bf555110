// What networks are made of, all together.
#pragma once

#include "core/tensor/attention.h"  // IWYU pragma: export
#include "core/tensor/conv.h"       // IWYU pragma: export
#include "core/tensor/norm.h"       // IWYU pragma: export
#include "core/tensor/pool.h"       // IWYU pragma: export
#include "core/tensor/product.h"    // IWYU pragma: export
