// Times of plans of cuDNN's attention: how long one takes to build for each shape, and to run.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "frontend_loader.h"

namespace fe = cudnn_frontend;
using Clock = std::chrono::steady_clock;
static const int64_t H = 12, D = 64;
static void *data_, *room_;

static double ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

enum How { kPlain, kCached, kUnified, kRagged };
struct Made {
  std::shared_ptr<fe::graph::Graph> graph;
  std::string why;
  double build = 0;
  int64_t bytes = 0;
};

static Made make(cudnnHandle_t h, How how, int64_t b, int64_t s,
                 std::shared_ptr<fe::KernelCache> cache) {
  Made out;
  auto begun = Clock::now();
  out.graph = std::make_shared<fe::graph::Graph>();
  auto& g = *out.graph;
  g.set_io_data_type(fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (how == kCached) g.set_dynamic_shape_enabled(true).set_kernel_cache(cache);
  if (how == kUnified) g.set_override_shape_enabled(true);
  auto tensor = [&](int64_t uid, int64_t row) {
    return g.tensor(fe::graph::Tensor_attributes().set_name("t").set_uid(uid)
                        .set_dim({b, H, s, D}).set_stride({s * row, D, row, 1}));
  };
  auto options = fe::graph::SDPA_attributes().set_name("a").set_generate_stats(false)
                     .set_attn_scale(0.125f);
  if (how == kUnified) options.set_implementation(fe::AttentionImplementation_t::UNIFIED);
  auto q = tensor(1, 3 * H * D), k = tensor(2, 3 * H * D), v = tensor(3, 3 * H * D);
  std::shared_ptr<fe::graph::Tensor_attributes> offsets, into;
  if (how == kRagged) {
    auto ints = [&](int64_t uid, int64_t n) {
      return g.tensor(fe::graph::Tensor_attributes().set_name("i").set_uid(uid)
                          .set_dim({n, 1, 1, 1}).set_stride({1, 1, 1, 1})
                          .set_data_type(fe::DataType_t::INT32));
    };
    options.set_padding_mask(true).set_seq_len_q(ints(5, b)).set_seq_len_kv(ints(6, b));
    offsets = ints(7, b + 1), into = ints(8, b + 1);
    for (auto& t : {q, k, v}) t->set_ragged_offset(offsets);
  }
  auto o = g.sdpa(q, k, v, options)[0];
  o->set_output(true).set_uid(4).set_dim({b, H, s, D}).set_stride({s * H * D, D, H * D, 1});
  if (how == kRagged) o->set_ragged_offset(into);
  auto status = g.build(h, {fe::HeurMode_t::A});
  if (status.is_good()) status = g.get_workspace_size(out.bytes);
  if (status.is_bad()) out.why = status.get_message();
  out.build = ms(begun);
  return out;
}

static double run(cudnnHandle_t h, Made& m, int calls) {
  char* p = static_cast<char*>(data_);
  const size_t part = size_t{256} << 20;
  std::unordered_map<int64_t, void*> pack{{1, p}, {2, p + 2 * H * D}, {3, p + 4 * H * D}, {4, p + part}};
  for (int k = 5; k <= 8; ++k) pack[k] = p + 2 * part + (k - 5) * 4096;
  cudaDeviceSynchronize();
  auto begun = Clock::now();
  for (int k = 0; k < calls; ++k) {
    auto status = m.graph->execute(h, pack, room_);
    if (status.is_bad()) return std::printf("  run: %s\n", status.get_message().c_str()), -1;
  }
  cudaDeviceSynchronize();
  return ms(begun) / calls;
}

int main() {
  cudaMalloc(&data_, size_t{768} << 20);
  cudaMemset(data_, 0, size_t{768} << 20);
  cudaMalloc(&room_, size_t{256} << 20);
  const int64_t shapes[][2] = {{32, 128}, {32, 128}, {1, 16},   {1, 17},  {2, 33},   {4, 64},
                               {8, 100},  {16, 384}, {32, 512}, {3, 129}, {32, 511}, {7, 77}};
  const char* names[] = {"plain", "kernel cache", "unified", "ragged"};
  for (How how : {kPlain, kCached, kUnified, kRagged}) {
    cudnnHandle_t h;
    cudnnCreate(&h);
    auto cache = std::make_shared<fe::KernelCache>();
    std::printf("%s\n", names[how]);
    for (auto& [b, s] : shapes) {
      Made m = make(h, how, b, s, cache);
      if (!m.why.empty()) {
        std::printf("  %ld x %ld: %s\n", b, s, m.why.c_str());
        break;
      }
      if (how == kRagged) {
        std::vector<int32_t> host(4 * 1024);
        for (int64_t k = 0; k <= b; ++k) {
          host[k] = host[1024 + k] = static_cast<int32_t>(s);
          host[2048 + k] = static_cast<int32_t>(k * s * 3 * H * D);
          host[3072 + k] = static_cast<int32_t>(k * s * H * D);
        }
        cudaMemcpy(static_cast<char*>(data_) + (size_t{512} << 20), host.data(), 16384,
                   cudaMemcpyDefault);
      }
      const double first = run(h, m, 1);
      if (first < 0) break;
      run(h, m, 20);
      std::printf("  %2ld x %3ld: build %8.2f ms, first run %6.2f, run %7.4f, room %ld, %s\n", b, s,
                  m.build, first, run(h, m, 50), m.bytes, "");
      if (how == kRagged && b == 32 && s == 512)  // the largest plan for smaller ones
        for (auto [x, y] : {std::pair<int, int>{32, 128}, {1, 16}, {8, 100}, {4, 64}}) {
          std::vector<int32_t> host(4 * 1024);
          for (int k = 0; k <= b; ++k) {
            host[k] = host[1024 + k] = k < x ? y : 0;
            host[2048 + k] = std::min(k, x) * y * 3 * H * D;
            host[3072 + k] = std::min(k, x) * y * H * D;
          }
          cudaMemcpy(static_cast<char*>(data_) + (size_t{512} << 20), host.data(), 16384,
                     cudaMemcpyDefault);
          run(h, m, 20);
          std::printf("    as %2d x %3d: run %7.4f\n", x, y, run(h, m, 50));
        }
    }
    std::fflush(stdout);
  }
  // Several threads, plans of shapes that nobody has built.
  auto begun = Clock::now();
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([t] {
      cudaSetDevice(0);
      cudnnHandle_t h;
      cudnnCreate(&h);
      auto own = Clock::now();
      double worst = 0;
      for (int k = 0; k < 8; ++k) worst = std::max(worst, make(h, kPlain, 5 + t, 200 + 9 * k, nullptr).build);
      std::printf("  thread %d: 8 plans in %.1f ms, worst %.1f\n", t, ms(own), worst);
    });
  for (auto& t : all) t.join();
  std::printf("4 threads: %.1f ms\n", ms(begun));
}
