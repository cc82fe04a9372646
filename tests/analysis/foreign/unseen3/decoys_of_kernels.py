"""Nearly schedules, products and kernels of threads."""

from __future__ import annotations

from .near_programs import near, tiled

CASES = [
    tiled(
        "the last row of a tile is not staged",
        "convolution: padded at each tile of rows",
        "T.where(yy_0 * 3 + ax1 < 9)",
        "T.where(yy_0 * 3 + ax1 < 8)",
    ),
    tiled(
        "a row too few for each tile",
        "convolution: padded at each tile of rows",
        "T.grid(4, 5, 9)",
        "T.grid(4, 4, 9)",
    ),
    tiled(
        "the last row is not fetched",
        "product: uneven tiles in threads",
        "// 5 < 10 and",
        "// 5 < 9 and",
    ),
    tiled(
        "the last column is not fetched",
        "product: uneven tiles in threads",
        "% 4 < 9 and",
        "% 4 < 8 and",
    ),
    tiled(
        "steps of four for tiles of five",
        "product: uneven tiles in threads",
        "v_r = T.axis.reduce(15, r_0 * 5 + r_1)",
        "v_r = T.axis.reduce(15, r_0 * 4 + r_1)",
    ),
    tiled(
        "the reduction is short by one",
        "product: uneven splits, vectors, decomposed",
        "r_0 * 7 + r_1 < 20",
        "r_0 * 7 + r_1 < 19",
    ),
    tiled(
        "the reduction is short by one",
        "convolution: fused, predicated, threads",
        "rc_ry_rx_fused_0 * 5 + rc_ry_rx_fused_1 < 36",
        "rc_ry_rx_fused_0 * 5 + rc_ry_rx_fused_1 < 35",
    ),
    near(
        "the tail is short by one",
        "k unrolled by four with a tail",
        (
            "for k in range(2):\n                c[i, j] += a[i, 8",
            "for k in range(1):\n                c[i, j] += a[i, 8",
        ),
    ),
    near(
        "one of them twice", "two accumulators, of even and odd k", ("s[0] + s[1]", "s[0] + s[0]")
    ),
    near(
        "the parts overlap",
        "split k: partial products in a buffer, summed at the end",
        ("a[i, h * 5 + k] * b[h * 5 + k", "a[i, h * 4 + k] * b[h * 4 + k"),
    ),
    near(
        "filled with ones",
        "rows outside, zero fill of the whole result first",
        ("c[i, j] = T.float32(0)", "c[i, j] = T.float32(1)"),
    ),
    near(
        "one operand in order",
        "k counting down, in a loop that begins at 3",
        ("b[12 - k", "b[k - 3"),
    ),
    near(
        "the last tile is short by one",
        "tiles whose last is cut off by a minimum",
        ("T.min(4, 10 - ko * 4)", "T.min(4, 9 - ko * 4)"),
    ),
    near(
        "the rest of two", "symbolic k by fours, and what is left", ("range(k % 4)", "range(k % 2)")
    ),
    near(
        "one is read in the order of the other",
        "operands copied to flat buffers first",
        ("* fb[j * 10 + k]", "* fb[k * 5 + j]"),
        op="relax.nn.conv1d",
        dilation=(5,),
        data_layout="WCN",
        kernel_layout="WOI",
    ),  # the even and odd k are two taps
    near(
        "a mask of three bits",
        "one loop for rows and columns, divided by shifts",
        ("b[k, f & 15]", "b[k, f & 7]"),
    ),
    near("one step too few", "k in a while loop", ("k[0] < 10", "k[0] < 9")),
    near("one sign", "Strassen's seven products (equal up to rounding)", ("+ m[6]", "- m[6]")),
    near(
        "one product with another row",
        "four products of int8 at a time, as dot-product instructions have them",
        ("b[4 * k + 3, j]", "b[4 * k + 2, j]"),
    ),
    near(
        "the predicate of a load is short by one",
        "product of shared tiles of 4 x 4 that do not divide, filled with zeros",
        ("ko * 4 + tx < 7", "ko * 4 + tx < 6"),
    ),
    near(
        "filled with ones",
        "product of shared tiles of 4 x 4 that do not divide, filled with zeros",
        ("bx * 4 + tx], T.float32(0))", "bx * 4 + tx], T.float32(1))"),
        ("ko * 4 + tx], T.float32(0))", "ko * 4 + tx], T.float32(1))"),
    ),
    near(
        "the first tile again",
        "product of shared tiles, two of them in turn",
        ("a[by * 4 + ty, 4 + tx]", "a[by * 4 + ty, tx]"),
    ),
    near(
        "the guard is short by one", "sum of 21 numbers a thread block, guarded", ("< 21", "< 20")
    ),
    near(
        "one block too few",
        "symbolic length, guarded",
        ("(n + T.int64(255)) // T.int64(256)", "n // T.int64(256)"),
    ),
    near("one stride too few", "each thread strides over the grid", ("range(8)", "range(7)")),
    near(
        "blocks transposed, not their elements",
        "transposed through a padded tile",
        ("= s[tx, ty]", "= s[ty, tx]"),
        op="relax.layout_transform",
        index_map="T.index_map(lambda i0, i1: (i1 // T.int64(4) * T.int64(4) + i0 % T.int64(4), "
        "i0 // T.int64(4) * T.int64(4) + i1 % T.int64(4)))",
    ),
    near(
        "read by another swizzle",
        "transposed through a tile whose columns are swizzled by xor",
        ("s[tx, ty ^ tx]", "s[tx, ty ^ (tx & 3)]"),
    ),
    near(
        "the last step is missing", "sum of rows by halving in shared memory", ("t < 1:", "t < 0:")
    ),
    near(
        "one element of each thread is left out",
        "maximum of rows by halving, after a loop over the columns of each thread",
        ("range(3)", "range(2)"),
    ),
    near(
        "the halo is off by one",
        "convolution of a shared row with a halo",
        ("b * 6 + t + 6]", "b * 6 + t + 5]"),
    ),
    near(
        "the maximum of all but one",
        "softmax: a block for each row, a thread for each column",
        ("range(8):\n                        m[0]", "range(7):\n                        m[0]"),
    ),
]
