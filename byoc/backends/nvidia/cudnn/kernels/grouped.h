// What the kernels of grouped.cu are given. It follows epilogue.h.
//
// A convolution of groups, channels last. Pairs are rows and columns.
struct Grouped {
  Epilogue epilogue;  // its x is the image, its y the result
  const void* weights;  // channel of y, window, channel of x in its group
  int groups;
  int image[2], result[2];  // pixels
  int strides[2], dilation[2], padding[2];
  int tile[2], tiles[2];  // pixels of the result that a block computes, and how many blocks have an image
  int part[2];            // pixels of the image that a tile reads
};
