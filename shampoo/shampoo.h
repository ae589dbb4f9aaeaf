// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributor/communicator.h"
#include "distributor/rendezvous/join.h"
#include "kernels/backend.h"
#include "shampoo/checkpoint.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
