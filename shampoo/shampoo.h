// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributor/communicator.h"
#include "kernels/cpu_backend.h"
#include "kernels/error.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
