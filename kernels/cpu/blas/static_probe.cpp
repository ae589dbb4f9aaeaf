// SPDX-License-Identifier: Apache-2.0
// Links if static BLAS and LAPACK can become part of a shared object.
extern "C" {
void sgemm_();
void dsyevd_();
void sgesdd_();
}

void call_all() {
  sgemm_();
  dsyevd_();
  sgesdd_();
}
