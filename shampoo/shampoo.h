// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributor/communicator.h"
#include "distributor/rendezvous/join.h"
#include "distributor/transports/local/thread_communicator.h"
#include "distributor/transports/local/user_communicator.h"
#include "kernels/cpu_backend.h"
#include "kernels/cuda_backend.h"
#include "kernels/error.h"
#include "shampoo/async_checkpointer.h"
#include "shampoo/checkpoint.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
