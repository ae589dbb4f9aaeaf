// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/checkpoint.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/distributor/rendezvous/join.h"
#include "shampoo/gradients.h"
#include "shampoo/kernels/backend.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
#include "shampoo/routes.h"
