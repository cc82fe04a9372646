// Products of halves by tensor cores.
//
// Defined by the host: BFLOAT16, 0 or 1.

// c += a b of 16 x 16 and 16 x 8 elements, as a warp has them.
__device__ inline void multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                unsigned b0, unsigned b1) {
#ifdef EMULATED
  emulated::multiply(c, a0, a1, a2, a3, b0, b1, 1 + BFLOAT16);
#else
#if BFLOAT16
#define KIND "bf16.bf16"
#else
#define KIND "f16.f16"
#endif
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32." KIND ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}
