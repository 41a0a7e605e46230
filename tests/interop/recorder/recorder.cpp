// Stands in for the CUDA runtime and driver of a host program, which is linked with it in their place.
//
// Device memory is host memory. A launch of a kernel that RECORD_KERNELS names (a file; a line each: the name, and the
// bytes of its parameters with commas between) is written to RECORD_DIR: launch.json (geometry, argument bytes,
// pointers and tensor maps found in arguments and buffers) and in_N.bin, the buffers. Then RECORD_RUN is run; it must
// leave RECORD_DIR/result/bN.bin, which become the buffers' contents, and the host program goes on as if a GPU had done
// the work. Other launches are skipped.
//
// A tensor map is a mark with its number; what it was made of is in launch.json.
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

struct Allocation { char* start; size_t size; };
static std::vector<Allocation> allocations;
static std::vector<std::string> maps;
static std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> names;
  return names;
}
static const char MAGIC[] = "umma-probe map #";
static const int MULTIPROCESSORS = 4, SHARED_BYTES = 227 * 1024;

static int owner(const void* p, size_t* offset) {
  for (size_t i = 0; i < allocations.size(); ++i) {
    const char* q = (const char*)p;
    if (q >= allocations[i].start && q < allocations[i].start + allocations[i].size) {
      *offset = q - allocations[i].start;
      return (int)i;
    }
  }
  return -1;
}

template <class T>
static std::string list(const T* values, int count) {
  std::ostringstream text;
  text << "[";
  for (int i = 0; i < count; ++i) text << (i ? ", " : "") << (long long)values[i];
  text << "]";
  return text.str();
}

static void note_map(CUtensorMap* map, const std::string& json) {
  memset(map, 0, sizeof *map);
  memcpy(map, MAGIC, 16);
  *(unsigned*)((char*)map + 16) = maps.size();
  maps.push_back(json);
}

// "[at, buffer, offset]" of every word in the bytes that is an address of device memory; maps are left out.
static std::string pointers_in(const char* data, size_t size) {
  std::ostringstream found;
  for (size_t at = 0; at + 8 <= size; at += 8) {
    size_t offset;
    void* p;
    memcpy(&p, data + at, 8);
    int which = owner(p, &offset);
    if (which < 0) continue;
    found << (found.tellp() ? ", " : "[") << "[" << at << ", " << which << ", " << offset << "]";
  }
  return found.tellp() ? found.str() + "]" : "[]";
}

static std::string maps_in(const char* data, size_t size) {
  std::ostringstream found;
  for (size_t at = 0; at + 128 <= size; at += 8) {
    if (memcmp(data + at, MAGIC, 16) != 0) continue;
    found << (found.tellp() ? ", " : "[") << "[" << at << ", " << *(const unsigned*)(data + at + 16) << "]";
  }
  return found.tellp() ? found.str() + "]" : "[]";
}

// The parameter sizes of a kernel; empty if it is not to be run.
static std::string sizes_of(const char* name) {
  std::ifstream kernels(getenv("RECORD_KERNELS"));
  std::string known, sizes;
  while (kernels >> known >> sizes)
    if (known == name) return sizes;
  return "";
}

// The buffer's new contents. Addresses in it stay the host's: the model's are others.
static void take_result(const std::string& path, Allocation& allocation) {
  std::string data(allocation.size, 0);
  FILE* in = fopen(path.c_str(), "rb");
  if (!in || fread(&data[0], 1, data.size(), in) != data.size()) _exit(4);
  fclose(in);
  for (size_t at = 0; at < data.size(); at += 8) {
    size_t offset, size = data.size() - at < 8 ? data.size() - at : 8;
    void* p = nullptr;
    memcpy(&p, allocation.start + at, size);
    if (size < 8 || owner(p, &offset) < 0) memcpy(allocation.start + at, &data[at], size);
  }
}

