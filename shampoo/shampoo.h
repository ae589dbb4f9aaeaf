// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L
#error "shampoo/shampoo.h needs C++20, -std=c++20; C and older C++ have shampoo/c.h"
#else

#include "shampoo/checkpoint.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/distributor/rendezvous/join.h"
#include "shampoo/gradients.h"
#include "shampoo/kernels/backend.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
#include "shampoo/routes.h"

#endif
