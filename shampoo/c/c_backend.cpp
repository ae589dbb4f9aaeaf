// SPDX-License-Identifier: Apache-2.0
#include "shampoo/c/c_handles.h"
#include "shampoo/distributor/rendezvous/join.h"

using namespace shampoo::c;

extern "C" {

shampoo_status shampoo_cpu_backend(int threads, shampoo_backend** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_backend{shampoo::cpu_backend({.threads = threads})};
  });
}

shampoo_status shampoo_cuda_backend(int device, void* stream, shampoo_backend** made) {
  return guarded([&] {
    require(made, "made");
    *made = new shampoo_backend{shampoo::cuda_backend({.device = device, .stream = stream})};
  });
}

shampoo_status shampoo_local_rank(int* local_rank) {
  return guarded([&] {
    require(local_rank, "local_rank");
    *local_rank = shampoo::local_rank_of_launcher();
  });
}

void shampoo_backend_free(shampoo_backend* backend) { delete backend; }

shampoo_status shampoo_join(shampoo_backend* backend, shampoo_communicator** made) {
  return guarded([&] {
    require(backend, "backend");
    require(made, "made");
    *made = new shampoo_communicator{shampoo::join(*backend->backend)};
  });
}

shampoo_status shampoo_single_rank(shampoo_backend* backend, shampoo_communicator** made) {
  return guarded([&] {
    require(backend, "backend");
    require(made, "made");
    *made = new shampoo_communicator{
        shampoo::single_rank_communicator(backend->backend->memory_kind())};
  });
}

void shampoo_communicator_free(shampoo_communicator* ranks) { delete ranks; }
int shampoo_rank(const shampoo_communicator* ranks) { return ranks ? ranks->ranks->rank() : -1; }
int shampoo_size(const shampoo_communicator* ranks) { return ranks ? ranks->ranks->size() : -1; }

shampoo_status shampoo_average(shampoo_communicator* ranks, const shampoo_span* spans, size_t count,
                               void* stream) {
  return guarded([&] {
    require(ranks, "ranks");
    if (count > 0) require(spans, "spans");
    std::vector<shampoo::TensorSpan> tensors;
    for (size_t i = 0; i < count; ++i)
      tensors.push_back({spans[i].data, spans[i].count, type_of(spans[i].type, "spans.type")});
    ranks->ranks->average(tensors, {stream});
  });
}

shampoo_status shampoo_broadcast(shampoo_communicator* ranks, shampoo_span span, int root,
                                 void* stream) {
  return guarded([&] {
    require(ranks, "ranks");
    ranks->ranks->broadcast({{span.data, span.count, type_of(span.type, "span.type")}}, root,
                            {stream});
  });
}

}  // extern "C"