static void record(const char* name, dim3 grid, dim3 block, dim3 cluster, size_t smem, void** args) {
  std::string folder = getenv("RECORD_DIR");
  std::stringstream sizes(sizes_of(name));
  std::ostringstream out;
  const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  const unsigned c[3] = {cluster.x, cluster.y, cluster.z};
  out << "{\"entry\": \"" << name << "\", \"grid\": " << list(g, 3) << ", \"block\": " << list(b, 3)
      << ", \"cluster\": " << list(c, 3) << ", \"dynamic_smem\": " << smem << ",\n\"args\": [";
  std::string size_text;
  for (int index = 0; std::getline(sizes, size_text, ','); ++index) {
    size_t size = std::stoul(size_text);
    const char* data = (const char*)args[index];
    std::ostringstream hex;
    for (size_t at = 0; at < size; ++at) {
      char two[3];
      snprintf(two, sizeof two, "%02x", (unsigned char)data[at]);
      hex << two;
    }
    out << (index ? ",\n" : "") << "{\"bytes\": \"" << hex.str() << "\", \"pointers\": " << pointers_in(data, size)
        << ", \"maps\": " << maps_in(data, size) << "}";
  }
  out << "],\n\"buffers\": [";
  for (size_t i = 0; i < allocations.size(); ++i) {
    out << (i ? ",\n" : "") << "{\"size\": " << allocations[i].size << ", \"pointers\": "
        << pointers_in(allocations[i].start, allocations[i].size) << "}";
    FILE* f = fopen((folder + "/in_" + std::to_string(i) + ".bin").c_str(), "wb");
    fwrite(allocations[i].start, 1, allocations[i].size, f);
    fclose(f);
  }
  out << "],\n\"maps\": [";
  for (size_t i = 0; i < maps.size(); ++i) out << (i ? ",\n" : "") << maps[i];
  out << "]}\n";
  FILE* f = fopen((folder + "/launch.json").c_str(), "w");
  fputs(out.str().c_str(), f);
  fclose(f);
  fflush(stdout);
  if (system(getenv("RECORD_RUN")) != 0) { fprintf(stderr, "the model failed\n"); _exit(3); }
  for (size_t i = 0; i < allocations.size(); ++i)
    take_result(folder + "/result/b" + std::to_string(i) + ".bin", allocations[i]);
}

static void launch(const void* function, dim3 grid, dim3 block, dim3 cluster, size_t smem, void** args) {
  const std::string& name = names()[function];
  if (!sizes_of(name.c_str()).empty()) record(name.c_str(), grid, block, cluster, smem, args);
  else fprintf(stderr, "skipped: %s\n", name.substr(0, 150).c_str());
}

extern "C" {
void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* device, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  names()[host] = device;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
static struct { dim3 grid, block; size_t smem; cudaStream_t stream; } pushed;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, CUstream_st* stream) {
  pushed = {grid, block, smem, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* smem, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *smem = pushed.smem;
  *(cudaStream_t*)stream = pushed.stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** args, size_t smem, cudaStream_t) {
  launch(f, grid, block, dim3(1, 1, 1), smem, args); return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3 grid, dim3 block, void** args, size_t smem, cudaStream_t) {
  launch((const void*)f, grid, block, dim3(1, 1, 1), smem, args); return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* k, const void* f) { *k = (cudaKernel_t)f; return cudaSuccess; }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** args) {
  dim3 cluster(1, 1, 1);
  for (unsigned i = 0; i < c->numAttrs; ++i)
    if (c->attrs[i].id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(c->attrs[i].val.clusterDim.x, c->attrs[i].val.clusterDim.y, c->attrs[i].val.clusterDim.z);
  launch(f, c->gridDim, c->blockDim, cluster, c->dynamicSmemBytes, args); return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, size_t n) {
  size_t size = n ? n : 1;
  *p = aligned_alloc(512, (size + 511) / 512 * 512);
  memset(*p, 0, size);
  allocations.push_back({(char*)*p, size});
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind) { memcpy(d, s, n); return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind, cudaStream_t) {
  memcpy(d, s, n);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* d, int v, size_t n) { memset(d, v, n); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t) { memset(d, v, n); return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int* d) { *d = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  p->major = 10;
  p->multiProcessorCount = MULTIPROCESSORS;
  p->warpSize = 32;
  p->sharedMemPerBlockOptin = SHARED_BYTES;
  p->sharedMemPerMultiprocessor = SHARED_BYTES + 1024;
  p->l2CacheSize = 1 << 27;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->regsPerMultiprocessor = 65536;
  p->totalGlobalMem = 1ull << 37;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  switch (a) {
    case cudaDevAttrMultiProcessorCount: *v = MULTIPROCESSORS; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = SHARED_BYTES; break;
    case cudaDevAttrComputeCapabilityMajor: *v = 10; break;
    case cudaDevAttrMaxGridDimX: *v = 0x7fffffff; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 2048; break;
    default: *v = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  memset(a, 0, sizeof *a);
  a->ptxVersion = a->binaryVersion = 100;
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void*, int, size_t) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void*, int, size_t, unsigned) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* n, const void*, const cudaLaunchConfig_t*) {
  *n = 2;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "stand-in"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in"; }
cudaError_t cudaDriverGetVersion(int* v) { *v = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { *v = 13000; return cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  size_t offset;
  memset(a, 0, sizeof *a);
  a->type = owner(p, &offset) >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->devicePointer = (void*)p;
  return cudaSuccess;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dim, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
    CUtensorMapFloatOOBfill fill) {
  size_t offset = 0;
  int which = owner(address, &offset);
  if (which < 0) which = offset = 0;  // a map without an address, which the kernel replaces
  std::ostringstream j;
  j << "{\"buffer\": " << which << ", \"offset\": " << offset << ", \"dtype\": " << (int)type << ", \"rank\": " << rank
    << ", \"global_dim\": " << list(dim, rank) << ", \"global_strides\": " << list(strides, rank - 1)
    << ", \"box_dim\": " << list(box, rank) << ", \"element_strides\": " << list(steps, rank)
    << ", \"interleave\": " << (int)interleave
    << ", \"swizzle\": " << (int)swizzle << ", \"l2_promotion\": " << (int)l2 << ", \"oob_fill\": " << (int)fill << "}";
  note_map(map, j.str());
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dim, const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  size_t offset = 0;
  int which = owner(address, &offset);
  if (which < 0) which = offset = 0;  // a map without an address, which the kernel replaces
  std::ostringstream j;
  j << "{\"buffer\": " << which << ", \"offset\": " << offset << ", \"dtype\": " << (int)type << ", \"rank\": " << rank
    << ", \"global_dim\": " << list(dim, rank) << ", \"global_strides\": " << list(strides, rank - 1)
    << ", \"pixel_box_lower_corner\": " << list(lower, rank - 2)
    << ", \"pixel_box_upper_corner\": " << list(upper, rank - 2)
    << ", \"channels_per_pixel\": " << channels << ", \"pixels_per_column\": " << pixels
    << ", \"element_strides\": " << list(steps, rank) << ", \"interleave\": " << (int)interleave
    << ", \"swizzle\": " << (int)swizzle << ", \"l2_promotion\": " << (int)l2 << ", \"oob_fill\": " << (int)fill << "}";
  note_map(map, j.str());
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** s) { *s = "stand-in"; return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) { return CUDA_SUCCESS; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** f, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* r) {
  *f = !strcmp(name, "cuTensorMapEncodeTiled") ? (void*)cuTensorMapEncodeTiled
     : !strcmp(name, "cuTensorMapEncodeIm2col") ? (void*)cuTensorMapEncodeIm2col : nullptr;
  if (r) *r = *f ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *f ? cudaSuccess : cudaErrorUnknown;
}
}
